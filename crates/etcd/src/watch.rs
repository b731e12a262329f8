//! Changes as they happen. A task holds the connection, so that a caller may drop a call of `next`
//! (in `select!`) and lose nothing.
//!
//! A connection can be dead without a sign: its member is stopped, or something between forgets it.
//! Members tell of their progress only every ten minutes, and asking for progress through the
//! stream is answered ahead of changes by etcd before 3.4.25 (etcd-io/etcd, issue 15220). So after
//! each `PROBE_PAUSE` without a message the same member is asked, with the word of a majority:
//!
//! - It does not answer: the connection counts as lost.
//! - Something was put that the watch should have told: it has one more such pause, and then counts
//!   as lost. (Deletions are not seen that way; the limit of silence, eleven minutes, finds those.)
//! - The store's revision is smaller than what was seen: it was restored from a backup. The caller
//!   must list again.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::client::Etcd;
use crate::error::EtcdError;
use crate::lines::{LineFault, Lines};
use crate::messages::{self, KeyValue, WatchMessage};

/// The most events that wait for the caller; after that, etcd waits.
const QUEUED_EVENTS: usize = 16;
/// The first pause between failures, which doubles.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between failures.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a watch is silent before its member is asked.
const PROBE_PAUSE: Duration = Duration::from_secs(20);

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// All changes of one or more whole revisions, in order.
    Changes {
        /// The last of the revisions.
        revision: u64,
        /// Each with whether the key was put; else it was deleted, and its value is empty.
        changes: Vec<(KeyValue, bool)>,
    },
    /// Changes are missing, as etcd keeps them no more, or there were too many for one message, or
    /// the store was restored: list again, and open another watch. This one says nothing else.
    Compacted {
        /// What etcd still has begins here.
        revision: u64,
    },
    /// There was no change up to here that was not told.
    Progress {
        /// The store's revision.
        revision: u64,
    },
    /// The connection was lost. The watch goes on by itself.
    Lost(EtcdError),
}

/// All changes below a prefix. It never ends by itself; to drop it ends it.
#[derive(Debug)]
pub struct Watch {
    etcd: Etcd,
    prefix: Vec<u8>,
    /// The first revision of which the caller knows nothing; 0 before the first answer.
    next_revision: u64,
    task: Option<Task>,
}

