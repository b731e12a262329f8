//! A stream behaves like a map from ids to fields, across the borders of small blocks, and its
//! groups behave like a map from ids to consumers.

#[path = "common/stream.rs"]
mod machine;

use pantala_values::Stream;
use pantala_values::stream::{BlockLimits, Bound, Counters, References, StreamId, Trim};

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

/// XSETID may go back to before ids that were deleted.
#[test]
fn an_entry_is_found_whose_id_comes_after_higher_ones_that_were_deleted() {
    let mut stream = Stream::default();
    let limits = BlockLimits { bytes: 4096, entries: 100 };
    let id = |seq| StreamId::new(5, seq);
    for seq in [1, 20, 30] {
        stream.append(id(seq), &[b"name", b"value"], limits);
    }
    assert!(stream.delete(id(30)) && stream.delete(id(20)));
    stream.set_counters(Counters { last_id: id(8), entries_added: None, max_deleted_id: None });
    for seq in 9..=25 {
        stream.append(id(seq), &[b"name", b"value"], limits);
        assert!(stream.get(id(seq)).is_some(), "{seq}");
    }
    assert_eq!(stream.range(id(9), id(12)).count(), 4);
    assert_eq!(stream.range_back(id(9), id(22)).count(), 14);
    assert!((9..=25).all(|seq| stream.delete(id(seq))));
    assert_eq!(stream.len(), 1);
}
