//! Work on the keyspace as a whole: SCAN, KEYS, RANDOMKEY, FLUSHALL, SWAPDB, reports.

use pantala_base::UnixMs;
use pantala_base::rng::Rng;
use pantala_table::{Cursor, Place, Table, is_expired};
use pantala_values::Object;

use crate::key::{DbIndex, Key, PARTITION_COUNT, PartitionId};
use crate::tally::Tally;
use crate::ticket::Woken;
use crate::{Garbage, Keyspace};

/// A partition that somebody else holds at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub PartitionId);

/// Where a SCAN stands: the partition in the low ten bits, the table's own cursor above. Zero is
/// the start and, as an answer, the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCursor(pub u64);

impl ScanCursor {
    fn parts(self) -> (PartitionId, Cursor) {
        let partition = (self.0 % PARTITION_COUNT as u64) as u16;
        (PartitionId(partition), Cursor::from_bits(self.0 / PARTITION_COUNT as u64))
    }

    fn at(partition: PartitionId, cursor: Cursor) -> Self {
        ScanCursor(cursor.to_bits() * PARTITION_COUNT as u64 + u64::from(partition.0))
    }

    fn after(partition: PartitionId) -> Self {
        match usize::from(partition.0) + 1 {
            PARTITION_COUNT => ScanCursor(0),
            next => ScanCursor(next as u64),
        }
    }
}

/// One key met by a walk.
pub struct Met<'t> {
    table: &'t Table<Object>,
    place: Place,
}

impl Met<'_> {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.table.key(self.place)
    }

    /// The tag of its type.
    pub fn type_tag(&self) -> u8 {
        self.table.type_tag(self.place)
    }

    fn is_expired(&self, now: UnixMs) -> bool {
        self.table.deadline(self.place).is_some_and(|deadline| is_expired(deadline, now))
    }
}

/// How far a scan has come.
struct Progress<'m> {
    now: UnixMs,
    /// Records to look at before it stops.
    count: usize,
    /// Records looked at, expired ones with them: that is what takes time.
    looked_at: usize,
    meet: &'m mut dyn FnMut(&Met<'_>),
}

impl Progress<'_> {
    fn is_enough(&self) -> bool {
        self.looked_at >= self.count
    }

    /// Shows the records of a table from a cursor on until it is enough; where to go on, or `None`
    /// at the table's end.
    fn scan(&mut self, table: &Table<Object>, from: Cursor) -> Option<Cursor> {
        let mut cursor = from;
        loop {
            cursor = table.scan(cursor, &mut |place| {
                let one = Met { table, place };
                self.looked_at += 1;
                if !one.is_expired(self.now) {
                    (self.meet)(&one);
                }
            });
            if cursor.is_end() {
                return None;
            }
            if self.is_enough() {
                return Some(cursor);
            }
        }
    }
}

/// A mean time to live is taken from about so many keys with a deadline,
const TTL_SAMPLES: u64 = 64;
/// or as many as are among about so many keys.
const TTL_LOOKS: usize = 4096;

/// How many random draws RANDOMKEY makes before it walks.
const RANDOM_DRAWS: usize = 64;

