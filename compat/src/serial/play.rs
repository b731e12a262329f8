//! Rounds of commands from several clients at once.
//!
//! 1. All clients of a round start together, and the next round begins when all are done.
//! 2. After a round all keys are read, alone. Those answers belong to the round, too, and are the
//!    contents with which the next one begins.
//! 3. In some rounds one client is lost: it hangs up without reading its answers, or another client
//!    has it killed. Before the keys are read the server has dropped that client and its work: so
//!    its commands have been executed by then, or never will be.

use crate::client::{Connection, Fault, encode};
use crate::differ::random::Random;
use crate::pattern::Resp;
use crate::serial::check::{Done, Judgement, NEVER, excuse, judge};
use crate::serial::kinds::Kinds;
use crate::serial::maker::Maker;
use crate::serial::model::{Act, DATABASES, KEYS, State};
use crate::serial::shrink;
use crate::value::Value;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Commands of one client in a round, those in transactions and scripts not counted.
const ACTS: usize = 8;
/// Commands that a client sends without waiting for answers, at most.
const PIPELINE: usize = 4;
/// In one of this many rounds a client is lost.
const LOSSES: usize = 4;
/// In one of this many rounds the number of workers changes.
const CHANGES: usize = 30;
/// The server must report this many times in a row that nothing is in progress.
const QUIET_LOOKS: usize = 3;
/// The time between two of these questions.
const LOOK: Duration = Duration::from_millis(1);
/// A time limit for a state that never comes.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

/// A client and its selected database.
struct Client {
    connection: Connection,
    db: usize,
    id: String,
}

/// The ways in which a client is lost in a round.
#[derive(Clone, Debug)]
enum Loss {
    /// It closes its connection after sending this batch.
    HangsUp(usize),
    /// It has the client with this number killed after receiving the answers to this batch.
    Kills(usize, String),
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rounds played.
    pub rounds: u64,
    /// Commands in them.
    pub commands: u64,
    /// Pairs of commands that overlapped in time: without any, a run proves nothing.
    pub overlaps: u64,
    /// Transactions that were dropped because of a watched key.
    pub dropped: u64,
    /// Commands whose answers were lost.
    pub lost: u64,
    /// Rounds with too many possible orders to try.
    pub undecided: u64,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Clients at the same time.
    pub clients: usize,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether the server runs scripts.
    pub with_scripts: bool,
    /// Whether clients are lost.
    pub with_losses: bool,
    /// The number of workers is changed between 1 and this.
    pub most_workers: usize,
}

/// Clients of one server.
pub struct Players {
    address: String,
    plan: Plan,
    clients: Vec<Client>,
    /// A connection that takes no part; its commands are in no history.
    control: Connection,
    state: State,
    clock: Instant,
    maker: Maker,
    /// The results so far.
    pub counts: Counts,
}

impl Players {
    /// Connects the clients, every third to database 1, and empties the server.
    pub fn new(address: &str, plan: Plan) -> Result<Players, Fault> {
        let mut players = Players {
            address: address.to_string(),
            clients: Vec::new(),
            control: Connection::open(address, Resp::Two)?,
            state: State::default(),
            clock: Instant::now(),
            maker: Maker::new(plan.seed, plan.with_scripts),
            counts: Counts::default(),
            plan,
        };
        for number in 0..players.plan.clients.max(DATABASES) {
            players.clients.push(Client::open(address, usize::from(number % 3 == 1))?);
        }
        players.control.command(&["FLUSHALL"])?;
        Ok(players)
    }

    /// Plays one round. `Ok(Some(_))`: a history that no order explains, reduced to its relevant
    /// part.
    pub fn round(&mut self) -> Result<Option<Anomaly>, Fault> {
        self.change_workers()?;
        let begin = self.state.clone();
        let (mut history, victim) = self.play()?;
        if let Some(victim) = victim {
            self.replace(victim)?;
        }
        self.count(&history);
        self.read_all(&mut history, victim)?;
        excuse(&mut history);
        match judge(&begin, &history) {
            Judgement::Serial => Ok(None),
            Judgement::Undecided => {
                self.counts.undecided += 1;
                Ok(None)
            }
            Judgement::Broken(_) => {
                let history = shrink::shortest(&begin, history);
                let Judgement::Broken(farthest) = judge(&begin, &history) else { return Ok(None) };
                let commands = history.iter().map(Vec::len).sum();
                let text = shrink::describe(&begin, &history, &farthest);
                Ok(Some(Anomaly { round: self.counts.rounds, commands, text }))
            }
        }
    }

