//! LATENCY: spikes of latency, by event.
//!
//! `fast-command` is the event of commands that promise constant or logarithmic time, `command`
//! that of the others; the rest is in [`Chore`]. Each event keeps its newest [`KEPT`] spikes, at
//! most one a second (the highest).

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_base::clock::unix_us;
use pantala_commands::{Command, Flags};
use parking_lot::Mutex;

/// How many spikes an event keeps.
pub const KEPT: usize = 160;

/// One spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySpike {
    /// When it happened (Unix, seconds).
    pub unix_s: i64,
    /// Its duration, in milliseconds.
    pub took_ms: u64,
}

/// The spikes of one event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The newest spikes, oldest first.
    pub spikes: VecDeque<LatencySpike>,
    /// The highest spike so far, in milliseconds.
    pub highest_ms: u64,
    /// The sum of all spikes so far, in milliseconds.
    pub sum_ms: u64,
    /// The number of spikes so far.
    pub count: u64,
}

impl Event {
    fn add(&mut self, spike: LatencySpike) {
        self.highest_ms = self.highest_ms.max(spike.took_ms);
        self.sum_ms = self.sum_ms.saturating_add(spike.took_ms);
        self.count += 1;
        match self.spikes.back_mut() {
            Some(last) if last.unix_s == spike.unix_s => {
                last.took_ms = last.took_ms.max(spike.took_ms);
            }
            _ => {
                if self.spikes.len() == KEPT {
                    self.spikes.pop_front();
                }
                self.spikes.push_back(spike);
            }
        }
    }
}

/// Work of the server beside commands, by Valkey's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Making room for one window of commands.
    EvictionCycle,
    /// Part of that: evicting some keys of some partitions.
    EvictionDel,
    /// One round of the sweep, which delays no client.
    ExpireCycle,
    /// Part of that: the longest time for which it held a partition.
    ExpireDel,
}

impl Chore {
    fn name(self) -> &'static str {
        match self {
            Chore::EvictionCycle => "eviction-cycle",
            Chore::EvictionDel => "eviction-del",
            Chore::ExpireCycle => "expire-cycle",
            Chore::ExpireDel => "expire-del",
        }
    }
}

/// The latency spikes of LATENCY: for each event the newest ones, above a threshold in
/// milliseconds.
#[derive(Default)]
pub struct LatencyMonitor {
    /// In milliseconds; 0: nothing is recorded.
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl LatencyMonitor {
    /// Sets `latency-monitor-threshold`.
    pub fn configure(&self, threshold_ms: u64) {
        self.threshold_ms.store(threshold_ms, Ordering::Relaxed);
    }

    /// Records a command if it took long.
    #[inline]
    pub fn note(&self, row: &Command, took_us: u64) {
        if self.is_long(took_us) {
            let is_fast = row.flags.intersects(Flags::FAST);
            self.add(if is_fast { "fast-command" } else { "command" }, took_us / 1000);
        }
    }

    /// Records work beside commands if it took long.
    #[inline]
    pub fn note_chore(&self, chore: Chore, took_us: u64) {
        if self.is_long(took_us) {
            self.add(chore.name(), took_us / 1000);
        }
    }

    #[inline]
    fn is_long(&self, took_us: u64) -> bool {
        let threshold_ms = self.threshold_ms.load(Ordering::Relaxed);
        threshold_ms > 0 && took_us / 1000 >= threshold_ms
    }

    #[cold]
    fn add(&self, name: &'static str, took_ms: u64) {
        let spike = LatencySpike { unix_s: unix_us() / 1_000_000, took_ms };
        let mut events = self.events.lock();
        events.entry(name).or_default().add(spike);
    }

    /// All events, by name.
    pub fn all(&self) -> BTreeMap<&'static str, Event> {
        self.events.lock().clone()
    }

    /// One event.
    pub fn event(&self, name: &[u8]) -> Option<Event> {
        let events = self.events.lock();
        events.get(std::str::from_utf8(name).ok()?).cloned()
    }

    /// Drops these events, or all of them; returns how many there were.
    pub fn forget(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        let is_meant = |name: &str| names.is_empty() || names.contains(&name.as_bytes());
        events.retain(|name, _| !is_meant(name));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_as_the_threshold_is_kept() {
        let monitor = LatencyMonitor::default();
        monitor.note_chore(Chore::EvictionCycle, u64::MAX);
        assert!(monitor.all().is_empty(), "it is off");
        monitor.configure(5);
        let took_us = [(Chore::EvictionCycle, 5_000), (Chore::EvictionDel, 4_999)];
        took_us.into_iter().for_each(|(chore, us)| monitor.note_chore(chore, us));
        monitor.note_chore(Chore::ExpireCycle, 7_000);
        monitor.note_chore(Chore::ExpireDel, 6_000);
        let names: Vec<&str> = monitor.all().into_keys().collect();
        assert_eq!(names, ["eviction-cycle", "expire-cycle", "expire-del"]);
        assert_eq!(monitor.event(b"eviction-cycle").map(|event| event.highest_ms), Some(5));
    }

    #[test]
    fn an_event_keeps_the_highest_of_each_second() {
        let mut event = Event::default();
        for (unix_s, took_ms) in [(1, 5), (1, 9), (1, 2), (2, 3)] {
            event.add(LatencySpike { unix_s, took_ms });
        }
        let kept: Vec<_> = event.spikes.iter().map(|spike| (spike.unix_s, spike.took_ms)).collect();
        assert_eq!(kept, [(1, 9), (2, 3)]);
        assert_eq!((event.highest_ms, event.sum_ms, event.count), (9, 19, 4));
        for unix_s in 3..1000 {
            event.add(LatencySpike { unix_s, took_ms: 1 });
        }
        assert_eq!(event.spikes.len(), KEPT);
    }
}
