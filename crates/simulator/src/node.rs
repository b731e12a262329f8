//! One server of the simulation: the real one, without sockets. Its worker, its journal and its
//! timer of replicas advance when the scheduler says so; its link and its copies have threads that
//! the scheduler waits for.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pantala_base::UnixMs;
use pantala_commands::{Lane, Park, Session};
use pantala_engine::clients::mailbox::Mailbox;
use pantala_engine::condition::states::States;
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::{Turn, Verdict};
use pantala_engine::stats::tallies::ThreadTally;
use pantala_engine::waiting::ReplyTarget;
use pantala_journal::Recorder;
use pantala_keyspace::DbIndex;
use pantala_persistence::disk::Disk;
use pantala_persistence::disk::simulated::SimulatedDisk;
use pantala_persistence::snapshot::Form;
use pantala_psync::{History, Replica};
use pantala_server::in_process::LocalServer;
use pantala_server::process::start;
use pantala_server::shared::Shared;
use pantala_settings::Settings;

use super::history::{Model, Value};
use super::network::{Hub, Simulated};
use pantala_durability::journaling::{self, Keeper};
use pantala_durability::{loading, saving};
use pantala_replication::Replication;
use pantala_replication::failover::FailoverStep;
use pantala_replication::primary::{self, keeper};
use pantala_replication::replica::{self, Primary};
use pantala_workers::worker::connection::ParkReason;

/// The directory of a node's data.
pub(super) const DIRECTORY: &str = "/d";
const FILE: &str = "/d/dump.rdb";
/// Keys used in the first two databases.
pub(super) const STRINGS: [&str; 9] = ["s0", "s1", "c0", "a0", "a1", "a2", "a3", "e0", "e1"];
const LISTS: [&str; 2] = ["l0", "w"];
/// How long a thread may work before the test fails.
const MOST_WORK: Duration = Duration::from_secs(120);

/// One server of the simulation, with the threads it has begun.
pub(super) struct Node {
    pub server: LocalServer,
    pub hub: Arc<Hub>,
    shared: Arc<Shared>,
    keeper: Keeper,
    link: Option<JoinHandle<()>>,
    /// A client that has selected the second database.
    pub second_client: u32,
    tally: Arc<ThreadTally>,
    recorder: Recorder,
}

fn settings(number: usize, primary: Option<usize>, swaps: bool) -> Settings {
    let follows = primary.map(|number| format!("n{number} 1")).unwrap_or_default();
    let rows = [
        ("threads", "1"),
        ("snapshot_threads", "1"),
        ("dir", "/of/no/disk"),
        ("journal-ring-dir", ""),
        ("save", ""),
        ("repl-backlog-size", "16384"),
        ("repl-backlog-ttl", "0"),
        ("repl-diskless-sync-delay", "0"),
        ("repl-diskless-load", if swaps { "swapdb" } else { "flush-before-load" }),
        ("repl-ping-replica-period", "2147483647"),
        ("repl-timeout", "2147483647"),
        ("replica-announce-ip", &format!("n{number}")),
        ("replica-announce-port", "1"),
        ("replicaof", &follows),
    ];
    let with = |settings: Settings, (name, value): (&str, &str)| {
        settings.with(name, value).unwrap_or_else(|why| panic!("{name}: {why}"))
    };
    rows.into_iter().fold(Settings::defaults(), with)
}

/// The number of the node with this name.
pub(super) fn number_of(primary: &Primary) -> usize {
    primary.host[1..].parse().expect("a node's name")
}

fn primary_of(number: usize) -> Primary {
    Primary { host: format!("n{number}"), port: 1 }
}

/// Waits until another thread has brought about a condition.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < MOST_WORK, "{what}");
        std::thread::yield_now();
    }
}