    fn count(&mut self, history: &[Vec<Done>]) {
        let all = || history.iter().flatten();
        self.counts.rounds += 1;
        self.counts.commands += all().count() as u64;
        self.counts.overlaps += overlaps(history);
        self.counts.lost += all().filter(|done| done.answer.is_none()).count() as u64;
        let is_dropped = |done: &&Done| {
            matches!(done.act, Act::Program(_)) && done.answer == Some(Value::NilArray)
        };
        self.counts.dropped += all().filter(is_dropped).count() as u64;
    }

    /// Changes the number of workers, so that connections are moved to other workers while they are
    /// used.
    fn change_workers(&mut self) -> Result<(), Fault> {
        if self.plan.most_workers > 1 && self.maker.random().once_in(CHANGES) {
            let wanted = 1 + self.maker.random().below(self.plan.most_workers);
            self.control.command(&["CONFIG", "SET", "threads", &wanted.to_string()])?;
        }
        Ok(())
    }

    /// Plays one round of commands from all clients at once. Returns the histories, and which
    /// client was lost.
    fn play(&mut self) -> Result<(Vec<Vec<Done>>, Option<usize>), Fault> {
        let scripts: Vec<Vec<Vec<Act>>> =
            self.clients.iter().map(|_| script(&mut self.maker)).collect();
        let (victim, losses) = self.losses(&scripts);
        let start = Arc::new(Barrier::new(self.clients.len()));
        let clock = self.clock;
        let played: Result<Vec<_>, Fault> = std::thread::scope(|threads| {
            let players: Vec<_> = self
                .clients
                .iter_mut()
                .zip(scripts)
                .zip(losses)
                .enumerate()
                .map(|(number, ((client, script), loss))| {
                    let start = Arc::clone(&start);
                    let may_end = victim == Some(number);
                    threads.spawn(move || {
                        start.wait();
                        client.play(script, clock, loss, may_end)
                    })
                })
                .collect();
            let join = |player: std::thread::ScopedJoinHandle<'_, _>| {
                player.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            players.into_iter().map(join).collect()
        });
        Ok((played?, victim))
    }

    /// Chooses which client is lost in this round, and what each client does for that.
    fn losses(&mut self, scripts: &[Vec<Vec<Act>>]) -> (Option<usize>, Vec<Option<Loss>>) {
        let mut losses = vec![None; self.clients.len()];
        let random: &mut Random = self.maker.random();
        if !self.plan.with_losses || !random.once_in(LOSSES) {
            return (None, losses);
        }
        let victim = random.below(losses.len());
        let other = (victim + 1 + random.below(losses.len() - 1)) % losses.len();
        if random.once_in(2) {
            losses[victim] = Some(Loss::HangsUp(random.below(scripts[victim].len())));
        } else {
            let batch = random.below(scripts[other].len());
            losses[other] = Some(Loss::Kills(batch, self.clients[victim].id.clone()));
        }
        (Some(victim), losses)
    }

    /// Waits until the server has dropped everything of a lost client, and connects another in its
    /// place.
    fn replace(&mut self, victim: usize) -> Result<(), Fault> {
        let id = self.clients[victim].id.clone();
        // The lost client may still be connected, if its killer was early or late.
        self.control.command(&["CLIENT", "KILL", "ID", &id])?;
        let end = Instant::now() + QUIET_LIMIT;
        let mut looks = 0;
        while looks < QUIET_LOOKS {
            if Instant::now() > end {
                return Err(Fault::Unreachable(format!("client {id} has not gone")));
            }
            looks = if self.is_quiet(&id)? { looks + 1 } else { 0 };
            std::thread::sleep(LOOK);
        }
        let db = self.clients[victim].db;
        self.clients[victim] = Client::open(&self.address, db)?;
        Ok(())
    }

    fn is_quiet(&mut self, id: &str) -> Result<bool, Fault> {
        // In this order: the list may itself be made by a thread that is counted as running.
        let Value::Bulk(info) = self.control.command(&["INFO", "pantala"])? else {
            return Ok(false);
        };
        let info = String::from_utf8_lossy(&info);
        let mut counts = info
            .lines()
            .filter(|line| line.starts_with("lane_waiting:") || line.starts_with("lane_running:"));
        let is_idle = counts.all(|line| line.ends_with(":0"));
        let listed = self.control.command(&["CLIENT", "LIST", "ID", id])?;
        Ok(is_idle && matches!(listed, Value::Bulk(text) if text.is_empty()))
    }

