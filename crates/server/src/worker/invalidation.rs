//! A client is told that keys are stale: a push in RESP3, a message of a channel in RESP2.

use pantala_commands::Place;
use pantala_keyspace::ClientId;
use pantala_protocol::{Reply, Version};
use pantala_sync::gate::Role;

use super::Worker;
use pantala_engine::Message;
use pantala_engine::clients::directory::{Transit, Way};
use pantala_engine::clients::mailbox::Word;

/// The channel on which RESP2 clients hear of stale keys.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Worker {
    /// Forgets tracked keys that are too many, in a turn that runs no command: the limit was
    /// lowered, and what was too much for the turn that lowered it, or lay in a busy partition, is
    /// left.
    #[cold]
    pub(crate) fn forget_tracked(&self) {
        let engine = &self.shared.engine;
        let _inside = engine.space.gate().enter(Role::Worker, self.index);
        engine.shrink_tracked();
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn has_too_many_tracked(&self) -> bool {
        self.shared.engine.has_too_many_tracked(&self.settings)
    }

    /// Word for a client of this worker. One that has left for another gets it there.
    pub(crate) fn told(&mut self, handle: u64, client: ClientId, word: Word) {
        let is_here = self.find_handle(handle).is_some_and(|one| one.session.id == client);
        if is_here {
            return self.tell_word(handle, &word);
        }
        let here = Place { worker: self.index as u16, connection: handle };
        if let Way::To(place, word) = self.shared.engine.notices.directory.send(client, word)
            && place != here
        {
            let message = Message::Tell { connection: place.connection, client, word };
            // One that has left its place meanwhile is gone for good.
            let _there = self.shared.engine.workers.post(usize::from(place.worker), message);
        }
    }

    fn tell_word(&mut self, handle: u64, word: &Word) {
        let Some(connection) = self.find_handle(handle) else { return };
        let listens = connection.session.is_subscribed();
        self.tell(handle, |out, version| write(out, version, word, listens));
    }

    /// A client has come from another worker, and is told what waited for it.
    pub(crate) fn told_in_transit(&mut self, index: u32, transit: &Transit) {
        let Some(connection) = self.at(index) else { return };
        let is_redirected = connection.session.tracking.is_none();
        let handle = connection.handle();
        for word in &transit.words {
            self.tell_word(handle, word);
        }
        if transit.is_torn {
            self.tell_word(handle, &Word::Stale { keys: None, is_redirected });
        }
    }
}

/// Writes what a client is told.
fn write(out: &mut Vec<u8>, version: Version, word: &Word, listens: bool) {
    let mut push = Reply::new(out, version);
    match word {
        Word::Stale { keys, is_redirected } => {
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
        Word::Broken(redirect) if version == Version::Resp3 => {
            push.push(2);
            push.bulk(b"tracking-redir-broken");
            push.int(redirect.cast_signed());
        }
        Word::Broken(_) => {}
    }
}
