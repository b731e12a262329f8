//! Estimates how many bytes keys take here.
//!
//! A string's record is computed exactly, as the table does it. Its slot takes [`SLOT_BYTES`]. A
//! collection counts as large as it is there, which is at least as large as here
//! (bench/reports/2026-11-21-collections: 0.5 to 1.02 of the others).

use crate::facts::ServerFacts;

/// The share of the index per key, at its mean utilisation: 44.2 bytes of
/// bench/reports/2026-11-21-baseline, minus the record of 32.
pub const SLOT_BYTES: usize = 12;
/// Bytes of a deadline.
const DEADLINE_BYTES: u64 = 8;

/// Bytes of a key with a string.
pub fn string_key_bytes(key_bytes: usize, value_bytes: usize, has_deadline: bool) -> usize {
    pantala_table::string_bytes(key_bytes, value_bytes, has_deadline) + SLOT_BYTES
}

/// The estimated size of another server's keys here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// How many keys were sampled.
    pub sampled: usize,
    /// Bytes of all keys here.
    pub here_bytes: u64,
    /// Whether it is partly an upper bound: collections count as large as they are there.
    pub is_bound: bool,
}

impl Estimate {
    /// An estimate from the sample; `None` if the sample is not sufficient.
    pub fn of(facts: &ServerFacts) -> Option<Estimate> {
        let (mut sampled, mut bytes, mut is_bound) = (0_usize, 0_u128, false);
        for key in facts.keys.as_ref().ok()? {
            let here = match key.value_bytes {
                Some(value_bytes) => {
                    Some(string_key_bytes(key.key_bytes, value_bytes, false) as u64)
                }
                None => key.used_bytes,
            };
            let Some(here) = here else { continue };
            sampled += 1;
            bytes += u128::from(here);
            is_bound |= key.value_bytes.is_none();
        }
        let (keys, expires) = facts.key_counts();
        let all_keys = bytes.saturating_mul(u128::from(keys));
        let here = all_keys / (sampled != 0).then_some(sampled as u128)?
            + u128::from(expires) * u128::from(DEADLINE_BYTES);
        let here_bytes = u64::try_from(here).unwrap_or(u64::MAX);
        Some(Estimate { sampled, here_bytes, is_bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_bench_has_measured() {
        // RSS per key of bench/reports/2026-11-21-baseline.
        for (value_bytes, measured) in [(8, 44.2), (100, 141.0), (1_024, 1_074.0)] {
            let told = string_key_bytes(16, value_bytes, false) as f64;
            assert!((told / measured - 1.0).abs() < 0.02, "{value_bytes}: {told}");
        }
    }
}
