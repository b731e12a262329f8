//! The settings in force, for all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_settings::Settings;
use parking_lot::RwLock;

/// The settings in force. Readers keep a snapshot and compare the version.
pub struct SettingsCell {
    version: AtomicU64,
    current: RwLock<Arc<Settings>>,
    /// The file that the server was started with, for CONFIG REWRITE.
    pub file: Option<std::path::PathBuf>,
}

impl SettingsCell {
    /// A cell with the settings at the start.
    pub fn new(settings: Settings, file: Option<std::path::PathBuf>) -> Self {
        SettingsCell { version: AtomicU64::new(1), current: RwLock::new(Arc::new(settings)), file }
    }

    /// The version, which changes with every change of a setting.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes all threads take over anew what they derive from the settings.
    pub fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The snapshot in force.
    pub fn current(&self) -> Arc<Settings> {
        Arc::clone(&self.current.read())
    }

    /// Replaces the settings by what `change` makes of them. Nothing changes on an error.
    pub fn change<E>(
        &self,
        change: impl FnOnce(&Settings) -> Result<Settings, E>,
    ) -> Result<Arc<Settings>, E> {
        let mut current = self.current.write();
        let changed = Arc::new(change(&current)?);
        *current = Arc::clone(&changed);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(changed)
    }
}
