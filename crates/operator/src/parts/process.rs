//! What commands ask of the process that runs the server.

use pantala_settings::Settings;

use crate::parts::stop_mode::StopMode;

/// The process that runs the server.
pub trait ProcessControl: Send + Sync {
    /// Saves if that is wanted, and tells the server to stop. Only on threads that may wait.
    ///
    /// # Errors
    /// The server runs on; the log says why.
    fn stop(&self, how: StopMode) -> Result<(), String>;

    /// Sets the number of workers.
    ///
    /// # Errors
    /// The system has no thread or event loop for one.
    fn set_workers(&self, count: usize) -> Result<(), String>;

    /// Logs from now on what these settings say.
    fn apply_log_settings(&self, settings: &Settings);

    /// Keeps descriptors free for files, by these settings.
    fn keep_descriptors(&self, settings: &Settings);

    /// How many descriptors the server needs beside those of clients.
    fn own_descriptors(&self, settings: &Settings) -> u64;

    /// Shows the process's title, by the settings in force.
    fn show_title(&self);

    /// Tells the kernel how readily to end the process, by the settings in force.
    ///
    /// # Errors
    /// The kernel refuses it; the log says why.
    fn apply_oom_score(&self, settings: &Settings) -> Result<(), String>;

    /// The name of the service manager that started the process.
    fn supervisor_name(&self) -> &'static str;

    /// How many idle connections MIGRATE keeps.
    fn cached_links(&self) -> usize;
}
