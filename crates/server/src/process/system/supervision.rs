//! Messages to the service manager that started the server (`supervised`).
//!
//! | `supervised` | how it is told |
//! |---|---|
//! | `systemd` | datagrams to the socket that `$NOTIFY_SOCKET` names (sd_notify(3)) |
//! | `upstart` | once ready, the process stops itself (SIGSTOP); upstart continues it |
//! | `auto` | `upstart` or `systemd`, by its variable (`$UPSTART_JOB`, `$NOTIFY_SOCKET`) |
//! | `no` | no messages |
//!
//! Where systemd wants a sign of life (`WatchdogSec=`), it gets one for as long as every worker
//! takes its messages: once a worker hangs, the signs stop and systemd ends the process.
//!
//! Invariants
//! 1. The socket is connected before the process is confined: Landlock may forbid it afterwards.
//! 2. No thread waits for the manager for longer than `SEND_MOST`.
//! 3. READY is sent once, when the data is loaded, and again only after RELOADING or after a stop
//!    that was called off.
//!
//! Not here: when messages are sent (`start`, `signals`, `stopping`). Tests: at the foot; the bad
//! day `supervised_by_systemd`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pantala_settings::Settings;
use pantala_settings::field::Supervised;
use signal_hook::consts::SIGSTOP;

use crate::shared::Shared;
use pantala_workers::workers::inbox::Message;

const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
const UPSTART_JOB: &str = "UPSTART_JOB";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// How long a datagram may wait for room in the socket.
const SEND_MOST: Duration = Duration::from_secs(1);

/// A message to the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorNotice {
    /// Data is being loaded.
    Loading,
    /// Clients are served.
    Ready,
    /// Certificates and the like are being read anew.
    Reloading,
    /// Data is being saved before a stop, which may still be called off.
    Saving,
    /// The process is stopping.
    Stopping,
    /// A sign of life.
    Alive,
}

impl SupervisorNotice {
    /// The text of the message, as in sd_notify(3).
    fn text(self) -> &'static str {
        match self {
            SupervisorNotice::Loading => "STATUS=Loading data",
            SupervisorNotice::Ready => "READY=1\nSTATUS=Ready to accept connections",
            SupervisorNotice::Reloading => "RELOADING=1\nSTATUS=Reading files anew",
            SupervisorNotice::Saving => "STATUS=Saving before the end",
            SupervisorNotice::Stopping => "STOPPING=1\nSTATUS=Stopping",
            SupervisorNotice::Alive => "WATCHDOG=1",
        }
    }
}

/// The service manager that started the process, and the socket to it.
pub struct Supervisor {
    by: Supervised,
    socket: Option<UnixDatagram>,
    sign_of_life_every: Option<Duration>,
    is_ready: AtomicBool,
}

impl Supervisor {
    /// No service manager.
    pub fn none() -> Supervisor {
        Supervisor {
            by: Supervised::No,
            socket: None,
            sign_of_life_every: None,
            is_ready: AtomicBool::new(false),
        }
    }

    /// The supervisor of this process, by the settings and the environment.
    pub fn find(settings: &Settings) -> Supervisor {
        Supervisor::find_in(settings.supervised, |name| std::env::var_os(name))
    }

    fn find_in(wanted: Supervised, variable: impl Fn(&str) -> Option<OsString>) -> Supervisor {
        let has = |name| variable(name).is_some_and(|value| !value.is_empty());
        let wanted = match wanted {
            Supervised::Auto if has(UPSTART_JOB) => Supervised::Upstart,
            Supervised::Auto if has(NOTIFY_SOCKET) => Supervised::Systemd,
            Supervised::Auto => Supervised::No,
            named => named,
        };
        let mut found = Supervisor::none();
        match wanted {
            Supervised::Systemd => match variable(NOTIFY_SOCKET).map(|name| connect(&name)) {
                Some(Ok(socket)) => {
                    found.by = Supervised::Systemd;
                    found.socket = Some(socket);
                    found.sign_of_life_every = sign_of_life(&variable, std::process::id());
                }
                Some(Err(why)) => tracing::warn!("systemd cannot be told anything: {why}"),
                None => tracing::warn!("supervised by systemd, but NOTIFY_SOCKET is not set"),
            },
            Supervised::Upstart if has(UPSTART_JOB) => found.by = Supervised::Upstart,
            Supervised::Upstart => {
                tracing::warn!("supervised by upstart, but UPSTART_JOB is not set");
            }
            Supervised::Auto | Supervised::No => {}
        }
        found
    }

