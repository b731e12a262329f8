//! Limits of the system on the process: descriptors for clients, waiting connections, the core file
//! of a crash.
//!
//! Where a limit is lower than the settings ask for, it is logged at the start in Valkey's words,
//! and `maxclients` is lowered to what fits. So CONFIG and INFO tell the truth, and a surplus
//! client gets its error instead of silence.
//!
//! Tests: at the foot; the bad day `few_descriptors`.

use pantala_base::os::raise_fd_limit;
use pantala_settings::Settings;

use pantala_workers::workers::room::Room;

/// Descriptors the process needs beside its clients': files, listeners, connections to others, of
/// which MIGRATE alone keeps up to 64,
const OWN_DESCRIPTORS: u64 = 128;
/// and those of each worker's event loop.
const WORKER_DESCRIPTORS: u64 = 4;

/// The kernel's limit on connections waiting to be accepted.
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";

/// Raises the limit of open files to what `maxclients` needs, and then as far as the system allows:
/// an HTTP client takes up to three. Where it stays too low for `maxclients`, lowers `maxclients`.
///
/// # Errors
/// A text for the operator, if not even one client could be served.
pub fn fit_clients(mut settings: Settings) -> Result<Settings, String> {
    let own = own_descriptors(&settings);
    let wanted = u64::from(settings.maxclients) + own;
    let before = raise_fd_limit(0);
    let got = raise_fd_limit(wanted).max(raise_fd_limit(u64::MAX));
    let possible = clients_within(got, own)?;
    if possible < settings.maxclients {
        tracing::warn!(
            "You requested maxclients of {} requiring at least {wanted} max file descriptors.",
            settings.maxclients
        );
        tracing::warn!(
            "Current maximum open files is {got}. maxclients has been reduced to {possible} to \
             compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
        );
        settings.maxclients = possible;
    } else if before < got {
        tracing::info!(
            "Increased maximum number of open files to {got} (it was originally set to {before})."
        );
    }
    Ok(settings)
}

/// Descriptors the process needs beside its clients', with these settings.
pub fn own_descriptors(settings: &Settings) -> u64 {
    OWN_DESCRIPTORS + settings.worker_count() as u64 * WORKER_DESCRIPTORS
}

/// Tells the connection counter how many descriptors it may give out: all but the process's own.
pub fn keep_reserve(room: &Room, settings: &Settings) {
    room.set_descriptors(raise_fd_limit(0).saturating_sub(own_descriptors(settings)));
}

/// How many clients fit into `descriptors`, of which `own` are the process's.
fn clients_within(descriptors: u64, own: u64) -> Result<u32, String> {
    match descriptors.saturating_sub(own) {
        0 => Err(format!(
            "the limit of open files is {descriptors}, and {own} are needed beside clients: raise \
             'ulimit -n'"
        )),
        possible => Ok(u32::try_from(possible).unwrap_or(u32::MAX)),
    }
}

/// Unless `core_dumps` is set, keeps a crash from writing the process's memory, with every key and
/// password, to a file.
pub fn forbid_core_files(settings: &Settings) {
    if !settings.core_dumps && !pantala_base::os::forbid_core_files() {
        tracing::warn!("a crash may write a core file: its limit can not be lowered");
    }
}

/// Warns if the kernel lets fewer connections wait than `tcp-backlog` asks for.
pub fn warn_of_backlog(settings: &Settings) {
    let most = std::fs::read_to_string(SOMAXCONN).ok();
    let Some(most) = most.and_then(|text| text.trim().parse::<u32>().ok()) else { return };
    if most < settings.tcp_backlog {
        tracing::warn!(
            "WARNING: The TCP backlog setting of {} cannot be enforced because {SOMAXCONN} is set \
             to the lower value of {most}.",
            settings.tcp_backlog
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_the_process_does_not_need() {
        assert_eq!(clients_within(107, 100), Ok(7));
        assert_eq!(clients_within(u64::MAX, 100), Ok(u32::MAX));
        for few in [0, 1, 100] {
            assert!(clients_within(few, 100).is_err(), "{few}");
        }
    }
}