impl Node {
    /// A server that begins with its disk's data and follows this primary, if any. `swaps`: its old
    /// data stays until a copy is complete.
    pub fn start(
        number: usize,
        disk: &SimulatedDisk,
        primary: Option<usize>,
        swaps: bool,
    ) -> Result<Node, String> {
        let mut server = LocalServer::new(settings(number, primary, swaps))?;
        let shared = Arc::clone(server.shared());
        shared.workers.opened(0, Arc::clone(&server.worker.inbox));
        let hub = Hub::new();
        shared.replication.following.simulate(Arc::new(Simulated(Arc::clone(&hub))));
        let keeper = journaling::by_hand(&shared.durability)?;
        shared.replication.primary.keep_by_hand();
        primary::settings_changed(&shared.replication);
        replica::prepare(&shared.replication);
        let second_client = server.join();
        server.exchange_as(second_client, b"SELECT 1\r\n", &mut Vec::new());
        let (tally, recorder) = (shared.engine.stats.tallies.join(), shared.engine.journal.join());
        let link = None;
        let mut node = Node { server, hub, shared, keeper, link, second_client, tally, recorder };
        if disk.size(Path::new(FILE)).is_ok() {
            let disk = disk.clone();
            node.aside(move |shared| {
                let load = || loading::load_at(&shared.durability, &disk, Path::new(FILE), false);
                start::load_with_history(shared, load)
            })?;
        }
        replica::begin(&node.shared.replication)?;
        node.take_link();
        Ok(node)
    }

    pub fn replication(&self) -> &Replication {
        &self.shared.replication
    }

    pub fn history(&self) -> History {
        self.replication().downstream.stream.history()
    }

    pub fn is_loading(&self) -> bool {
        self.shared.engine.condition.lasting.now().intersects(States::LOADING)
    }

    /// Whether a copy is arriving, with or without the old data.
    pub fn is_receiving(&self) -> bool {
        let states = self.shared.engine.condition.lasting.now();
        states.intersects(States::LOADING) || states.intersects(States::LOADING_BESIDE)
    }

    /// Lets the link's thread run until it waits.
    pub fn settle(&self) {
        if let Some(link) = &self.link {
            self.hub.settle(link);
        }
    }

    /// The node the link wants to connect to.
    pub fn wanted(&self) -> Option<usize> {
        self.hub.wanted(self.link.as_ref()?.thread().id()).map(|primary| number_of(&primary))
    }

    /// Answers the wish to connect; returns the number of the connection.
    pub fn answer(&self, accepts: bool) -> usize {
        let thread = self.link.as_ref().expect("it wants one").thread().id();
        let number = self.hub.answer(thread, accepts);
        self.settle();
        number
    }

    fn take_link(&mut self) {
        self.link = self.shared.replication.following.take_thread();
        self.settle();
    }

    /// Ends the previous link.
    fn retire(&mut self, link: Option<JoinHandle<()>>) {
        if let Some(link) = link {
            self.hub.answer(link.thread().id(), false);
            link.join().expect("no panic");
        }
        self.take_link();
    }

    /// Runs work that waits for the journal, and gives the journal turns meanwhile.
    fn aside<R: Send>(&mut self, work: impl FnOnce(&Shared) -> R + Send) -> R {
        let shared = Arc::clone(&self.shared);
        std::thread::scope(|scope| {
            let working = scope.spawn(move || work(&shared));
            while !working.is_finished() {
                self.keeper.turn();
                std::thread::yield_now();
            }
            working.join().expect("no panic")
        })
    }

    /// Gives the journal a turn; returns whether all records are in the stream.
    pub fn turn(&mut self) -> bool {
        let (_, has_more) = self.keeper.turn();
        self.wait_for_copy();
        !has_more
    }

    /// Lets a copy under way run until it waits for the journal, or ends.
    fn wait_for_copy(&self) {
        wait_until("a copy hangs", || {
            !self.replication().primary.is_copying()
                || self.shared.durability.appending.awaits_cut()
        });
    }

    /// Whether a copy is being made.
    pub fn is_copying(&self) -> bool {
        self.replication().primary.is_copying()
    }

    /// Runs the timer of replicas once.
    pub fn look_after_replicas(&mut self) {
        let is_handing_over = self.replication().failover.step() == FailoverStep::WaitingForSync;
        if is_handing_over && self.replication().is_replica() {
            // A copy would wait until the failover is over.
            return;
        }
        keeper::look_once(&self.shared.replication);
        self.wait_for_copy();
    }

    /// Lets a copy that has begun run to its end.
    pub fn end_copy(&mut self) {
        while self.is_copying() {
            self.turn();
        }
    }

