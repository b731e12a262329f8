//! Keyspace notifications: events of keys, published on channels.
//!
//! `__keyspace@0__:key` gets the name of the event, `__keyevent@0__:event` the key. The keyspace
//! collects the events that are wanted (`notify-keyspace-events`) with the partition locked and in
//! order; see `pantala_keyspace::Effect`.
//!
//! Tests: compat/transcripts/notifications, compat's `events`.

use std::sync::atomic::{AtomicU8, Ordering};

use pantala_keyspace::DbIndex;
use pantala_keyspace::event::KeyEvent;
use pantala_settings::Settings;

use crate::pubsub::{Kind, PubSub, WakeSet};

const BY_KEY: u8 = 1;
const BY_EVENT: u8 = 2;

/// Which of the two kinds of channels are used.
#[derive(Default)]
pub struct Events(AtomicU8);

impl Events {
    /// Reads the letters K and E.
    pub fn configure(&self, settings: &Settings) {
        let has =
            |letter, bit| if settings.notify_keyspace_events.contains(letter) { bit } else { 0 };
        self.0.store(has('K', BY_KEY) | has('E', BY_EVENT), Ordering::Relaxed);
    }

    /// Publishes an event.
    pub fn tell(
        &self,
        pubsub: &PubSub,
        (db, key): (DbIndex, &[u8]),
        event: KeyEvent,
        wakes: &mut WakeSet,
    ) {
        if pubsub.is_deserted(Kind::Channel) {
            return;
        }
        let channels = self.0.load(Ordering::Relaxed);
        if channels & BY_KEY != 0 {
            let mut channel = format!("__keyspace@{}__:", db.0).into_bytes();
            channel.extend_from_slice(key);
            pubsub.leave(Kind::Channel, &channel, event.name.as_bytes(), wakes);
        }
        if channels & BY_EVENT != 0 {
            let channel = format!("__keyevent@{}__:{}", db.0, event.name);
            pubsub.leave(Kind::Channel, channel.as_bytes(), key, wakes);
        }
    }
}
