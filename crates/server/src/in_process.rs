//! The server without sockets: bytes in, bytes out, on the calling thread.
//!
//! The real parser, session, keyspace and commands, driven as a worker drives them; commands for
//! the slow lane run at once. Used to count instructions, and by tests that need no network.

use std::sync::Arc;

use pantala_base::hash::HashSeed;
use pantala_commands::{Protocol, Registry, Session};
use pantala_journal::{Item, JournalReader, Recorder};
use pantala_keyspace::{ChangeSink, Keyspace, WorkerMark};
use pantala_reactor::{EngineChoice, Reactor, ReactorConfig, Token};
use pantala_settings::Settings;

use crate::process::system::oom_score::OomScore;
use crate::process::system::supervision::Supervisor;
use crate::shared::{Launch, Shared};
use pantala_engine::lane;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_workers::listener_kind::ListenerKind;
use pantala_workers::worker::Worker;
use pantala_workers::worker::connection::Connection;
use pantala_workers::worker::serving::Chunks;
use pantala_workers::workers::inbox::Inbox;

/// A server with one client.
pub struct LocalServer {
    shared: Arc<Shared>,
    /// What serves its clients.
    pub worker: Worker,
    lane_tally: Arc<ThreadTally>,
    lane_recorder: Recorder,
    reader: JournalReader,
}

impl LocalServer {
    /// An empty server.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new(settings: Settings) -> Result<Self, String> {
        LocalServer::observed(settings, None)
    }

    /// Like [`LocalServer::new`], with `change_sink` told of every change of a key in place of the
    /// clients.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn observed(
        settings: Settings,
        change_sink: Option<Box<dyn ChangeSink>>,
    ) -> Result<Self, String> {
        let seed = HashSeed::from_words(1, 2);
        let shared = Shared::new(Launch {
            settings,
            file: None,
            seed,
            registry: crate::commands::registry(),
            change_sink,
            supervisor: Supervisor::none(),
            oom_score: OomScore::none(),
        });
        let config = ReactorConfig { choice: EngineChoice::Epoll, ..ReactorConfig::default() };
        let reactor = Reactor::new(config).map_err(|error| error.to_string())?;
        let inbox = Arc::new(Inbox::new(reactor.waker()));
        let lane_tally = shared.engine.stats.tallies.join();
        let lane_recorder = shared.engine.journal.join();
        let reader = JournalReader::new(Arc::clone(&shared.engine.journal), 0);
        let worker = Worker::new(Arc::clone(&shared.context), 0, inbox);
        let mut server = LocalServer { shared, worker, lane_tally, lane_recorder, reader };
        server.join();
        Ok(server)
    }

    /// Adds a client; returns its index.
    pub fn join(&mut self) -> u32 {
        let index = self.worker.connections.len() as u32;
        let session = Session::of_client(u64::from(index) + 1, &self.worker.users);
        let connection = Connection::new(token(index), session, ListenerKind::Resp, 0);
        self.worker.connections.push(Some(Box::new(connection)));
        index
    }

    /// Makes its first client speak another protocol.
    pub fn speak(&mut self, protocol: Protocol) {
        if let Some(connection) = self.worker.at(0) {
            connection.session.protocol = protocol;
        }
    }

    /// Turns recording on.
    pub fn record(&mut self) {
        self.shared.engine.journal.turn(true);
    }

    /// What was recorded since the last call, in order, in the form of a file.
    pub fn recorded(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.take_all(&mut |item| {
            if let Item::Run(run) = item
                && run.audience.has_files()
            {
                bytes.extend_from_slice(run.bytes);
            }
        });
        bytes
    }

    /// Its data.
    pub fn space(&self) -> &Keyspace {
        &self.shared.engine.space
    }

    /// Its command table.
    pub fn registry(&self) -> &Registry {
        &self.shared.engine.registry
    }

    /// The state that its threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs the commands in `request` and appends their replies to `reply`. An incomplete command
    /// waits for the next call.
    pub fn exchange(&mut self, request: &[u8], reply: &mut Vec<u8>) {
        self.exchange_as(0, request, reply);
    }

    /// Like [`LocalServer::exchange`], for the client with this index.
    pub fn exchange_as(&mut self, index: u32, request: &[u8], reply: &mut Vec<u8>) {
        self.worker.refresh();
        // Commands that wait may be able to go on.
        self.run_lane();
        let mut chunks = Chunks::default();
        self.worker.receive(token(index), request, &mut chunks);
        loop {
            self.worker.take_resumed(&mut chunks);
            if chunks.is_empty() {
                break;
            }
            self.worker.look_at_users();
            let guard = WorkerMark::new();
            self.worker.serve(std::mem::take(&mut chunks));
            drop(guard);
            self.run_lane();
            self.worker.refresh();
        }
        for touched in std::mem::take(&mut self.worker.lists.touched) {
            if let Some(connection) = self.worker.at(touched) {
                connection.marks.is_touched = false;
            }
        }
        if let Some(connection) = self.worker.at(index) {
            connection.output.is_throttled = false;
            reply.append(&mut connection.output.bytes);
        }
    }

    /// Runs `work` while another thread has the keyspace's token.
    pub fn with_token_taken<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let shared = Arc::clone(&self.shared);
        let _token = shared.engine.space.try_token();
        work(self)
    }

    fn run_lane(&mut self) {
        let shared = Arc::clone(&self.shared);
        while let Some(job) = shared.engine.lane.try_next() {
            lane::run_job(&*shared, (&self.lane_tally, &self.lane_recorder), 0, job);
        }
        self.worker.take_inner_messages();
    }
}