    /// The manager's name, as the setting `supervised` has it.
    pub fn name(&self) -> &'static str {
        self.by.word()
    }

    /// The interval of the signs of life: half of the manager's timeout.
    pub fn sign_of_life_every(&self) -> Option<Duration> {
        self.sign_of_life_every
    }

    /// Sends a message. A failure is ignored: it concerns only the manager.
    pub fn tell(&self, news: SupervisorNotice) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(news.text().as_bytes())
        {
            tracing::debug!(?news, "systemd could not be told: {error}");
        }
    }

    /// Says that the server has loaded its data and serves clients.
    pub fn ready(&self) {
        let was_ready = self.is_ready.swap(true, Ordering::AcqRel);
        self.tell(SupervisorNotice::Ready);
        if self.by == Supervised::Upstart && !was_ready {
            tracing::info!("the process stops to tell upstart that it is ready");
            if let Err(error) = signal_hook::low_level::raise(SIGSTOP) {
                tracing::warn!("the process cannot stop itself: {error}");
            }
        }
    }

    /// Runs `reload` between RELOADING and READY. Before the server is ready nothing is sent: the
    /// READY at the end would be untrue.
    pub fn reloading(&self, reload: impl FnOnce()) {
        let tells = self.is_ready.load(Ordering::Acquire);
        if tells {
            self.tell(SupervisorNotice::Reloading);
        }
        reload();
        if tells {
            self.tell(SupervisorNotice::Ready);
        }
    }

    /// Says that the server is ready again, after a stop was called off.
    pub fn runs_on(&self) {
        if self.is_ready.load(Ordering::Acquire) {
            self.tell(SupervisorNotice::Ready);
        }
    }
}

/// Connects to the manager's socket: a path, or an abstract name that begins with `@`.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => {
            let name = name.display();
            return Err(io::Error::other(format!("{NOTIFY_SOCKET} is no Unix socket: {name}")));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_write_timeout(Some(SEND_MOST))?;
    Ok(socket)
}

/// Half of the manager's timeout, if it wants signs of life from this very process.
fn sign_of_life(variable: impl Fn(&str) -> Option<OsString>, own_pid: u32) -> Option<Duration> {
    let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
    let is_meant = number(WATCHDOG_PID).is_none_or(|pid| pid == u64::from(own_pid));
    let asked_us = number(WATCHDOG_USEC).filter(|us| *us > 0 && is_meant)?;
    Some(Duration::from_micros(asked_us.div_ceil(2)))
}

/// The body of the thread that sends signs of life.
pub fn give_signs_of_life(shared: &Shared, every: Duration) {
    loop {
        if have_all_looked(shared, every) {
            shared.supervisor.tell(SupervisorNotice::Alive);
        } else {
            tracing::error!(?every, "a worker does not respond: systemd gets no sign of life");
        }
        if shared.engine.condition.shutdown.pause_for(every / 2) {
            return;
        }
    }
}

