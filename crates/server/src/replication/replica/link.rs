//! The thread that follows the primary.
//!
//! ```text
//! connect --> Handshake --> full copy, or go on --> read, cut, apply, append, acknowledge
//!    ^------------------- a second later ------------------------------- whatever ends it
//! ```

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_journal::resp::push_command;
use pantala_journal::{Journal, Stamp};
use pantala_replication::link::{Answer, Cutter, Greeting, Handshake, Next, Wanted};

use super::apply::Applier;
use super::copy::FullCopy;
use super::socket::{Socket, TICK};
use super::{LinkPhase, relock, set_phase};
use crate::shared::Shared;
use crate::tls;

/// How soon it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// More is not applied at once: who waits for `applying` waits for this.
const BATCH_BYTES: usize = 256 << 10;

/// The life of the link with this number.
pub fn run(shared: &Arc<Shared>, number: u64) {
    let following = &shared.replication.following;
    let mut link = Link::new(shared, number);
    while following.is_in_force(number) {
        let Some(primary) = following.primary() else { break };
        let ended = match catch_unwind(AssertUnwindSafe(|| link.follow(&primary))) {
            Ok(ended) => ended,
            Err(_) => {
                // Nobody knows what of the last steps was done: all is copied anew.
                shared.replication.stream.stop_keeping();
                link = Link::new(shared, number);
                Err("a panic of ours".into())
            }
        };
        following.set_socket(shared, number, None);
        if !following.is_in_force(number) {
            break;
        }
        set_phase(shared, number, LinkPhase::Connect);
        if let Err(why) = ended {
            let (host, port) = (primary.host, primary.port);
            tracing::warn!(host, port, "the link to the primary has ended: {why}");
        }
        following.rest(number, RETRY);
    }
}

struct Link<'l> {
    shared: &'l Arc<Shared>,
    number: u64,
    applier: Applier,
    cutter: Cutter,
    on_disk: OnDisk,
}

/// How far the stream is in this server's own append-only file.
#[derive(Default)]
struct OnDisk {
    /// The last step of this thread, and the position of the stream after it.
    notes: VecDeque<(Stamp, u64)>,
    position: u64,
}

impl OnDisk {
    /// After so many notes the last one is moved on.
    const MOST: usize = 4096;

    fn note(&mut self, step: Stamp, position: u64) {
        if self.notes.len() >= OnDisk::MOST {
            self.notes.pop_back();
        }
        self.notes.push_back((step, position));
    }

    /// All before this position is there.
    fn position(&mut self, journal: &Journal) -> u64 {
        while let Some((step, position)) = self.notes.front().copied()
            && journal.is_durable(step)
        {
            self.position = position;
            self.notes.pop_front();
        }
        self.position
    }
}