/// The token of a client, whose index never changes.
fn token(index: u32) -> Token {
    Token { index, generation: 0 }
}

#[cfg(test)]
mod tests {
    use pantala_base::UnixMs;
    use pantala_keyspace::{ALL_OR_NONE_TRIES, DbIndex, LockPlan, Scope, Tally};

    use pantala_workers::worker::connection::ParkReason;

    use super::*;

    fn check(requests: &[&str], expected: &str) {
        let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
        let mut reply = Vec::new();
        for request in requests {
            server.exchange(request.as_bytes(), &mut reply);
        }
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }

    #[test]
    fn commands_of_a_pipeline_run_in_order() {
        check(&["SET k 1\r\nGET k\r\nDEL k\r\nGET k\r\n"], "+OK\r\n$1\r\n1\r\n:1\r\n$-1\r\n");
    }

    #[test]
    fn half_a_command_waits_for_the_rest() {
        check(&["*2\r\n$3\r\nGE", "T\r\n$1\r", "\nk\r\nPING\r\n"], "$-1\r\n+PONG\r\n");
    }

    #[test]
    fn a_long_request_goes_to_the_lane_and_the_order_holds() {
        let value = "v".repeat(3 << 20);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
        let around = format!("SET k old\r\n{set}STRLEN k\r\nPING\r\n");
        let expected = "+OK\r\n+OK\r\n:3145728\r\n+PONG\r\n";
        check(&[&around], expected);
        let (begin, end) = around.split_at(1 << 20);
        check(&[begin, end], expected);
    }

    #[test]
    fn a_broken_frame_ends_the_connection_after_what_came_before() {
        check(
            &["PING\r\n*1\r\n+PING\r\nPING\r\n", "PING\r\n"],
            "+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n",
        );
    }

    #[test]
    fn a_group_sees_what_the_commands_before_it_did() {
        let pipeline: String =
            (0..100).map(|n| format!("SET key{} {n}\r\nGET key{}\r\n", n % 7, n % 7)).collect();
        let expected: String =
            (0..100).map(|n| format!("+OK\r\n${}\r\n{n}\r\n", n.to_string().len())).collect();
        check(&[&pipeline], &expected);
    }

