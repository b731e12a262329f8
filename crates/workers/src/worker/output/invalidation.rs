//! Telling clients that keys are stale (CLIENT TRACKING): a push in RESP3, a channel message in
//! RESP2.

use pantala_commands::ServicePlace;
use pantala_keyspace::ClientId;
use pantala_protocol::{Reply, Version};
use pantala_sync::gate::Role;

use crate::worker::Worker;
use pantala_engine::Message;
use pantala_engine::clients::directory::{DeliveryOutcome, Transit};
use pantala_engine::clients::mailbox::Invalidation;

/// The channel on which RESP2 clients get invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Worker {
    /// Evicts tracked keys beyond the limit in a turn that runs no command: some are left when the
    /// limit was lowered by more than one turn can handle, or when a partition was busy.
    #[cold]
    pub fn forget_tracked(&self) {
        let engine = &self.context.engine;
        let _inside = engine.space.gate().enter(Role::Worker, self.index);
        engine.shrink_tracked();
    }

    /// Whether more keys are tracked than the limit allows.
    #[inline]
    pub fn has_too_many_tracked(&self) -> bool {
        self.context.engine.has_too_many_tracked(&self.settings)
    }

    /// Delivers a message to a client of this worker, or forwards it if the client has moved to
    /// another one.
    pub fn told(&mut self, handle: u64, client: ClientId, word: Invalidation) {
        let is_here = self.find_handle(handle).is_some_and(|one| one.session.id == client);
        if is_here {
            return self.tell_word(handle, &word);
        }
        let here = ServicePlace { worker: self.index as u16, connection: handle };
        if let DeliveryOutcome::To(place, word) =
            self.context.engine.notices.directory.send(client, word)
            && place != here
        {
            let message = Message::Tell { connection: place.connection, client, word };
            // A client that is not where it moved to meanwhile is gone for good.
            let _there = self.context.engine.workers.post(usize::from(place.worker), message);
        }
    }

    fn tell_word(&mut self, handle: u64, word: &Invalidation) {
        let Some(connection) = self.find_handle(handle) else { return };
        let listens = connection.session.is_subscribed();
        self.tell(handle, |out, version| write(out, version, word, listens));
    }

    /// Delivers to a client that has arrived from another worker what was kept for it in transit.
    pub fn told_in_transit(&mut self, index: u32, transit: &Transit) {
        let Some(connection) = self.at(index) else { return };
        let is_redirected = connection.session.tracking.is_none();
        let handle = connection.handle();
        for word in &transit.words {
            self.tell_word(handle, word);
        }
        if transit.is_torn {
            self.tell_word(handle, &Invalidation::Stale { keys: None, is_redirected });
        }
    }
}

/// Writes an invalidation, or the notice that the client it was redirected to is gone.
fn write(out: &mut Vec<u8>, version: Version, word: &Invalidation, listens: bool) {
    let mut push = Reply::new(out, version);
    match word {
        Invalidation::Stale { keys, is_redirected } => {
            if version == Version::Resp3 {
                push.push(2);
                push.bulk(b"invalidate");
            } else if *is_redirected && listens {
                push.array(3);
                push.bulk(b"message");
                push.bulk(CHANNEL);
            } else {
                return;
            }
            match keys {
                Some(keys) => {
                    push.array(keys.len());
                    keys.iter().for_each(|key| push.bulk(key));
                }
                None => push.null(),
            }
        }
        Invalidation::Broken(redirect) if version == Version::Resp3 => {
            push.push(2);
            push.bulk(b"tracking-redir-broken");
            push.int(redirect.cast_signed());
        }
        Invalidation::Broken(_) => {}
    }
}
