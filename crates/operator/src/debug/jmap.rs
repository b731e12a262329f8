//! DEBUG JMAP: where the memory of the selected database is used.
//!
//! Walks over all records, one partition at a time, waiting for each: clients of a partition wait
//! while its records are read.

use std::collections::BTreeMap;
use std::fmt::Write;

use pantala_base::number::parse_i64;
use pantala_base::size::human;
use pantala_commands::{Call, CommandResult, error};
use pantala_table::{Encoding, Table, size_class};
use pantala_values::{Object, Type};

/// How many of the largest keys are shown by default,
const USUAL_LARGEST: usize = 10;
/// and at most.
const MOST_LARGEST: i64 = 1000;

/// A number of records and their bytes.
#[derive(Clone, Copy, Default)]
struct Sum {
    records: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
    }
}

#[derive(Default)]
struct Map {
    total: Sum,
    by_type: BTreeMap<&'static str, Sum>,
    by_encoding: BTreeMap<&'static str, Sum>,
    by_class: BTreeMap<usize, Sum>,
    largest: Vec<(usize, Vec<u8>)>,
    with_deadline: u64,
    index_bytes: u64,
    segments: u64,
    slots: u64,
}

impl Map {
    fn take(&mut self, table: &Table<Object>, largest: usize) {
        self.index_bytes += table.heap_bytes() as u64;
        self.segments += table.segment_count() as u64;
        self.slots += table.slot_count() as u64;
        self.with_deadline += table.deadline_count() as u64;
        table.for_each(&mut |place| {
            let bytes = table.record_bytes(place);
            let kind = Type::from_tag(table.type_tag(place)).map_or("unknown", Type::name);
            let encoding = match table.encoding(place) {
                Encoding::Int => "int",
                Encoding::Inline => "inline",
                Encoding::Long => "long",
                Encoding::Object => "object",
            };
            self.total.add(bytes);
            self.by_type.entry(kind).or_default().add(bytes);
            self.by_encoding.entry(encoding).or_default().add(bytes);
            self.by_class.entry(size_class(bytes)).or_default().add(bytes);
            if self.largest.len() < largest
                || self.largest.last().is_some_and(|(least, _)| bytes > *least)
            {
                let at = self.largest.partition_point(|(larger, _)| *larger >= bytes);
                self.largest.insert(at, (bytes, table.key(place).to_vec()));
                self.largest.truncate(largest);
            }
        });
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let Map { total, index_bytes, segments, slots, .. } = self;
        let used = if *slots == 0 { 0.0 } else { total.records as f64 / *slots as f64 * 100.0 };
        let each = |bytes: u64| bytes as f64 / total.records.max(1) as f64;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "records: {} in {} ({:.1} bytes each), {} with a deadline",
            total.records,
            human(total.bytes),
            each(total.bytes),
            self.with_deadline
        );
        let _ = writeln!(
            text,
            "tables: {} in {segments} segments ({:.1} bytes a record), {used:.1} % of {slots} \
             slots used",
            human(*index_bytes),
            each(*index_bytes)
        );
        lines(&mut text, "type", &self.by_type);
        lines(&mut text, "encoding", &self.by_encoding);
        lines(&mut text, "size class", &self.by_class);
        text.push_str("largest:\n");
        for (bytes, key) in &self.largest {
            let _ = writeln!(text, "  {bytes:>12} {}", key.escape_ascii());
        }
        text
    }
}

fn lines<K: std::fmt::Display>(text: &mut String, what: &str, sums: &BTreeMap<K, Sum>) {
    let _ = writeln!(text, "by {what}:");
    for (name, sum) in sums {
        let _ = writeln!(text, "  {name:>12} {:>12} records {:>14} bytes", sum.records, sum.bytes);
    }
}

pub(super) fn jmap(call: &mut Call<'_, '_>) -> CommandResult {
    let largest = match call.args.get(2) {
        None => USUAL_LARGEST,
        Some(word) => {
            let count = parse_i64(word).filter(|count| (0..=MOST_LARGEST).contains(count));
            count.ok_or(error::OUT_OF_RANGE)?.unsigned_abs() as usize
        }
    };
    let mut map = Map::default();
    call.keys.each_table(&mut |table| map.take(table, largest))?;
    call.reply.verbatim(b"txt", map.text().as_bytes());
    Ok(())
}
