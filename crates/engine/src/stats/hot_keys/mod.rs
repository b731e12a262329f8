//! HOTKEYS: the keys that cost most, by the time of their commands and by the bytes transferred.
//! And, at any time, the keys that are called most, from a sample.
//!
//! ```text
//! HOTKEYS START --> Plan (one atomic word) --> each turn reads it --> each thread: KeySightings
//! HOTKEYS GET   <-- the sum over all threads <---------------------------------------+
//! ```
//!
//! While no session runs, a turn costs one relaxed load of a word that is not written. While one
//! runs, commands run one by one, each with its own clock reads, and each thread notes what its own
//! commands have cost.
//!
//! Invariants
//! 1. What a thread has noted belongs to the session whose number it carries; for any other session
//!    it counts nothing, and the thread starts over when it meets another number.
//! 2. Threads that run commands never wait: while a thread's notes are being read, it counts
//!    nothing.
//! 3. A session with an end counts nothing after it, whichever thread notices.
//!
//! | file | what |
//! |---|---|
//! | here | the session, and the notes of all threads together |
//! | `sketch` | keys and their weights in bounded memory |
//! | `sample` | the sample that is always taken, without a session |
//!
//! Not here: the command (`operator/diagnosis/hotkeys.rs`). Tests: at the foot, in `sketch`; the
//! transcript `server/hotkeys.txt`.

pub mod sample;
mod sketch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pantala_base::UnixMs;
use pantala_base::number::digit_count;
use pantala_base::rng::Rng;
use pantala_commands::{CommandRef, key_positions};
use parking_lot::{Mutex, MutexGuard};

use self::sketch::{Bounds, Sketch};
use super::tallies::{Tallies, ThreadTally};

/// The largest ratio of sampling.
pub const MOST_RATIO: u32 = i32::MAX as u32;
/// What a thread keeps of a session, for each metric.
const BOUNDS: Bounds = Bounds { keys: 1024, key_bytes: 1024 };

/// What is tracked, in one word: two bits for the metrics, 31 for the ratio, the others for the
/// number of the session. Zero: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan(u64);

/// Which costs are added up for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The time of commands.
    pub cpu: bool,
    /// Bytes of requests and replies.
    pub net: bool,
}

impl Plan {
    /// Nothing is tracked.
    pub const OFF: Plan = Plan(0);

    fn new(metrics: Metrics, ratio: u32, number: u32) -> Plan {
        let bits = u64::from(metrics.cpu) | u64::from(metrics.net) << 1;
        Plan(bits | u64::from(ratio.min(MOST_RATIO)) << 2 | u64::from(number) << 33)
    }

    /// Whether something is tracked.
    #[inline]
    pub fn is_on(self) -> bool {
        self != Plan::OFF
    }

    /// The costs that are tracked.
    pub fn metrics(self) -> Metrics {
        Metrics { cpu: self.0 & 1 != 0, net: self.0 & 2 != 0 }
    }

    /// One in this many commands is sampled.
    pub fn ratio(self) -> u32 {
        (self.0 >> 2) as u32 & MOST_RATIO
    }
}

/// The parameters of a session.
#[derive(Clone, Copy, Debug)]
pub struct HotKeysRequest {
    /// The costs that are tracked.
    pub metrics: Metrics,
    /// How many keys are reported.
    pub count: usize,
    /// One in this many commands is sampled.
    pub ratio: u32,
    /// Its duration in milliseconds; `None`: until it is stopped.
    pub lasts_ms: Option<i64>,
    /// The CPU time of the process when it began, in user mode and in the kernel, in milliseconds.
    pub cpu_ms: [u64; 2],
}

/// A session that runs or has ended.
#[derive(Clone, Copy, Debug)]
struct Session {
    wanted: HotKeysRequest,
    plan: Plan,
    began: UnixMs,
    ended: Option<UnixMs>,
}

/// The session of HOTKEYS that runs, or the last one; shared by all threads.
#[derive(Default)]
pub struct HotKeys {
    plan: AtomicU64,
    /// When it ends by itself (Unix, milliseconds).
    until_ms: AtomicI64,
    session: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    session: Option<Session>,
    /// The number of sessions so far.
    count: u32,
}

impl Current {
    fn is_running(&self) -> bool {
        self.session.is_some_and(|session| session.ended.is_none())
    }
}

/// The error: a session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotKeySession;

impl HotKeys {
    /// The plan for a turn that begins now.
    #[inline]
    pub fn plan(&self, now: UnixMs) -> Plan {
        match self.plan.load(Ordering::Relaxed) {
            0 => Plan::OFF,
            word if now.0 < self.until_ms.load(Ordering::Relaxed) => Plan(word),
            _ => Plan::OFF,
        }
    }

