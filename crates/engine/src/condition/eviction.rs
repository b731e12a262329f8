//! Making room: for how long keys are evicted, and when writes are refused instead.
//!
//! ```text
//! window of commands --> used > limit? --> evict for at most `budget` --> run them
//!                                            |  not yet enough: the sweeping thread goes on
//!                                            +- nothing may go: FULL, what needs memory is refused
//! ```
//!
//! Room is made before a window of commands runs, with nothing held. A little more is made than is
//! needed, so the next windows find some. So the limit is exceeded by what one window of each
//! worker allocates, and by a single command that allocates much; the window after it makes room
//! again.
//!
//! Invariants
//! 1. Nothing is evicted while the data must stay as it is: while it is loaded, or while clients
//!    are paused.
//! 2. A worker spends at most its budget here ([`budget_us`]) for each window.
//! 3. The journal's buffers are not counted, nor what a snapshot has copied and not written:
//!    evicting a key makes them larger, so one eviction would cause the next.
//! 4. Invalidations do not cause further evictions either. The bytes to free are fixed when a round
//!    begins, and the round ends when they are freed; the next round does not count the
//!    invalidations that tracking clients have just been sent.
//! 5. FULL means that there was nothing to evict. Eviction that takes longer is no reason to refuse
//!    a write.
//!
//! Not here: which keys go (`pantala_table`), in which order partitions have their turn
//! (`pantala_keyspace`). Tests: at the foot; `keyspace/tests/eviction.rs`; compat/bad_days.

use std::sync::atomic::{AtomicU64, Ordering};

use pantala_base::clock::{monotonic_us, unix_ms};
use pantala_journal::Recorder;
use pantala_keyspace::{Choice, DbIndex, First, PARTITION_COUNT, Scope, Tally};
use pantala_settings::Settings;
use pantala_settings::field::EvictionPolicy;

use crate::condition::states::States;
use crate::engine::Engine;
use crate::execute::Turn;
use crate::stats::latency_monitor::Chore;

/// One step of tenacity up to 10, in microseconds.
const STEP_US: u64 = 50;
/// Up to this tenacity the budget grows evenly; above, each step multiplies it by [`GROWTH`].
const EVEN_UP_TO: u32 = 10;
const GROWTH: f64 = 1.15;
/// The tenacity without a time limit.
const ENDLESS: u32 = 100;
/// This fraction of the limit (1/1024) is freed beyond what is needed, but at most so many bytes.
const SPARE_PART: u64 = 1024;
const MOST_SPARE_BYTES: u64 = 32 << 10;
/// The time that the sweeping thread spends on evicting before it does other work.
const BACKGROUND_US: u64 = 20_000;

/// The rules that follow from the memory settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRules {
    /// Bytes that may be used; 0: no limit.
    pub most_bytes: u64,
    /// Which keys are evicted, if any.
    pub choice: Option<Choice>,
    /// The longest time of one go, in microseconds.
    pub budget_us: u64,
}

impl MemoryRules {
    /// The rules of these settings.
    pub fn of(settings: &Settings) -> Self {
        MemoryRules {
            most_bytes: settings.memory_limit(),
            choice: choice_of(settings),
            budget_us: budget_us(settings.maxmemory_eviction_tenacity),
        }
    }

    /// Bytes that are freed beyond what is needed.
    fn spare_bytes(&self) -> u64 {
        (self.most_bytes / SPARE_PART).min(MOST_SPARE_BYTES)
    }
}

fn choice_of(settings: &Settings) -> Option<Choice> {
    if settings.import_mode {
        // In import mode, what a source has brought stays until the source removes it.
        return None;
    }
    let (first, only_deadlines) = match settings.maxmemory_policy {
        EvictionPolicy::NoEviction if settings.cache_mode => (First::Coldest, false),
        EvictionPolicy::NoEviction => return None,
        EvictionPolicy::AllkeysLru => (First::LeastRecent, false),
        EvictionPolicy::AllkeysLfu => (First::LeastFrequent, false),
        EvictionPolicy::VolatileLru => (First::LeastRecent, true),
        EvictionPolicy::VolatileLfu => (First::LeastFrequent, true),
        EvictionPolicy::AllkeysRandom => (First::Any, false),
        EvictionPolicy::VolatileRandom => (First::Any, true),
        EvictionPolicy::VolatileTtl => (First::Nearest, true),
    };
    Some(Choice { first, only_deadlines, in_need: false })
}

/// The time limit, as Valkey computes it: 500 us by default.
fn budget_us(tenacity: u32) -> u64 {
    if tenacity >= ENDLESS {
        return u64::MAX;
    }
    let even = STEP_US * u64::from(tenacity.min(EVEN_UP_TO));
    let above = tenacity.saturating_sub(EVEN_UP_TO);
    (even as f64 * GROWTH.powi(above.cast_signed())) as u64
}

/// The result of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionRoom {
    /// There is room.
    Made,
    /// There is more to evict: the time was over.
    Behind,
    /// There was nothing to evict.
    None,
}

