//! The keys that are called most, from a sample that is always taken: about one command in
//! `hot-keys-sample`.
//!
//! ```text
//! a window's start --Draw: one in N--> its commands run one by one --finish--> each thread's notes
//! SampleReport::of <-- this minute and the one before, of all threads <-----------+
//! ```
//!
//! A window that is not drawn pays a multiplication and a comparison. All commands of one that is
//! drawn are noted, however many they are, so each command has the same chance. A noted call weighs
//! as many calls as it stands for: the weights of a key are an unbiased estimate of its calls.
//!
//! Invariants
//! 1. At most [`BOUNDS`] of keys are kept by a thread for each of two minutes.
//! 2. Threads that run commands never wait: while a thread's notes are being read, it notes
//!    nothing.
//! 3. A report ignores notes that are older than the minute before; a thread that has run nothing
//!    since may still keep such notes.
//! 4. A session of HOTKEYS neither sees nor changes any of this.
//!
//! Not here: the page (`admin/api/hot_keys.rs`). Tests: at the foot; the server's `tests/http`.

use std::collections::HashMap;
use std::mem::replace;

use pantala_commands::key_positions;
use parking_lot::Mutex;

use super::request_bytes;
use super::sketch::{Bounds, Sketch};
use crate::stats::tallies::{Tallies, ThreadTally};
use crate::stats::telemetry::FinishedCommand;

/// What a thread keeps of a minute.
const BOUNDS: Bounds = Bounds { keys: 256, key_bytes: 256 };
const MINUTE_US: u64 = 60_000_000;
/// Multiplied by this (2^64 divided by the golden ratio), times at any distance from each other
/// are spread evenly over all words.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which moments are drawn: about one in so many.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    one_in: u32,
    /// Moments whose product is above this are drawn.
    above: u64,
}

impl Draw {
    /// Draws one moment in so many; 0: none.
    pub fn new(one_in: u32) -> Draw {
        let share = u64::MAX.checked_div(u64::from(one_in)).unwrap_or(0);
        Draw { one_in, above: u64::MAX - share }
    }

    /// The sample that commands belong to which begin at this time (monotonic, microseconds), if
    /// the time is drawn. Time 0 never is: it means that the time is not known.
    #[inline]
    pub fn take(self, now_us: u64) -> Option<KeySample> {
        (now_us.wrapping_mul(SPREAD) > self.above).then(|| self.sample(now_us))
    }

    #[cold]
    fn sample(self, now_us: u64) -> KeySample {
        KeySample { one_in: self.one_in, minute: now_us / MINUTE_US }
    }
}

/// What a drawn moment's commands are noted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySample {
    /// How many commands each stands for.
    one_in: u32,
    /// The minute in which they are noted, counted by the monotonic clock.
    minute: u64,
}

/// The notes of one thread, which only it writes.
#[derive(Default)]
pub struct SampledByThread(Mutex<Option<Box<TwoMinutes>>>);

/// What one thread has noted in the last minute in which it noted something, and in the one before.
struct TwoMinutes {
    minute: u64,
    now: Minute,
    before: Minute,
}

/// The notes of a minute, by key; the weights are estimated calls.
type Minute = Sketch<Noted>;

/// What was noted of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    calls: u64,
    us: u64,
    bytes: u64,
}

impl TwoMinutes {
    fn new(minute: u64) -> Box<TwoMinutes> {
        Box::new(TwoMinutes { minute, now: Sketch::new(BOUNDS), before: Sketch::new(BOUNDS) })
    }

    /// The notes of a minute, which is the present one. (Threads read the clock apart: a minute
    /// before the last one counts as the last one.)
    fn at(&mut self, minute: u64) -> &mut Minute {
        if minute > self.minute {
            let last = replace(&mut self.now, Sketch::new(BOUNDS));
            let is_next = minute == self.minute + 1;
            self.before = if is_next { last } else { Sketch::new(BOUNDS) };
            self.minute = minute;
        }
        &mut self.now
    }

    /// The notes of this minute and the one before.
    fn of(&self, minute: u64) -> impl Iterator<Item = &Minute> {
        let both = [(self.minute, &self.now), (self.minute.wrapping_sub(1), &self.before)];
        let recent = both.into_iter().filter(move |(of, _)| of.abs_diff(minute) <= 1);
        recent.map(|(_, notes)| notes)
    }
}

