//! Who a client is, and what that leaves it free to do.
//!
//! ```text
//! nobody         the server itself: files that are read, scripts' own sessions
//! the default    a client as it begins; it may have to give a password first
//! another        after AUTH
//! ```
//!
//! Invariants
//! 1. [`Limits`] is worked out when a login or its user's rules change, so that a command of one
//!    who may do everything costs one look at a byte.
//! 2. A user never changes ([`pantala_acl::User`]). Whoever keeps a session brings it up to date
//!    ([`Login::renew`]) before it runs a command, if the version of the users has changed.
//!
//! Not here: rules (`pantala_acl`), asking them (`pantala_engine::clients::permission`).

use std::sync::Arc;

use pantala_acl::{InForce, User};

/// What restricts a client, as bits; none for most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits(u8);

impl Limits {
    /// It has to say who it is first.
    pub const LOCKED_OUT: Limits = Limits(1);
    /// Its user may not do everything.
    pub const RULES: Limits = Limits(1 << 1);
    /// It has subscribed to something.
    pub const SUBSCRIBED: Limits = Limits(1 << 2);
    /// A replica sends it to the primary.
    pub const REDIRECTED: Limits = Limits(1 << 3);

    /// Whether nothing does.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this does.
    #[inline]
    pub fn has(self, limit: Limits) -> bool {
        self.0 & limit.0 != 0
    }

    /// This set with `limit` added (`holds`) or removed.
    pub fn with(self, limit: Limits, holds: bool) -> Limits {
        if holds { Limits(self.0 | limit.0) } else { Limits(self.0 & !limit.0) }
    }
}

/// The user that a client has logged in as, and whether it has authenticated.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// Whose rules hold; nobody's for what the server does by itself.
    user: Option<Arc<User>>,
    /// It has shown who it is, or nobody asked when it came.
    is_authenticated: bool,
    /// Of the users that it was looked up in.
    version: u64,
}

/// What has become of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// It is the same.
    Same,
    /// It has other rules than this one.
    Changed(Arc<User>),
    /// It is gone.
    Gone,
}

impl Login {
    /// A client as it begins.
    pub fn of_client(now: &InForce) -> Login {
        let default = now.users.default_user();
        Login {
            user: Some(Arc::clone(default)),
            is_authenticated: default.is_open(),
            version: now.version,
        }
    }

    /// A client that has shown who it is.
    pub fn of_user(user: Arc<User>, version: u64) -> Login {
        Login { user: Some(user), is_authenticated: true, version }
    }

    /// One that has yet to show it.
    pub fn locked_out(now: &InForce) -> Login {
        Login { is_authenticated: false, ..Login::of_client(now) }
    }

    /// Whose rules hold.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// The version of the users that it was looked up in.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Looks its user up again.
    pub(crate) fn renew(&mut self, now: &InForce) -> Renewed {
        self.version = now.version;
        let Some(before) = &mut self.user else { return Renewed::Same };
        match now.users.find(before.name()) {
            Some(user) if Arc::ptr_eq(user, before) => Renewed::Same,
            Some(user) if user.id() == before.id() => {
                Renewed::Changed(std::mem::replace(before, Arc::clone(user)))
            }
            _ => Renewed::Gone,
        }
    }

    /// What it comes to, while the default user is `is_open` to everybody or not.
    pub(crate) fn limits(&self, is_open: bool) -> Limits {
        let is_locked_out = self.user.is_some() && !self.is_authenticated && !is_open;
        let has_rules = self.user.as_ref().is_some_and(|user| !user.is_unrestricted());
        Limits::default().with(Limits::LOCKED_OUT, is_locked_out).with(Limits::RULES, has_rules)
    }
}
