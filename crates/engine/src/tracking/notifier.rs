//! The notifier: effects of commands become messages for the workers of other clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use pantala_base::clock::monotonic_us;
use pantala_keyspace::{ChangeSink, ClientId, Effect, Readers, Ticket};

use super::trackers::AllTrackers;
use crate::clients::directory::DeliveryOutcome;
use crate::clients::mailbox::{ChangedKeys, Invalidation, Message};
use crate::engine::Engine;
use crate::pubsub::{Kind, WakeSet};

/// The bytes of a message beside the names of keys.
const MESSAGE_BYTES: usize = 64;

/// The change sink of a keyspace.
pub struct Notifier(Weak<Engine>);

impl Notifier {
    /// The sink for the keyspace of this engine.
    pub fn new(engine: &Arc<Engine>) -> Notifier {
        Notifier(Arc::downgrade(engine))
    }
}

impl ChangeSink for Notifier {
    fn hear(&self, happened: Vec<Effect>, wakes: &mut Vec<Ticket>) {
        let Some(engine) = self.0.upgrade() else { return };
        let mut ringing = WakeSet::default();
        let mut changed = Vec::new();
        for effect in happened {
            match effect {
                Effect::Happened { db, key, event } => {
                    engine.notices.events.tell(
                        &engine.notices.pubsub,
                        (db, &key),
                        event,
                        &mut ringing,
                    );
                }
                Effect::Publish { channel, message, by_slot } => {
                    let kind = if by_slot { Kind::SlotChannel } else { Kind::Channel };
                    engine.notices.pubsub.leave(kind, &channel, &message, &mut ringing);
                }
                Effect::Invalidate { key, readers, author } => changed.push((key, readers, author)),
            }
        }
        if !changed.is_empty() {
            let everybody = engine.notices.trackers.read();
            let mut round = Round::new(&engine, &everybody, &mut ringing);
            for (key, readers, author) in changed {
                round.invalidate(key.into(), &readers, author);
            }
            round.tell_broadcasts();
            engine.condition.told.add(round.told_bytes, monotonic_us());
        }
        hand_over(&engine, &ringing, wakes);
    }

    fn forget_all(&self, wakes: &mut Vec<Ticket>) {
        let Some(engine) = self.0.upgrade() else { return };
        let everybody = engine.notices.trackers.read();
        let mut ringing = WakeSet::default();
        let mut round = Round::new(&engine, &everybody, &mut ringing);
        for &client in everybody.by_client.keys() {
            round.tell(client, None);
        }
        hand_over(&engine, &ringing, wakes);
    }
}

/// Adds the workers that must be woken to `wakes`.
fn hand_over(engine: &Engine, ringing: &WakeSet, wakes: &mut Vec<Ticket>) {
    let inboxes = ringing.workers().filter_map(|worker| engine.workers.mailbox(worker));
    wakes.extend(inboxes.map(|inbox| Ticket::Inbox(inbox)));
}

/// The changed keys with one prefix, each with the client that changed it.
type Broadcast<'s> = (&'s BTreeSet<ClientId>, BTreeMap<Arc<[u8]>, ClientId>);

/// One handing over of effects.
struct Round<'s, 'b> {
    engine: &'s Engine,
    everybody: &'s AllTrackers,
    /// Workers that have messages.
    wakes: &'b mut WakeSet,
    broadcasts: BTreeMap<&'s [u8], Broadcast<'s>>,
    /// About the bytes that all of them are told.
    told_bytes: u64,
}

impl<'s, 'b> Round<'s, 'b> {
    fn new(engine: &'s Engine, everybody: &'s AllTrackers, wakes: &'b mut WakeSet) -> Self {
        Round { engine, everybody, wakes, broadcasts: BTreeMap::new(), told_bytes: 0 }
    }

    fn invalidate(&mut self, key: Arc<[u8]>, readers: &Readers, author: ClientId) {
        for (prefix, clients) in self.everybody.prefixes_of(&key) {
            let broadcast = self.broadcasts.entry(prefix);
            let changed = &mut broadcast.or_insert_with(|| (clients, BTreeMap::new())).1;
            let first = *changed.entry(key.clone()).or_insert(author);
            if first != author {
                // Each of them is to hear of the other's change.
                changed.insert(key.clone(), 0);
            }
        }
        let keys: ChangedKeys = [key].into();
        for reader in readers.iter().filter(|reader| **reader != author) {
            // Keys that a client has read before it switched to broadcast do not count any more.
            let tracker = self.everybody.by_client.get(reader);
            if tracker.is_some_and(|tracker| tracker.prefixes.is_empty()) {
                self.tell(*reader, Some(keys.clone()));
            }
        }
    }

    /// Tells each client that tracks a prefix of all its changed keys at once.
    fn tell_broadcasts(&mut self) {
        for (clients, changed) in std::mem::take(&mut self.broadcasts).into_values() {
            let all: ChangedKeys = changed.keys().cloned().collect();
            let authors: BTreeSet<ClientId> = changed.values().copied().collect();
            for &client in clients {
                let keys = match authors.contains(&client) {
                    false => all.clone(),
                    true => changed
                        .iter()
                        .filter(|(_, author)| **author != client)
                        .map(|(key, _)| key.clone())
                        .collect(),
                };
                if !keys.is_empty() {
                    self.tell(client, Some(keys));
                }
            }
        }
    }

    /// Leaves a message for a tracking client, or for the client that receives it instead.
    fn tell(&mut self, client: ClientId, keys: Option<ChangedKeys>) {
        let Some(tracker) = self.everybody.by_client.get(&client) else { return };
        let is_redirected = tracker.redirect != 0;
        let told = if is_redirected { tracker.redirect } else { client };
        let names = keys.iter().flat_map(|keys| keys.iter()).map(|key| key.len());
        // Twice, as it lies in a buffer that has grown by doubling.
        self.told_bytes += 2 * (MESSAGE_BYTES + names.sum::<usize>()) as u64;
        if self.leave(told, Invalidation::Stale { keys, is_redirected }) || !is_redirected {
            return;
        }
        tracker.is_broken.store(true, Ordering::Relaxed);
        self.leave(client, Invalidation::Broken(told));
    }

    /// Leaves a message; false if the client is gone.
    fn leave(&mut self, client: ClientId, word: Invalidation) -> bool {
        match self.engine.notices.directory.send(client, word) {
            DeliveryOutcome::To(place, word) => {
                let message = Message::Tell { connection: place.connection, client, word };
                if self.engine.workers.leave(usize::from(place.worker), message) {
                    self.wakes.add(place.worker);
                }
                true
            }
            DeliveryOutcome::Kept => true,
            DeliveryOutcome::Gone => false,
        }
    }
}
