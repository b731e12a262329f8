//! Active defragmentation: a walk over the whole keyspace that reallocates what lies in sparse
//! pages.
//!
//! It goes from partition to partition and holds each only while it looks at [`BLOCKS_PER_LOCK`]
//! blocks. A collection with more parts than that is noted by its name and visited afterwards, a
//! portion with each lock. A partition that is held for long is left out.
//!
//! Invariants
//! 1. It changes nothing that can be read, so it notifies nothing: neither WATCH nor a snapshot,
//!    whose marks are in the words that stay.
//!
//! Not here: when it is worthwhile, and how fast it goes. Tests: at the foot, and in `table` and
//! `values`.

use pantala_table::{Renewal, RenewalCursor};

use crate::Keyspace;
use crate::changes::databases::Db;
use crate::key::{DbIndex, PARTITION_COUNT, PartitionId};

/// The most blocks looked at under one lock: some tens of microseconds.
const BLOCKS_PER_LOCK: usize = 64;

/// The position of such a walk.
pub struct RenewalWalk {
    partition: usize,
    db: u32,
    /// The position in the table.
    cursor: RenewalCursor,
    /// Large collections that were met, each with its next part.
    large: Vec<(Box<[u8]>, usize)>,
}

impl Default for RenewalWalk {
    fn default() -> Self {
        RenewalWalk { partition: 0, db: 0, cursor: RenewalCursor::START, large: Vec::new() }
    }
}

/// The results of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenewalResult {
    /// Blocks that were reallocated.
    pub blocks_moved: u64,
    /// Blocks that stayed in place.
    pub blocks_left: u64,
    /// Keys of which some block was reallocated.
    pub keys_moved: u64,
    /// Keys of which none was.
    pub keys_left: u64,
}

impl RenewalResult {
    fn add_blocks(&mut self, renewal: &Renewal<'_>) {
        debug_assert!(renewal.moved <= renewal.looked_at, "what is moved was looked at");
        self.blocks_moved += renewal.moved as u64;
        self.blocks_left += (renewal.looked_at - renewal.moved) as u64;
    }

    fn add_key(&mut self, is_moved: bool) {
        let keys = if is_moved { &mut self.keys_moved } else { &mut self.keys_left };
        *keys += 1;
    }
}

impl Keyspace {
    /// Goes on with one partition held for a moment, and reallocates blocks that `is_sparse`; false
    /// when the walk has ended.
    pub fn renew(
        &self,
        walk: &mut RenewalWalk,
        is_sparse: &mut dyn FnMut(*const u8) -> bool,
        renewed: &mut RenewalResult,
    ) -> bool {
        let Some((id, db)) = self.next_to_renew(walk) else { return false };
        let mut renewal = Renewal::of(is_sparse);
        let is_done = match self.hold_soon(id) {
            None => true,
            Some(mut held) => match held.databases.if_used_mut(db) {
                None => true,
                Some(found) => walk.step(found, self, &mut renewal, renewed),
            },
        };
        renewed.add_blocks(&renewal);
        if is_done {
            *walk =
                RenewalWalk { partition: walk.partition, db: walk.db + 1, ..Default::default() };
        }
        true
    }

    /// The next partition and database that have keys, from the walk's position on.
    fn next_to_renew(&self, walk: &mut RenewalWalk) -> Option<(PartitionId, DbIndex)> {
        while walk.partition < PARTITION_COUNT {
            let id = PartitionId(walk.partition as u16);
            while walk.db < self.database_count() {
                let db = DbIndex(walk.db);
                if self.sizes(db).is_some_and(|sizes| sizes.keys_in(id) > 0) {
                    return Some((id, db));
                }
                walk.db += 1;
            }
            *walk = RenewalWalk { partition: walk.partition + 1, ..Default::default() };
        }
        None
    }
}

