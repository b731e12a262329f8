//! INFO's section `keysizes`, as in Redis 8: the distribution of value sizes, by type and database.
//!
//! ```text
//! db0_distrib_strings_sizes:0=1,16=204,1K=3     bytes: 1 of none, 204 of 16 to 31, 3 of 1K to 2K-1
//! db0_distrib_lists_items:4=9                   elements
//! ```
//!
//! Redis counts at each change. Here the section looks at keys when it is asked for. If a database
//! has up to [`MOST_LOOKED_AT`] keys, all are counted. If it has more, that many are counted, from
//! a random partition on, and stand for the others, because keys are spread randomly. No partition
//! is held for more than some hundred keys, and busy ones are left out.
//!
//! Tests: at the foot; the transcript `server/keysizes.txt`.

use pantala_base::rng::Rng;
use pantala_commands::Call;
use pantala_keyspace::{DbIndex, Locked, PARTITION_COUNT, PartitionId, ScanCursor, Scope};
use pantala_values::Type;

use super::Page;
use crate::Operator;

/// The most keys of a database that are looked at.
const MOST_LOOKED_AT: u64 = 1 << 16;
/// The most keys that are looked at with one partition held.
const AT_ONCE: usize = 256;
/// With more keys than this it takes too long for a worker.
const WORKER_KEYS: u64 = 1 << 10;

/// Sizes by their highest bit: bin 0 counts empty values, bin `n` those of 2^(n-1) to 2^n - 1.
type Bins = [u64; 65];

/// Whether there are more keys than a worker should look at.
pub(super) fn takes_long(operator: &Operator) -> bool {
    let space = &operator.engine.space;
    let databases = (0..space.database_count()).map(DbIndex);
    let keys: u64 = databases.filter_map(|db| space.sizes(db)).map(|sizes| sizes.keys()).sum();
    keys > WORKER_KEYS
}

pub(super) fn write(call: &mut Call<'_, '_>, page: &mut Page) {
    let (space, before) = (call.space(), *call.keys.scope());
    for db in (0..space.database_count()).map(DbIndex) {
        let keys = space.sizes(db).map_or(0, |sizes| sizes.keys());
        if keys > 0 {
            call.keys.set_scope(Scope { db, ..before });
            let found = look(call.keys, keys);
            for (name, bins) in found.lines(keys) {
                page.line(format!("db{}_distrib_{name}", db.0), bins);
            }
        }
    }
    call.keys.set_scope(before);
}

/// What was found in a database.
struct KeySizeCounts {
    looked_at: u64,
    by_type: [Bins; Type::ALL.len()],
}

/// Looks at the keys of the database in scope.
fn look(locked: &mut Locked<'_>, keys: u64) -> KeySizeCounts {
    let mut found = KeySizeCounts { looked_at: 0, by_type: [[0; 65]; Type::ALL.len()] };
    let is_part = keys > MOST_LOOKED_AT;
    let begin = if is_part { Rng::random().below(PARTITION_COUNT as u64) as u16 } else { 0 };
    let mut at = ScanCursor::at_start_of(PartitionId(begin));
    let mut has_turned = false;
    while !is_part || found.looked_at < MOST_LOOKED_AT {
        let next = locked.scan(at, AT_ONCE, &mut |met| {
            found.looked_at += 1;
            let line = Type::ALL.iter().position(|kind| *kind as u8 == met.type_tag());
            if let Some(line) = line {
                found.by_type[line][bin_of(met.size())] += 1;
            }
        });
        at = next.unwrap_or_else(|busy| ScanCursor::after(busy.0));
        if at == ScanCursor(0) {
            if has_turned || begin == 0 {
                break;
            }
            has_turned = true;
        } else if has_turned && at.partition().0 >= begin {
            break;
        }
    }
    found
}

fn bin_of(size: u64) -> usize {
    (u64::BITS - size.leading_zeros()) as usize
}

impl KeySizeCounts {
    /// The lines for a database with this many keys, without empty ones.
    fn lines(&self, keys: u64) -> impl Iterator<Item = (&'static str, String)> {
        let scale = keys.max(self.looked_at) as f64 / self.looked_at.max(1) as f64;
        let is_all = self.looked_at >= keys || keys <= MOST_LOOKED_AT;
        let scaled = move |count: u64| match is_all {
            true => count,
            false => (count as f64 * scale).round() as u64,
        };
        let lines = Type::ALL.iter().zip(&self.by_type);
        lines.filter_map(move |(kind, bins)| {
            let filled = bins.iter().enumerate().filter(|(_, count)| **count > 0);
            let texts: Vec<String> =
                filled.map(|(bin, &count)| format!("{}={}", label(bin), scaled(count))).collect();
            (!texts.is_empty()).then(|| (kind.sizes_name(), texts.join(",")))
        })
    }
}

/// The least size of a bin, in Redis's short form.
fn label(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin.checked_sub(1) {
        None => "0".to_owned(),
        Some(power) => format!("{}{}", 1 << (power % 10), UNITS[power / 10]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_begin_at_powers_of_two() {
        let check = |size: u64, text: &str| assert_eq!(label(bin_of(size)), text, "{size}");
        check(0, "0");
        check(1, "1");
        check(3, "2");
        check(1023, "512");
        check(1024, "1K");
        check((1 << 21) - 1, "1M");
        check(u64::MAX, "8E");
    }

    #[test]
    fn a_part_stands_for_all() {
        let mut found =
            KeySizeCounts { looked_at: MOST_LOOKED_AT, by_type: [[0; 65]; Type::ALL.len()] };
        found.by_type[0][bin_of(20)] = MOST_LOOKED_AT - 1;
        found.by_type[4][bin_of(1)] = 1;
        let lines = |keys: u64| found.lines(keys).collect::<Vec<_>>();
        let is = |name, text: &str| (name, text.to_owned());
        assert_eq!(
            lines(MOST_LOOKED_AT),
            [is("strings_sizes", "16=65535"), is("hashes_items", "1=1")]
        );
        assert_eq!(
            lines(10 * MOST_LOOKED_AT),
            [is("strings_sizes", "16=655350"), is("hashes_items", "1=10")]
        );
    }
}
