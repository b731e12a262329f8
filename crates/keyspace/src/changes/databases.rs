//! The databases of one partition, and the tables in them.
//!
//! The tables are open only to this folder; all other code changes them through `change`.

use pantala_table::Table;
use pantala_values::Object;

use crate::Keyspace;
use crate::key::{DbIndex, PartitionId};
use crate::lifetime::timed::DeadlineTable;

/// The part of one logical database in one partition.
#[derive(Default)]
pub struct Db {
    pub(super) table: Table<Object>,
    /// Which keys have elements with deadlines.
    pub(super) timed: DeadlineTable,
    /// Its number at the cut of the last snapshot, if it had keys then.
    pub(super) cut: Option<DbIndex>,
}

impl Db {
    /// The records, read-only.
    #[inline]
    pub fn table(&self) -> &Table<Object> {
        &self.table
    }

    #[inline]
    pub(crate) fn timed(&self) -> &DeadlineTable {
        &self.timed
    }

    /// Its number at the cut of the running snapshot, if it had keys then.
    pub(crate) fn cut(&self) -> Option<DbIndex> {
        self.cut
    }

    /// Marks all records as not saved; whether there are any.
    pub(crate) fn begin_epoch(&mut self, number: DbIndex) -> bool {
        self.table.begin_epoch();
        self.cut = (!self.table.is_empty()).then_some(number);
        self.cut.is_some()
    }

    /// The records, only to be marked as saved or reallocated.
    pub(crate) fn table_to_mark(&mut self) -> &mut Table<Object> {
        &mut self.table
    }
}

/// All databases of one partition.
#[derive(Default)]
pub(crate) struct Databases {
    first: Db,
    /// Boxed, so that an unused database takes no more than a pointer in each partition.
    others: Vec<Option<Box<Db>>>,
}

impl Databases {
    /// A database, if it was ever used.
    #[inline]
    pub fn if_used(&self, index: DbIndex) -> Option<&Db> {
        match index.index() {
            0 => Some(&self.first),
            number => self.others.get(number - 1)?.as_deref(),
        }
    }

    /// A database, if it was ever used.
    pub fn if_used_mut(&mut self, index: DbIndex) -> Option<&mut Db> {
        match index.index() {
            0 => Some(&mut self.first),
            number => self.others.get_mut(number - 1)?.as_deref_mut(),
        }
    }

    /// A database; created on first use.
    #[inline]
    pub(super) fn at(&mut self, index: DbIndex) -> &mut Db {
        match index.index() {
            0 => &mut self.first,
            number => {
                if number > self.others.len() {
                    self.others.resize_with(number, || None);
                }
                self.others[number - 1].get_or_insert_default()
            }
        }
    }

    /// Frees the memory of a database if it is empty and no snapshot refers to it.
    pub fn forget_if_empty(&mut self, index: DbIndex) {
        let Some(number) = index.index().checked_sub(1) else { return };
        let Some(Some(db)) = self.others.get(number) else { return };
        if !db.table.is_empty() || db.cut.is_some() {
            return;
        }
        self.others[number] = None;
        if self.others.iter().all(Option::is_none) {
            self.others = Vec::new();
        }
    }

    /// All used databases with their numbers.
    pub fn all_mut(&mut self) -> impl Iterator<Item = (DbIndex, &mut Db)> {
        let others = self.others.iter_mut().map(Option::as_deref_mut);
        let all = std::iter::once(Some(&mut self.first)).chain(others);
        (0..).map(DbIndex).zip(all).filter_map(|(index, db)| Some((index, db?)))
    }

    /// The first number from `from` on that a database had at the cut.
    pub fn next_cut(&self, from: DbIndex) -> Option<DbIndex> {
        let others = self.others.iter().filter_map(Option::as_deref);
        let all = std::iter::once(&self.first).chain(others);
        all.filter_map(|db| db.cut).filter(|cut| *cut >= from).min()
    }

    /// The database that had this number at the cut of the running snapshot.
    pub fn cut_as(&mut self, cut: DbIndex) -> Option<&mut Db> {
        self.all_mut().find(|(_, db)| db.cut == Some(cut)).map(|(_, db)| db)
    }

    /// Exchanges two databases. To be followed, for all partitions, by [`ChangeObserver::swapped`].
    pub fn swap(&mut self, left: DbIndex, right: DbIndex, id: PartitionId, space: &Keyspace) {
        debug_assert_ne!(left, right, "they are two");
        let taken = std::mem::take(self.at(left));
        let other = std::mem::replace(self.at(right), taken);
        *self.at(left) = other;
        for db in [left, right] {
            space.sizes.of(db).publish(id, self.at(db));
        }
    }

    /// Takes over the databases of `other`; these are empty. To be followed, for all partitions, by
    /// [`ChangeObserver::flushed`].
    pub fn take_all(&mut self, other: &mut Databases, id: PartitionId, space: &Keyspace) {
        for (index, db) in other.all_mut().filter(|(_, db)| !db.table.is_empty()) {
            let taken = std::mem::take(db);
            let db = self.at(index);
            debug_assert!(db.table.is_empty(), "it was flushed");
            *db = taken;
            space.sizes.of(index).publish(id, db);
        }
    }
}