    /// REPLICAOF; returns whether the node's primary has changed.
    pub fn follow(&mut self, number: usize) -> Result<bool, String> {
        let link = self.link.take();
        let shared = Arc::clone(&self.shared);
        let has_changed =
            self.aside(move |_| replica::follow(&shared.replication, &primary_of(number)))?;
        match has_changed {
            true => self.retire(link),
            false => self.link = link,
        }
        Ok(has_changed)
    }

    /// REPLICAOF NO ONE.
    pub fn promote(&mut self) -> Result<(), String> {
        self.aside(|shared| replica::promote(&shared.replication))?;
        let link = self.link.take();
        self.retire(link);
        Ok(())
    }

    /// A client sends this FAILOVER request; returns whether it is accepted.
    pub fn fail_over(&mut self, request: &str) -> bool {
        let client = self.server.join();
        let reply = self.ask(client, request);
        self.settle_failover();
        reply.starts_with("+OK")
    }

    /// Whether a failover is under way.
    pub fn fails_over(&self) -> bool {
        self.replication().failover.is_under_way()
    }

    /// FAILOVER ABORT; waits for the end of the failover.
    pub fn end_failover(&mut self) {
        let failover = &Arc::clone(&self.shared).replication.failover;
        while failover.is_under_way() {
            failover.abort();
            self.settle_failover();
        }
    }

    /// Lets a failover run until it has seen all that there is, waits for an answer, or has ended.
    pub fn settle_failover(&mut self) {
        let replication = &Arc::clone(&self.shared).replication;
        let (failover, began) = (&replication.failover, Instant::now());
        let looks = failover.looks();
        loop {
            self.keeper.turn();
            if self.link.is_none() {
                self.link = replication.following.take_thread();
            }
            // An aborted failover runs to its end.
            let is_aborted = failover.is_aborted();
            let has_looked = !is_aborted && failover.looks() >= looks + 2;
            let asks = !is_aborted && failover.is_asking() && self.link.is_some();
            if !failover.is_under_way() || has_looked || asks {
                break;
            }
            assert!(began.elapsed() < MOST_WORK, "a failover hangs");
            std::thread::yield_now();
        }
        if !failover.is_under_way() {
            // The failover's thread holds this lock to its end.
            drop(self.shared.durability.writes_wait.lock());
        }
        if replication.is_replica() {
            self.settle();
        } else {
            let link = self.link.take();
            self.retire(link);
        }
    }

    /// Lets the server finish an order to take over that has arrived on a connection; returns
    /// whether there was one.
    pub fn take_over(&mut self, index: u32, reply: &mut Vec<u8>) -> Result<bool, String> {
        let waits = |node: &mut Node| {
            let parked = node.server.worker.at(index).and_then(|one| one.waits.parked);
            parked.is_some_and(|parked| parked.waiting == ParkReason::Lane)
        };
        if !waits(self) {
            return Ok(false);
        }
        let began = Instant::now();
        while waits(self) {
            assert!(began.elapsed() < MOST_WORK, "it does not take over");
            self.keeper.turn();
            self.server.exchange_as(index, b"", reply);
        }
        if !self.replication().is_replica() {
            let link = self.link.take();
            self.retire(link);
        }
        Ok(true)
    }

    /// SAVE, with `meanwhile` run after the cut.
    pub fn save(&mut self, disk: &SimulatedDisk, meanwhile: impl FnOnce(&mut Node)) {
        let (shared, disk) = (Arc::clone(&self.shared), disk.clone());
        let saving = std::thread::spawn(move || {
            let plan = saving::plan_at(&shared.engine.settings.current(), FILE.into(), Form::Rdb);
            let turn = shared.durability.snapshots.reserve(&Arc::default())?;
            saving::write_to(&shared.durability, turn, &disk, plan)
        });
        wait_until("a save hangs", || {
            saving.is_finished() || self.shared.durability.appending.awaits_cut()
        });
        if !saving.is_finished() {
            meanwhile(self);
        }
        while !saving.is_finished() {
            self.keeper.turn();
            std::thread::yield_now();
        }
        saving.join().expect("no panic").expect("nothing fails on this disk");
    }

