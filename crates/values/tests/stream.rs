//! A stream does what a map from ids to fields does, across the borders of small blocks, and its
//! groups do what a map from ids to consumers does.

#[path = "common/stream.rs"]
mod machine;

use pantala_values::Stream;
use pantala_values::stream::{BlockLimits, Bound, References, StreamId, Trim};

#[test]
fn it_does_what_maps_do() {
    (0..24).for_each(machine::run);
}

#[test]
fn blocks_are_filled_to_their_limits() {
    let mut stream = Stream::default();
    let limits = BlockLimits { bytes: 4096, entries: 100 };
    for seq in 1..=1000 {
        stream.append(StreamId::new(5, seq), &[b"name", b"value"], limits);
    }
    assert_eq!(stream.block_count(), 10);
    let approximately =
        |bound, limit| Trim { bound, approximate: true, limit, references: References::Keep };
    assert_eq!(stream.trim(approximately(Bound::Length(555), 0)), 400);
    assert_eq!(stream.trim(approximately(Bound::Length(555), 0)), 0);
    assert_eq!(stream.trim(approximately(Bound::Length(10), 250)), 200);
    assert_eq!(stream.trim(approximately(Bound::Id(StreamId::new(5, 750)), 0)), 100);
    assert_eq!(stream.len(), 300);
}
