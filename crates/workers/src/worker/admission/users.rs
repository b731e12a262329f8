//! Changes of users (ACL), as a worker's connections see them.
//!
//! Invariants
//! 1. Before the input of a turn runs, its session has been updated to the users of that moment;
//!    after a command that changes users, so are the sessions of the commands that follow. So once
//!    a client has been answered that a change is done, the change holds for everything that any
//!    client sends afterwards.
//! 2. The same holds for pushed data: messages published later, and the lines of a monitor.
//! 3. A connection ends when its user is removed, or may no longer listen to a channel that the
//!    connection has subscribed to: it gets its replies, and nothing more of it runs.
//!
//! Not here: which rules apply to a command (the engine's `permission`). Tests: `tests/acl.rs`.

use std::mem::take;

use pantala_acl::{ChannelKind, VersionedUsers};
use pantala_commands::Session;
use pantala_engine::pubsub::{Kind, PubSub};

use crate::worker::Worker;
use crate::worker::connection::Life;

impl Worker {
    /// Updates all connections if the users have changed.
    #[inline]
    pub fn look_at_users(&mut self) {
        if self.context.engine.acl.version() != self.users.version {
            self.renew_all();
        }
    }

    #[cold]
    fn renew_all(&mut self) {
        self.users = self.context.engine.acl.in_force();
        for index in 0..self.connections.len() {
            self.renew_one(index as u32);
        }
    }

    /// Updates the session of a connection that has come from elsewhere, which may end it.
    pub(crate) fn renew_login(&mut self, index: u32) {
        // It may know newer users than this worker does.
        self.look_at_users();
        self.renew_one(index);
    }

    fn renew_one(&mut self, index: u32) {
        let users = self.users.clone();
        let engine = std::sync::Arc::clone(&self.context.engine);
        let Some(connection) = self.at(index) else { return };
        renew(&mut connection.session, &users, &engine.notices.pubsub);
        if connection.session.closing && connection.life == Life::Open {
            connection.life = Life::Ending;
            self.stop_waiting(index);
            self.touch(index);
        }
    }
}

/// Updates a session. The session is closing if its user was removed or has lost one of its
/// channels.
pub(crate) fn renew(session: &mut Session, users: &VersionedUsers, pubsub: &PubSub) {
    if session.login().version() != users.version {
        session.closing |= !session.renew_login(users);
    }
    if take(&mut session.has_fewer_channels) {
        session.closing |= has_lost_channel(pubsub, session);
    }
}

/// Whether the session is subscribed to something that its user may not listen to any more.
#[cold]
fn has_lost_channel(pubsub: &PubSub, session: &Session) -> bool {
    let Some(user) = session.login().user().filter(|_| session.is_subscribed()) else {
        return false;
    };
    let kinds = [
        (Kind::Channel, ChannelKind::Exact),
        (Kind::SlotChannel, ChannelKind::Exact),
        (Kind::Pattern, ChannelKind::Pattern),
    ];
    kinds.iter().any(|&(kind, named)| {
        let names = pubsub.names(session.place, kind);
        names.iter().any(|name| !user.may_use_channel(name.bytes(), named))
    })
}