    fn current(&self, now: UnixMs) -> MutexGuard<'_, Current> {
        let mut current = self.session.lock();
        if let Some(session) = &mut current.session
            && session.ended.is_none()
            && let Some(end) = session.wanted.lasts_ms.map(|ms| UnixMs(session.began.0 + ms))
            && end <= now
        {
            session.ended = Some(end);
            self.plan.store(0, Ordering::Relaxed);
        }
        current
    }

    /// Whether a session runs.
    pub fn is_running(&self, now: UnixMs) -> bool {
        self.current(now).is_running()
    }

    /// Begins a session, in place of one that has ended.
    ///
    /// # Errors
    /// A session runs.
    pub fn start(&self, wanted: HotKeysRequest, now: UnixMs) -> Result<(), HotKeySession> {
        let mut current = self.current(now);
        if current.is_running() {
            return Err(HotKeySession);
        }
        // Never zero, so that no plan's word is zero.
        current.count = current.count % MOST_RATIO + 1;
        let plan = Plan::new(wanted.metrics, wanted.ratio, current.count);
        current.session = Some(Session { wanted, plan, began: now, ended: None });
        let until_ms = wanted.lasts_ms.map_or(i64::MAX, |ms| now.0 + ms);
        self.until_ms.store(until_ms, Ordering::Relaxed);
        self.plan.store(plan.0, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the session; false if none runs.
    pub fn stop(&self, now: UnixMs) -> bool {
        let mut current = self.current(now);
        let running = current.session.as_mut().filter(|session| session.ended.is_none());
        let Some(session) = running else { return false };
        session.ended = Some(now);
        self.plan.store(0, Ordering::Relaxed);
        true
    }

    /// Drops a session that has ended, and its notes. May wait for threads that count.
    ///
    /// # Errors
    /// It still runs.
    pub fn reset(&self, now: UnixMs, tallies: &Tallies) -> Result<(), HotKeySession> {
        let mut current = self.current(now);
        if current.is_running() {
            return Err(HotKeySession);
        }
        current.session = None;
        tallies.each(&mut |tally| *tally.hot_keys.lock() = None);
        Ok(())
    }

    /// The report of the session, if there is one. May wait for threads that count.
    pub fn report(&self, now: UnixMs, tallies: &Tallies) -> Option<HotKeysReport> {
        let session = self.current(now).session?;
        let Session { wanted, plan, began, ended } = session;
        let mut report = HotKeysReport {
            is_active: ended.is_none(),
            ratio: plan.ratio(),
            began,
            lasted_ms: ended.unwrap_or(now).0.saturating_sub(began.0).max(0),
            cpu_ms: wanted.cpu_ms,
            all_us: 0,
            all_bytes: 0,
            cpu: wanted.metrics.cpu.then(Heaviest::default),
            net: wanted.metrics.net.then(Heaviest::default),
        };
        tallies.each(&mut |tally| {
            let seen = tally.hot_keys.lock();
            if let Some(seen) = seen.as_deref().filter(|seen| seen.plan == plan) {
                report.add(seen);
            }
        });
        let heaviest = [&mut report.cpu, &mut report.net].into_iter().flatten();
        heaviest.for_each(|heaviest| heaviest.sort(wanted.count));
        Some(report)
    }
}

/// The notes of all threads on a session.
#[derive(Debug)]
pub struct HotKeysReport {
    /// Whether it still runs.
    pub is_active: bool,
    /// One in this many commands was sampled.
    pub ratio: u32,
    /// When it began.
    pub began: UnixMs,
    /// Its duration so far, in milliseconds.
    pub lasted_ms: i64,
    /// The CPU time of the process when it began, in user mode and in the kernel, in milliseconds.
    pub cpu_ms: [u64; 2],
    /// The total time of commands with keys, in microseconds.
    pub all_us: u64,
    /// The total bytes of commands with keys.
    pub all_bytes: u64,
    /// Keys by the time of their commands, in microseconds.
    pub cpu: Option<Heaviest>,
    /// Keys by the bytes of their commands.
    pub net: Option<Heaviest>,
}

impl HotKeysReport {
    fn add(&mut self, seen: &KeySightings) {
        self.all_us += seen.all_us;
        self.all_bytes += seen.all_bytes;
        let both = [(&mut self.cpu, &seen.cpu), (&mut self.net, &seen.net)];
        for (heaviest, sketch) in both {
            if let Some(heaviest) = heaviest {
                heaviest.add(sketch);
            }
        }
    }
}

/// The heaviest keys.
#[derive(Debug, Default)]
pub struct Heaviest {
    /// The total weight of all sampled keys.
    pub total: u64,
    /// Keys and weights, the heaviest first.
    pub keys: Vec<(Box<[u8]>, u64)>,
    gathered: HashMap<Box<[u8]>, u64>,
}

impl Heaviest {
    fn add(&mut self, sketch: &Sketch) {
        self.total += sketch.total();
        for (key, weight, ()) in sketch.keys() {
            match self.gathered.get_mut(key) {
                Some(sum) => *sum += weight,
                None => drop(self.gathered.insert(key.into(), weight)),
            }
        }
    }

    fn sort(&mut self, count: usize) {
        self.keys = self.gathered.drain().collect();
        self.keys.sort_unstable_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
        self.keys.truncate(count);
    }
}

/// The notes of one thread, which only it writes.
#[derive(Default)]
pub struct SeenByThread(Mutex<Option<Box<KeySightings>>>);

impl SeenByThread {
    fn lock(&self) -> MutexGuard<'_, Option<Box<KeySightings>>> {
        self.0.lock()
    }
}

