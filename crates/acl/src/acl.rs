//! The users in force and the log of denied accesses, for all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::log::AclLog;
use crate::users::Users;

/// The current users; readers keep their `Arc` and check the version.
pub struct Acl {
    version: AtomicU64,
    users: RwLock<Arc<Users>>,
    /// The log of denied accesses.
    pub log: AclLog,
}

/// The users at one moment, with their version.
#[derive(Clone, Debug)]
pub struct VersionedUsers {
    /// The users.
    pub users: Arc<Users>,
    /// Their version, or an older one: then they are fetched again needlessly.
    pub version: u64,
}

impl Acl {
    /// Starts with these users.
    pub fn new(users: Users) -> Acl {
        let users = RwLock::new(Arc::new(users));
        Acl { version: AtomicU64::new(1), users, log: AclLog::default() }
    }

    /// A number that changes with every change of users.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The users in force.
    pub fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read())
    }

    /// The users in force, with the version that tells whether they have been replaced since.
    pub fn in_force(&self) -> VersionedUsers {
        let version = self.version();
        VersionedUsers { users: self.users(), version }
    }

    /// Replaces the users in force by the result of `change`. Nothing changes on an error.
    pub fn change<E>(
        &self,
        change: impl FnOnce(&Users) -> Result<Users, E>,
    ) -> Result<Arc<Users>, E> {
        let mut users = self.users.write();
        let changed = Arc::new(change(&users)?);
        *users = Arc::clone(&changed);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(changed)
    }
}
