//! Counters that one thread writes and any thread may read.
//!
//! A [`Tally`] belongs to one worker or lane thread, which increments with a plain load and store,
//! on cache lines that no other thread writes. INFO adds up the tallies of all threads.
//!
//! Invariants
//! 1. A count is declared in one place, by [`counts!`](crate::counts), with its [`CountClass`]:
//!    what CONFIG RESETSTAT resets and what an undone script takes back follow from it.
//!
//! Tests: at the foot.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with a single writer.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds; only the owner calls this.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets; only the owner calls this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the value and sets it to zero; only the owner calls this.
    #[inline]
    pub fn take(&self) -> u64 {
        let value = self.get();
        self.set(0);
        value
    }

    /// The value, possibly a moment old.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a count behaves at CONFIG RESETSTAT, and when a script is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountClass {
    /// Scripts do not count it.
    Thread,
    /// What a script that is undone has counted is taken back.
    Script,
    /// What a script that is undone has counted stays: it did happen.
    Kept,
    /// A present quantity, not a count of events: CONFIG RESETSTAT leaves it alone.
    Level,
}

impl CountClass {
    /// Whether CONFIG RESETSTAT resets it.
    #[inline(always)]
    pub const fn is_reset(self) -> bool {
        !matches!(self, CountClass::Level)
    }

    /// Adds to `mine` what a script has counted `inside`, if it counts.
    #[inline(always)]
    pub fn settle(self, mine: &Count, inside: &Count, has_happened: bool) {
        match self {
            CountClass::Thread | CountClass::Level => {}
            CountClass::Kept => mine.add(inside.take()),
            CountClass::Script => {
                let counted = inside.take();
                mine.add(if has_happened { counted } else { 0 });
            }
        }
    }
}

/// Declares a struct of counts, each with its class; other fields may follow `beside`.
#[macro_export]
macro_rules! counts {
    (
        $(#[$about:meta])*
        struct $name:ident($($given:ident: $needs:ty)?) {
            $($(#[$doc:meta])+ $count:ident: $class:ident,)+
        }
        $(beside {
            $($(#[$part_doc:meta])+ $seen:vis $part:ident: $kind:ty = $made:expr,)+
        })?
    ) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])+ pub $count: $crate::Count,)+
            $($($(#[$part_doc])+ $seen $part: $kind,)+)?
        }

        impl $name {
            /// Zeroes.
            pub fn new($($given: $needs)?) -> Self {
                Self {
                    $($count: $crate::Count::default(),)+
                    $($($part: $made,)+)?
                }
            }

            /// Visits each count that CONFIG RESETSTAT resets, together with the other struct's.
            pub fn each_count_with(
                &self,
                other: &Self,
                see: &mut dyn FnMut(&$crate::Count, &$crate::Count),
            ) {
                $(if $crate::CountClass::$class.is_reset() {
                    see(&self.$count, &other.$count);
                })+
            }

            /// Adds what a script counted inside; of one that was undone, what stays.
            #[inline]
            pub fn settle_counts(&self, inside: &Self, has_happened: bool) {
                $($crate::CountClass::$class.settle(&self.$count, &inside.$count, has_happened);)+
            }

            /// Name, class and count of each.
            pub fn counts(
                &self,
            ) -> impl Iterator<Item = (&'static str, $crate::CountClass, &$crate::Count)> {
                [$((stringify!($count), $crate::CountClass::$class, &self.$count)),+].into_iter()
            }
        }
    };
}

counts! {
    /// The counters of lookups and changes.
    #[derive(Debug)]
    struct Tally() {
        /// Reads that found their key.
        hits: Script,
        /// Reads that did not.
        misses: Script,
        /// Keys removed because their deadline had passed.
        expired: Kept,
        /// Keys removed for want of memory.
        evicted: Kept,
        /// Elements of collections removed because their own deadline had passed.
        expired_elements: Kept,
        /// Changes published.
        changes: Script,
        /// The weight of changes beyond one each, for `rdb_changes_since_last_save`; it wraps
        /// around where changes weigh nothing.
        more_changes: Script,
        /// Values handed to the background to be freed.
        reclaimed: Kept,
        /// Of Memcached's protocols: keys of `get` and its kin that were not there,
        item_fetch_misses: Script,
        /// those of `touch` and `gat`,
        item_touch_misses: Script,
        /// of `delete`,
        item_delete_misses: Script,
        /// of `incr`,
        item_incr_misses: Script,
        /// of `decr`,
        item_decr_misses: Script,
        /// of `cas`;
        item_cas_misses: Script,
        /// and `cas` of a value that was another by then.
        item_cas_badval: Script,
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, CountClass};

    counts! {
        struct Some(start: u64) {
            /// Of the thread.
            turns: Thread,
            /// Of scripts that happen.
            hits: Script,
            /// Of all scripts.
            expired: Kept,
            /// What there is.
            bytes: Level,
        }
        beside {
            /// Not a count.
            began: u64 = start,
        }
    }

    fn values(some: &Some) -> Vec<u64> {
        some.counts().map(|(_, _, count)| count.get()).collect()
    }

    #[test]
    fn what_happens_to_a_count_follows_from_its_class() {
        let (some, inside) = (Some::new(7), Some::new(8));
        inside.counts().for_each(|(_, _, count)| count.set(3));
        some.settle_counts(&inside, false);
        assert_eq!((values(&some), values(&inside)), (vec![0, 0, 3, 0], vec![3, 0, 0, 3]));
        inside.counts().for_each(|(_, _, count)| count.set(3));
        some.settle_counts(&inside, true);
        assert_eq!((values(&some), values(&inside)), (vec![0, 3, 6, 0], vec![3, 0, 0, 3]));
        some.each_count_with(&inside, &mut |mine: &Count, _| mine.set(9));
        assert_eq!(values(&some), [9, 9, 9, 0]);
        let named: Vec<_> = some.counts().map(|(name, class, _)| (name, class)).collect();
        assert_eq!((named[3], some.began), (("bytes", CountClass::Level), 7));
    }
}
