//! Traces made from a seed.
//!
//! | name | what |
//! |---|---|
//! | `zipf` | a Zipf choice among all keys |
//! | `shift` | as `zipf`, but each key's rank changes four times in a trace |
//! | `scan` | `zipf`, with a fifth of the requests reading keys in order, not again for long |
//! | `loop` | all keys in order, again and again |
//! | `mixed` | `zipf`; lengths from an eighth to eight times, a third with short deadlines |
//!
//! Ranks are scattered over the keys, so a key's number tells nothing about its popularity.

use pantala_load::chance::{Chance, Zipf, mix};

use crate::{MOST_VALUE_BYTES, Request};

/// One in this many requests of `scan` belongs to the scan.
const SCAN_EVERY: u64 = 5;
/// How many times more keys than the others the scan visits before it restarts.
const SCAN_TIMES: u64 = 8;
/// How often each key's rank changes in a trace of `shift`.
const SHIFTS: u64 = 4;
/// The deadlines of `mixed`, in milliseconds, chosen by the key's number.
const DEADLINES_MS: [u32; 6] = [0, 0, 0, 0, 5_000, 30_000];

/// The pattern of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Keys by a Zipf distribution over all keys.
    Zipf,
    /// As [`Pattern::Zipf`], but each key's rank changes once in a quarter of the trace.
    Shift,
    /// As [`Pattern::Zipf`], with a fifth of the requests reading keys in order.
    Scan,
    /// All keys in order, again and again.
    Loop,
    /// As [`Pattern::Zipf`], with values of different lengths and short deadlines on a third of
    /// them.
    Mixed,
}

impl Pattern {
    /// The pattern with this name.
    pub fn named(name: &str) -> Option<Pattern> {
        Some(match name {
            "zipf" => Pattern::Zipf,
            "shift" => Pattern::Shift,
            "scan" => Pattern::Scan,
            "loop" => Pattern::Loop,
            "mixed" => Pattern::Mixed,
            _ => return None,
        })
    }
}

/// The parameters of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The pattern.
    pub pattern: Pattern,
    /// The number of keys.
    pub keys: u64,
    /// How many requests.
    pub requests: u64,
    /// Zipf's exponent.
    pub exponent: f64,
    /// The length of a value; for `mixed` the middle length.
    pub value_bytes: u32,
    /// The seed; another seed gives another trace.
    pub seed: u64,
}

/// Makes a trace.
pub fn make(shape: &Shape) -> Vec<Request> {
    let zipf = Zipf::new(shape.keys, shape.exponent);
    let mut chance = Chance::new(mix(shape.seed));
    (0..shape.requests).map(|at| request(shape, &zipf, &mut chance, at)).collect()
}

fn request(shape: &Shape, zipf: &Zipf, chance: &mut Chance, at: u64) -> Request {
    let plain = |key| Request { key, value_bytes: shape.value_bytes, ttl_ms: 0 };
    match shape.pattern {
        Pattern::Zipf => plain(zipf.draw(chance)),
        Pattern::Shift => plain(shifted(shape, zipf.draw(chance), at)),
        Pattern::Scan if at.is_multiple_of(SCAN_EVERY) => {
            plain(shape.keys + at / SCAN_EVERY % (shape.keys * SCAN_TIMES))
        }
        Pattern::Scan => plain(zipf.draw(chance)),
        Pattern::Loop => plain(at % shape.keys),
        Pattern::Mixed => mixed(shape, zipf.draw(chance)),
    }
}

/// The key in place of this one at this time. Each key changes at its own time.
fn shifted(shape: &Shape, key: u64, at: u64) -> u64 {
    let period = (shape.requests / SHIFTS).max(1);
    let phase = mix(key ^ shape.seed) % period;
    let turn = (at + phase) / period;
    mix(key.wrapping_add(turn << 48)) % shape.keys
}

fn mixed(shape: &Shape, key: u64) -> Request {
    let hash = mix(key ^ mix(shape.seed));
    // Lengths are spread evenly over powers of two, so each doubling is as frequent as any other.
    let doublings = (hash & 0xFFFF) as f64 / f64::from(0x1_0000) * 6.0 - 3.0;
    let value_bytes = (f64::from(shape.value_bytes) * doublings.exp2()) as u32;
    let ttl_ms = DEADLINES_MS[(hash >> 32) as usize % DEADLINES_MS.len()];
    Request { key, value_bytes: value_bytes.clamp(1, MOST_VALUE_BYTES), ttl_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pattern: Pattern) -> Shape {
        Shape { pattern, keys: 1_000, requests: 20_000, exponent: 0.9, value_bytes: 200, seed: 7 }
    }

    fn distinct(trace: &[Request]) -> usize {
        trace.iter().map(|request| request.key).collect::<std::collections::HashSet<_>>().len()
    }

    #[test]
    fn the_same_seed_makes_the_same_trace() {
        let made = |seed| make(&Shape { seed, ..shape(Pattern::Mixed) });
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn a_loop_reads_each_key_before_any_again() {
        let trace = make(&shape(Pattern::Loop));
        assert_eq!(distinct(&trace[..1_000]), 1_000);
        assert_eq!(trace[0], trace[1_000]);
    }

    #[test]
    fn a_scan_reads_keys_of_its_own() {
        let trace = make(&shape(Pattern::Scan));
        let scanned: Vec<u64> = trace.iter().map(|r| r.key).filter(|&key| key >= 1_000).collect();
        assert_eq!(scanned.len(), 4_000);
        assert_eq!(distinct(&trace) - scanned.len(), distinct_below(&trace, 1_000));
    }

    fn distinct_below(trace: &[Request], limit: u64) -> usize {
        let below: Vec<Request> = trace.iter().copied().filter(|r| r.key < limit).collect();
        distinct(&below)
    }

    #[test]
    fn the_hottest_key_changes_when_popularity_shifts() {
        let trace = make(&shape(Pattern::Shift));
        let hottest = |part: &[Request]| {
            let mut counts = std::collections::HashMap::new();
            part.iter().for_each(|request| *counts.entry(request.key).or_insert(0) += 1);
            counts.into_iter().max_by_key(|&(key, count)| (count, key)).map(|(key, _)| key)
        };
        assert_ne!(hottest(&trace[..4_000]), hottest(&trace[16_000..]));
    }

    #[test]
    fn lengths_and_deadlines_are_a_keys_own() {
        let trace = make(&shape(Pattern::Mixed));
        let mut known = std::collections::HashMap::new();
        for request in &trace {
            assert_eq!(*known.entry(request.key).or_insert(*request), *request);
            assert!((25..=1_600).contains(&request.value_bytes), "{request:?}");
        }
        assert!(trace.iter().any(|request| request.ttl_ms > 0));
    }
}
