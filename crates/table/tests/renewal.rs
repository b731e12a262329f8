//! A full walk that reallocates every record: it visits all of them, also when it is done in
//! bounded steps.

mod common;

use common::*;
use pantala_base::UnixMs;
use pantala_table::{Renewal, RenewalCursor};

#[test]
fn a_walk_meets_every_block_once() {
    for keys in [0, 1, 40, 5_000] {
        let mut pair = Pair::new(good_hash);
        for number in 0..keys {
            let text = vec![b'v'; (number % 300) as usize * 10];
            let deadline = (number % 3 == 0).then_some(UnixMs(1 << 40));
            let value = match number % 5 {
                0 => Value::Thing(Thing { tag: 3, bytes: text }),
                _ => Value::Str(text),
            };
            pair.insert(&key_of(number), entry(value, deadline));
        }
        let (mut seen, mut large, mut moved_keys) = (Vec::new(), 0, 0);
        let (mut at, mut steps) = (Some(RenewalCursor::START), 0);
        while let Some(from) = at {
            let mut is_sparse = |block: *const u8| {
                seen.push(block.addr());
                true
            };
            let mut renewal = Renewal::of(&mut is_sparse);
            at =
                pair.table.renew(from, 20, &mut renewal, &mut |_, _| large += 1, &mut |is_moved| {
                    moved_keys += usize::from(is_moved)
                });
            assert!(renewal.looked_at < 23);
            steps += 1;
        }
        let expected = pair.model.values();
        let odd = |entry: &&Entry| match &entry.value {
            Value::Thing(thing) => thing.bytes.len() % 2 == 1,
            Value::Str(_) => false,
        };
        assert_eq!((large, moved_keys), (expected.filter(odd).count(), pair.model.len()));
        assert!(steps > pair.model.len() / 20);
        assert!(seen.len() >= pair.model.len() + pair.table.segment_count());
        pair.compare_all();
    }
}

#[test]
fn what_is_in_dense_pages_stays() {
    let mut pair = Pair::new(good_hash);
    for number in 0..100 {
        pair.insert(&key_of(number), entry(Value::Str(vec![b'v'; 70_000]), None));
    }
    let key = key_of(7);
    let before = pair.find(&key).map(|place| pair.table.string(place).is_some());
    let mut never = |_: *const u8| false;
    let mut renewal = Renewal::of(&mut never);
    let end = pair.table.renew(
        RenewalCursor::START,
        usize::MAX / 2,
        &mut renewal,
        &mut |_, _| {},
        &mut |is_moved| assert!(!is_moved),
    );
    assert_eq!((end, renewal.moved, before), (None, 0, Some(true)));
    assert!(renewal.looked_at >= 200, "records and the blocks of their values");
}
