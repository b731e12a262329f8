//! Two and three servers in one thread's hands: the real ones, on simulated disks and a simulated
//! network, by seeds that replay.
//!
//! ```text
//! node       keyspace, commands, worker's connections, journal, stream, link, copies: the server's
//!            journal, worker, keeper of replicas: go on when the scheduler says so
//! pipe       a replica's link <--> a connection of its primary's worker: in pieces, late, cut
//! history    what the data is at each position, by a second reader of the stream
//! ```
//!
//! After each act (`check`):
//! 1. A replica's data is what its history says at its position, which is between two steps; and
//!    the bytes that it keeps are those of its primary.
//! 2. A replica goes on where it was when its primary has what it lacks, and never in another
//!    history than its own.
//! 3. WAIT confirms what so many replicas have; a replica that had it does not lose it when it
//!    becomes a primary. No replica says more than it has.
//! 4. Transfers between accounts leave their sum.
//! 5. Who takes over by FAILOVER has all that was written, unless that was forced. Who ends one as
//!    a replica has been replaced; who has been replaced does not go on as a primary by itself.
//!
//! And when all is healed all are equal.
//!
//! Broken on purpose it was found out, by some of the first hundred seeds unless they are named:
//!
//! | broken | what was seen |
//! |---|---|
//! | second history a byte short, or without end | needless copy; another history gone on with |
//! | PSYNC's id is not looked at | another history is gone on with |
//! | becoming a primary keeps the history's id, or records before it is fed | other data |
//! | a restarted primary keeps its history's id, or is a byte off | a history without an author |
//! | ACK counts bytes of half a step | a replica that says more than it has |
//! | WAIT counts who waits for its copy | a WAIT that lies |
//! | MULTI is cut as single commands | a position within a step, a sum that is not 0 |
//! | steps are left out of a batch | other data |
//! | half a step stays when a link ends | nodes that do not become equal |
//! | the copy's position is that before the last bytes | other data |
//! | a primary that follows does not end its stream | other bytes |
//! | the stream's database is not taken from the copy (seed 39) | other data |
//! | a replica's copy does not say that database (seeds 125, 175) | other data |
//!
//! With FAILOVER among the acts:
//!
//! | broken | what was seen |
//! |---|---|
//! | any replica is taken (seeds 23, 58, 83) | who takes over lacks what was written |
//! | who lacks something takes over without force (seed 661: an old file) | the same |
//! | writes go on | the same, and other data |
//! | writes are not resumed | a panic |
//! | given up, it stays a replica | nobody has the role |
//!
//! Where also the answer of who takes over is lost:
//!
//! | broken | what was seen |
//! |---|---|
//! | who has taken over is asked again, and is not believed (seeds 6, 18) | two have the role |
//!
//! Not found, for want of a way to meet it: a full copy that keeps the second history of before.
//!
//! `PANTALA_SIMULATOR=FROM..TO` runs those seeds instead of the first ones, and of a single one it
//! prints each act.
//!
//! | file | what |
//! |---|---|
//! | here | the scheduler, and the tests |
//! | `world` | its acts |
//! | `check` | what must hold |
//! | `node` | one server |
//! | `network` | its network and its time |
//! | `history` | what the data is to be |

mod check;
mod history;
mod network;
mod node;
mod world;

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::catch_unwind;

use self::world::{More, Outcome, World};

/// So many seeds are tried each time.
const SEEDS: Range<u64> = 0..100;
/// The seeds tried with FAILOVER among the acts.
const SWAP_SEEDS: Range<u64> = 0..50;
/// The seeds tried with FAILOVER among the acts, and answers to it that are lost.
const LOST_SEEDS: Range<u64> = 0..30;
const ACTS: usize = 250;
/// So many rounds it may take until all are equal.
const MOST_ROUNDS: usize = 200;

impl World {
    fn act(&mut self) -> Outcome {
        let number = self.pick(self.places.len());
        if self.node(number).is_none() {
            let starts = self.rng.below(4) == 0;
            self.note(format!("{number} is dead, starts {starts}"));
            return if starts { self.start(number) } else { Ok(()) };
        }
        let act = self.rng.below(100);
        self.note(format!("{number} act {act}"));
        match act {
            0..25 => self.write(number),
            25..40 => self.turn(number),
            40..50 => self.serve(number),
            50..55 => self.look(number),
            55..60 => {
                let accepts = self.rng.below(4) > 0;
                self.connect(number, accepts)
            }
            60..63 if self.is_primary(number) => self.wait(number),
            60..65 => self.tick(number),
            65..67 if !self.pipes.is_empty() => {
                let at = self.pick(self.pipes.len());
                self.cut(at);
                Ok(())
            }
            67..90 => self.deliver(),
            90..93 if self.more != More::Nothing => self.fail_over(number),
            90..96 => self.flow(),
            _ => self.change(number),
        }
    }

    /// Roles, lives, files.
    fn change(&mut self, number: usize) -> Outcome {
        let (what, other) = (self.rng.below(8), self.pick(self.places.len()));
        self.note(format!("{number} change {what}, {other}"));
        match what {
            0 | 1 if other != number => self.follow(number, other),
            2 => self.promote(number),
            3 => {
                let is_power = self.rng.below(2) == 0;
                self.kill(number, is_power)
            }
            4 => self.overrun(number),
            // A save would wait until the copy has come.
            _ if self.node(number).is_some_and(|node| node.is_receiving()) => Ok(()),
            _ => self.save(number),
        }
    }