/// The notes of one thread; see [`SeenByThread`].
struct KeySightings {
    plan: Plan,
    random: Rng,
    all_us: u64,
    all_bytes: u64,
    cpu: Sketch,
    net: Sketch,
}

impl KeySightings {
    fn of(plan: Plan) -> Box<KeySightings> {
        let (cpu, net) = (Sketch::new(BOUNDS), Sketch::new(BOUNDS));
        Box::new(KeySightings { plan, random: Rng::random(), all_us: 0, all_bytes: 0, cpu, net })
    }
}

/// The cost of a command.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Its duration, in microseconds.
    pub us: u64,
    /// The size of its reply.
    pub reply_bytes: usize,
}

impl ThreadTally {
    /// Notes a command that has run on this thread.
    #[cold]
    pub fn note_keys(&self, plan: Plan, found: CommandRef, args: &[&[u8]], cost: Cost) {
        let positions = key_positions(found.row, args).unwrap_or_default();
        if positions.is_empty() {
            return;
        }
        let Some(mut seen) = self.hot_keys.0.try_lock() else { return };
        let seen = match &mut *seen {
            Some(seen) if seen.plan == plan => seen,
            other => other.insert(KeySightings::of(plan)),
        };
        let bytes = request_bytes(args) + cost.reply_bytes as u64;
        seen.all_us += cost.us;
        seen.all_bytes += bytes;
        if plan.ratio() > 1 && seen.random.below(u64::from(plan.ratio())) > 0 {
            return;
        }
        let (metrics, count) = (plan.metrics(), positions.len() as u64);
        for key in positions.iter().map(|&position| args[position]) {
            if metrics.cpu {
                seen.cpu.add(key, cost.us / count, |()| {});
            }
            if metrics.net {
                seen.net.add(key, bytes / count, |()| {});
            }
        }
    }
}

