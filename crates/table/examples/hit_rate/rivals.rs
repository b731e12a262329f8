//! Textbook eviction policies, each as its authors describe it.

use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

use crate::traces::{Random, Trace};

fn rate(hits: usize, trace: &Trace) -> f64 {
    hits as f64 / trace.len() as f64
}

/// Belady's optimum: evicts the key whose next use is the latest.
pub fn belady(trace: &Trace, capacity: usize) -> f64 {
    let mut next_use = vec![u32::MAX; trace.len()];
    let mut seen = HashMap::new();
    for (at, &key) in trace.iter().enumerate().rev() {
        next_use[at] = seen.insert(key, at as u32).unwrap_or(u32::MAX);
    }
    let (mut held, mut latest, mut hits) = (HashMap::new(), BinaryHeap::new(), 0);
    for (&key, &next) in trace.iter().zip(&next_use) {
        if held.contains_key(&key) {
            hits += 1;
        } else if held.len() >= capacity {
            // Entries of keys that were used since are out of date.
            while let Some((at, key)) = latest.pop() {
                if held.get(&key) == Some(&at) {
                    held.remove(&key);
                    break;
                }
            }
        }
        held.insert(key, next);
        latest.push((next, key));
    }
    rate(hits, trace)
}

/// Policies that evict the least of (a number, the time of the last use).
fn ordered(trace: &Trace, capacity: usize, count: impl Fn(usize) -> usize) -> f64 {
    let (mut held, mut order, mut hits) = (HashMap::new(), BTreeSet::new(), 0);
    for (at, &key) in trace.iter().enumerate() {
        let mut uses = 0;
        if let Some((before, last)) = held.remove(&key) {
            order.remove(&(before, last, key));
            (hits, uses) = (hits + 1, before);
        } else if held.len() >= capacity
            && let Some((_, _, victim)) = order.pop_first()
        {
            held.remove(&victim);
        }
        held.insert(key, (count(uses), at));
        order.insert((count(uses), at, key));
    }
    rate(hits, trace)
}

pub fn lru(trace: &Trace, capacity: usize) -> f64 {
    ordered(trace, capacity, |_| 0)
}

/// LFU that never forgets a use of a key it holds.
pub fn lfu(trace: &Trace, capacity: usize) -> f64 {
    ordered(trace, capacity, |uses| uses + 1)
}

struct Entry {
    key: u32,
    last: usize,
    uses: u8,
}

/// Redis and Valkey with 10 samples and their pool of 16: by idle time, or by a counter that grows
/// with the logarithm of uses.
pub fn sampled(trace: &Trace, capacity: usize, by_uses: bool) -> f64 {
    let (mut places, mut all) = (HashMap::new(), Vec::<Entry>::new());
    let (mut pool, mut random, mut hits) = (Vec::<(usize, u32)>::new(), Random(9), 0);
    for (now, &key) in trace.iter().enumerate() {
        if let Some(&place) = places.get(&key) {
            let entry: &mut Entry = &mut all[place];
            let base = f64::from(entry.uses.saturating_sub(5));
            let grows = entry.uses < 255 && random.unit() < 1.0 / (base * 10.0 + 1.0);
            (entry.last, entry.uses) = (now, entry.uses + u8::from(grows));
            hits += 1;
            continue;
        }
        while all.len() >= capacity {
            for _ in 0..10 {
                let entry = &all[random.below(all.len() as u64) as usize];
                let idle = if by_uses { usize::from(255 - entry.uses) } else { now - entry.last };
                if pool.iter().all(|&(_, known)| known != entry.key) {
                    pool.push((idle, entry.key));
                }
            }
            pool.sort_unstable();
            pool.drain(..pool.len().saturating_sub(16));
            let victim = pool.pop().and_then(|(_, key)| places.remove(&key));
            if let Some(place) = victim {
                all.swap_remove(place);
                if let Some(moved) = all.get(place) {
                    places.insert(moved.key, place);
                }
            }
        }
        places.insert(key, all.len());
        all.push(Entry { key, last: now, uses: 5 });
    }
    rate(hits, trace)
}

/// Yang and others, SOSP 2023: a tenth of the space for new keys, ghosts for as many keys as the
/// rest.
pub fn s3_fifo(trace: &Trace, capacity: usize) -> f64 {
    let small_most = (capacity / 10).max(1);
    let (mut small, mut main, mut ghosts) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let (mut uses, mut is_ghost) = (HashMap::<u32, u8>::new(), HashMap::<u32, usize>::new());
    let mut hits = 0;
    for (at, &key) in trace.iter().enumerate() {
        if let Some(uses) = uses.get_mut(&key) {
            (*uses, hits) = ((*uses + 1).min(3), hits + 1);
            continue;
        }
        while uses.len() >= capacity {
            let from_small = small.len() >= small_most || main.is_empty();
            let queue = if from_small { &mut small } else { &mut main };
            let Some(oldest) = queue.pop_front() else { break };
            let used = uses[&oldest];
            if used > u8::from(from_small) {
                uses.insert(oldest, if from_small { 0 } else { used - 1 });
                main.push_back(oldest);
                continue;
            }
            uses.remove(&oldest);
            if from_small {
                ghosts.push_back((oldest, at));
                is_ghost.insert(oldest, at);
            }
            while ghosts.len() > capacity - small_most
                && let Some((ghost, since)) = ghosts.pop_front()
            {
                is_ghost
                    .remove(&ghost)
                    .filter(|&last| last != since)
                    .map(|last| is_ghost.insert(ghost, last));
            }
        }
        uses.insert(key, 0);
        let queue = if is_ghost.remove(&key).is_some() { &mut main } else { &mut small };
        queue.push_back(key);
    }
    rate(hits, trace)
}

/// Zhang and others, NSDI 2024. The queue is a vector in order of insertion with holes, closed from
/// time to time.
pub fn sieve(trace: &Trace, capacity: usize) -> f64 {
    let (mut queue, mut places) = (Vec::<Option<(u32, bool)>>::new(), HashMap::new());
    let (mut hand, mut hits) = (0, 0);
    for &key in trace {
        if let Some(&place) = places.get(&key) {
            let entry: &mut Option<(u32, bool)> = &mut queue[place];
            *entry = Some((key, true));
            hits += 1;
            continue;
        }
        while places.len() >= capacity {
            hand = if hand < queue.len() { hand } else { 0 };
            match &mut queue[hand] {
                Some((_, is_used @ true)) => *is_used = false,
                place => {
                    place.take().map(|(victim, _)| places.remove(&victim));
                }
            }
            hand += 1;
        }
        if queue.len() >= 4 * capacity {
            hand = queue[..hand].iter().flatten().count();
            queue.retain(Option::is_some);
            let keys = queue.iter().flatten().map(|&(key, _)| key);
            places = keys.enumerate().map(|(place, key)| (key, place)).collect();
        }
        places.insert(key, queue.len());
        queue.push(Some((key, false)));
    }
    rate(hits, trace)
}