impl<'l> Link<'l> {
    fn new(shared: &'l Arc<Shared>, number: u64) -> Link<'l> {
        let mut applier = Applier::new(Arc::clone(shared));
        applier.select(shared.replication.following.stream_db());
        let (cutter, on_disk) = (Cutter::default(), OnDisk::default());
        Link { shared, number, applier, cutter, on_disk }
    }

    fn follow(&mut self, primary: &super::Primary) -> Result<(), String> {
        let (shared, number) = (self.shared, self.number);
        let following = &shared.replication.following;
        let settings = shared.engine.settings.current();
        let silence = Duration::from_secs(settings.repl_timeout_s.into());
        set_phase(shared, number, LinkPhase::Connecting);
        let tls = settings.tls_replication.then(|| tls::connector(&settings)).transpose()?;
        let (mut socket, other) =
            Socket::open(primary, silence, tls.as_ref()).map_err(|error| error.to_string())?;
        if !following.set_socket(shared, number, Some(other)) {
            return Ok(());
        }
        set_phase(shared, number, LinkPhase::Handshake);
        let history = shared.replication.stream.history();
        let wanted = history.is_kept.then_some(Wanted { id: history.id, position: history.end });
        let answer = self.greet(&mut socket, wanted).map_err(|error| error.to_string())?;
        let is_taken = matches!(answer, Answer::Continue(_) | Answer::FullCopy(..));
        shared.replication.failover.answered(is_taken);
        match answer {
            Answer::Later(why) | Answer::Refused(why) => return Err(why),
            Answer::Continue(id) => {
                tracing::info!(position = history.end, "the stream goes on where it was");
                if let Some(id) = id.filter(|id| *id != history.id) {
                    shared.replication.stream.rename(id);
                    super::drop_replicas(shared);
                }
            }
            Answer::FullCopy(id, position) => {
                set_phase(shared, number, LinkPhase::Sync);
                tracing::info!(%id, position, "a full copy begins");
                let copy = FullCopy { shared, number, id, position };
                let db = copy.take(&mut socket)?;
                self.applier.select(db);
                self.on_disk = OnDisk::default();
                tracing::info!(position, "the full copy has ended");
            }
        }
        self.cutter = Cutter::default();
        following.heard();
        set_phase(shared, number, LinkPhase::Connected);
        self.stream(&mut socket)
    }

    fn greet(&self, socket: &mut Socket, wanted: Option<Wanted>) -> io::Result<Answer> {
        let settings = self.shared.engine.settings.current();
        let has_login = !settings.primaryauth.is_empty();
        let login = has_login.then(|| (settings.primaryuser.clone(), settings.primaryauth.clone()));
        let own_port = if settings.tls_replication { settings.tls_port } else { settings.port };
        let greeting = Greeting {
            login,
            port: match settings.replica_announce_port {
                0 => own_port,
                announced => announced,
            },
            address: settings.replica_announce_ip.clone(),
        };
        let mut handshake =
            Handshake::new(greeting, wanted, self.shared.replication.failover.is_asking());
        let first = handshake.begin();
        socket.send(&first)?;
        loop {
            let Some(line) = socket.line()? else {
                if !self.shared.replication.following.is_in_force(self.number) {
                    return Ok(Answer::Later("another primary is to be followed".into()));
                }
                socket.fill()?;
                continue;
            };
            match handshake.take(&line) {
                Next::Send(bytes) => socket.send(&bytes)?,
                Next::Read => {}
                Next::Over(answer) => return Ok(answer),
            }
        }
    }

    /// Follows the stream until the link ends.
    fn stream(&mut self, socket: &mut Socket) -> Result<(), String> {
        let following = &self.shared.replication.following;
        let mut acked = Instant::now();
        // The first word makes the primary send the stream.
        self.acknowledge(socket)?;
        loop {
            let input = socket.take_input();
            for piece in input.chunks(BATCH_BYTES) {
                self.cutter.add(piece);
                if !self.apply()? {
                    return Ok(());
                }
            }
            if self.applier.take_asked() || acked.elapsed() >= TICK {
                acked = Instant::now();
                self.acknowledge(socket)?;
            }
            if socket.fill().map_err(|error| error.to_string())? {
                following.heard();
            }
            if !following.is_in_force(self.number) {
                return Ok(());
            }
        }
    }

    /// Applies what is whole of what has come; false: another link is in force.
    fn apply(&mut self) -> Result<bool, String> {
        let replication = &self.shared.replication;
        let cut = self.cutter.cut();
        if self.cutter.steps().len() > 0 {
            let _applying = relock(&replication.following.applying);
            if !replication.following.is_in_force(self.number) {
                return Ok(false);
            }
            self.applier.apply(&self.cutter);
            replication.stream.append(self.cutter.whole());
            replication.stream.trim(replication.replicas.needed());
            self.on_disk.note(self.applier.last_step(), replication.stream.end());
        }
        if !self.cutter.whole().is_empty() {
            self.cutter.forget_whole();
            crate::replication::call_workers(self.shared);
        }
        cut.map_err(|broken| broken.to_string()).map(|()| true)
    }

    fn acknowledge(&mut self, socket: &mut Socket) -> Result<(), String> {
        let shared = self.shared;
        let position = shared.replication.stream.end().to_string();
        let mut args: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", position.as_bytes()];
        let on_disk = self.on_disk.position(&shared.engine.journal).to_string();
        if shared.appending.is_running() && shared.appending.is_kept() {
            args.extend_from_slice(&[b"FACK", on_disk.as_bytes()]);
        }
        let mut out = Vec::new();
        push_command(&mut out, &args);
        socket.send(&out).map_err(|error| error.to_string())
    }
}