/// The times for which memory was above its limit.
#[derive(Debug, Default)]
pub struct ExcessTime {
    since_us: AtomicU64,
    total_us: AtomicU64,
}

impl ExcessTime {
    /// Notes the result of making room.
    fn note(&self, room: EvictionRoom, now_us: u64) {
        if room != EvictionRoom::Made {
            let first = (0, now_us.max(1));
            let (still, since) = (Ordering::Relaxed, &self.since_us);
            let _is_known = since.compare_exchange(first.0, first.1, still, still);
        } else if self.since_us.load(Ordering::Relaxed) != 0 {
            let since_us = self.since_us.swap(0, Ordering::Relaxed);
            if since_us != 0 {
                self.total_us.fetch_add(now_us.saturating_sub(since_us), Ordering::Relaxed);
            }
        }
    }

    /// The total and the current duration, in milliseconds.
    pub fn total_and_current_ms(&self, now_us: u64) -> (u64, u64) {
        let since_us = self.since_us.load(Ordering::Relaxed);
        let current_us = if since_us == 0 { 0 } else { now_us.saturating_sub(since_us) };
        ((self.total_us.load(Ordering::Relaxed) + current_us) / 1000, current_us / 1000)
    }

    /// Resets the total, for CONFIG RESETSTAT.
    pub fn reset(&self) {
        self.total_us.store(0, Ordering::Relaxed);
        self.since_us.store(0, Ordering::Relaxed);
    }
}

impl Engine {
    /// Evicts until memory use is below the limit, for `budget_us` at most.
    pub fn make_room(&self, rules: MemoryRules, scope: Scope<'_>, budget_us: u64) -> EvictionRoom {
        let Some(choice) = rules.choice else { return EvictionRoom::None };
        let began_us = monotonic_us();
        let (mut idle_partitions, mut goal, mut now_us) = (0, None, began_us);
        let room = loop {
            let excess = self.excess_bytes(rules.most_bytes);
            let left = *goal.get_or_insert(excess.saturating_add(rules.spare_bytes()));
            if excess == 0 || left == 0 {
                break EvictionRoom::Made;
            }
            let wanted = left.min(excess.saturating_add(rules.spare_bytes()));
            let freed = self.space.evict(scope, choice, wanted.min(usize::MAX as u64) as usize);
            goal = Some(left.saturating_sub(freed.bytes as u64));
            match freed.candidates + freed.busy {
                0 => idle_partitions += freed.partitions,
                _ => idle_partitions = 0,
            }
            let is_idle = idle_partitions > 0 && self.space.has_nothing_to_evict();
            if idle_partitions >= PARTITION_COUNT || is_idle {
                break EvictionRoom::None;
            }
            let before_us = std::mem::replace(&mut now_us, monotonic_us());
            self.stats.latency_monitor.note_chore(Chore::EvictionDel, now_us - before_us);
            if now_us - began_us >= budget_us {
                let is_enough = self.excess_bytes(rules.most_bytes) == 0;
                break match self.space.has_nothing_to_evict() {
                    _ if is_enough => EvictionRoom::Made,
                    true => EvictionRoom::None,
                    false => EvictionRoom::Behind,
                };
            }
        };
        self.stats.latency_monitor.note_chore(Chore::EvictionCycle, now_us - began_us);
        self.condition.exceeded.note(room, now_us);
        room
    }

    /// Bytes in use for which nothing is evicted: garbage, data about to be written, and what
    /// clients are just being told.
    pub fn not_counted_bytes(&self) -> u64 {
        let told = self.condition.told.bytes(monotonic_us());
        self.space.pending_bytes() + self.unwritten_bytes() + told
    }

    /// Of these, bytes on their way to files or replicas: the journal, a snapshot's copies, and
    /// what slow replicas have yet to get.
    pub fn unwritten_bytes(&self) -> u64 {
        let buffers = self
            .stats
            .tallies
            .sum(|tally| tally.replica_bytes.get() + tally.replica_spare_bytes.get());
        let unsent = self.condition.memory.unsent() + buffers;
        self.journal.held_bytes() + self.space.unwritten_bytes() + unsent
    }

    /// How many bytes are used above the limit.
    fn excess_bytes(&self, most_bytes: u64) -> u64 {
        let most = self.condition.memory.most_evictable(most_bytes);
        self.condition.memory.used().saturating_sub(self.not_counted_bytes()).saturating_sub(most)
    }

    /// Evicts on the sweeping thread what workers have left over; whether there is more to evict.
    pub fn make_room_in_background(&self, tally: &Tally, recorder: &Recorder) -> bool {
        let rules = MemoryRules::of(&self.settings.current());
        if rules.choice.is_none() || self.keeps_data() || self.excess_bytes(rules.most_bytes) == 0 {
            return false;
        }
        let scope = Scope {
            space: &self.space,
            db: DbIndex(0),
            now: unix_ms(),
            tally,
            touch: false,
            sees_expired: false,
            recorder: Some(recorder),
        };
        let room = self.make_room(rules, scope, BACKGROUND_US);
        recorder.hand_over();
        room == EvictionRoom::Behind
    }