impl Keyspace {
    /// Looks at `count` keys or a few more from `from` on, fewer at the end, and shows `meet` those
    /// that have not expired; the cursor to go on with. Every key that is there from the first call
    /// to the last is met at least once. `Err` only if nothing was looked at yet.
    pub fn scan(
        &self,
        db: DbIndex,
        from: ScanCursor,
        now: UnixMs,
        count: usize,
        meet: &mut dyn FnMut(&Met<'_>),
    ) -> Result<ScanCursor, Busy> {
        let mut at = from;
        let mut progress = Progress { now, count, looked_at: 0, meet };
        loop {
            let (id, from) = at.parts();
            let mut cursor = None;
            if self.sizes(db).is_some_and(|sizes| sizes.keys_in(id) > 0) {
                let Some(held) = self.partition(id).spin_lock() else {
                    return if progress.looked_at > 0 { Ok(at) } else { Err(Busy(id)) };
                };
                let part = held.db_if_used(db);
                cursor = part.and_then(|part| progress.scan(&part.table, from));
            }
            at = cursor.map_or(ScanCursor::after(id), |cursor| ScanCursor::at(id, cursor));
            if at == ScanCursor(0) || progress.is_enough() {
                return Ok(at);
            }
        }
    }

    /// The type tag of one key that has not expired: for commands that match keys, and happen to be
    /// given a whole name.
    pub fn tag_of(&self, db: DbIndex, key: Key<'_>, now: UnixMs) -> Result<Option<u8>, Busy> {
        let id = PartitionId::of(key.hash);
        let held = self.partition(id).spin_lock().ok_or(Busy(id))?;
        let Some(part) = held.db_if_used(db) else { return Ok(None) };
        let place = part.table.find(key.hash, key.bytes);
        let met = place.map(|place| Met { table: &part.table, place });
        Ok(met.filter(|met| !met.is_expired(now)).map(|met| met.type_tag()))
    }

    /// Shows every key of a database once, a whole partition at a time, waiting for each: only for
    /// threads that may block. `meet` says whether to go on.
    pub fn walk(&self, db: DbIndex, now: UnixMs, meet: &mut dyn FnMut(&Met<'_>) -> bool) {
        for id in PartitionId::all() {
            if self.sizes(db).is_none_or(|sizes| sizes.keys_in(id) == 0) {
                continue;
            }
            let held = self.hold(id);
            let Some(part) = held.db_if_used(db) else { continue };
            let mut go_on = true;
            let mut cursor = Cursor::START;
            while go_on && !cursor.is_end() {
                cursor = part.table.scan(cursor, &mut |place| {
                    let one = Met { table: &part.table, place };
                    if go_on && !one.is_expired(now) {
                        go_on = meet(&one);
                    }
                });
            }
            if !go_on {
                return;
            }
        }
    }

    /// A key of the database, each about as likely as any other; `None` if there is none.
    pub fn random_key(
        &self,
        db: DbIndex,
        now: UnixMs,
        random: &mut Rng,
    ) -> Result<Option<Vec<u8>>, Busy> {
        let Some(sizes) = self.sizes(db) else { return Ok(None) };
        for _ in 0..RANDOM_DRAWS {
            let total = sizes.keys();
            if total == 0 {
                return Ok(None);
            }
            let mut rank = random.below(total);
            for id in PartitionId::all() {
                let here = u64::from(sizes.keys_in(id));
                if rank >= here {
                    rank -= here;
                    continue;
                }
                let held = self.partition(id).spin_lock().ok_or(Busy(id))?;
                let Some(part) = held.db_if_used(db) else { break };
                if let Some(place) = part.table.random(&mut || random.next_u64()) {
                    let one = Met { table: &part.table, place };
                    if !one.is_expired(now) {
                        return Ok(Some(one.key().to_vec()));
                    }
                }
                break;
            }
        }
        // Nearly everything has expired and waits for the sweep: take the first that has not.
        let mut found = None;
        let mut at = ScanCursor(0);
        loop {
            at = self.scan(db, at, now, 1, &mut |one| found = Some(one.key().to_vec()))?;
            if found.is_some() || at == ScanCursor(0) {
                return Ok(found);
            }
        }
    }

    /// Empties one database, or all of them, with nobody else inside; what was in them comes back.
    /// Only from outside the gate.
    pub fn flush(&self, only: Option<DbIndex>) -> Garbage {
        self.gate().alone(|| {
            let mut tables = Vec::new();
            let databases = (0..self.database_count()).map(DbIndex);
            for db in databases.filter(|db| only.is_none_or(|only| only == *db)) {
                let Some(sizes) = self.sizes(db) else { continue };
                for id in PartitionId::all().filter(|id| sizes.keys_in(*id) > 0) {
                    let mut held = self.hold(id);
                    let table = &mut held.db(db).table;
                    tables.push(std::mem::take(table));
                    sizes.publish(id, table);
                }
            }
            Garbage::Tables(tables)
        })
    }

    /// Frees garbage in the background, or here and now.
    pub fn dispose(&self, garbage: Garbage, in_background: bool, tally: &Tally) {
        if in_background {
            self.reclaim(garbage, tally);
        }
    }

    /// Exchanges two databases, with nobody else inside. Only from outside the gate.
    pub fn swap_databases(&self, left: DbIndex, right: DbIndex) {
        if left == right {
            return;
        }
        // Dropped, and so woken, when the gate is open again.
        let mut woken = Woken::default();
        self.gate().alone(|| {
            for id in PartitionId::all() {
                let mut held = self.hold(id);
                held.swap(left, right);
                if !held.waiters.is_empty() {
                    woken.add(held.waiters.take_all());
                }
                for db in [left, right] {
                    let table = &held.db(db).table;
                    self.sizes.of(db).publish(id, table);
                }
            }
        });
    }

    /// How long keys with a deadline still have, in milliseconds: the mean over some of them,
    /// beginning at a partition at random. 0 if there are none. Never waits: what is busy is left
    /// out.
    pub fn mean_ttl_ms(&self, db: DbIndex, now: UnixMs, random: &mut Rng) -> u64 {
        let Some(sizes) = self.sizes(db) else { return 0 };
        let (mut sum, mut count, mut looked) = (0_u128, 0_u64, 0_usize);
        let begin = random.below(PARTITION_COUNT as u64) as usize;
        for number in 0..PARTITION_COUNT {
            let id = PartitionId(((begin + number) % PARTITION_COUNT) as u16);
            if count >= TTL_SAMPLES || looked >= TTL_LOOKS {
                break;
            }
            if sizes.with_deadline_in(id) == 0 {
                continue;
            }
            let Some(held) = self.partition(id).try_lock() else { continue };
            let Some(part) = held.db_if_used(db) else { continue };
            let mut cursor = Cursor::START;
            while !cursor.is_end() && count < TTL_SAMPLES && looked < TTL_LOOKS {
                cursor = part.table.scan(cursor, &mut |place| {
                    looked += 1;
                    if let Some(deadline) = part.table.deadline(place) {
                        sum += u128::from(deadline.0.abs_diff(now.0.min(deadline.0)));
                        count += 1;
                    }
                });
            }
        }
        u64::try_from(sum / u128::from(count.max(1))).unwrap_or(u64::MAX)
    }

    /// Bytes of the tables of a database, without its records. Never waits: what is busy is left
    /// out.
    pub fn index_bytes(&self, db: DbIndex) -> u64 {
        let Some(sizes) = self.sizes(db) else { return 0 };
        let mut sum = 0;
        for id in PartitionId::all().filter(|id| sizes.keys_in(*id) > 0) {
            if let Some(held) = self.partition(id).try_lock()
                && let Some(part) = held.db_if_used(db)
            {
                sum += part.table.heap_bytes() as u64;
            }
        }
        sum
    }

    /// Shows each partition's part of a database, waiting for each: for reports, on threads that
    /// may block.
    pub fn each_table(&self, db: DbIndex, see: &mut dyn FnMut(PartitionId, &Table<Object>)) {
        for id in PartitionId::all() {
            let held = self.hold(id);
            if let Some(part) = held.db_if_used(db) {
                see(id, &part.table);
            }
        }
    }
}