/// The size of a request in RESP.
fn request_bytes(args: &[&[u8]]) -> u64 {
    // A marker, the digits of a length, and the end of the line.
    let header = |number: usize| 3 + digit_count(number as u64);
    let each = args.iter().map(|arg| header(arg.len()) + arg.len() + 2);
    (header(args.len()) + each.sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    use pantala_commands::{Registry, families};

    use super::*;

    const BOTH: Metrics = Metrics { cpu: true, net: true };

    fn wanted(metrics: Metrics) -> HotKeysRequest {
        HotKeysRequest { metrics, count: 2, ratio: 1, lasts_ms: None, cpu_ms: [0, 0] }
    }

    /// A thread that has run some commands: their words, and how long they took.
    fn run(tally: &ThreadTally, plan: Plan, commands: &[(&str, u64)]) {
        let registry = Registry::new(&[families::string::ROWS, families::connection::ROWS]);
        for (words, us) in commands {
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let found = registry.find_own(args[0]).expect("it is there");
            tally.note_keys(plan, found, &args, Cost { us: *us, reply_bytes: 5 });
        }
    }

    fn keys(heaviest: Option<Heaviest>) -> Vec<(String, u64)> {
        let text = |key: Box<[u8]>| String::from_utf8_lossy(&key).into_owned();
        let keys = heaviest.map(|heaviest| heaviest.keys).unwrap_or_default();
        keys.into_iter().map(|(key, weight)| (text(key), weight)).collect()
    }

    #[test]
    fn a_plan_is_one_word() {
        for (metrics, ratio, number) in [(BOTH, MOST_RATIO, 1), (BOTH, 1, MOST_RATIO)] {
            let plan = Plan::new(metrics, ratio, number);
            assert_eq!(
                (plan.metrics(), plan.ratio(), plan.0 >> 33),
                (metrics, ratio, number.into())
            );
        }
        assert!(!Plan::OFF.is_on());
    }

    #[test]
    fn threads_are_added_up() {
        let (hot_keys, tallies) = (HotKeys::default(), Tallies::new(0));
        let (one, two) = (tallies.join(), tallies.join());
        assert_eq!(hot_keys.start(wanted(BOTH), UnixMs(1_000)), Ok(()));
        let plan = hot_keys.plan(UnixMs(1_000));
        run(&one, plan, &[("GET a", 7), ("MGET a b", 10), ("PING", 100)]);
        run(&two, plan, &[("GET b", 20), ("GET c", 1)]);
        let report = hot_keys.report(UnixMs(1_500), &tallies).expect("a session");
        assert_eq!((report.is_active, report.lasted_ms, report.all_us), (true, 500, 38));
        // "*2\r\n$3\r\nGET\r\n$1\r\na\r\n" and 5 bytes of reply; MGET has 8 bytes more.
        assert_eq!(report.all_bytes, 3 * (20 + 5) + 28 + 5);
        assert_eq!(report.net.as_ref().map(|net| net.total), Some(3 * 25 + 2 * 16));
        assert_eq!(keys(report.cpu), [("b".into(), 25), ("a".into(), 12)]);
        assert_eq!(keys(report.net), [("a".into(), 41), ("b".into(), 41)]);
    }

    #[test]
    fn a_session_ends_and_is_forgotten() {
        let (hot_keys, tallies) = (HotKeys::default(), Tallies::new(0));
        let (tally, cpu) = (tallies.join(), Metrics { cpu: true, net: false });
        assert!(!hot_keys.stop(UnixMs(0)));
        assert_eq!(hot_keys.start(wanted(cpu), UnixMs(1_000)), Ok(()));
        let plan = hot_keys.plan(UnixMs(1_000));
        run(&tally, plan, &[("GET a", 7)]);
        assert_eq!(hot_keys.start(wanted(cpu), UnixMs(1_001)), Err(HotKeySession));
        assert_eq!(hot_keys.reset(UnixMs(1_001), &tallies), Err(HotKeySession));
        assert!(hot_keys.stop(UnixMs(2_000)) && !hot_keys.stop(UnixMs(2_000)));
        assert!(!hot_keys.plan(UnixMs(2_000)).is_on());
        let report = hot_keys.report(UnixMs(9_000), &tallies).expect("a session");
        assert_eq!(
            (report.is_active, report.lasted_ms, report.net.is_some()),
            (false, 1_000, false)
        );
        assert_eq!(keys(report.cpu), [("a".into(), 7)]);
        assert_eq!(hot_keys.start(wanted(cpu), UnixMs(3_000)), Ok(()));
        let report = hot_keys.report(UnixMs(3_000), &tallies).expect("a session");
        assert_eq!(keys(report.cpu), [], "what was seen before");
        assert!(hot_keys.stop(UnixMs(3_000)));
        assert_eq!(hot_keys.reset(UnixMs(3_000), &tallies), Ok(()));
        assert!(hot_keys.report(UnixMs(3_000), &tallies).is_none());
    }

    #[test]
    fn a_session_ends_by_itself() {
        let (hot_keys, tallies) = (HotKeys::default(), Tallies::new(0));
        let wanted = HotKeysRequest { lasts_ms: Some(1_000), ..wanted(BOTH) };
        assert_eq!(hot_keys.start(wanted, UnixMs(5_000)), Ok(()));
        assert!(hot_keys.plan(UnixMs(5_999)).is_on() && !hot_keys.plan(UnixMs(6_000)).is_on());
        let report = hot_keys.report(UnixMs(9_000), &tallies).expect("a session");
        assert_eq!((report.is_active, report.lasted_ms), (false, 1_000));
        assert!(!hot_keys.stop(UnixMs(9_000)));
    }

    #[test]
    fn one_command_of_some_is_looked_at() {
        let (hot_keys, tallies) = (HotKeys::default(), Tallies::new(0));
        let tally = tallies.join();
        let wanted = HotKeysRequest { ratio: 10, ..wanted(BOTH) };
        assert_eq!(hot_keys.start(wanted, UnixMs(0)), Ok(()));
        run(&tally, hot_keys.plan(UnixMs(0)), &[("GET a", 1); 1000]);
        let report = hot_keys.report(UnixMs(0), &tallies).expect("a session");
        let seen = report.cpu.map_or(0, |cpu| cpu.total);
        assert!(report.all_us == 1000 && (20..400).contains(&seen), "{seen}");
    }
}
