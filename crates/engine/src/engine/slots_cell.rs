//! The slot table in force, for all threads.

use std::sync::Arc;

use pantala_cluster::SlotTable;
use parking_lot::RwLock;

use super::settings_cell::SettingsCell;

/// What this node of a cluster does with each slot. Threads that run commands keep the table with
/// their limits (`Limited`), and take over another one where they take over changed settings.
#[derive(Default)]
pub struct SlotsCell(RwLock<Option<Arc<SlotTable>>>);

impl SlotsCell {
    /// The table in force; `None`: no cluster is served.
    pub fn current(&self) -> Option<Arc<SlotTable>> {
        self.0.read().clone()
    }

    /// Replaces the table. Turns that run go on with the one before; whoever needs all threads to
    /// have taken over this one passes the gate afterwards.
    pub fn replace(&self, table: SlotTable, settings: &SettingsCell) {
        *self.0.write() = Some(Arc::new(table));
        settings.bump_version();
    }
}
