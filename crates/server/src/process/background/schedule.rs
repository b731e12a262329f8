//! The thread that saves by the schedule, and watches certificates.

use std::sync::Arc;
use std::time::Duration;

use pantala_durability::saving::{now_s, save_in_background};
use pantala_engine::condition::states::States;
use pantala_persistence::snapshot::Schedule;
use pantala_persistence::snapshot::schedule::SavePointCounts;

use crate::shared::Shared;
use pantala_tls::certificates::CertificateWatch;

/// The interval of checking the schedule.
const TICK: Duration = Duration::from_secs(1);

/// The main loop of the thread that saves by the schedule, and checks files that may be replaced.
pub fn keep(shared: &Arc<Shared>) {
    let engine = &shared.engine;
    let shutdown = &engine.condition.shutdown;
    let mut version = engine.settings.version();
    let mut schedule = Schedule::new(&engine.settings.current(), now_s());
    let mut certificates = CertificateWatch::default();
    loop {
        certificates.look(
            &shared.context.tls,
            || engine.settings.current(),
            || shared.context.asks_for_login(),
        );
        let tick = if schedule.has_any() { TICK } else { Duration::MAX };
        if shutdown.pause_for(tick.min(CertificateWatch::pause(&engine.settings.current()))) {
            break;
        }
        if engine.settings.version() != version {
            version = engine.settings.version();
            schedule = Schedule::new(&engine.settings.current(), now_s());
        }
        let history = shared.durability.saves.history();
        let since = SavePointCounts {
            last_good_s: history.last_good_s,
            last_failed_s: history.last_failed_s,
            changes: shared.durability.changes().wrapping_sub(history.changes),
        };
        let rests = engine.condition.switches.no_housekeeping.is_on();
        let is_loading = engine.condition.lasting.now().intersects(States::LOADING);
        let may_save = !rests && !is_loading && !shutdown.is_preparing();
        let due = schedule.is_due(now_s(), since);
        if let Some(cause) = due.filter(|_| may_save) {
            tracing::info!("{cause}. Saving...");
            if let Err(unsaved) = save_in_background(&shared.durability, &cause) {
                tracing::warn!("no snapshot was begun: {unsaved}");
            }
        }
    }
    pantala_memory::release_seat();
}