    /// Whether no key may be evicted now.
    fn keeps_data(&self) -> bool {
        keeps_data(self.condition.lasting.now()) || self.space.hides_expired()
    }
}

fn keeps_data(states: States) -> bool {
    states.intersects(KEEPS)
}

/// States in which nothing is evicted.
const KEEPS: States = States::LOADING
    .union(States::LOADING_BESIDE)
    .union(States::PAUSED_WRITES)
    .union(States::PAUSED_ALL)
    .union(States::UNLIMITED);

impl Turn<'_> {
    /// Makes room, if needed, before commands run and with nothing held. `since`: memory was
    /// checked when the turn began, and other commands have run since. Returns whether memory was
    /// full, so that keys may have gone.
    #[inline]
    pub fn look_at_memory(&mut self, since: bool) -> bool {
        if since && self.engine.is_full(self.limited.memory.most_bytes) {
            self.states = self.states.union(States::FULL);
        }
        let was_full = self.states.intersects(States::FULL);
        if was_full {
            self.meet_full();
        }
        was_full
    }

    #[cold]
    fn meet_full(&mut self) {
        let is_full = match self.limited.memory.choice {
            None => self.is_full(),
            Some(_) if keeps_data(self.states) => false,
            Some(_) => match self.evict() {
                // What other threads allocate meanwhile is left to the next window.
                EvictionRoom::Made => self.engine.condition.memory.is_group_full(),
                EvictionRoom::Behind => false,
                EvictionRoom::None => true,
            },
        };
        let rest = self.states.difference(States::FULL);
        self.states = if is_full { rest.union(States::FULL) } else { rest };
    }

    fn is_full(&self) -> bool {
        self.engine.is_full(self.limited.memory.most_bytes)
    }

    fn evict(&self) -> EvictionRoom {
        let rules = self.limited.memory;
        let room = self.engine.make_room(rules, self.plain_scope(), rules.budget_us);
        if room == EvictionRoom::Behind {
            self.engine.space.wake_sweeper();
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenacity_is_a_time() {
        let times = [0, 1, 10, 11, 20, 50, 99, 100].map(budget_us);
        assert_eq!(times[..5], [0, 50, 500, 575, 2022]);
        assert!(times[5] > 100_000 && times[6] > times[5], "{times:?}");
        assert_eq!(times[7], u64::MAX);
    }

    #[test]
    fn the_time_above_the_limit_is_summed() {
        let exceeded = ExcessTime::default();
        exceeded.note(EvictionRoom::Made, 1_000);
        exceeded.note(EvictionRoom::Behind, 2_000);
        exceeded.note(EvictionRoom::None, 5_000);
        assert_eq!(exceeded.total_and_current_ms(9_000), (7, 7));
        exceeded.note(EvictionRoom::Made, 12_000);
        exceeded.note(EvictionRoom::None, 20_000);
        assert_eq!(exceeded.total_and_current_ms(25_000), (15, 5));
        exceeded.reset();
        assert_eq!(exceeded.total_and_current_ms(30_000), (0, 0));
    }

    #[test]
    fn each_policy_is_a_choice() {
        let choice = |policy: &str| {
            let settings = Settings::defaults().with("maxmemory-policy", policy).unwrap();
            MemoryRules::of(&settings).choice.map(|choice| (choice.first, choice.only_deadlines))
        };
        assert_eq!(choice("noeviction"), None);
        assert_eq!(choice("allkeys-lru"), Some((First::LeastRecent, false)));
        assert_eq!(choice("allkeys-lfu"), Some((First::LeastFrequent, false)));
        assert_eq!(choice("volatile-lru"), Some((First::LeastRecent, true)));
        assert_eq!(choice("volatile-lfu"), Some((First::LeastFrequent, true)));
        assert_eq!(choice("allkeys-random"), Some((First::Any, false)));
        assert_eq!(choice("volatile-random"), Some((First::Any, true)));
        assert_eq!(choice("volatile-ttl"), Some((First::Nearest, true)));
    }

    #[test]
    fn while_data_is_imported_nothing_is_evicted() {
        let settings = Settings::defaults().with("maxmemory-policy", "allkeys-lru").unwrap();
        let settings = settings.with("import-mode", "yes").unwrap();
        assert_eq!(MemoryRules::of(&settings).choice, None);
    }

    #[test]
    fn cache_mode_evicts_and_has_a_limit() {
        let settings = Settings::defaults().with("cache_mode", "yes").unwrap();
        let rules = MemoryRules::of(&settings);
        assert_eq!(rules.choice.map(|choice| choice.first), Some(First::Coldest));
        assert!(rules.most_bytes > 0);
        let settings = settings.with("maxmemory", "100mb").unwrap();
        assert_eq!(MemoryRules::of(&settings).most_bytes, 100 << 20);
        assert!(settings.counts_uses());
        let settings = settings.with("maxmemory-policy", "allkeys-lru").unwrap();
        let choice = MemoryRules::of(&settings).choice;
        assert_eq!(choice.map(|choice| choice.first), Some(First::LeastRecent), "as it says");
    }
}
