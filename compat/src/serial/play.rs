//! Rounds of commands from several clients at once.
//!
//! 1. All clients of a round start together, and the next round begins when all are done.
//! 2. After a round all keys are read, alone: those answers belong to the round, too, and are the
//!    contents with which the next one begins.

use crate::client::{Connection, Fault, encode};
use crate::pattern::Resp;
use crate::serial::check::{Done, Judgement, judge};
use crate::serial::model::{Act, DATABASES, KEYS, Maker, State};
use crate::value::Value;
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// Commands of one client in a round.
const ACTS: usize = 8;
/// Commands that a client sends without waiting for answers, at most.
const PIPELINE: usize = 4;

/// A client and the database it is in.
struct Client {
    connection: Connection,
    db: usize,
}

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rounds played.
    pub rounds: u64,
    /// Commands in them.
    pub commands: u64,
    /// Pairs of commands that overlapped in time: without any, a run proves nothing.
    pub overlaps: u64,
    /// Rounds with too many orders to try.
    pub undecided: u64,
}

/// Clients of one server.
pub struct Players {
    clients: Vec<Client>,
    state: State,
    clock: Instant,
    maker: Maker,
    /// What was done so far.
    pub counts: Counts,
}

impl Players {
    /// Connects `clients` clients, every third to database 1, and empties the server.
    pub fn new(address: &str, clients: usize, seed: u64) -> Result<Players, Fault> {
        let mut players = Players {
            clients: Vec::new(),
            state: State::default(),
            clock: Instant::now(),
            maker: Maker::new(seed),
            counts: Counts::default(),
        };
        for number in 0..clients.max(DATABASES) {
            let mut connection = Connection::open(address, Resp::Two)?;
            let db = usize::from(number % 3 == 1);
            connection.command(&["SELECT", &db.to_string()])?;
            players.clients.push(Client { connection, db });
        }
        players.clients[0].connection.command(&["FLUSHALL"])?;
        Ok(players)
    }

    /// One round. `Ok(Some(_))`: the text of a history that no order explains.
    pub fn round(&mut self) -> Result<Option<String>, Fault> {
        let begin = self.state.clone();
        let mut history = self.play()?;
        self.counts.rounds += 1;
        self.counts.commands += history.iter().map(|client| client.len() as u64).sum::<u64>();
        self.counts.overlaps += overlaps(&history);
        self.read_all(&mut history)?;
        match judge(&begin, &history) {
            Judgement::Serial => Ok(None),
            Judgement::Undecided => {
                self.counts.undecided += 1;
                Ok(None)
            }
            Judgement::Broken(farthest) => Ok(Some(describe(&begin, &history, &farthest))),
        }
    }

    fn play(&mut self) -> Result<Vec<Vec<Done>>, Fault> {
        let scripts: Vec<Vec<Vec<Act>>> =
            self.clients.iter().map(|_| script(&mut self.maker)).collect();
        let start = Arc::new(Barrier::new(self.clients.len()));
        let clock = self.clock;
        std::thread::scope(|threads| {
            let players: Vec<_> = self
                .clients
                .iter_mut()
                .zip(scripts)
                .map(|(client, script)| {
                    let start = Arc::clone(&start);
                    threads.spawn(move || {
                        start.wait();
                        client.play(script, clock)
                    })
                })
                .collect();
            let join = |player: std::thread::ScopedJoinHandle<'_, _>| {
                player.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            players.into_iter().map(join).collect()
        })
    }

    /// Reads every key of every database; nobody else sends anything.
    fn read_all(&mut self, history: &mut [Vec<Done>]) -> Result<(), Fault> {
        let clock = self.clock;
        for db in 0..DATABASES {
            let number = self.clients.iter().position(|client| client.db == db).unwrap_or(0);
            let script = vec![vec![Act::MGet((0..KEYS).collect())]];
            let read = self.clients[number].play(script, clock)?;
            if let Some(Done { answer: Value::Array(values), .. }) = read.first() {
                for (key, value) in values.iter().take(KEYS).enumerate() {
                    self.state.values[db][key] = match value {
                        Value::Bulk(text) => Some(text.clone()),
                        _ => None,
                    };
                }
            }
            history[number].extend(read);
        }
        Ok(())
    }
}

impl Client {
    /// Sends each batch at once, and hears all its answers before the next.
    fn play(&mut self, script: Vec<Vec<Act>>, clock: Instant) -> Result<Vec<Done>, Fault> {
        let now = || u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut history = Vec::new();
        for batch in script {
            let bytes: Vec<u8> = batch.iter().flat_map(|act| encode(&act.words())).collect();
            let sent = now();
            self.connection.send(&bytes);
            for act in batch {
                let answer = self.connection.receive()?;
                history.push(Done { db: self.db, act, answer, sent, heard: now() });
            }
        }
        Ok(history)
    }
}

/// What one client does in a round, in batches.
fn script(maker: &mut Maker) -> Vec<Vec<Act>> {
    let mut left = ACTS;
    let mut batches = Vec::new();
    while left > 0 {
        let length = left.min(1 + maker.random().below(PIPELINE));
        batches.push((0..length).map(|_| maker.act()).collect());
        left -= length;
    }
    batches
}

/// Pairs of commands of different clients that were under way at the same time.
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

/// A history for people: by the time of sending; a star before what could be put in order.
fn describe(begin: &State, history: &[Vec<Done>], farthest: &[usize]) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let zero = history.iter().flatten().map(|done| done.sent).min().unwrap_or(0);
    for (client, dones) in history.iter().enumerate() {
        for (number, done) in dones.iter().enumerate() {
            let star = if number < farthest[client] { '*' } else { ' ' };
            let words = done.act.words();
            let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
            let line = format!(
                "{star} client {client} db {} {:>9} .. {:>9} ns  {}  ->  {}",
                done.db,
                done.sent - zero,
                done.heard - zero,
                words.join(" "),
                crate::render::line(&done.answer),
            );
            lines.push((done.sent, line));
        }
    }
    lines.sort();
    let mut text = String::from("no order of these commands explains the answers\nbegins with:\n");
    for (db, keys) in begin.values.iter().enumerate() {
        for (key, value) in keys.iter().enumerate() {
            if let Some(value) = value {
                text += &format!("  db {db} key:{key} = {}\n", value.escape_ascii());
            }
        }
    }
    for (_, line) in lines {
        text += &line;
        text.push('\n');
    }
    text
}
