//! The login of a client, and the restrictions that follow from it.
//!
//! ```text
//! nobody         the server itself: files that are read, scripts' own sessions
//! the default    a new client; it may have to authenticate first
//! another        after AUTH
//! ```
//!
//! Invariants
//! 1. [`LoginLimits`] are computed when a login or its user's rules change, so that for an
//!    unrestricted user a command costs one look at a byte.
//! 2. A user never changes ([`pantala_acl::User`]). The owner of a session brings it up to date
//!    ([`Login::renew`]) before it runs a command, if the version of the users has changed.
//!
//! Not here: rules (`pantala_acl`), asking them (`pantala_engine::clients::permission`).

use std::sync::Arc;

use pantala_acl::{User, VersionedUsers};

/// The restrictions of a client, as bits; none for most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginLimits(u8);

impl LoginLimits {
    /// It has to authenticate first.
    pub const LOCKED_OUT: LoginLimits = LoginLimits(1);
    /// Its user has rules.
    pub const RULES: LoginLimits = LoginLimits(1 << 1);
    /// It has subscribed to something.
    pub const SUBSCRIBED: LoginLimits = LoginLimits(1 << 2);
    /// A replica sends it to the primary.
    pub const REDIRECTED: LoginLimits = LoginLimits(1 << 3);

    /// Whether it is empty.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether any bit of `limit` is set.
    #[inline]
    pub fn has(self, limit: LoginLimits) -> bool {
        self.0 & limit.0 != 0
    }

    /// This set with `limit` added (`holds`) or removed.
    pub fn with(self, limit: LoginLimits, holds: bool) -> LoginLimits {
        if holds { LoginLimits(self.0 | limit.0) } else { LoginLimits(self.0 & !limit.0) }
    }
}

/// The user that a client has logged in as, and whether it has authenticated.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The user whose rules apply; `None` for commands that the server itself runs.
    user: Option<Arc<User>>,
    /// It has authenticated, or needed not to when it came.
    is_authenticated: bool,
    /// The version of the users in which it was looked up.
    version: u64,
}

/// The result of looking a user up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserRefresh {
    /// It is the same.
    Same,
    /// It has other rules now.
    Changed(Arc<User>),
    /// It was removed.
    Gone,
}

impl Login {
    /// The login of a new client.
    pub fn of_client(now: &VersionedUsers) -> Login {
        let default = now.users.default_user();
        Login {
            user: Some(Arc::clone(default)),
            is_authenticated: default.is_open(),
            version: now.version,
        }
    }

    /// The login of a client that has authenticated.
    pub fn of_user(user: Arc<User>, version: u64) -> Login {
        Login { user: Some(user), is_authenticated: true, version }
    }

    /// The login of a client that has yet to authenticate.
    pub fn locked_out(now: &VersionedUsers) -> Login {
        Login { is_authenticated: false, ..Login::of_client(now) }
    }

    /// The user whose rules apply.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// The version of the users in which it was looked up.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Looks its user up again.
    pub(crate) fn renew(&mut self, now: &VersionedUsers) -> UserRefresh {
        self.version = now.version;
        let Some(before) = &mut self.user else { return UserRefresh::Same };
        match now.users.find(before.name()) {
            Some(user) if Arc::ptr_eq(user, before) => UserRefresh::Same,
            Some(user) if user.id() == before.id() => {
                UserRefresh::Changed(std::mem::replace(before, Arc::clone(user)))
            }
            _ => UserRefresh::Gone,
        }
    }

    /// The restrictions that follow, while the default user is `is_open` (needs no password) or
    /// not.
    pub(crate) fn limits(&self, is_open: bool) -> LoginLimits {
        let is_locked_out = self.user.is_some() && !self.is_authenticated && !is_open;
        let has_rules = self.user.as_ref().is_some_and(|user| !user.is_unrestricted());
        LoginLimits::default()
            .with(LoginLimits::LOCKED_OUT, is_locked_out)
            .with(LoginLimits::RULES, has_rules)
    }
}
