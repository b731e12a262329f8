//! Tests of rings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pantala_base::rng::Rng;

use super::layout::{ENTRIES_AT, SLOT_WORDS, SLOTS_AT};
use super::*;
use crate::resp::command_bytes;
use crate::{Item, Journal, JournalReader, Recorder};

const IDENTITY: Identity = [1, 2, 3, 4];

/// Areas that outlive the tested code, as those of a file do.
#[derive(Clone)]
struct Kept(Arc<Vec<Arc<Vec<AtomicU64>>>>);

struct Part(Arc<Vec<AtomicU64>>);

impl AsRef<[AtomicU64]> for Part {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl AreaMemory for Part {}

impl AreaSource for Kept {
    fn place(&self, number: usize) -> Option<Area> {
        self.0.get(number + 1).map(|area| -> Area { Box::new(Part(Arc::clone(area))) })
    }

    fn release(&self, number: usize) {
        self.0[number + 1].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl Kept {
    fn new(areas: usize) -> Kept {
        let area = |count| Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let all = std::iter::once(HEAD_WORDS).chain(std::iter::repeat_n(AREA_WORDS, areas));
        Kept(Arc::new(all.map(area).collect()))
    }

    fn rings(&self) -> Arc<Rings> {
        let head: Area = Box::new(Part(Arc::clone(&self.0[0])));
        Arc::new(Rings::new(head, IDENTITY, Box::new(self.clone())))
    }

    fn bytes(&self) -> Vec<u8> {
        let words = self.0.iter().flat_map(|area| area.iter());
        words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
    }

    /// What would be left if the process died now, in words, and whether that is incomplete.
    fn left(&self) -> Option<(String, bool)> {
        let remains = RingRemains::read(&self.bytes(), &IDENTITY).ok()?;
        Some((words(&remains.commands), remains.is_cut))
    }
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn step(recorder: &Recorder, seen: Stamp, commands: &[&str]) -> Stamp {
    commands.iter().for_each(|word| recorder.record(0, &[word.as_bytes()]));
    let stamp = recorder.end_step(seen);
    recorder.hand_over();
    stamp
}

fn confirm(rings: &Rings, upto: Stamp) {
    rings.confirm(ConfirmedBytes { increment: 1, bytes: 10, upto });
}

#[test]
fn what_was_recorded_and_not_confirmed_is_left() {
    let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
    let (one, rings) = (journal.join(), kept.rings());
    journal.keep_in(Some(Arc::clone(&rings)));
    let two = journal.join();
    let a = step(&one, Stamp::first_of(5), &["a"]);
    assert_eq!(kept.left(), None, "nothing is confirmed");
    let b = step(&two, a, &["b", "c"]);
    step(&one, b, &["d"]);
    two.record_for_replicas(0, &[b"p"]);
    two.end_step(Stamp::first_of(9));
    two.hand_over();
    confirm(&rings, a);
    let all = ("SELECT 0 a MULTI b c EXEC d".to_owned(), false);
    assert_eq!(kept.left(), Some(all));
    confirm(&rings, b);
    assert_eq!(kept.left(), Some(("MULTI SELECT 0 b c EXEC d".to_owned(), false)));
    confirm(&rings, Stamp::first_of(20));
    assert_eq!(kept.left(), Some((String::new(), false)));
    assert_eq!(rings.missed(), 0);
}

#[test]
fn a_step_is_in_the_ring_before_its_partitions_are_free() {
    let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    let (one, two) = (journal.join(), journal.join());
    confirm(&rings, Stamp::first_of(1));
    one.record(0, &[b"a"]);
    let seen = one.end_step(Stamp::first_of(5));
    one.record(0, &[b"unfinished"]);
    // The other thread meets the first step, and answers.
    step(&two, seen, &["b"]);
    assert_eq!(kept.left(), Some(("SELECT 0 a b".to_owned(), false)));
    one.discard_step();
    one.hand_over();
    assert_eq!(kept.left(), Some(("SELECT 0 a b".to_owned(), false)));
}

/// Runs a command that changes something and is recorded as it came.
fn change(recorder: &Recorder, word: &str) {
    recorder.begin_command();
    recorder.note_change();
    let frame = format!("*1\r\n${}\r\n{word}\r\n", word.len());
    recorder.end_command(0, &[word.as_bytes()], frame.as_bytes());
}

#[test]
fn what_is_copied_from_the_client_s_bytes_is_in_the_ring_like_the_rest() {
    let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    journal.turn(true);
    let (one, none) = (journal.join(), Stamp::default());
    let mut reader = JournalReader::new(Arc::clone(&journal), 0);
    confirm(&rings, Stamp::first_of(1));
    // The first of a turn, and one behind it.
    change(&one, "a");
    one.end_step(Stamp::first_of(5));
    change(&one, "b");
    assert_eq!(kept.left(), Some(("SELECT 0 a".to_owned(), false)), "b has not ended");
    one.end_step(none);
    // Undone, and others of its length instead.
    change(&one, "x");
    one.discard_step();
    one.record(0, &[b"c"]);
    one.end_step(none);
    change(&one, "y");
    one.discard_step();
    change(&one, "d");
    one.end_step(none);
    // With another stamp; of several commands; behind what has expired.
    change(&one, "e");
    one.end_step(Stamp::first_of(9));
    change(&one, "f");
    change(&one, "g");
    one.end_step(none);
    one.record_lasting(0, &[b"gone"]);
    change(&one, "h");
    one.end_step(none);
    change(&one, "i");
    one.end_step(none);
    one.hand_over();
    let all = "SELECT 0 a b c d e MULTI f g EXEC MULTI gone h EXEC i";
    assert_eq!(kept.left(), Some((all.to_owned(), false)));
    let mut taken = Vec::new();
    reader.take_all(&mut |item: Item<'_>| {
        if let Item::Run(run) = item {
            taken.extend_from_slice(run.bytes);
        }
    });
    assert_eq!(words(&taken), all);
}

#[test]
fn a_ring_grows_while_nothing_is_confirmed_and_then_shrinks() {
    let (kept, journal) = (Kept::new(40), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    let one = journal.join();
    let mut reader = JournalReader::new(Arc::clone(&journal), 0);
    confirm(&rings, Stamp::first_of(1));
    // Some fit an area, some do not; the second word tells them apart.
    let long = |number: u64| format!("{number}{}", "x".repeat(1000 * (number as usize % 7 * 100)));
    for round in 1..4 {
        let (mut seen, mut wanted) = (Stamp::first_of(round * 1000), String::new());
        for number in 0..20 {
            seen = Stamp::first_of(step(&one, seen, &[&long(number), "y"]).time() + 1);
            wanted += &format!(" MULTI {} y EXEC", long(number));
            seen = Stamp::first_of(step(&one, seen, &["z"]).time() + 1);
            wanted += " z";
        }
        let (left, is_cut) = kept.left().expect("something was confirmed");
        let left = left.replacen(" SELECT 0", "", 1);
        assert!(left == wanted.trim_start() && !is_cut, "round {round}");
        assert_eq!(rings.missed(), 0);
        assert!(rings.bytes() > 20 * 8 * AREA_WORDS);
        confirm(&rings, seen);
        step(&one, Stamp::first_of(seen.time() + 1), &["small"]);
        assert_eq!(kept.left(), Some(("SELECT 0 small".to_owned(), false)));
        assert!(rings.bytes() <= 8 * (HEAD_WORDS + (MOST_SPARE_AREAS + 2) * AREA_WORDS));
        confirm(&rings, Stamp::first_of(seen.time() + 2));
    }
    reader.take_all(&mut |_: Item<'_>| {});
}

#[test]
fn a_thread_whose_steps_are_confirmed_stays_at_the_beginning_of_one_area() {
    let (kept, journal) = (Kept::new(1), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    let (one, text) = (journal.join(), "x".repeat(1000));
    for round in 1..1000 {
        let last = step(&one, Stamp::first_of(10 * round), &[&text]);
        confirm(&rings, Stamp::first_of(last.time() + 1));
    }
    let area = &kept.0[1][ENTRIES_AT..];
    assert!(area[200..].iter().all(|word| word.load(Ordering::Relaxed) == 0));
    assert_eq!(rings.missed(), 0);
}

#[test]
fn a_ring_tells_what_it_has_no_room_for() {
    let (kept, journal) = (Kept::new(4), Arc::new(Journal::with_clock(|| 0)));
    let (rings, long) = (kept.rings(), "x".repeat(300 << 10));
    journal.keep_in(Some(Arc::clone(&rings)));
    let (one, two) = (journal.join(), journal.join());
    let mut reader = JournalReader::new(Arc::clone(&journal), 0);
    confirm(&rings, Stamp::first_of(1));
    assert!(rings.is_complete());
    let mut last = Stamp::first_of(1000);
    for number in 0..5 {
        last = step(&two, Stamp::first_of(last.time() + 1), &[&number.to_string()]);
        last = step(&one, last, &[&long]);
    }
    assert!(rings.missed() > 0 && !rings.is_complete());
    let (left, is_cut) = kept.left().expect("something was confirmed");
    assert!(is_cut && left.ends_with("x 2") && !left.contains("x 3"), "a part to its beginning");
    // The missing steps are confirmed: everything after them counts again.
    confirm(&rings, Stamp::first_of(last.time() + 1));
    assert!(rings.is_complete());
    step(&one, Stamp::first_of(last.time() + 2), &["z"]);
    assert_eq!(kept.left(), Some(("SELECT 0 z".to_owned(), false)));
    reader.take_all(&mut |_: Item<'_>| {});
}

/// Has no room for the second area when it is asked for the first time.
struct Reluctant(Kept, AtomicBool);

impl AreaSource for Reluctant {
    fn place(&self, number: usize) -> Option<Area> {
        let refuses = number == 1 && !self.1.swap(true, Ordering::Relaxed);
        if refuses { None } else { self.0.place(number) }
    }

    fn release(&self, number: usize) {
        self.0.release(number);
    }
}

#[test]
fn a_step_that_found_room_in_part_does_not_spoil_the_others() {
    let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
    let source = Reluctant(kept.clone(), AtomicBool::new(false));
    let head: Area = Box::new(Part(Arc::clone(&kept.0[0])));
    let rings = Arc::new(Rings::new(head, IDENTITY, Box::new(source)));
    let long = "x".repeat(300 << 10);
    journal.keep_in(Some(Arc::clone(&rings)));
    let one = journal.join();
    confirm(&rings, Stamp::first_of(1));
    step(&one, Stamp::first_of(5), &["a"]);
    // One turn, and so one stamp.
    one.record(0, &[long.as_bytes()]);
    one.end_step(Stamp::first_of(9));
    confirm(&rings, Stamp::first_of(2));
    one.record(0, &[b"b"]);
    one.end_step(Stamp::default());
    one.hand_over();
    assert_eq!(rings.missed(), 1);
    assert_eq!(kept.left(), Some(("SELECT 0 a".to_owned(), true)));
}

#[test]
fn the_next_thread_goes_on_with_the_ring_of_the_last() {
    let (kept, journal) = (Kept::new(1), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    confirm(&rings, Stamp::first_of(1));
    let one = journal.join();
    let a = step(&one, Stamp::first_of(5), &["a"]);
    drop(one);
    step(&journal.join(), a, &["b"]);
    assert_eq!(kept.left(), Some(("SELECT 0 a b".to_owned(), false)));
    assert_eq!(rings.missed(), 0);
    journal.keep_in(None);
    step(&journal.join(), Stamp::first_of(9), &["c"]);
    assert_eq!(kept.left(), Some(("SELECT 0 a b".to_owned(), false)));
}

#[test]
fn what_has_no_ring_is_missing_until_it_is_confirmed() {
    let (kept, journal) = (Kept::new(1), Arc::new(Journal::with_clock(|| 0)));
    let (one, two) = (journal.join(), journal.join());
    let before = step(&one, Stamp::first_of(5), &["before"]);
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    confirm(&rings, before);
    let a = step(&one, before, &["a"]);
    assert_eq!(kept.left(), Some((String::new(), true)), "not without what came before");
    confirm(&rings, Stamp::first_of(before.time() + 1));
    let a = step(&one, Stamp::first_of(a.time() + 1), &["b"]);
    let lost = step(&two, a, &["lost"]);
    step(&one, lost, &["c"]);
    assert_eq!(kept.left(), Some(("SELECT 0 b".to_owned(), true)));
    confirm(&rings, Stamp::first_of(lost.time() + 1));
    step(&one, Stamp::first_of(lost.time() + 1), &["d"]);
    assert_eq!(kept.left(), Some(("SELECT 0 c d".to_owned(), false)), "c met what was lost");
}

#[test]
fn what_is_torn_damaged_or_of_others_is_not_read() {
    let (kept, journal) = (Kept::new(1), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    let one = journal.join();
    confirm(&rings, Stamp::first_of(1));
    step(&one, Stamp::first_of(5), &["a"]);
    let good = kept.bytes();
    assert_eq!(RingRemains::read(&good, &[1, 2, 3, 5]), Err(Unread::Others));
    assert_eq!(RingRemains::read(&good, &[1, 5, 3, 4]), Err(Unread::Nothing));
    assert_eq!(RingRemains::read(&good[..100], &IDENTITY), Err(Unread::Nothing));
    // Killed while it wrote the second slot: the first one holds.
    let mut torn = good.clone();
    let slot = (SLOTS_AT + SLOT_WORDS - SLOT_WORDS) * 8;
    torn[slot..slot + 8].copy_from_slice(&9u64.to_ne_bytes());
    assert_eq!(RingRemains::read(&torn, &IDENTITY), RingRemains::read(&good, &IDENTITY));
    // An entry that `head` does not cover is not there.
    let mut early = good.clone();
    early[HEAD_WORDS * 8..][..8].fill(0);
    assert_eq!(words(&RingRemains::read(&early, &IDENTITY).expect("read").commands), "");
    // No changed byte makes it read what is not there, or panic.
    for at in 0..HEAD_WORDS * 8 + 200 {
        let mut other = good.clone();
        other[at] ^= 0x41;
        let _whatever = RingRemains::read(&other, &IDENTITY);
    }
}

fn are_commands(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let rest = command_bytes(bytes).and_then(|length| bytes.get(length..));
        let Some(rest) = rest else { return false };
        bytes = rest;
    }
    true
}

/// Some entries of two threads, of all kinds.
fn filled() -> Vec<u8> {
    let (kept, journal) = (Kept::new(2), Arc::new(Journal::with_clock(|| 0)));
    let rings = kept.rings();
    journal.keep_in(Some(Arc::clone(&rings)));
    let threads = [journal.join(), journal.join()];
    confirm(&rings, Stamp::first_of(1));
    for round in 0..6 {
        let one = &threads[round % 2];
        step(one, Stamp::first_of(5 + round as u64), &["a", "bc"][..1 + round % 2]);
    }
    kept.bytes()
}

#[test]
fn whatever_words_are_there_it_ends_and_gives_whole_commands() {
    let (good, mut random) = (filled(), Rng::from_seed(7));
    // Words that mean something: of the head, of what rings begin with, of entries.
    let ring = |number: usize| HEAD_WORDS + number * AREA_WORDS;
    let places: Vec<usize> = [0, ring(0), ring(1)].iter().flat_map(|at| *at..at + 60).collect();
    let (mut read, mut damaged) = (0, 0);
    for _ in 0..2000 {
        let mut other = good.clone();
        for _ in 0..=random.below(3) {
            let at = 8 * places[random.below(places.len() as u64) as usize];
            let from = 8 * places[random.below(places.len() as u64) as usize];
            let word = match random.below(4) {
                0 => random.below(u64::MAX),
                1 => random.below(40),
                2 => u64::MAX - random.below(3),
                _ => u64::from_ne_bytes(good[from..from + 8].try_into().expect("eight")),
            };
            other[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        match RingRemains::read(&other, &IDENTITY) {
            Ok(remains) => {
                read += 1;
                assert!(are_commands(&remains.commands));
            }
            Err(unread) => damaged += usize::from(unread == Unread::Damaged),
        }
    }
    assert!(read > 0 && damaged > 0, "{read} were read, {damaged} were damaged");
}

#[test]
fn stamps_of_other_threads_or_out_of_order_are_damage() {
    let good = filled();
    let stamp_at = |ring: usize| 8 * (HEAD_WORDS + ring * AREA_WORDS + ENTRIES_AT);
    let (first, second) = (stamp_at(0), stamp_at(1));
    let mut twins = good.clone();
    twins.copy_within(second..second + 8, first);
    assert_eq!(RingRemains::read(&twins, &IDENTITY), Err(Unread::Damaged));
    let mut late = good.clone();
    late[first..first + 8].copy_from_slice(&Stamp::first_of(90).bits().to_ne_bytes());
    assert_eq!(RingRemains::read(&late, &IDENTITY), Err(Unread::Damaged));
}