impl ThreadTally {
    /// Notes the keys of a command that has run on this thread, in a drawn window.
    #[cold]
    pub fn sample_keys(&self, sample: KeySample, ended: FinishedCommand<'_>) {
        let FinishedCommand { found, args, took_us, reply_bytes } = ended;
        let positions = key_positions(found.row, args).unwrap_or_default();
        if positions.is_empty() {
            return;
        }
        let Some(mut notes) = self.sampled_keys.0.try_lock() else { return };
        let notes = notes.get_or_insert_with(|| TwoMinutes::new(sample.minute));
        let notes = notes.at(sample.minute);
        let count = positions.len() as u64;
        let (us, bytes) = (took_us / count, (request_bytes(args) + reply_bytes as u64) / count);
        for key in positions.iter().map(|&position| args[position]) {
            notes.add(key, u64::from(sample.one_in), |noted| {
                noted.calls += 1;
                noted.us += us;
                noted.bytes += bytes;
            });
        }
    }
}

/// The keys that are called most, estimated.
#[derive(Debug)]
pub struct SampleReport {
    /// The time that it covers, in microseconds: this minute so far and the one before.
    pub covers_us: u64,
    /// The estimated calls, a command with several keys counted once for each.
    pub calls: u64,
    /// The calls that were noted of the keys that are kept.
    pub noted: u64,
    /// Keys, those with most calls first.
    pub keys: Vec<SampledKey>,
}

/// One key of the sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledKey {
    /// The key.
    pub key: Box<[u8]>,
    /// The estimated calls.
    pub calls: u64,
    /// The calls that were noted,
    pub noted: u64,
    /// the sum of their times in microseconds,
    pub us: u64,
    /// and that of the bytes of their requests and replies.
    pub bytes: u64,
}

impl SampleReport {
    /// The report at this time (monotonic, microseconds), with at most so many keys. May wait for
    /// threads that note.
    pub fn of(tallies: &Tallies, now_us: u64, most_keys: usize) -> SampleReport {
        let minute = now_us / MINUTE_US;
        let since_us = minute.saturating_sub(1) * MINUTE_US;
        let mut report =
            SampleReport { covers_us: now_us - since_us, calls: 0, noted: 0, keys: Vec::new() };
        let mut gathered: HashMap<Box<[u8]>, (u64, Noted)> = HashMap::new();
        tallies.each(&mut |tally| {
            let notes = tally.sampled_keys.0.lock();
            for notes in notes.iter().flat_map(|notes| notes.of(minute)) {
                report.calls += notes.total();
                for (key, calls, noted) in notes.keys() {
                    report.noted += noted.calls;
                    gather(&mut gathered, key, calls, *noted);
                }
            }
        });
        let keys = gathered.into_iter().map(|(key, (calls, noted))| {
            let Noted { calls: noted, us, bytes } = noted;
            SampledKey { key, calls, noted, us, bytes }
        });
        report.keys = keys.collect();
        let order = |one: &SampledKey, two: &SampledKey| {
            two.calls.cmp(&one.calls).then_with(|| one.key.cmp(&two.key))
        };
        report.keys.sort_unstable_by(order);
        report.keys.truncate(most_keys);
        report
    }
}

fn gather(gathered: &mut HashMap<Box<[u8]>, (u64, Noted)>, key: &[u8], calls: u64, noted: Noted) {
    let Some((sum, all)) = gathered.get_mut(key) else {
        gathered.insert(key.into(), (calls, noted));
        return;
    };
    *sum += calls;
    all.calls += noted.calls;
    all.us += noted.us;
    all.bytes += noted.bytes;
}

#[cfg(test)]
mod tests {
    use pantala_commands::{Registry, families};

    use super::*;

    /// Notes a command, as one of so many in a minute.
    fn note(tally: &ThreadTally, (one_in, minute): (u32, u64), words: &str) {
        let registry = Registry::new(&[families::string::ROWS, families::connection::ROWS]);
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let found = registry.find_own(args[0]).expect("it is there");
        let ended = FinishedCommand { found, args: &args, took_us: 8, reply_bytes: 5 };
        tally.sample_keys(KeySample { one_in, minute }, ended);
    }