    /// Does `work` while another thread holds the partition of a key.
    fn with_key_held(server: &mut LocalServer, key: &[u8], work: impl FnOnce(&mut LocalServer)) {
        let shared = Arc::clone(&server.shared);
        let (held, is_held) = std::sync::mpsc::channel();
        let (free, is_to_free) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (space, tally) = (&shared.engine.space, Tally::default());
                let now = UnixMs(0);
                let scope = Scope {
                    space,
                    db: DbIndex(0),
                    now,
                    tally: &tally,
                    touch: false,
                    sees_expired: false,
                    recorder: None,
                };
                let locked = space.lock_waiting(&LockPlan::one(space.hash(key)), scope);
                held.send(()).expect("the test listens");
                // Freed also when the test has failed.
                let _failed = is_to_free.recv();
                drop(locked);
            });
            is_held.recv().expect("the thread holds it");
            work(server);
            drop(free);
        });
    }

    #[test]
    fn a_command_that_meets_busy_keys_again_and_again_goes_to_the_lane() {
        let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
        let mut reply = Vec::new();
        with_key_held(&mut server, b"b", |server| {
            server.exchange(b"MSET a 1 b 2\r\nMGET a b\r\n", &mut reply);
            for _ in 1..ALL_OR_NONE_TRIES {
                assert_eq!(server.shared.engine.lane.waiting(), 0);
                server.worker.try_again(ParkReason::Partition);
                let mut chunks = Chunks::default();
                server.worker.take_resumed(&mut chunks);
                server.worker.serve(chunks);
            }
            assert_eq!(server.shared.engine.lane.waiting(), 1);
        });
        server.exchange(b"", &mut reply);
        assert_eq!(String::from_utf8_lossy(&reply), "+OK\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    }

    #[test]
    fn the_command_of_a_client_that_has_gone_does_not_begin() {
        for is_gone in [true, false] {
            let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
            let mut reply = Vec::new();
            let value = "x".repeat(3 << 20);
            let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n{value}\r\n", value.len());
            with_key_held(&mut server, b"b", |server| {
                server.exchange(set.as_bytes(), &mut reply);
                let connection = server.worker.at(0).expect("it is there");
                let presence = connection.peer.presence.as_ref().expect("it waits on the lane");
                // A client that has only shut down its sending side still gets an answer, unless a
                // script was in the way.
                if is_gone { presence.is_gone() } else { presence.sends_no_more() }
            });
            server.exchange(b"", &mut reply);
            assert_eq!(String::from_utf8_lossy(&reply), if is_gone { "" } else { "+OK\r\n" });
            let exists = server.space().sizes(DbIndex(0)).map_or(0, |sizes| sizes.keys());
            assert_eq!(exists, u64::from(!is_gone));
        }
    }

    #[test]
    fn who_waits_no_longer_leaves_the_queue_of_a_busy_key() {
        let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
        let mut reply = Vec::new();
        server.exchange(b"BLPOP a b 0\r\n", &mut reply);
        assert_eq!(server.space().waited_keys(), 2);
        with_key_held(&mut server, b"a", |server| {
            assert!(server.worker.unblock(0, None));
            assert_eq!(server.space().waited_keys(), 1);
        });
        assert_eq!(server.space().waited_keys(), 0);
        server.exchange(b"PING\r\n", &mut reply);
        assert_eq!(String::from_utf8_lossy(&reply), "*-1\r\n+PONG\r\n");
    }

    /// The connection waits in the midst of a line.
    #[test]
    fn a_memcached_get_whose_partition_is_busy_goes_on_where_it_was() {
        for words in ["get", "gat 100"] {
            let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
            server.speak(Protocol::MemcachedText);
            let (mut reply, mut rest) = (Vec::new(), Vec::new());
            server.exchange(b"set a 0 0 1\r\nx\r\nset b 1 0 1\r\ny\r\n", &mut Vec::new());
            let request = format!("version\r\n{words}  a b a  c\r\nversion\r\n");
            with_key_held(&mut server, b"b", |server| {
                server.exchange(request.as_bytes(), &mut reply);
            });
            assert_eq!(String::from_utf8_lossy(&reply), "VERSION 1.6.18\r\nVALUE a 0 1\r\nx\r\n",);
            server.exchange(b"", &mut rest);
            assert_eq!(
                String::from_utf8_lossy(&rest),
                "VALUE b 1 1\r\ny\r\nVALUE a 0 1\r\nx\r\nEND\r\nVERSION 1.6.18\r\n",
            );
        }
    }
}