#[derive(Debug)]
struct Task {
    handle: JoinHandle<()>,
    events: Receiver<WatchEvent>,
    ended: Option<WatchEvent>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Watch {
    pub(crate) fn new(etcd: Etcd, prefix: Vec<u8>, from_revision: u64) -> Watch {
        Watch { etcd, prefix, next_revision: from_revision, task: None }
    }

    /// The next event. The call may be dropped and made again; nothing is lost.
    pub async fn next(&mut self) -> WatchEvent {
        let task = self.task.get_or_insert_with(|| {
            Task::start(self.etcd.clone(), self.prefix.clone(), self.next_revision)
        });
        if let Some(event) = &task.ended {
            return event.clone();
        }
        let Some(event) = task.events.recv().await else {
            // Only if the runtime ended it.
            self.task = None;
            return WatchEvent::Lost(EtcdError::NoAnswer("the watch's task has ended".into()));
        };
        match &event {
            WatchEvent::Changes { revision, .. } | WatchEvent::Progress { revision } => {
                self.next_revision = revision + 1;
            }
            WatchEvent::Compacted { .. } => task.ended = Some(event.clone()),
            WatchEvent::Lost(_) => {}
        }
        event
    }
}

impl Task {
    fn start(etcd: Etcd, prefix: Vec<u8>, next_revision: u64) -> Task {
        let (sender, events) = channel(QUEUED_EVENTS);
        let endpoint = etcd.first_endpoint();
        let follower = Follower { etcd, prefix, next_revision, endpoint, sender };
        Task { handle: tokio::spawn(follower.follow()), events, ended: None }
    }
}

/// Why a connection is not followed any more.
enum End {
    Lost(EtcdError),
    /// The caller must list again.
    Compacted(u64),
    /// The caller is gone.
    Unheard,
}

/// The task's state.
struct Follower {
    etcd: Etcd,
    prefix: Vec<u8>,
    next_revision: u64,
    endpoint: usize,
    sender: Sender<WatchEvent>,
}

impl Follower {
    async fn follow(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let begin = Instant::now();
            let event = match self.follow_one().await {
                End::Unheard => return,
                End::Compacted(revision) => WatchEvent::Compacted { revision },
                End::Lost(error) => WatchEvent::Lost(error),
            };
            let is_over = matches!(event, WatchEvent::Compacted { .. });
            if self.sender.send(event).await.is_err() || is_over {
                return;
            }
            if begin.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            self.endpoint = self.etcd.endpoint_after(self.endpoint);
            sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Follows one connection to its end.
    async fn follow_one(&mut self) -> End {
        let mut lines = match self.open().await {
            Ok(lines) => lines,
            Err(end) => return end,
        };
        // A store that was restored is to be found soon.
        let mut probe_at = Instant::now() + self.etcd.timeout().min(PROBE_PAUSE);
        let mut is_behind = false;
        loop {
            let event = match timeout_at(probe_at, lines.next()).await {
                Ok(line) => match self.event_of(line) {
                    Ok(Some(event)) => event,
                    Ok(None) => continue,
                    Err(end) => return end,
                },
                Err(_) => {
                    match self.probe(is_behind).await {
                        Ok(behind) => is_behind = behind,
                        Err(end) => return end,
                    }
                    probe_at = Instant::now() + PROBE_PAUSE;
                    continue;
                }
            };
            let revision = match &event {
                WatchEvent::Changes { revision, .. } | WatchEvent::Progress { revision } => {
                    *revision
                }
                WatchEvent::Compacted { revision } => return End::Compacted(*revision),
                WatchEvent::Lost(error) => return End::Lost(error.clone()),
            };
            if self.sender.send(event).await.is_err() {
                return End::Unheard;
            }
            self.next_revision = self.next_revision.max(revision + 1);
            (is_behind, probe_at) = (false, Instant::now() + PROBE_PAUSE);
        }
    }

    /// Opens a connection, and waits for the word that the watch exists.
    async fn open(&mut self) -> Result<Lines, End> {
        let request = messages::watch_request(&self.prefix, self.next_revision);
        let opened = self.etcd.open_watch(self.endpoint, &request).await;
        let mut lines = opened.map_err(|error| match error {
            EtcdError::Compacted => End::Compacted(self.next_revision),
            error => End::Lost(error),
        })?;
        let late = || End::Lost(EtcdError::NoAnswer("the watch is not confirmed in time".into()));
        let line = timeout(self.etcd.timeout(), lines.next()).await.map_err(|_| late())?;
        let line = line.map_err(|fault| self.end_of(&fault))?;
        match messages::watch_message(&line).map_err(End::Lost)? {
            Some(WatchMessage::Created(header)) => {
                if self.next_revision == 0 {
                    self.next_revision = header.revision + 1;
                }
                Ok(lines)
            }
            Some(WatchMessage::Ended(error)) => Err(self.ended(error)),
            Some(WatchMessage::Event(WatchEvent::Compacted { revision })) => {
                Err(End::Compacted(revision))
            }
            _ => Err(End::Lost(EtcdError::NoAnswer("the watch is not confirmed".into()))),
        }
    }

    fn event_of(&self, line: Result<Vec<u8>, LineFault>) -> Result<Option<WatchEvent>, End> {
        let line = line.map_err(|fault| self.end_of(&fault))?;
        match messages::watch_message(&line).map_err(End::Lost)? {
            Some(WatchMessage::Event(event)) => Ok(Some(event)),
            Some(WatchMessage::Ended(error)) => Err(self.ended(error)),
            Some(WatchMessage::Created(_)) | None => Ok(None),
        }
    }

    /// What was too long once would be too long again: the caller must list.
    fn end_of(&self, fault: &LineFault) -> End {
        match fault {
            LineFault::TooLong => End::Compacted(self.next_revision),
            LineFault::Ended(text) => End::Lost(EtcdError::NoAnswer(text.clone())),
        }
    }

    fn ended(&self, error: EtcdError) -> End {
        match error {
            EtcdError::Compacted => End::Compacted(self.next_revision),
            error => {
                // It may be the login; a new one costs little.
                self.etcd.log_out();
                End::Lost(error)
            }
        }
    }

    /// Asks the member whether the watch has missed anything; whether it seems so.
    async fn probe(&self, was_behind: bool) -> Result<bool, End> {
        let probed = self.etcd.probe(self.endpoint, &self.prefix, self.next_revision).await;
        let (revision, is_behind) = probed.map_err(End::Lost)?;
        if revision + 1 < self.next_revision {
            return Err(End::Compacted(revision));
        }
        match is_behind && was_behind {
            true => Err(End::Lost(EtcdError::NoAnswer("the watch has missed a change".into()))),
            false => Ok(is_behind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, HEADER, Reply, config, run};

    const HEAD: &str = "HTTP/1.1 200 OK\r\n\r\n";

    fn line(rest: &str) -> String {
        format!("{{\"result\":{{{HEADER}{rest}}}}}\n")
    }

    fn created() -> String {
        format!("{HEAD}{}", line(r#","created":true"#))
    }

    fn change(revision: u64) -> String {
        line(&format!(r#","events":[{{"kv":{{"key":"aw==","mod_revision":"{revision}"}}}}]"#))
    }

    fn etcd(fakes: &[&Fake]) -> Etcd {
        Etcd::new(config(fakes)).expect("it is a client")
    }

    #[test]
    fn it_goes_on_elsewhere_after_the_last_revision() {
        let half = &change(8)[..20];
        let one = Fake::new(vec![Reply::Raw(format!("{}{}{half}", created(), change(7)))]);
        let other = Fake::new(vec![Reply::Open(format!("{}{}", created(), change(8)))]);
        run(async {
            let mut watch = etcd(&[&one, &other]).watch(b"k", 5);
            assert!(matches!(watch.next().await, WatchEvent::Changes { revision: 7, .. }));
            assert!(matches!(watch.next().await, WatchEvent::Lost(_)));
            assert!(matches!(watch.next().await, WatchEvent::Changes { revision: 8, .. }));
        });
        assert!(one.asked()[0].contains(r#""start_revision":"5""#));
        assert!(other.asked()[0].contains(r#""start_revision":"8""#), "{:?}", other.asked());
        assert!(other.asked()[0].to_lowercase().contains("grpc-metadata-hasleader: true"));
    }

    #[test]
    fn a_watch_from_now_on_keeps_its_place() {
        let one = Fake::new(vec![Reply::Raw(created()), Reply::Open(created())]);
        run(async {
            let mut watch = etcd(&[&one]).watch(b"k", 0);
            assert!(matches!(watch.next().await, WatchEvent::Lost(_)));
            while one.asked().len() < 2 {
                tokio::task::yield_now().await;
            }
        });
        assert!(one.asked()[1].contains(r#""start_revision":"10""#), "{:?}", one.asked());
    }

    #[test]
    fn what_is_compacted_is_said_and_said_again() {
        let gone = line(r#","canceled":true,"compact_revision":"40""#);
        let fake = Fake::new(vec![Reply::Open(format!("{}{gone}", created()))]);
        run(async {
            let mut watch = etcd(&[&fake]).watch(b"k", 5);
            for _ in 0..2 {
                assert_eq!(watch.next().await, WatchEvent::Compacted { revision: 40 });
            }
        });
    }

    #[test]
    fn a_store_that_went_back_must_be_listed() {
        // The header of the probe's answer says revision 9.
        let probed = Reply::json(200, &format!("{{{HEADER}}}"));
        let fake = Fake::new(vec![Reply::Open(created()), probed]);
        run(async {
            let mut watch = etcd(&[&fake]).watch(b"k", 50);
            assert_eq!(watch.next().await, WatchEvent::Compacted { revision: 9 });
        });
    }

    #[test]
    fn nonsense_is_a_lost_connection() {
        let fakes = [
            Reply::Raw(format!("{HEAD}nonsense\n")),
            Reply::Raw(format!("{}{}\n", created(), "[".repeat(9_999))),
            Reply::Raw(format!("{}{{}}\n", created())),
            Reply::json(503, "no"),
            Reply::Cut,
            Reply::Silence,
        ];
        for reply in fakes {
            let text = format!("{reply:?}");
            let fake = Fake::new(vec![reply]);
            let event = run(async { etcd(&[&fake]).watch(b"k", 5).next().await });
            assert!(matches!(event, WatchEvent::Lost(_)), "{text}: {event:?}");
        }
    }
}