    /// Some bytes arrive somewhere.
    fn deliver(&mut self) -> Outcome {
        if self.pipes.is_empty() {
            return Ok(());
        }
        let at = self.pick(self.pipes.len());
        let scale = [8, 64, 1_000, 100_000][self.pick(4)];
        let most = 1 + self.pick(scale);
        let to_primary = self.rng.below(2) == 0;
        self.note(format!("pipe {at} to primary {to_primary}: {most}"));
        match to_primary {
            true => self.deliver_to_primary(at, most)?,
            false => self.deliver_to_replica(at, most)?,
        }
        self.forget_pipes();
        Ok(())
    }

    /// For a while nothing is in the way of those who talk.
    fn flow(&mut self) -> Outcome {
        for _ in 0..3 {
            let most = 1 + self.pick(100_000);
            self.round(most)?;
        }
        Ok(())
    }

    /// Everybody has a turn.
    fn round(&mut self, most: usize) -> Outcome {
        for number in 0..self.places.len() {
            if self.node(number).is_some() {
                self.turn(number)?;
                self.look(number)?;
                self.serve(number)?;
                self.connect(number, true)?;
            }
        }
        for at in 0..self.pipes.len() {
            self.deliver_to_primary(at, most)?;
            self.deliver_to_replica(at, most)?;
        }
        self.forget_pipes();
        Ok(())
    }

    /// Everything is mended: all are to be equal.
    fn heal(&mut self) -> Outcome {
        let primary = self.pick(self.places.len());
        self.note(format!("heal, {primary} is the primary"));
        (0..self.places.len()).try_for_each(|number| self.end_failover(number))?;
        for number in 0..self.places.len() {
            if self.node(number).is_none() {
                self.start(number)?;
            }
        }
        // What a failover that was given up has asked for may be under way still.
        self.round(1 << 20)?;
        self.promote(primary)?;
        for number in (0..self.places.len()).filter(|number| *number != primary) {
            self.follow(number, primary)?;
        }
        for round in 0..MOST_ROUNDS {
            self.round(1 << 20)?;
            if round % 8 == 7 {
                (0..self.places.len()).try_for_each(|number| self.tick(number))?;
            }
            if self.are_equal(primary) {
                return Ok(());
            }
        }
        Err("healed, they do not become equal".into())
    }

    fn are_equal(&mut self, primary: usize) -> bool {
        let end = self.node(primary).map(|node| (node.history().id, node.history().end));
        let data = self.node(primary).map(|node| node.data().digest());
        (0..self.places.len()).filter(|number| *number != primary).all(|number| {
            let Some(node) = self.node(number) else { return false };
            let is_there = Some((node.history().id, node.history().end)) == end;
            is_there
                && node.replication().following.is_connected()
                && Some(node.data().digest()) == data
        })
    }
}

/// What a seed has tried, or where it went wrong.
fn run(
    seed: u64,
    more: More,
    shows: bool,
) -> Result<(BTreeMap<&'static str, u64>, Vec<String>), String> {
    let mut world = World::new(seed, 2 + (seed % 2) as usize, more)?;
    let (mut outcome, mut acts) = (Ok(()), 0);
    while acts < ACTS {
        outcome = world.act();
        acts += 1;
        world.note_positions();
        if shows {
            world.show();
        }
        if outcome.is_err() {
            break;
        }
    }
    let outcome = outcome.and_then(|()| world.heal());
    for number in 0..world.places.len() {
        world.kill(number, false)?;
    }
    match outcome {
        Ok(()) => Ok((world.counts, world.trace)),
        Err(why) => Err(format!("seed {seed}, after {acts} acts: {why}")),
    }
}

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("PANTALA_SIMULATOR") else { return usual };
    let (from, to) = text.split_once("..").expect("FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Runs all seeds; nothing may go wrong.
fn check_all(seeds: Range<u64>, more: More) -> BTreeMap<&'static str, u64> {
    let (mut faults, mut counts) = (Vec::new(), BTreeMap::new());
    for seed in seeds.clone() {
        let shows = seeds.end - seeds.start == 1;
        let ran = catch_unwind(|| run(seed, more, shows));
        match ran.unwrap_or_else(|_| Err(format!("seed {seed}: a panic"))) {
            Ok((tried, _)) => {
                tried.into_iter().for_each(|(what, more)| *counts.entry(what).or_insert(0) += more);
            }
            Err(why) => faults.push(why),
        }
    }
    println!("{counts:?}");
    let shown = &faults[..faults.len().min(10)];
    assert!(faults.is_empty(), "{} of {seeds:?}: {shown:#?}", faults.len());
    counts
}

#[test]
fn nodes_agree_whatever_happens_to_them() {
    check_all(seeds(SEEDS), More::Nothing);
}

#[test]
fn nodes_agree_after_roles_were_swapped() {
    let seeds = seeds(SWAP_SEEDS);
    let is_usual = seeds == SWAP_SEEDS;
    let counts = check_all(seeds, More::Failovers);
    assert!(!is_usual || counts.contains_key("failed over"), "{counts:?}");
}

#[test]
fn one_has_the_role_whatever_is_heard_of_it() {
    let seeds = seeds(LOST_SEEDS);
    let is_usual = seeds == LOST_SEEDS;
    let counts = check_all(seeds, More::LostAnswers);
    assert!(!is_usual || counts.contains_key("took over unheard"), "{counts:?}");
}

#[test]
fn a_seed_replays() {
    let more = |seed| if seed % 2 == 0 { More::Failovers } else { More::Nothing };
    let trace = |seed| run(seed, more(seed), false).expect("it goes well").1;
    for seed in [3, 14, 31, 36] {
        assert_eq!(trace(seed), trace(seed));
    }
}
