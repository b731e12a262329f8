//! All nodes, the connections between them, and what is known of them; the scheduler's acts.

use std::collections::{BTreeMap, BTreeSet};

use pantala_base::Rng;
use pantala_base::clock::unix_ms;
use pantala_persistence::disk::Disk;
use pantala_persistence::disk::simulated::SimulatedDisk;
use pantala_psync::{History, Phase, ReplicationId};

use super::history::{Log, Model, command};
use super::node::{DIRECTORY, Node, number_of};
use pantala_workers::worker::output::replicas::ServeOutcome;

/// After a longer write the journal has a turn at once: otherwise the stream, which keeps little,
/// could drop bytes before they are seen here.
const LONG_BYTES: usize = 3_000;

/// How a node's history came to have another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HistoryTurn {
    /// The node continues it: replicas that know its old name up to here may continue, too.
    GoneOn,
    /// The node has received other data.
    Copied,
}

/// A node, or its place while it is dead.
pub(super) struct Place {
    pub disk: SimulatedDisk,
    pub node: Option<Node>,
    pub life: u32,
    /// Its old data stays until a copy is complete.
    swaps: bool,
    /// A failover of it is under way, as far as is known.
    fails_over: bool,
    /// Its failover is forced: takes a replica as it is.
    forces: bool,
    /// A replica has taken its role since its failover began.
    is_replaced: bool,
    /// The node that has taken over, until that is told to follow another one.
    taken_by: Option<usize>,
    /// A request to abort its failover was made.
    is_aborted: bool,
    pub follows: Option<usize>,
    /// Its history when it was last checked.
    pub seen: Option<History>,
    /// How the next change of its history's name is to be understood.
    pub turn: HistoryTurn,
    /// The previous history, and the position up to which both are the same.
    pub second: Option<(ReplicationId, u64)>,
    /// The history that this node is the writer of.
    pub writes: Option<ReplicationId>,
    /// The data when the first copy of it was requested.
    pub cut: Option<Model>,
    /// Tokens confirmed by WAIT while this node had them.
    pub confirmed: BTreeSet<String>,
    /// The position up to which its bytes were compared.
    pub compared: u64,
    /// History, position and role when its data was checked last.
    pub looked: Option<(ReplicationId, u64, bool)>,
}

/// A connection of a replica to its primary.
pub(super) struct Pipe {
    /// Node, its life, and the number of the connection there.
    pub replica: (usize, u32, usize),
    pub primary: (usize, u32, u32),
    pub to_primary: Vec<u8>,
    pub to_replica: Vec<u8>,
    /// Bytes that have arrived at the primary until it has answered PSYNC.
    said: Vec<u8>,
    is_answered: bool,
    is_cut: bool,
    /// Whether the primary has forgotten the connection, and whether the replica has.
    pub is_left: (bool, bool),
}

impl Pipe {
    /// Sends bytes of the primary. On a cut pipe they are lost.
    fn answer(&mut self, bytes: Vec<u8>) {
        if !self.is_cut {
            self.to_replica.extend(bytes);
        }
    }
}

/// A client that waits in WAIT for its write.
struct Waiter {
    node: (usize, u32),
    client: u32,
    token: String,
}

/// Acts added to the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraEvents {
    /// None.
    Nothing,
    /// FAILOVER.
    Failovers,
    /// FAILOVER, and connections that break when a replica has taken over and is about to say so.
    LostAnswers,
}

/// The simulated world: all nodes, the connections between them, and the answers given to clients.
pub(super) struct World {
    pub rng: Rng,
    pub places: Vec<Place>,
    pub pipes: Vec<Pipe>,
    pub logs: BTreeMap<String, Log>,
    waiters: Vec<Waiter>,
    /// The nodes that have ever had a token.
    pub had: BTreeMap<String, BTreeSet<usize>>,
    pub counts: BTreeMap<&'static str, u64>,
    words: u64,
    pub more: ExtraEvents,
    pub trace: Vec<String>,
}

pub(super) type Outcome = Result<(), String>;

