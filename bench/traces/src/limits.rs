//! The hit rates of LRU with room for a number of items, and of the best possible policy.
//!
//! The optimum is Belady's: the item that is used again last is removed first, perhaps at once.
//! With items of one length it is exact. With different lengths nothing quick is; the room is
//! counted in items all the same, so it tells how a policy chooses, not how it packs.
//!
//! Time advances by the rate at which the trace is played; an expired item is a miss.

use std::collections::{BTreeSet, HashMap};

use crate::{Request, Score};

/// The rules of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Room for this many items.
    pub items: usize,
    /// How many requests at the start do not count.
    pub warm_up: usize,
    /// Requests a second; 0: time stands still.
    pub rate: u64,
}

impl Rules {
    fn ms(&self, at: usize) -> u64 {
        (at as u64 * 1_000).checked_div(self.rate).unwrap_or(0)
    }

    fn deadline(&self, at: usize, request: &Request) -> u64 {
        match request.ttl_ms {
            0 => u64::MAX,
            _ if self.rate == 0 => u64::MAX,
            ttl_ms => self.ms(at) + u64::from(ttl_ms),
        }
    }
}

struct Item {
    deadline_ms: u64,
    /// Its place in the order of removal.
    rank: (u64, u64),
}

/// The score of a cache that removes the first of an order, where `rank` gives an item its place
/// each time it is used.
fn replay(trace: &[Request], rules: Rules, rank: impl Fn(usize) -> u64) -> Score {
    let mut items: HashMap<u64, Item> = HashMap::with_capacity(rules.items);
    let mut order: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut score = Score::default();
    for (at, request) in trace.iter().enumerate() {
        let place = (rank(at), request.key);
        let found = items.get_mut(&request.key);
        let is_hit = found.as_ref().is_some_and(|item| item.deadline_ms > rules.ms(at));
        if at >= rules.warm_up {
            score.count(is_hit);
        }
        match found {
            Some(item) => {
                order.remove(&item.rank);
                item.rank = place;
                if !is_hit {
                    item.deadline_ms = rules.deadline(at, request);
                }
            }
            None => {
                let deadline_ms = rules.deadline(at, request);
                items.insert(request.key, Item { deadline_ms, rank: place });
            }
        }
        order.insert(place);
        if items.len() > rules.items
            && let Some((_, key)) = order.pop_first()
        {
            items.remove(&key);
        }
    }
    score
}

/// The score of LRU.
pub fn lru(trace: &[Request], rules: Rules) -> Score {
    replay(trace, rules, |at| at as u64)
}

/// The score of Belady's optimum.
pub fn optimum(trace: &[Request], rules: Rules) -> Score {
    let next = next_uses(trace, rules);
    // The item used last is removed first; items that are never used again go before all.
    replay(trace, rules, |at| u64::MAX - next[at])
}

/// For each request the next read of its key before its deadline; otherwise beyond the end.
fn next_uses(trace: &[Request], rules: Rules) -> Vec<u64> {
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut next = vec![u64::MAX; trace.len()];
    for (at, request) in trace.iter().enumerate().rev() {
        if let Some(again) = last.insert(request.key, at as u64)
            && rules.deadline(at, request) > rules.ms(again as usize)
        {
            next[at] = again;
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(keys: &[u64]) -> Vec<Request> {
        keys.iter().map(|&key| Request { key, value_bytes: 1, ttl_ms: 0 }).collect()
    }

    fn rules(items: usize) -> Rules {
        Rules { items, warm_up: 0, rate: 0 }
    }

    #[test]
    fn a_loop_larger_than_the_cache_is_lrus_worst() {
        let looped: Vec<u64> = (0..40).map(|at| at % 4).collect();
        assert_eq!(lru(&trace(&looped), rules(3)).hits, 0);
        assert_eq!(lru(&trace(&looped), rules(4)).hits, 36);
        // Two of three stay, as far as possible.
        assert!(optimum(&trace(&looped), rules(3)).hits >= 24);
    }

    #[test]
    fn the_optimum_is_never_below_lru() {
        let mut chance = pantala_load::chance::Chance::new(3);
        for items in 1..20 {
            let keys: Vec<u64> = (0..500).map(|_| chance.below(30)).collect();
            let (low, high) =
                (lru(&trace(&keys), rules(items)), optimum(&trace(&keys), rules(items)));
            assert!(high.hits >= low.hits, "{items}: {high:?} {low:?}");
        }
    }

    #[test]
    fn the_textbooks_example() {
        // Silberschatz: with three frames 9 of these 20 fault. Pages must be loaded; a cache need
        // not keep what it was just asked for, which saves one (the 4).
        let keys = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
        assert_eq!(optimum(&trace(&keys), rules(3)).hits, 12);
        assert_eq!(lru(&trace(&keys), rules(3)).hits, 8);
    }

    #[test]
    fn the_warm_up_does_not_count_and_deadlines_do() {
        let mut requests = trace(&[1, 1, 1, 1]);
        requests.iter_mut().for_each(|request| request.ttl_ms = 1_500);
        let paced = Rules { items: 5, warm_up: 1, rate: 1 };
        // Stored at 0, read at 1, past its deadline at 2 and stored again, read at 3.
        assert_eq!(lru(&requests, paced), Score { requests: 3, hits: 2 });
        assert_eq!(optimum(&requests, paced), Score { requests: 3, hits: 2 });
    }
}
