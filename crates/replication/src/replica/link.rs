//! The link: the thread that follows the primary.
//!
//! ```text
//! connect --> Handshake --> full copy, or go on --> read, cut, apply, append, acknowledge
//!    ^------------------- a second later ------------------------------- whatever ends it
//!    ^------------------- at once -------------------------------------- a link that had worked
//! ```
//!
//! Tests: at the foot; compat/replication.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_base::clock::monotonic_us;
use pantala_engine::condition::pause::PauseScope;
use pantala_journal::resp::push_command;
use pantala_journal::{Journal, Stamp};
use pantala_psync::link::{
    Cutter, Greeting, Handshake, HandshakeAnswer, HandshakeStep, ResumeRequest,
};
use pantala_psync::{History, ReplicationId};
use parking_lot::Mutex;

use super::apply::Applier;
use super::copy::{Dialer, FullCopy};
use super::socket::{Socket, TICK};
use super::{LinkPhase, set_phase};
use crate::Replication;
use pantala_tls::certificates;

/// How soon a link notices the end of a pause.
const PAUSE_LOOK: Duration = Duration::from_millis(10);
/// The most bytes applied at once: threads that want `applying` wait for these.
const BATCH_BYTES: usize = 256 << 10;
/// The log's reason when a link ends for `propagation-error-behavior`.
const STOPPED: &str = "a command has failed, and propagation-error-behavior is not ignore: \
                       REPLICAOF begins anew, with a full copy";
/// What people and tools look for when a time-out ends the link: Valkey's words, then Redis's.
const NOT_CONNECTED: &str =
    "Timeout connecting to the PRIMARY... (Timeout connecting to the MASTER...)";
const SILENT: &str = "PRIMARY timeout: no data nor PING received...";
/// The least free room in the buffer before a read.
const LEAST_ROOM_BYTES: usize = 256 << 10;

/// The main loop of the link with this number.
pub fn run(replication: &Arc<Replication>, number: u64) {
    let following = &replication.following;
    let mut link = Link::new(replication, number);
    while following.is_in_force(number) {
        let Some(primary) = following.primary() else { break };
        let ended = match catch_unwind(AssertUnwindSafe(|| link.follow(&primary))) {
            Ok(ended) => ended,
            Err(_) => {
                forget_history(replication, number);
                link = Link::new(replication, number);
                Err("a panic of ours".into())
            }
        };
        following.set_socket(replication, number, None);
        if !following.is_in_force(number) {
            break;
        }
        set_phase(replication, number, LinkPhase::Connect);
        if let Err(why) = ended {
            let (host, port) = (primary.host, primary.port);
            tracing::warn!(host, port, "the link to the primary has ended: {why}");
        }
        if following.stands_still(number) {
            break;
        }
        if !link.had_worked() {
            let settings = replication.engine.settings.current();
            following.rest(number, following.network(&settings).retry());
        }
    }
}

/// After a panic it is unknown which of the last steps were applied: all data must be copied anew.
/// If this link is not in force any more, the history is not its own to drop.
fn forget_history(replication: &Replication, number: u64) {
    let following = &replication.following;
    let _between_steps = following.role.between_steps();
    if following.is_in_force(number) {
        replication.downstream.stream.stop_keeping();
    }
}

/// Why a link has ended; a time-out by its own words.
fn in_words(error: &io::Error, timed_out: &str) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("{timed_out} ({error})"),
        _ => error.to_string(),
    }
}

struct Link<'l> {
    replication: &'l Arc<Replication>,
    number: u64,
    applier: Applier,
    cutter: Cutter,
    on_disk: OnDisk,
    /// When this link began to follow the stream, and at which position.
    began: Option<(Instant, u64)>,
    /// The last full copy has failed in parts: the next one comes over the link alone.
    is_plain: bool,
}

/// Which part of the stream is durable in this server's own append-only file.
#[derive(Default)]
struct OnDisk {
    /// Steps of this thread, each with the position of the stream after it.
    notes: VecDeque<(Stamp, u64)>,
    position: u64,
}