impl World {
    /// A world of so many nodes, all following the first one.
    pub fn new(seed: u64, nodes: usize, more: ExtraEvents) -> Result<World, String> {
        let place = |number: usize| {
            let disk = SimulatedDisk::new(seed * 8 + number as u64);
            disk.create_directory(DIRECTORY.as_ref()).expect("made");
            Place {
                disk,
                node: None,
                life: 0,
                swaps: (seed / 2 + number as u64).is_multiple_of(2),
                fails_over: false,
                forces: false,
                is_replaced: false,
                taken_by: None,
                is_aborted: false,
                follows: (number > 0).then_some(0),
                seen: None,
                turn: HistoryTurn::Copied,
                second: None,
                writes: None,
                cut: None,
                confirmed: BTreeSet::new(),
                compared: 0,
                looked: None,
            }
        };
        let mut world = World {
            rng: Rng::from_seed(seed),
            places: (0..nodes).map(place).collect(),
            pipes: Vec::new(),
            logs: BTreeMap::new(),
            waiters: Vec::new(),
            had: BTreeMap::new(),
            counts: BTreeMap::new(),
            words: 0,
            more,
            trace: Vec::new(),
        };
        (0..nodes).try_for_each(|number| world.start(number))?;
        Ok(world)
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Adds a text to the current act's description.
    pub fn note(&mut self, text: String) {
        self.trace.push(text);
    }

    /// Adds the positions of all nodes to the current act's description.
    pub fn note_positions(&mut self) {
        let position = |place: &Place| Some(place.node.as_ref()?.history().end);
        let positions: Vec<_> = self.places.iter().map(position).collect();
        self.note(format!("{positions:?}"));
    }

    /// Prints the last act and its outcome.
    pub fn show(&self) {
        let place = |place: &Place| match &place.node {
            None => "dead".to_owned(),
            Some(node) => {
                let History { id, first, end, is_kept, .. } = node.history();
                let role = if node.replication().is_replica() { "replica" } else { "primary" };
                let name = &id.as_str()[..4];
                format!("{role} {name} {first}..{end} kept {is_kept} loads {}", node.is_loading())
            }
        };
        let places: Vec<_> = self.places.iter().map(place).collect();
        println!("{:?}: {}", self.trace.iter().rev().nth(1), places.join(" | "));
    }

    pub fn pick(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    pub fn node(&mut self, number: usize) -> Option<&mut Node> {
        self.places[number].node.as_mut()
    }

    fn alive(&mut self, number: usize) -> &mut Node {
        self.node(number).expect("it lives")
    }

    pub fn is_primary(&self, number: usize) -> bool {
        let node = self.places[number].node.as_ref();
        node.is_some_and(|node| !node.replication().is_replica())
    }

    /// Starts a dead node with its disk's data.
    pub fn start(&mut self, number: usize) -> Outcome {
        let place = &mut self.places[number];
        let node = Node::start(number, &place.disk, place.follows, place.swaps)?;
        place.life += 1;
        let history = node.history();
        place.second = history.second;
        (place.writes, place.cut, place.compared) = (None, None, history.end);
        (place.seen, place.turn, place.looked) = (Some(history), HistoryTurn::Copied, None);
        place.node = Some(node);
        self.check(number)
    }

    /// Kills a node; if the power is cut, what its disk has not synced is lost.
    pub fn kill(&mut self, number: usize, is_power: bool) -> Outcome {
        let place = &mut self.places[number];
        let (life, node) = (place.life, place.node.take());
        place.confirmed.clear();
        place.fails_over = false;
        if is_power {
            place.disk.crash();
        }
        node.into_iter().for_each(Node::kill);
        self.waiters.retain(|waiter| waiter.node.0 != number);
        for pipe in &mut self.pipes {
            if pipe.replica.0 == number && pipe.replica.1 == life {
                (pipe.is_cut, pipe.is_left.1) = (true, true);
            }
            if pipe.primary.0 == number && pipe.primary.1 == life {
                (pipe.is_cut, pipe.is_left.0) = (true, true);
            }
        }
        self.pipes.retain(|pipe| pipe.is_left != (true, true));
        Ok(())
    }

    /// Lets a client write, which may be refused.
    pub fn write(&mut self, number: usize) -> Outcome {
        let mut request = self.request();
        let second = self.rng.below(4) == 0;
        if second && self.rng.below(16) == 0 {
            request = "FLUSHDB\r\n".into();
        }
        let node = self.alive(number);
        if node.fails_over() && request.len() >= LONG_BYTES {
            // After the failover all waiting writes are done at once, which would overrun the
            // stream.
            return Ok(());
        }
        let client = if second { node.second_client } else { 0 };
        let reply = ask(node, client, &request);
        let is_refused = reply.contains("-READONLY") || reply.contains("-LOADING");
        let is_good = is_refused || !reply.contains("-ERR");
        if !is_good {
            return Err(format!("{request:?}: {reply:?}"));
        }
        if request.len() >= LONG_BYTES { self.turn(number) } else { self.check(number) }
    }

    /// Writes so much that nothing of the stream kept before is left.
    pub fn overrun(&mut self, number: usize) -> Outcome {
        self.end_failover(number)?;
        for _ in 0..8 {
            let text = "y".repeat(12_000);
            self.alive(number).ask(0, &format!("SET s1 {text}\r\n"));
            self.turn(number)?;
        }
        Ok(())
    }

    fn request(&mut self) -> String {
        self.words += 1;
        let (word, rng) = (self.words, &mut self.rng);
        let (one, two) = (rng.below(4), rng.below(4));
        match rng.below(24) {
            0..4 => format!("SET s{} v{word}\r\n", one % 2),
            4..8 => format!("INCRBY c0 {one}\r\n"),
            8..10 => format!("RPUSH l0 v{word}\r\n"),
            10 => "LPOP l0\r\n".into(),
            11..18 => {
                let sum = rng.below(50);
                format!("MULTI\r\nDECRBY a{one} {sum}\r\nINCRBY a{two} {sum}\r\nEXEC\r\n")
            }
            18 => format!("SET e{} v{word} PX 1\r\n", one % 2),
            19 => format!("SET e{} v{word} EX 100\r\n", one % 2),
            20 => format!("GET e{}\r\n", one % 2),
            21 => format!("DEL s{} e{}\r\n", one % 2, two % 2),
            22 => format!("SET s0 {}\r\n", "x".repeat(rng.below(12_000).max(1) as usize)),
            _ => "DEL l0\r\n".into(),
        }
    }

    /// Lets a client of a primary write, and wait for replicas.
    pub fn wait(&mut self, number: usize) -> Outcome {
        self.words += 1;
        let token = format!("t{}", self.words);
        let (life, wanted) = (self.places[number].life, 1 + self.rng.below(2));
        let node = self.alive(number);
        let client = node.server.join();
        if node.ask(client, &format!("RPUSH w {token}\r\n")).is_empty() {
            // Writes are held back by a failover.
            return self.check(number);
        }
        let reply = node.ask(client, &format!("WAIT {wanted} 0\r\n"));
        if reply.is_empty() {
            self.waiters.push(Waiter { node: (number, life), client, token });
            return self.check(number);
        }
        self.confirm(number, &token, &reply)
    }

    /// Checks WAIT's answer: so many replicas must have had the write.
    fn confirm(&mut self, number: usize, token: &str, reply: &str) -> Outcome {
        let Some(count) = reply.strip_prefix(':').and_then(|text| text.trim().parse().ok()) else {
            return Ok(());
        };
        self.count("confirmed");
        let others = |had: &BTreeSet<usize>| had.iter().filter(|one| **one != number).count();
        if self.had.get(token).map_or(0, others) < count {
            let had = self.had.get(token);
            return Err(format!("WAIT says that {count} have {token}, but {had:?} had it"));
        }
        for place in &mut self.places {
            let data = place.node.as_ref().filter(|node| !node.is_loading()).map(Node::data);
            let tokens = data.as_ref().and_then(|data| data.get(0, b"w"));
            if tokens.is_some_and(|tokens| tokens.items.iter().any(|one| one == token.as_bytes())) {
                place.confirmed.insert(token.to_owned());
            }
        }
        Ok(())
    }

    /// Gives a node's worker a turn: replicas are heard and fed, and waiting clients answered.
    pub fn serve(&mut self, number: usize) -> Outcome {
        let life = self.places[number].life;
        let node = self.alive(number);
        node.ask(0, "");
        let mut outputs = Vec::new();
        for index in node.server.worker.lists.replicas.clone() {
            let served = node.server.worker.serve_replica(index);
            let connection = node.server.worker.at(index);
            let bytes = connection.map(|one| std::mem::take(&mut one.output.bytes));
            if served == ServeOutcome::Lost {
                node.close(index);
            }
            outputs.push((index, bytes.unwrap_or_default(), served == ServeOutcome::Lost));
        }
        for (index, bytes, is_lost) in outputs {
            let is_it = |pipe: &&mut Pipe| pipe.primary == (number, life, index);
            if let Some(pipe) = self.pipes.iter_mut().find(is_it) {
                pipe.answer(bytes);
                pipe.is_cut |= is_lost;
                pipe.is_left.0 |= is_lost;
            }
        }
        self.look_at_failover(number)?;
        self.hear_waiters(number)?;
        self.check(number)
    }

    fn hear_waiters(&mut self, number: usize) -> Outcome {
        let mut answers = Vec::new();
        let node = self.places[number].node.as_mut().expect("it lives");
        self.waiters.retain(|waiter| {
            if waiter.node.0 != number {
                return true;
            }
            let reply = node.ask(waiter.client, "");
            if !reply.is_empty() {
                answers.push((waiter.token.clone(), reply.clone()));
            }
            reply.is_empty()
        });
        answers.iter().try_for_each(|(token, reply)| self.confirm(number, token, reply))
    }

    /// Gives the journal of a node a turn.
    pub fn turn(&mut self, number: usize) -> Outcome {
        let is_drained = self.alive(number).turn();
        self.check(number)?;
        let place = &self.places[number];
        let Some(node) = place.node.as_ref().filter(|_| is_drained) else { return Ok(()) };
        let log = place.writes.and_then(|id| self.logs.get(id.as_str()));
        let Some(log) = log.filter(|_| self.is_primary(number)) else { return Ok(()) };
        let data = node.data();
        match log.last().digest() == data.digest() {
            true => Ok(()),
            false => Err(format!("{number} has not told: {}", data.difference(log.last()))),
        }
    }

    /// Runs a node's timer of replicas once.
    pub fn look(&mut self, number: usize) -> Outcome {
        self.see_cut(number);
        self.alive(number).look_after_replicas();
        self.check(number)
    }

    /// Lets a second pass at a node.
    pub fn tick(&mut self, number: usize) -> Outcome {
        let node = self.alive(number);
        node.hub.tick();
        node.settle();
        node.server.worker.keep_replicas_alive();
        self.check(number)
    }

    /// Lets the link of a node connect, or refuses it.
    pub fn connect(&mut self, number: usize, accepts: bool) -> Outcome {
        let life = self.places[number].life;
        let Some(wanted) = self.node(number).and_then(|node| node.wanted()) else {
            return Ok(());
        };
        let primary_life = self.places[wanted].life;
        let client = match self.node(wanted).filter(|_| accepts) {
            Some(primary) => primary.server.join(),
            None => {
                self.alive(number).answer(false);
                return self.check(number);
            }
        };
        let end = self.alive(number).answer(true);
        self.pipes.push(Pipe {
            replica: (number, life, end),
            primary: (wanted, primary_life, client),
            to_primary: Vec::new(),
            to_replica: Vec::new(),
            said: Vec::new(),
            is_answered: false,
            is_cut: false,
            is_left: (false, false),
        });
        self.check(number)
    }

    /// Cuts a connection: of the bytes on their way only a first part arrives.
    pub fn cut(&mut self, at: usize) {
        let World { pipes, rng, places, .. } = self;
        let pipe = &mut pipes[at];
        gather(pipe, places);
        for bytes in [&mut pipe.to_primary, &mut pipe.to_replica] {
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        }
        pipe.is_cut = true;
    }

    /// Delivers some bytes to the primary, or the end of the connection.
    pub fn deliver_to_primary(&mut self, at: usize, most: usize) -> Outcome {
        let World { pipes, places, .. } = self;
        gather(&mut pipes[at], places);
        let pipe = &mut self.pipes[at];
        let (number, _, index) = pipe.primary;
        if pipe.is_left.0 {
            return Ok(());
        }
        let bytes: Vec<u8> = pipe.to_primary.drain(..most.min(pipe.to_primary.len())).collect();
        if bytes.is_empty() {
            if pipe.is_cut {
                pipe.is_left.0 = true;
                self.alive(number).close(index);
            }
            return self.check(number);
        }
        if !pipe.is_answered {
            pipe.said.extend_from_slice(&bytes);
        }
        let mut reply = Vec::new();
        self.alive(number).server.exchange_as(index, &bytes, &mut reply);
        let takes_over = self.take_over(at, &mut reply)?;
        let before = self.alive(number).history();
        if takes_over && self.more == ExtraEvents::LostAnswers && self.rng.below(2) == 0 {
            self.pipes[at].is_cut = true;
            self.count("took over unheard");
        }
        self.pipes[at].answer(reply);
        let phase = self.alive(number).replica(index).map(|replica| replica.phase());
        if !self.pipes[at].is_answered && matches!(phase, Some(Phase::Online | Phase::Waiting)) {
            self.pipes[at].is_answered = true;
            self.judge(at, before, phase == Some(Phase::Online))?;
            if takes_over && phase != Some(Phase::Online) {
                self.count("failed over with a copy");
            }
        }
        self.check(number)
    }

    /// Checks that PSYNC was answered as it must be.
    fn judge(&mut self, at: usize, now: History, goes_on: bool) -> Outcome {
        let said = std::mem::take(&mut self.pipes[at].said);
        let ((replica, ..), (number, ..)) = (self.pipes[at].replica, self.pipes[at].primary);
        let mut rest = &said[..];
        let mut asked = None;
        while let Some((args, used)) = command(rest) {
            if args[0] == b"PSYNC" && args[1] != b"?" {
                let text = |arg: &[u8]| String::from_utf8_lossy(arg).into_owned();
                let first: u64 = text(args[2]).parse().map_err(|_| "no position")?;
                asked = Some((text(args[1]), first - 1));
            }
            rest = &rest[used..];
        }
        self.count(if goes_on { "continued" } else { "copied" });
        self.places[replica].turn = if goes_on { HistoryTurn::GoneOn } else { HistoryTurn::Copied };
        if !goes_on {
            self.places[replica].confirmed.clear();
        }
        let Some((id, position)) = asked else { return Ok(()) };
        let is_named = id == now.id.as_str()
            || self.places[number]
                .second
                .is_some_and(|(second, end)| id == second.as_str() && position <= end);
        let is_there = now.is_kept && (now.first..=now.end).contains(&position);
        if is_named && is_there && !goes_on {
            return Err(format!("{number} has what {replica} lacks, and it gets a copy"));
        }
        if is_named && !is_there && position <= now.end {
            self.count("overrun");
        }
        let at_both = [&*id, now.id.as_str()].map(|id| self.logs.get(id)?.digest_at(position));
        if goes_on && (at_both[0] != at_both[1] || at_both[0].is_none()) {
            return Err(format!("{replica} goes on at {number} with another history"));
        }
        if goes_on && id != now.id.as_str() {
            self.count("continued in another history");
        }
        Ok(())
    }

    /// Delivers some bytes to the replica, or the end of the connection.
    pub fn deliver_to_replica(&mut self, at: usize, most: usize) -> Outcome {
        let pipe = &mut self.pipes[at];
        let (number, _, end) = pipe.replica;
        if pipe.is_left.1 {
            return Ok(());
        }
        let bytes: Vec<u8> = pipe.to_replica.drain(..most.min(pipe.to_replica.len())).collect();
        let node = self.places[number].node.as_ref().expect("its end of the pipe lives");
        match (bytes.is_empty(), pipe.is_cut) {
            (true, true) => {
                pipe.is_left.1 = true;
                node.hub.finish(end);
            }
            (true, false) => return Ok(()),
            (false, _) => node.hub.deliver(end, &bytes),
        }
        node.settle();
        self.check(number)
    }

    /// Lets a node take over if its primary has asked for it; returns whether it did.
    fn take_over(&mut self, at: usize, reply: &mut Vec<u8>) -> Result<bool, String> {
        let pipe = &self.pipes[at];
        let ((asks, ..), (number, _, index)) = (pipe.replica, pipe.primary);
        let node = self.alive(number);
        let is_asked = node.take_over(index, reply)?;
        if !is_asked || node.replication().is_replica() {
            return Ok(false);
        }
        self.count("failed over");
        let place = &mut self.places[number];
        (place.follows, place.turn) = (None, HistoryTurn::GoneOn);
        // A primary whose failover was aborted meanwhile has continued by itself.
        let Place { node, forces, is_replaced, taken_by, .. } = &mut self.places[asks];
        (*is_replaced, *taken_by) = (true, Some(number));
        let had = node.as_ref().filter(|node| !*forces && node.fails_over()).map(Node::data);
        let has = self.alive(number).data();
        if let Some(had) = had.filter(|had| had.digest() != has.digest()) {
            return Err(format!("{asks} fails over to {number}: {}", has.difference(&had)));
        }
        self.check(number)?;
        Ok(true)
    }

    /// FAILOVER, to any replica or a given one, with or without force; or FAILOVER ABORT.
    pub fn fail_over(&mut self, number: usize) -> Outcome {
        let (what, other) = (self.rng.below(6), self.pick(self.places.len()));
        let timeout_ms = 1_000 * (1 + self.rng.below(3));
        let request = match what {
            0 => "FAILOVER ABORT\r\n".to_owned(),
            1 => format!("FAILOVER TO n{other} 1 TIMEOUT {timeout_ms} FORCE\r\n"),
            2 => format!("FAILOVER TO n{other} 1 TIMEOUT {timeout_ms}\r\n"),
            3 => format!("FAILOVER TO n{other} 1\r\n"),
            4 => format!("FAILOVER TIMEOUT {timeout_ms}\r\n"),
            _ => "FAILOVER\r\n".to_owned(),
        };
        self.see_cut(number);
        let place = &mut self.places[number];
        if !place.fails_over {
            (place.is_replaced, place.taken_by, place.is_aborted) = (false, None, false);
        }
        place.is_aborted |= what == 0;
        let has_begun = self.alive(number).fail_over(&request);
        // The check below looks at the failover.
        self.places[number].fails_over |= has_begun && what > 0;
        if has_begun && what > 0 {
            self.count("began to fail over");
            self.places[number].forces = what == 1;
        }
        self.check(number)
    }

    /// Notes the data where a history may begin now.
    fn see_cut(&mut self, number: usize) {
        let place = &mut self.places[number];
        let node = place.node.as_ref().expect("it lives");
        if !node.is_copying() && !node.history().is_kept {
            place.cut = Some(node.data());
        }
    }

    /// Checks the outcome of a failover, if there is one.
    pub fn look_at_failover(&mut self, number: usize) -> Outcome {
        let place = &mut self.places[number];
        let Some(node) = place.node.as_mut().filter(|_| place.fails_over) else { return Ok(()) };
        node.settle_failover();
        place.fails_over = node.fails_over();
        let (ended, is_replica) = (!node.fails_over(), node.replication().is_replica());
        self.see_role(number);
        let Place { is_replaced, taken_by, is_aborted, .. } = self.places[number];
        if ended && is_replica && !is_replaced {
            return Err(format!("{number} has given up its role, and nobody has taken it"));
        }
        let other = taken_by.filter(|other| !is_aborted && self.is_primary(*other));
        match other.filter(|_| ended && !is_replica) {
            Some(other) => Err(format!("{number} has its role again, and {other} has it, too")),
            None => Ok(()),
        }
    }

    /// Notices that a node has another role now.
    fn see_role(&mut self, number: usize) {
        let place = &mut self.places[number];
        let node = place.node.as_ref().expect("it lives");
        place.follows = node.replication().following.primary().as_ref().map(number_of);
        if place.follows.is_none() && place.seen.is_some_and(|seen| seen.id != node.history().id) {
            place.turn = HistoryTurn::GoneOn;
        }
        if place.follows.is_some() {
            self.waiters.retain(|waiter| waiter.node.0 != number);
        }
    }

    /// Aborts a failover that is under way, and waits for its end.
    pub fn end_failover(&mut self, number: usize) -> Outcome {
        while self.places[number].fails_over {
            self.places[number].is_aborted = true;
            self.alive(number).replication().failover.abort();
            self.check(number)?;
        }
        Ok(())
    }

    fn end_copy(&mut self, number: usize) -> Outcome {
        self.end_failover(number)?;
        self.alive(number).end_copy();
        self.check(number)
    }

    /// REPLICAOF.
    pub fn follow(&mut self, number: usize, primary: usize) -> Outcome {
        self.end_copy(number)?;
        self.places[number].follows = Some(primary);
        for place in &mut self.places {
            place.taken_by = place.taken_by.filter(|other| *other != number);
        }
        self.alive(number).follow(primary)?;
        self.waiters.retain(|waiter| waiter.node.0 != number);
        self.check(number)
    }

    /// REPLICAOF NO ONE.
    pub fn promote(&mut self, number: usize) -> Outcome {
        self.end_copy(number)?;
        let place = &mut self.places[number];
        place.follows = None;
        let node = place.node.as_mut().expect("it lives");
        let was_replica = node.replication().is_replica();
        node.promote()?;
        if was_replica {
            place.turn = HistoryTurn::GoneOn;
        }
        self.check(number)
    }

    /// SAVE, while clients write.
    pub fn save(&mut self, number: usize) -> Outcome {
        self.end_copy(number)?;
        let mut requests: Vec<String> = (0..3).map(|_| self.request()).collect();
        // Long writes are left out, as in `write`.
        requests.retain(|request| request.len() < LONG_BYTES);
        let Place { disk, node, .. } = &mut self.places[number];
        node.as_mut().expect("it lives").save(disk, |node| {
            requests.iter().for_each(|request| _ = ask(node, 0, request));
        });
        self.check(number)
    }

    /// Forgets the pipes whose both ends are closed.
    pub fn forget_pipes(&mut self) {
        self.pipes.retain(|pipe| pipe.is_left != (true, true));
    }
}

/// Sends a request. After one with a deadline of a millisecond, waits for that, so that a seed
/// replays.
fn ask(node: &mut Node, client: u32, request: &str) -> String {
    let reply = node.ask(client, request);
    if request.contains(" PX 1\r\n") {
        let due = unix_ms().0 + 2;
        while unix_ms().0 < due {
            std::thread::yield_now();
        }
    }
    reply
}

/// Moves the bytes the replica has sent into the pipe.
fn gather(pipe: &mut Pipe, places: &[Place]) {
    let (number, _, end) = pipe.replica;
    let node = places[number].node.as_ref().filter(|_| !pipe.is_left.1);
    if let Some((sent, has_ended)) = node.map(|node| node.hub.take_sent(end)) {
        let arrives = !pipe.is_cut;
        pipe.to_primary.extend(sent.into_iter().filter(|_| arrives));
        pipe.is_cut |= has_ended;
        pipe.is_left.1 |= has_ended;
    }
}
