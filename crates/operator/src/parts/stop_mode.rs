//! How a server is to stop, and what that has to wait for.

use pantala_engine::condition::states::States;
use pantala_replication::Replication;

/// How to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopMode {
    /// Whether to save a snapshot; `None`: if there are save points.
    pub saves: Option<bool>,
    /// Whether to end even if saving fails.
    pub is_forced: bool,
    /// Whether not to wait for replicas.
    pub is_now: bool,
}

impl StopMode {
    /// Whether to save a snapshot first.
    pub fn saves(self, replication: &Replication) -> bool {
        let is_loading = replication.engine.condition.lasting.now().intersects(States::LOADING);
        let has_points = || !replication.engine.settings.current().save.0.is_empty();
        !is_loading && self.saves.unwrap_or_else(has_points)
    }

    /// Whether to do anything before the end.
    pub fn prepares(self, replication: &Replication) -> bool {
        self.saves(replication)
            || self.awaits_journal(replication)
            || self.awaits_replicas(replication)
    }

    /// Whether there is an append-only file, which is to get everything. As in Redis, even with
    /// NOSAVE and NOW.
    pub fn awaits_journal(self, replication: &Replication) -> bool {
        let is_loading = replication.engine.condition.lasting.now().intersects(States::LOADING);
        !self.is_forced && !is_loading && replication.durability.appending.is_running()
    }

    /// Whether replicas are waited for.
    pub fn awaits_replicas(self, replication: &Replication) -> bool {
        let timeout_s = replication.engine.settings.current().shutdown_timeout_s;
        !self.is_now && timeout_s > 0 && !replication.downstream.replicas.is_empty()
    }

    /// Whether the first append-only file is being written.
    pub fn awaits_file(self, replication: &Replication) -> bool {
        self.awaits_journal(replication) && replication.durability.appending.begins_file()
    }
}