/// Whether every worker takes a message within this time. A worker that ends meanwhile counts as
/// well: the message sent to it is dropped.
fn have_all_looked(shared: &Shared, within: Duration) -> bool {
    let (asked, answers) = channel();
    shared.workers.post_all(|| Message::Look { _until_seen: asked.clone() });
    drop(asked);
    // Nothing is ever sent: the channel closes when the last worker has dropped its end.
    answers.recv_timeout(within) != Err(RecvTimeoutError::Timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What listens in its place at an abstract name, and the variables that name it.
    fn systemd(name: &str) -> (UnixDatagram, String) {
        let name = format!("pantala-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        (UnixDatagram::bind_addr(&address).expect("nobody has it"), format!("@{name}"))
    }

    fn supervisor(wanted: Supervised, variables: &[(&str, &str)]) -> Supervisor {
        Supervisor::find_in(wanted, |name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(OsString::from(found.1))
        })
    }

    fn heard(systemd: &UnixDatagram) -> String {
        let mut text = [0; 256];
        let length = systemd.recv(&mut text).expect("it was told");
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn the_setting_and_the_variables_say_who_it_is() {
        let (_systemd, name) = systemd("who");
        let notify = (NOTIFY_SOCKET, name.as_str());
        let job = (UPSTART_JOB, "pantala");
        for (wanted, variables, expected) in [
            (Supervised::No, &[notify, job][..], "no"),
            (Supervised::Auto, &[], "no"),
            (Supervised::Auto, &[notify], "systemd"),
            (Supervised::Auto, &[notify, job], "upstart"),
            (Supervised::Systemd, &[job], "no"),
            (Supervised::Systemd, &[(NOTIFY_SOCKET, "vsock:2:1")], "no"),
            (Supervised::Systemd, &[(NOTIFY_SOCKET, "/nonexistent/socket")], "no"),
            (Supervised::Systemd, &[notify, job], "systemd"),
            (Supervised::Upstart, &[notify], "no"),
            (Supervised::Upstart, &[job], "upstart"),
        ] {
            assert_eq!(supervisor(wanted, variables).name(), expected, "{wanted:?} {variables:?}");
        }
    }

    #[test]
    fn a_reload_before_it_is_ready_tells_nothing() {
        let (systemd, name) = systemd("reload");
        let supervisor = supervisor(Supervised::Systemd, &[(NOTIFY_SOCKET, &name)]);
        supervisor.tell(SupervisorNotice::Loading);
        supervisor.reloading(|| {});
        supervisor.runs_on();
        supervisor.ready();
        supervisor.reloading(|| {});
        supervisor.tell(SupervisorNotice::Stopping);
        let first_lines: Vec<String> =
            (0..5).map(|_| heard(&systemd).lines().next().unwrap_or_default().to_owned()).collect();
        let expected = ["STATUS=Loading data", "READY=1", "RELOADING=1", "READY=1", "STOPPING=1"];
        assert_eq!(first_lines, expected);
    }

    #[test]
    fn that_it_hears_nothing_any_more_harms_nobody() {
        let (systemd, name) = systemd("gone");
        let supervisor = supervisor(Supervised::Systemd, &[(NOTIFY_SOCKET, &name)]);
        drop(systemd);
        supervisor.ready();
    }

    #[test]
    fn signs_of_life_are_given_twice_as_often_as_asked_for() {
        let check = |variables: &[(&str, &str)], expected_us: Option<u64>| {
            let find = |name: &str| {
                variables.iter().find(|one| one.0 == name).map(|one| OsString::from(one.1))
            };
            let expected = expected_us.map(Duration::from_micros);
            assert_eq!(sign_of_life(find, 42), expected, "{variables:?}");
        };
        check(&[], None);
        check(&[(WATCHDOG_USEC, "0")], None);
        check(&[(WATCHDOG_USEC, "soon")], None);
        check(&[(WATCHDOG_USEC, "3000001")], Some(1_500_001));
        check(&[(WATCHDOG_USEC, "3000000"), (WATCHDOG_PID, "42")], Some(1_500_000));
        check(&[(WATCHDOG_USEC, "3000000"), (WATCHDOG_PID, "43")], None);
    }
}