impl RenewalWalk {
    /// Does one step in this table; whether the table is done.
    fn step(
        &mut self,
        db: &mut Db,
        space: &Keyspace,
        renewal: &mut Renewal<'_>,
        renewed: &mut RenewalResult,
    ) -> bool {
        let table = db.table_to_mark();
        if let Some((name, part)) = self.large.last_mut() {
            match table.renew_object(space.hash(name), name, *part, renewal) {
                Some(next) => *part = next,
                None => _ = self.large.pop(),
            }
            return false;
        }
        let large = &mut self.large;
        let next = table.renew(
            self.cursor,
            BLOCKS_PER_LOCK,
            renewal,
            &mut |name, part| large.push((name.into(), part)),
            &mut |is_moved| renewed.add_key(is_moved),
        );
        match next {
            Some(next) => self.cursor = next,
            // Only the large collections are left; then the walk of this table ends at once.
            None => self.cursor = RenewalCursor::END,
        }
        next.is_none() && self.large.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pantala_base::UnixMs;
    use pantala_base::hash::HashSeed;
    use pantala_values::Hash;
    use pantala_values::hash::{HashLimits, Lifetime};

    use super::*;
    use crate::changes::event;
    use crate::{Expiry, KeyspaceConfig, LockPlan, Scope, Tally};

    const KEYS: u32 = 3_000;
    const FIELDS: u32 = 9_000;

    fn scope<'k>(space: &'k Keyspace, tally: &'k Tally, db: u32) -> Scope<'k> {
        Scope {
            space,
            db: DbIndex(db),
            now: UnixMs(5),
            tally,
            touch: true,
            sees_expired: false,
            recorder: None,
        }
    }

    fn filled(tally: &Tally) -> Keyspace {
        let seed = HashSeed::from_words(1, 2);
        let space =
            Keyspace::new(KeyspaceConfig { seed, databases: 3, worker_slots: 1, lane_slots: 1 });
        for n in 0..KEYS {
            let name = format!("key{n}");
            let key = space.key(name.as_bytes());
            let mut locked = space
                .lock(&LockPlan::one(key.hash), scope(&space, tally, n % 2 * 2))
                .expect("nobody has it");
            let mut opened = locked.open(key);
            if n % 1_000 == 7 {
                let mut hash = Hash::default();
                let limits = HashLimits { entries: 8, value_bytes: 8 };
                for field in 0..FIELDS {
                    let lives = Lifetime::Forever;
                    hash.set(&field.to_le_bytes(), b"value", lives, limits, UnixMs(5));
                }
                opened.set_collection(hash, Expiry::Never);
            } else {
                opened.set_string(format!("value{n}").as_bytes(), Expiry::Never);
            }
            opened.publish(event::SET);
        }
        space
    }

    #[test]
    fn a_walk_comes_by_every_block_once_and_ends() {
        let tally = Tally::default();
        let space = filled(&tally);
        let (mut walk, mut renewed, mut seen) =
            (RenewalWalk::default(), RenewalResult::default(), HashSet::new());
        let mut steps = 0;
        while space.renew(
            &mut walk,
            &mut |block| {
                assert!(seen.insert(block.addr()), "a block that stays is met once");
                false
            },
            &mut renewed,
        ) {
            steps += 1;
        }
        assert_eq!((renewed.keys_moved, renewed.keys_left), (0, u64::from(KEYS)));
        assert!(renewed.blocks_left > u64::from(KEYS + 3 * FIELDS / 28));
        assert!(steps > 3 * FIELDS as usize / 28 / 64);
        let (mut walk, mut renewed) = (RenewalWalk::default(), RenewalResult::default());
        while space.renew(&mut walk, &mut |_| true, &mut renewed) {}
        assert_eq!((renewed.keys_moved, renewed.blocks_left), (u64::from(KEYS), 0));
        for n in 0..KEYS {
            let name = format!("key{n}");
            let key = space.key(name.as_bytes());
            let plan = LockPlan::one(key.hash);
            let mut locked =
                space.lock(&plan, scope(&space, &tally, n % 2 * 2)).expect("nobody has it");
            assert!(locked.peek(key).exists(), "{name}");
        }
    }

    #[test]
    fn a_partition_that_somebody_keeps_is_left_out() {
        let tally = Tally::default();
        let space = filled(&tally);
        let key = space.key(b"key1");
        let plan = LockPlan::one(key.hash);
        let held = space.lock(&plan, scope(&space, &tally, 0)).expect("nobody has it");
        let renewed = std::thread::scope(|threads| {
            let other = threads.spawn(|| {
                let (mut walk, mut renewed) = (RenewalWalk::default(), RenewalResult::default());
                while space.renew(&mut walk, &mut |_| true, &mut renewed) {}
                renewed
            });
            other.join().expect("no panic")
        });
        assert!(renewed.keys_moved < u64::from(KEYS) && renewed.keys_moved > u64::from(KEYS / 2));
        drop(held);
    }
}