impl OnDisk {
    /// With this many notes, the last one is moved forward instead of adding one.
    const MOST: usize = 4096;

    fn note(&mut self, step: Stamp, position: u64) {
        if self.notes.len() >= OnDisk::MOST {
            self.notes.pop_back();
        }
        debug_assert!(
            self.notes.back().is_none_or(|last| last.0 <= step && last.1 < position),
            "steps and stream go on together"
        );
        self.notes.push_back((step, position));
    }

    /// The position before which everything is durable.
    fn position(&mut self, journal: &Journal) -> u64 {
        while let Some((step, position)) = self.notes.front().copied()
            && journal.is_durable(step)
        {
            debug_assert!(self.position <= position, "what is on disk stays there");
            self.position = position;
            self.notes.pop_front();
        }
        self.position
    }
}

impl<'l> Link<'l> {
    fn new(replication: &'l Arc<Replication>, number: u64) -> Link<'l> {
        let mut applier = Applier::new(Arc::clone(replication));
        applier.select(replication.following.stream_db());
        let (cutter, on_disk) = (Cutter::default(), OnDisk::default());
        Link { replication, number, applier, cutter, on_disk, began: None, is_plain: false }
    }

    /// Whether the ended link had worked: it brought something, or lasted for a while. Links that
    /// end at once must not be retried at once.
    fn had_worked(&mut self) -> bool {
        let replication = &self.replication;
        let settings = self.replication.engine.settings.current();
        let (end, network) =
            (replication.downstream.stream.end(), replication.following.network(&settings));
        let began = self.began.take();
        let lasted = |since| network.now().duration_since(since) >= network.retry();
        began.is_some_and(|(at, position)| end > position || lasted(at))
    }

    fn follow(&mut self, primary: &super::Primary) -> Result<(), String> {
        let (replication, number) = (self.replication, self.number);
        let following = &replication.following;
        let settings = replication.engine.settings.current();
        let silence = Duration::from_secs(settings.repl_timeout_s.into());
        following.sleep_out(number);
        set_phase(replication, number, LinkPhase::Connecting);
        let tls =
            settings.tls_replication.then(|| certificates::connector(&settings)).transpose()?;
        let opened = Socket::open(following.network(&settings), primary, silence, tls.as_ref());
        let (mut socket, end) = opened.map_err(|error| in_words(&error, NOT_CONNECTED))?;
        if !following.set_socket(replication, number, Some(end)) {
            return Ok(());
        }
        set_phase(replication, number, LinkPhase::Handshake);
        // It may have begun meanwhile.
        following.sleep_out(number);
        let history = replication.downstream.stream.history();
        let wanted =
            history.is_kept.then_some(ResumeRequest { id: history.id, position: history.end });
        let dialer = Dialer { replication, primary, silence, tls: tls.as_ref() };
        let had_asked = replication.failover.has_asked();
        let greeted = self.greet(&mut socket, wanted, &dialer);
        let (answer, parts) = greeted.map_err(|error| in_words(&error, NOT_CONNECTED))?;
        if !following.is_in_force(number) {
            return Ok(());
        }
        self.tell_failover(&answer, had_asked);
        match answer {
            HandshakeAnswer::Later(why) | HandshakeAnswer::Refused(why) => return Err(why),
            HandshakeAnswer::IsPrimary if had_asked => {
                drop(socket);
                // This time it is asked for nothing but PSYNC.
                return self.follow(primary);
            }
            HandshakeAnswer::IsPrimary => return Err("it is a primary itself".into()),
            HandshakeAnswer::Continue(id) => {
                if !self.go_on(id.unwrap_or(history.id)) {
                    return Ok(());
                }
            }
            HandshakeAnswer::FullCopy(id, position) => {
                set_phase(replication, number, LinkPhase::Sync);
                tracing::info!(%id, position, "Full resync from primary: a full copy begins");
                let copy =
                    FullCopy { replication, number, id, position, failure: Mutex::default() };
                // If parts fail the next copy comes over the link alone.
                self.is_plain = !parts.is_empty();
                let db = copy.take(&mut socket, parts)?;
                self.is_plain = false;
                self.applier.select(db);
                self.on_disk = OnDisk::default();
                tracing::info!(position, "PRIMARY <-> REPLICA sync: Finished with success");
            }
        }
        self.cutter = Cutter::default();
        following.heard();
        set_phase(replication, number, LinkPhase::Connected);
        self.began = Some((socket.now(), replication.downstream.stream.end()));
        self.stream(&mut socket)
    }

    /// Tells a FAILOVER what the answer means, if one waits for it. `had_asked`: an earlier link
    /// had asked, and its answer was lost.
    fn tell_failover(&self, answer: &HandshakeAnswer, had_asked: bool) {
        let takes_over = match answer {
            HandshakeAnswer::Continue(_) | HandshakeAnswer::FullCopy(..) => true,
            // It has done what the earlier link asked for: going on as a primary would make two of
            // them.
            HandshakeAnswer::IsPrimary => had_asked,
            // Whether it has taken over is still unknown.
            HandshakeAnswer::Later(_) if had_asked => return,
            HandshakeAnswer::Later(_) | HandshakeAnswer::Refused(_) => false,
        };
        self.replication.failover.answered(takes_over);
    }

    /// Goes on at this server's position: the primary's history is this one. False: the link is not
    /// in force any more, and the history is another's.
    fn go_on(&self, id: ReplicationId) -> bool {
        let replication = &self.replication;
        let _between_steps = replication.following.role.between_steps();
        if !replication.following.is_in_force(self.number) {
            return false;
        }
        let History { id: known, end, .. } = replication.downstream.stream.history();
        tracing::info!(position = end, "Successful partial resynchronization with primary");
        if id != known {
            replication.downstream.stream.rename(id);
            super::drop_replicas(self.replication);
        }
        true
    }

    /// The primary's answer to the handshake, and the extra connections that it asked for before.
    fn greet(
        &self,
        socket: &mut Socket,
        wanted: Option<ResumeRequest>,
        dialer: &Dialer<'_>,
    ) -> io::Result<(HandshakeAnswer, Vec<Socket>)> {
        let settings = self.replication.engine.settings.current();
        let has_login = !settings.primaryauth.is_empty();
        let login = has_login.then(|| (settings.primaryuser.clone(), settings.primaryauth.clone()));
        let own_port = if settings.tls_replication { settings.tls_port } else { settings.port };
        let greeting = Greeting {
            login,
            forces: self.replication.failover.is_forced(),
            port: match settings.replica_announce_port {
                0 => own_port,
                announced => announced,
            },
            address: settings.replica_announce_ip.clone(),
            node: self.replication.node_id.read().clone(),
            connections: match self.is_plain {
                true => 1,
                false => dialer.connections(),
            },
        };
        let mut handshake = Handshake::new(greeting, wanted, self.replication.failover.is_asking());
        let first = handshake.begin();
        socket.send(&first)?;
        let mut parts = Vec::new();
        loop {
            let Some(line) = socket.line()? else {
                if !self.replication.following.is_in_force(self.number) {
                    let why = "another primary is to be followed";
                    return Ok((HandshakeAnswer::Later(why.into()), Vec::new()));
                }
                socket.fill()?;
                continue;
            };
            match handshake.take(&line) {
                HandshakeStep::Send(bytes) => {
                    if handshake.asks_to_take_over() {
                        self.replication.failover.asks();
                    }
                    socket.send(&bytes)?;
                }
                HandshakeStep::Read => {}
                HandshakeStep::Invited(to) => parts = dialer.open(&to),
                HandshakeStep::Over(answer) => return Ok((answer, parts)),
            }
        }
    }

    /// Follows the stream until the link ends.
    fn stream(&mut self, socket: &mut Socket) -> Result<(), String> {
        let following = &self.replication.following;
        let mut acked = socket.now();
        // The first acknowledgement makes the primary send the stream.
        self.acknowledge(socket)?;
        let early = socket.take_input();
        for piece in early.chunks(BATCH_BYTES) {
            self.cutter.add(piece);
            if !self.wait_out_pause(socket, &mut acked)? || !self.apply()? {
                return Ok(());
            }
        }
        loop {
            if self.applier.take_asked() || socket.now() - acked >= TICK {
                acked = socket.now();
                self.acknowledge(socket)?;
            }
            let room = self.cutter.room(LEAST_ROOM_BYTES);
            let most = room.len().min(BATCH_BYTES);
            let read = socket.read(&mut room[..most]);
            let count = read.map_err(|error| in_words(&error, SILENT))?;
            if count > 0 {
                following.heard();
                self.cutter.added(count);
                if !self.wait_out_pause(socket, &mut acked)? || !self.apply()? {
                    return Ok(());
                }
            }
            if !following.is_in_force(self.number) {
                return Ok(());
            }
        }
    }

    /// Waits while CLIENT PAUSE or DEBUG SLEEP holds back the stream; false: the link is not in
    /// force any more.
    fn wait_out_pause(&mut self, socket: &mut Socket, acked: &mut Instant) -> Result<bool, String> {
        let following = &self.replication.following;
        let pause = &self.replication.engine.condition.pause;
        while pause.state(monotonic_us()) != PauseScope::Nothing || following.is_asleep() {
            following.note_unapplied(self.cutter.rest_bytes());
            following.rest(self.number, PAUSE_LOOK);
            if !following.is_in_force(self.number) {
                return Ok(false);
            }
            if socket.now() - *acked >= TICK && !following.is_asleep() {
                *acked = socket.now();
                self.acknowledge(socket)?;
            }
        }
        following.note_unapplied(0);
        Ok(true)
    }

    /// Applies the complete steps that have come; false: the link is not in force any more.
    fn apply(&mut self) -> Result<bool, String> {
        let replication = &self.replication;
        let cut = self.cutter.cut();
        if self.cutter.steps().len() > 0 {
            self.replication.engine.condition.activity.report();
            let _applying = replication.following.role.between_steps();
            if !replication.following.is_in_force(self.number) {
                return Ok(false);
            }
            self.applier.apply(&mut self.cutter);
            if replication.following.is_cut_short() {
                // How much of it was applied is unknown: the next link copies everything.
                replication.downstream.stream.stop_keeping();
                return match replication.following.must_stop() {
                    true => Err(STOPPED.into()),
                    false => Ok(false),
                };
            }
            let stream = &replication.downstream.stream;
            let (before, whole) = (stream.end(), self.cutter.whole());
            let end = stream.append(whole);
            debug_assert_eq!(end, before + whole.len() as u64, "nobody else appends");
            self.on_disk.note(self.applier.last_step(), replication.downstream.stream.end());
        }
        if !self.cutter.whole().is_empty() {
            self.cutter.forget_whole();
            crate::stream_grew(self.replication);
        }
        cut.map_err(|broken| broken.to_string())?;
        self.check_rest().map(|()| true)
    }

    /// Limits the memory of an incomplete step, such as a MULTI without its EXEC.
    ///
    /// # Errors
    /// It is too long. Asking for it again would bring the same bytes, so all data must be copied.
    fn check_rest(&self) -> Result<(), String> {
        let settings = self.replication.engine.settings.current();
        let most = settings.client_query_buffer_limit.max(settings.proto_max_bulk_len);
        let bytes = self.cutter.rest_bytes();
        if bytes as u64 <= most {
            return Ok(());
        }
        forget_history(self.replication, self.number);
        Err(format!(
            "a transaction or command of {bytes} bytes has no end, and {most} are the most \
             (client-query-buffer-limit, proto-max-bulk-len)"
        ))
    }

    fn acknowledge(&mut self, socket: &mut Socket) -> Result<(), String> {
        let replication = self.replication;
        let position = replication.downstream.stream.end().to_string();
        let mut args: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", position.as_bytes()];
        let on_disk = self.on_disk.position(&replication.engine.journal).to_string();
        if replication.durability.appending.is_running()
            && replication.durability.appending.is_kept()
        {
            args.extend_from_slice(&[b"FACK", on_disk.as_bytes()]);
        }
        let mut out = Vec::new();
        push_command(&mut out, &args);
        socket.send(&out).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Weak;
    use std::sync::atomic::Ordering;

    use pantala_settings::Settings;
    use pantala_tls::Connector;

    use super::super::socket::{End, Network, Wire};
    use super::*;
    use crate::replica::{self, Primary};
    use crate::test_support;

    /// A primary that says these lines; when the last one arrives the link is not in force any
    /// more. Without any, connecting panics then.
    struct Scripted(Weak<Replication>, Vec<String>);

    struct Line(Weak<Replication>, VecDeque<String>);

    struct NoEnd;

    fn preempt(replication: &Weak<Replication>) {
        let replication = replication.upgrade().expect("it lives");
        replication.following.number.fetch_add(1, Ordering::AcqRel);
    }

    impl Network for Scripted {
        fn connect(
            &self,
            _: &Primary,
            _: Duration,
            _: Option<&Connector>,
        ) -> io::Result<(Box<dyn Wire>, Box<dyn End>)> {
            let Scripted(replication, lines) = self;
            if lines.is_empty() {
                preempt(replication);
                panic!("on purpose");
            }
            let lines = lines.iter().cloned().collect();
            Ok((Box::new(Line(Weak::clone(replication), lines)), Box::new(NoEnd)))
        }

        fn now(&self) -> Instant {
            Instant::now()
        }

        fn retry(&self) -> Duration {
            Duration::ZERO
        }
    }

    impl Read for Line {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Line(replication, lines) = self;
            let line = lines.pop_front().expect("it reads no more than that");
            if lines.is_empty() {
                preempt(replication);
            }
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    impl Write for Line {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl End for NoEnd {
        fn shut(&self) {}

        fn addresses(&self) -> (String, String) {
            (String::new(), String::new())
        }
    }

    /// The history after a link that has met this is the one before.
    fn check_history_stays(lines: &[&str]) {
        let settings = Settings::defaults().with("replicaof", "n0 1").expect("a primary");
        let replication = &test_support::replication(settings);
        let (stream, following) = (&replication.downstream.stream, &replication.following);
        let lines = lines.iter().map(|line| format!("{line}\r\n")).collect();
        following.simulate(Arc::new(Scripted(Arc::downgrade(replication), lines)));
        replica::prepare(replication);
        stream.resume(ReplicationId::random(), 7, false);
        let before = stream.history();
        run(replication, following.interrupt());
        assert_eq!(stream.history(), before);
    }

    #[test]
    fn a_time_out_is_told_in_the_words_of_others() {
        let silent = io::Error::new(io::ErrorKind::TimedOut, "nothing has come");
        let told = in_words(&silent, NOT_CONNECTED);
        assert!(told.contains("Timeout connecting to the PRIMARY"), "{told}");
        assert!(told.contains("Timeout connecting to the MASTER"), "{told}");
        let closed = io::Error::other("closed");
        assert_eq!(in_words(&closed, NOT_CONNECTED), "closed");
    }

    #[test]
    fn a_link_that_is_out_of_force_does_not_rename_the_history() {
        let continues = format!("+CONTINUE {}", ReplicationId::random());
        check_history_stays(&["+PONG", "+OK", "+OK", "+OK", &continues]);
    }

    #[test]
    fn a_link_that_is_out_of_force_does_not_forget_the_history() {
        check_history_stays(&[]);
    }
}