    /// Reads every key of every database while no other client sends anything.
    fn read_all(
        &mut self,
        history: &mut Vec<Vec<Done>>,
        victim: Option<usize>,
    ) -> Result<(), Fault> {
        let clock = self.clock;
        // The client that replaces a lost one has a history of its own: a lost client never waits
        // for its answers.
        let mut added = Vec::new();
        for db in 0..DATABASES {
            let number = self.clients.iter().position(|client| client.db == db).unwrap_or(0);
            let reads = Kinds::reads().into_iter().map(Act::On);
            let script = [Act::MGet((0..KEYS).collect())].into_iter().chain(reads).collect();
            let read = self.clients[number].play(vec![script], clock, None, false)?;
            for done in &read {
                let Some(answer) = &done.answer else { continue };
                match (&done.act, answer) {
                    (Act::On(act), answer) => {
                        Arc::make_mut(&mut self.state.kinds[db]).learn(act, answer)
                    }
                    (_, Value::Array(values)) => {
                        for (key, value) in values.iter().take(KEYS).enumerate() {
                            let keys = Arc::make_mut(&mut self.state.values[db]);
                            keys[key] = match value {
                                Value::Bulk(text) => Some(text.clone()),
                                _ => None,
                            };
                        }
                    }
                    _ => {}
                }
            }
            if victim == Some(number) {
                added.push(read);
            } else {
                history[number].extend(read);
            }
        }
        history.extend(added);
        Ok(())
    }
}

/// A history that no order explains.
pub struct Anomaly {
    /// The number of the round.
    pub round: u64,
    /// The number of commands in it.
    pub commands: usize,
    /// The history as text for people.
    pub text: String,
}

impl Client {
    fn open(address: &str, db: usize) -> Result<Client, Fault> {
        let mut connection = Connection::open(address, Resp::Two)?;
        connection.command(&["SELECT", &db.to_string()])?;
        let Value::Int(id) = connection.command(&["CLIENT", "ID"])? else {
            return Err(Fault::Malformed("CLIENT ID gave no number"));
        };
        Ok(Client { connection, db, id: id.to_string() })
    }

    /// Sends each batch at once, and reads all its answers before the next. A connection that
    /// `may_end` may be closed.
    fn play(
        &mut self,
        script: Vec<Vec<Act>>,
        clock: Instant,
        loss: Option<Loss>,
        may_end: bool,
    ) -> Result<Vec<Done>, Fault> {
        let now = || u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut history = Vec::new();
        for (number, batch) in script.into_iter().enumerate() {
            let requests = batch.iter().flat_map(Act::requests);
            let bytes: Vec<u8> = requests.flat_map(|words| encode(&words)).collect();
            let sent = now();
            self.connection.send(&bytes);
            if matches!(loss, Some(Loss::HangsUp(at)) if at == number) {
                self.connection.hang_up();
            }
            let mut is_lost = false;
            for act in batch {
                let answer = if is_lost { None } else { self.answer(&act, may_end)? };
                is_lost |= answer.is_none();
                let heard = if is_lost { NEVER } else { now() };
                history.push(Done { db: self.db, act, answer, sent, heard, is_excused: false });
            }
            if is_lost {
                break;
            }
            if let Some(Loss::Kills(at, id)) = &loss
                && *at == number
            {
                self.connection.command(&["CLIENT", "KILL", "ID", id])?;
            }
        }
        Ok(history)
    }

    /// The answer to a command, `None` if the connection was lost first.
    fn answer(&mut self, act: &Act, may_end: bool) -> Result<Option<Value>, Fault> {
        let mut refused = None;
        let count = act.requests().len();
        for number in 1..=count {
            let answer = match self.connection.receive() {
                Err(Fault::Closed) if may_end => return Ok(None),
                other => other?,
            };
            if number == count {
                return Ok(Some(refused.unwrap_or_else(|| act.seen(answer))));
            }
            // A command that is refused inside a transaction gives the answer of the whole
            // transaction.
            if matches!(answer, Value::Error(_)) {
                refused.get_or_insert(answer);
            }
        }
        Ok(None)
    }
}

/// The commands of one client in a round, in batches.
fn script(maker: &mut Maker) -> Vec<Vec<Act>> {
    let mut acts = Vec::new();
    while acts.len() < ACTS {
        acts.extend(maker.acts());
    }
    let mut batches = Vec::new();
    while !acts.is_empty() {
        let length = acts.len().min(1 + maker.random().below(PIPELINE));
        batches.push(acts.drain(..length).collect());
    }
    batches
}

/// Pairs of commands of different clients that were in progress at the same time.
fn overlaps(history: &[Vec<Done>]) -> u64 {
    let mut count = 0;
    for (number, client) in history.iter().enumerate() {
        for other in &history[number + 1..] {
            for one in client {
                let meets = |two: &&Done| one.sent < two.heard && two.sent < one.heard;
                count += other.iter().filter(meets).count() as u64;
            }
        }
    }
    count
}
