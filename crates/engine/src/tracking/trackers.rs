//! Clients that track keys, and their prefixes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pantala_commands::Tracking;
use pantala_keyspace::event::EventClass;
use pantala_keyspace::{ClientId, EventMask, Keyspace};
use pantala_settings::Settings;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::engine::settings_cell::SettingsCell;

/// A client that tracks keys.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    pub(super) redirect: ClientId,
    pub(super) is_broken: Arc<AtomicBool>,
    pub(super) prefixes: Arc<Vec<Vec<u8>>>,
}

/// All tracking clients.
#[derive(Default)]
pub(super) struct AllTrackers {
    pub(super) by_client: HashMap<ClientId, Tracker>,
    by_prefix: BTreeMap<Box<[u8]>, BTreeSet<ClientId>>,
    /// The number of prefixes of each length: only prefixes of a key with these lengths are looked
    /// up.
    lengths: BTreeMap<usize, usize>,
}

impl AllTrackers {
    fn add_prefix(&mut self, prefix: &[u8], client: ClientId) {
        if !self.by_prefix.contains_key(prefix) {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        self.by_prefix.entry(prefix.into()).or_default().insert(client);
    }

    fn remove_prefix(&mut self, prefix: &[u8], client: ClientId) {
        let Some(clients) = self.by_prefix.get_mut(prefix) else { return };
        clients.remove(&client);
        if !clients.is_empty() {
            return;
        }
        self.by_prefix.remove(prefix);
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// The tracked prefixes of a key, each with its clients.
    pub(super) fn prefixes_of<'e>(
        &'e self,
        key: &[u8],
    ) -> impl Iterator<Item = (&'e Box<[u8]>, &'e BTreeSet<ClientId>)> {
        let lengths = self.lengths.range(..=key.len());
        lengths.filter_map(|(&length, _)| self.by_prefix.get_key_value(&key[..length]))
    }
}

/// All clients that track keys (CLIENT TRACKING), and their prefixes.
#[derive(Default)]
pub struct Trackers {
    everybody: RwLock<AllTrackers>,
    count: AtomicUsize,
}

impl Trackers {
    /// Whether any client tracks.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.count() > 0
    }

    /// The number of tracking clients.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The number of tracked prefixes.
    pub fn prefix_count(&self) -> usize {
        self.read().by_prefix.len()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, AllTrackers> {
        self.everybody.read()
    }

    fn change(
        &self,
        space: &Keyspace,
        settings: &SettingsCell,
        change: impl FnOnce(&mut AllTrackers),
    ) {
        let mut everybody = self.everybody.write();
        change(&mut everybody);
        self.count.store(everybody.by_client.len(), Ordering::Relaxed);
        // Under the lock, so that the keyspace is told of the later of two changes last.
        space.want(wanted(&everybody, &settings.current()));
    }

    /// Makes a client track in this mode.
    pub fn join(
        &self,
        space: &Keyspace,
        settings: &SettingsCell,
        client: ClientId,
        tracking: &Tracking,
    ) {
        let tracker = Tracker {
            redirect: tracking.redirect,
            is_broken: Arc::clone(&tracking.is_broken),
            prefixes: Arc::clone(&tracking.prefixes),
        };
        self.change(space, settings, |everybody| {
            for prefix in tracker.prefixes.iter() {
                everybody.add_prefix(prefix, client);
            }
            everybody.by_client.insert(client, tracker);
        });
    }

    /// Ends tracking for a client.
    pub fn leave(&self, space: &Keyspace, settings: &SettingsCell, client: ClientId) {
        if self.is_used() {
            self.change(space, settings, |everybody| {
                let tracker = everybody.by_client.remove(&client);
                for prefix in tracker.iter().flat_map(|tracker| tracker.prefixes.iter()) {
                    everybody.remove_prefix(prefix, client);
                }
            });
        }
    }

    /// Tells the keyspace of changed settings.
    pub fn settings_changed(&self, space: &Keyspace, settings: &SettingsCell) {
        self.change(space, settings, |_| {});
    }
}

/// `tracking-table-max-keys`; 0 in the settings means no limit.
pub fn most_keys(settings: &Settings) -> usize {
    match settings.tracking_table_max_keys {
        0 => usize::MAX,
        most => usize::try_from(most).unwrap_or(usize::MAX),
    }
}

/// What the keyspace has to report.
fn wanted(everybody: &AllTrackers, settings: &Settings) -> EventMask {
    let letters = &settings.notify_keyspace_events;
    let mut wanted = EventMask::NOTHING;
    if letters.contains(['K', 'E']) {
        let classes = letters.chars().map(EventClass::of_letter);
        wanted = EventMask::events(classes.fold(EventClass::NONE, EventClass::and));
    }
    if !everybody.by_client.is_empty() {
        wanted = wanted.and(EventMask::READ_KEYS);
    }
    if !everybody.by_prefix.is_empty() {
        wanted = wanted.and(EventMask::ALL_KEYS);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(everybody: &AllTrackers, key: &str) -> Vec<String> {
        let found = everybody.prefixes_of(key.as_bytes());
        found.map(|(prefix, _)| String::from_utf8_lossy(prefix).into_owned()).collect()
    }

    #[test]
    fn finds_every_prefix_of_a_key() {
        let mut everybody = AllTrackers::default();
        for (client, prefix) in [(1, ""), (1, "a"), (2, "a"), (2, "abc"), (3, "b"), (3, "abd")] {
            everybody.add_prefix(prefix.as_bytes(), client);
        }
        assert_eq!(prefixes(&everybody, "abcd"), ["", "a", "abc"]);
        assert_eq!(prefixes(&everybody, ""), [""]);
        everybody.remove_prefix(b"a", 2);
        everybody.remove_prefix(b"abc", 2);
        everybody.remove_prefix(b"", 1);
        assert_eq!(prefixes(&everybody, "abcd"), ["a"]);
        assert_eq!(everybody.lengths, BTreeMap::from([(1, 2), (3, 1)]));
    }

    #[test]
    fn the_keyspace_tells_what_is_asked_for_and_no_more() {
        let mut settings = Settings::defaults();
        let mut everybody = AllTrackers::default();
        assert_eq!(wanted(&everybody, &settings), EventMask::NOTHING);
        settings.notify_keyspace_events = "g$".into();
        assert_eq!(wanted(&everybody, &settings), EventMask::NOTHING);
        settings.notify_keyspace_events = "$nE".into();
        let classes = EventClass::STRING.and(EventClass::NEW);
        assert_eq!(wanted(&everybody, &settings), EventMask::events(classes));
        everybody.add_prefix(b"a", 1);
        let with_keys = EventMask::events(classes).and(EventMask::ALL_KEYS);
        assert_eq!(wanted(&everybody, &settings), with_keys);
    }
}