    /// Cuts the power.
    pub fn kill(mut self) {
        self.end_failover();
        self.hub.kill();
        self.shared.engine.condition.shutdown.begin();
        replica::end(&self.shared.replication);
        if let Some(link) = self.link.take() {
            link.join().expect("no panic");
        }
        self.shared.durability.appending.end(&self.shared.engine.journal);
        self.shared.replication.primary.cancel_and_wait();
    }

    /// Sends a client's request; returns what is answered at once.
    pub fn ask(&mut self, client: u32, request: &str) -> String {
        let mut reply = Vec::new();
        self.server.exchange_as(client, request.as_bytes(), &mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// The replica behind a connection.
    pub fn replica(&mut self, index: u32) -> Option<Arc<Replica>> {
        self.server.worker.at(index)?.session.replica.clone()
    }

    /// Ends a connection.
    pub fn close(&mut self, index: u32) {
        let worker = &mut self.server.worker;
        worker.end_following(index);
        worker.stop_waiting(index);
        worker.connections[index as usize] = None;
    }

    /// All of the node's data, including expired keys that are not removed yet.
    pub fn data(&self) -> Model {
        let mut model = Model::default();
        for db in 0..2 {
            let strings: Vec<&str> = ["MGET"].iter().chain(&STRINGS).copied().collect();
            let found = self.raw(db, &strings);
            for (key, text) in STRINGS.iter().zip(found) {
                let expires = text.is_some() && key.starts_with('e');
                let deadline = expires.then(|| self.raw(db, &["PEXPIRETIME", key]));
                let deadline = deadline.and_then(|found| found.into_iter().next()?);
                let deadline = deadline.map(|text| String::from_utf8_lossy(&text).parse());
                let deadline = deadline.and_then(Result::ok).filter(|deadline| *deadline >= 0);
                let value = text.map(|text| Value { items: vec![text], deadline });
                model.put(db, key.as_bytes(), value);
            }
            for key in LISTS {
                let items = self.raw(db, &["LRANGE", key, "0", "-1"]);
                let items = items.into_iter().flatten().collect();
                model.put(db, key.as_bytes(), Some(Value { items, deadline: None }));
            }
        }
        model
    }

    /// The items of a command's reply, with the clock at 0, so that expired keys are seen.
    fn raw(&self, db: u32, words: &[&str]) -> Vec<Option<Vec<u8>>> {
        let engine = &self.shared.engine;
        let limited = Limited::new(engine.settings.current());
        let thread = (&*self.tally, &self.recorder);
        let turn = Turn::new(&*self.shared, thread, &limited, Lane::Slow, (UnixMs(0), 0));
        let turn = Turn { states: States::NONE, sees_expired: true, recorder: None, ..turn };
        let mut session = Session::new(0);
        session.db = DbIndex(db);
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let found = engine.registry.resolve(&args).expect("it is known");
        let mut output = Vec::new();
        let inbox: Arc<dyn Mailbox> = self.server.worker.inbox.clone();
        let target = ReplyTarget { inbox: &inbox, connection: 0, parking: 0, waited: None };
        loop {
            match turn.run(&mut session, found, &args, &mut output, &target) {
                Verdict::Finished => return items(&output),
                // The walker of a copy, or the thread that frees a flushed database, holds it for a
                // moment.
                Verdict::Parked(Park::Partition(_)) => std::thread::yield_now(),
                _ => panic!("a read waits for nothing else"),
            }
        }
    }
}

/// The items of a reply.
fn items(mut reply: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut items = Vec::new();
    while let Some(end) = reply.windows(2).position(|two| two == b"\r\n") {
        let (line, rest) = (&reply[..end], &reply[end + 2..]);
        reply = rest;
        match line[0] {
            b'*' => {}
            b'$' if line == b"$-1" => items.push(None),
            b'$' => {
                let length: usize =
                    std::str::from_utf8(&line[1..]).ok().and_then(|n| n.parse().ok()).expect("one");
                items.push(Some(rest[..length].to_vec()));
                reply = &rest[length + 2..];
            }
            _ => items.push(Some(line[1..].to_vec())),
        }
    }
    items
}
