//! What a change of users means for a worker's connections.
//!
//! Invariants
//! 1. Before anything runs that has arrived in a turn its session knows the users of that moment;
//!    after a command that changes them so do those that follow it. So what a client was told to be
//!    done holds for all that anybody sends after that.
//! 2. The same holds for what it is told without asking: messages that were published later, and
//!    what a monitor is shown.
//! 3. A connection whose user is gone, or which listens to a channel that its user may not listen
//!    to any more, ends: it has its replies, and nothing more of it runs.
//!
//! Not here: whose rules hold for a command (the engine's `permission`). Tests: `tests/acl.rs`.

use std::mem::take;

use pantala_acl::{ChannelKind, InForce};
use pantala_commands::Session;
use pantala_engine::pubsub::{Kind, PubSub};

use super::Worker;
use super::connection::Life;

impl Worker {
    /// Looks whether there are other users than its connections know.
    #[inline]
    pub(crate) fn look_at_users(&mut self) {
        if self.shared.engine.acl.version() != self.users.version {
            self.renew_all();
        }
    }

    #[cold]
    fn renew_all(&mut self) {
        self.users = self.shared.engine.acl.in_force();
        for index in 0..self.connections.len() {
            self.renew_one(index as u32);
        }
    }

    /// Brings a connection's session up to date that comes from elsewhere, which may end it.
    pub(super) fn renew_login(&mut self, index: u32) {
        // It may know users that this worker has not heard of yet.
        self.look_at_users();
        self.renew_one(index);
    }

    fn renew_one(&mut self, index: u32) {
        let users = self.users.clone();
        let engine = std::sync::Arc::clone(&self.shared.engine);
        let Some(connection) = self.at(index) else { return };
        renew(&mut connection.session, &users, &engine.notices.pubsub);
        if connection.session.closing && connection.life == Life::Open {
            connection.life = Life::Ending;
            self.stop_waiting(index);
            self.touch(index);
        }
    }
}

/// Brings a session up to date; it is closing if its user is gone, or has lost a channel of its.
pub(super) fn renew(session: &mut Session, users: &InForce, pubsub: &PubSub) {
    if session.login().version() != users.version {
        session.closing |= !session.renew_login(users);
    }
    if take(&mut session.has_fewer_channels) {
        session.closing |= has_lost_channel(pubsub, session);
    }
}

/// Whether it listens to something that its user may not listen to any more.
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