    /// Estimated calls and noted calls by key, at this minute.
    fn keys(tallies: &Tallies, minute: u64) -> Vec<(String, u64, u64)> {
        let report = SampleReport::of(tallies, minute * MINUTE_US, 3);
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        report.keys.iter().map(|one| (text(&one.key), one.calls, one.noted)).collect()
    }

    #[test]
    fn about_one_moment_in_so_many_is_drawn_at_any_pace() {
        let drawn = |one_in, step_us: u64| {
            let draw = Draw::new(one_in);
            (1..=200_000).filter(|turn| draw.take(turn * step_us).is_some()).count()
        };
        for step_us in [1, 7, 37, 89, 100, 233, 1_000, 4_181, 10_000, 1_000_000] {
            assert_eq!((drawn(0, step_us), drawn(1, step_us)), (0, 200_000));
            let (tenth, few) = (drawn(10, step_us), drawn(256, step_us));
            assert!((19_000..21_000).contains(&tenth), "{tenth} at {step_us}");
            assert!((700..860).contains(&few), "{few} at {step_us}");
        }
        assert_eq!(Draw::new(1).take(0), None);
        let sample = Draw::new(1).take(MINUTE_US * 3 - 1);
        assert_eq!(sample, Some(KeySample { one_in: 1, minute: 2 }));
    }

    #[test]
    fn a_call_weighs_what_it_stands_for_and_threads_are_added_up() {
        let tallies = Tallies::new(0);
        let (one, two) = (tallies.join(), tallies.join());
        note(&one, (256, 7), "GET a");
        note(&one, (256, 7), "PING");
        note(&one, (10, 7), "MGET a b");
        note(&two, (256, 7), "GET b");
        note(&two, (256, 7), "GET b");
        let report = SampleReport::of(&tallies, 7 * MINUTE_US + 5, 1);
        assert_eq!((report.covers_us, report.calls), (MINUTE_US + 5, 3 * 256 + 2 * 10));
        assert_eq!(report.noted, 5);
        // "*2\r\n$3\r\nGET\r\n$1\r\nb\r\n" and 5 bytes of reply; MGET has 8 bytes more.
        let b = SampledKey { key: (*b"b").into(), calls: 522, noted: 3, us: 20, bytes: 66 };
        assert_eq!(report.keys, [b]);
    }

    #[test]
    fn a_report_covers_this_minute_and_the_one_before() {
        let tallies = Tallies::new(0);
        let (one, idle) = (tallies.join(), tallies.join());
        note(&idle, (1, 3), "GET idle");
        note(&one, (1, 3), "GET old");
        note(&one, (1, 4), "GET new");
        // It has read the clock before the other command did.
        note(&one, (1, 3), "GET late");
        let [old, new, late, idle] =
            ["old", "new", "late", "idle"].map(|key| (String::from(key), 1, 1));
        assert_eq!(keys(&tallies, 3), [idle.clone(), late.clone(), new.clone()]);
        assert_eq!(keys(&tallies, 4).len(), 3);
        assert_eq!(SampleReport::of(&tallies, 4 * MINUTE_US, 9).keys.len(), 4);
        assert_eq!(keys(&tallies, 5), [late, new]);
        assert_eq!(keys(&tallies, 6), []);
        note(&one, (1, 9), "GET old");
        assert_eq!(keys(&tallies, 9), [old], "two minutes are forgotten at once");
        let first = SampleReport::of(&Tallies::new(0), 1_000, 9);
        assert_eq!((first.covers_us, first.calls), (1_000, 0), "the first minute has none before");
    }

    #[test]
    fn little_is_kept() {
        let tallies = Tallies::new(0);
        let tally = tallies.join();
        let long = "x".repeat(BOUNDS.key_bytes + 1);
        for number in 0..5_000 {
            note(&tally, (256, 1), &format!("GET {number}"));
            note(&tally, (256, 1), "GET hot");
            note(&tally, (256, 1), &format!("GET {long}"));
        }
        let report = SampleReport::of(&tallies, MINUTE_US, usize::MAX);
        assert!(report.keys.len() <= BOUNDS.keys, "{}", report.keys.len());
        assert_eq!(report.calls, 15_000 * 256);
        assert_eq!((&*report.keys[0].key, report.keys[0].noted), (&b"hot"[..], 5_000));
    }
}
