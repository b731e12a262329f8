//! What commands ask of this process.

use pantala_operator::parts::process::ProcessControl;
use pantala_operator::parts::stop_mode::StopMode;
use pantala_settings::Settings;

use super::system::{limits, oom_score, title};
use super::{logging, start, stopping};
use crate::shared::Shared;

impl ProcessControl for Shared {
    fn stop(&self, how: StopMode) -> Result<(), String> {
        stopping::stop(self, how).map_err(|why| why.to_string())
    }

    fn set_workers(&self, count: usize) -> Result<(), String> {
        match self.arc() {
            Some(shared) => start::set_workers(&shared, count),
            None => Ok(()),
        }
    }

    fn apply_log_settings(&self, settings: &Settings) {
        logging::apply(settings);
    }

    fn keep_descriptors(&self, settings: &Settings) {
        limits::keep_reserve(&self.workers.room, settings);
    }

    fn own_descriptors(&self, settings: &Settings) -> u64 {
        limits::own_descriptors(settings)
    }

    fn show_title(&self) {
        title::show(self);
    }

    fn apply_oom_score(&self, settings: &Settings) -> Result<(), String> {
        oom_score::warn_of_values(settings);
        let now = || (self.engine.settings.current(), self.replication.is_replica());
        self.oom_score.apply(now)
    }

    fn supervisor_name(&self) -> &'static str {
        self.supervisor.name()
    }

    fn cached_links(&self) -> usize {
        self.migrations.links.count()
    }
}
