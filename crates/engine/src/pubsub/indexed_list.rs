//! A map that is quick to iterate, search and change.
//!
//! 1. Rows are contiguous; the last row moves to the place of a removed one.
//! 2. Short lists are searched linearly; long ones have an index from hashes to positions.
//! 3. Memory is returned when most rows have been removed.
//!
//! Tests: at the foot.

use hashbrown::HashTable;

/// Lists up to this length are searched linearly.
const SEARCHED_ROWS: usize = 8;

/// The key of a row.
pub trait Key: Eq {
    /// Its hash, the same at every call.
    fn hash(&self) -> u64;
}

/// A map that is quick to iterate: rows in one vector, with a hash index once there are many.
pub struct IndexedList<K, V> {
    rows: Vec<(K, V)>,
    index: Option<Box<HashTable<u32>>>,
}

impl<K, V> Default for IndexedList<K, V> {
    fn default() -> Self {
        IndexedList { rows: Vec::new(), index: None }
    }
}

impl<K: Key, V> IndexedList<K, V> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows.
    pub fn rows(&self) -> &[(K, V)] {
        &self.rows
    }

    /// The row with this hash that fits.
    pub fn get(&self, hash: u64, fits: impl Fn(&K) -> bool) -> Option<&(K, V)> {
        self.find(hash, fits).map(|at| &self.rows[at])
    }

    /// The value of the row with this hash that fits.
    pub fn get_mut(&mut self, hash: u64, fits: impl Fn(&K) -> bool) -> Option<&mut V> {
        let at = self.find(hash, fits)?;
        Some(&mut self.rows[at].1)
    }

    /// Adds a row; its key must be new.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        let (at, hash) = (self.rows.len(), key.hash());
        if at == self.rows.capacity() && at < SEARCHED_ROWS {
            // Most lists have one row.
            self.rows.reserve_exact(at.max(1));
        }
        self.rows.push((key, value));
        let rows = &self.rows;
        if let Some(index) = &mut self.index {
            index.insert_unique(hash, at as u32, |at| rows[*at as usize].0.hash());
        } else if rows.len() > SEARCHED_ROWS {
            let mut index = HashTable::with_capacity(rows.len() * 2);
            for (at, (key, _)) in rows.iter().enumerate() {
                index.insert_unique(key.hash(), at as u32, |at| rows[*at as usize].0.hash());
            }
            self.index = Some(Box::new(index));
        }
        &mut self.rows[at].1
    }

    /// Removes the row with this hash that fits.
    pub fn remove(&mut self, hash: u64, fits: impl Fn(&K) -> bool) -> Option<(K, V)> {
        let at = self.find(hash, fits)?;
        let last = self.rows.len() - 1;
        if let Some(index) = &mut self.index {
            let last_hash = self.rows[last].0.hash();
            if let Ok(entry) = index.find_entry(hash, |place| *place as usize == at) {
                entry.remove();
            }
            if at != last
                && let Some(place) = index.find_mut(last_hash, |place| *place as usize == last)
            {
                *place = at as u32;
            }
        }
        let row = self.rows.swap_remove(at);
        self.shrink();
        Some(row)
    }

    fn find(&self, hash: u64, fits: impl Fn(&K) -> bool) -> Option<usize> {
        match &self.index {
            None => self.rows.iter().position(|(key, _)| key.hash() == hash && fits(key)),
            Some(index) => {
                let found = index.find(hash, |at| fits(&self.rows[*at as usize].0))?;
                Some(*found as usize)
            }
        }
    }

    fn shrink(&mut self) {
        let len = self.rows.len();
        if len <= SEARCHED_ROWS / 2 {
            self.index = None;
        }
        if self.rows.capacity() <= SEARCHED_ROWS || len > self.rows.capacity() / 4 {
            return;
        }
        self.rows.shrink_to(len * 2);
        let rows = &self.rows;
        if let Some(index) = &mut self.index {
            index.shrink_to(len * 2, |at| rows[*at as usize].0.hash());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    impl Key for u8 {
        /// Many collide.
        fn hash(&self) -> u64 {
            u64::from(*self % 16)
        }
    }

    #[test]
    fn is_a_map_whatever_is_done_to_it() {
        let mut random = pantala_base::rng::Rng::from_seed(4);
        let (mut list, mut map) = (IndexedList::default(), BTreeMap::new());
        for step in 0..20_000_u32 {
            let key = random.next_u64() as u8;
            let fits = |found: &u8| *found == key;
            assert_eq!(list.get(key.hash(), fits).map(|row| row.1), map.get(&key).copied());
            // Grows for a while, then shrinks for a while.
            let grows = step / 1000 % 2 == 0;
            if map.contains_key(&key) && (!grows || step % 3 == 0) {
                assert_eq!(list.remove(key.hash(), fits), map.remove_entry(&key));
            } else if !map.contains_key(&key) && (grows || step % 3 == 0) {
                list.insert(key, step);
                map.insert(key, step);
            }
            assert_eq!(list.rows().len(), map.len());
        }
        let mut rows = list.rows().to_vec();
        rows.sort_unstable();
        assert!(rows.into_iter().eq(map));
    }
}
