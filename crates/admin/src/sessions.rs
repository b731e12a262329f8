//! Sessions of browsers that have logged in, by cookie.
//!
//! Invariants
//! 1. A cookie is 32 random bytes. Only its digest is kept, and lookups go by the digest.
//! 2. A session ends when its user is deleted, switched off or gets other passwords, when it was
//!    not used for [`IDLE_MOST`], or when it is the oldest of more than [`MOST`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantala_acl::{User, VersionedUsers};
use pantala_commands::Login;
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};

/// How long an unused session lives.
const IDLE_MOST: Duration = Duration::from_secs(3600);
/// The most sessions.
const MOST: usize = 1_000;
/// Bytes of a cookie, before hexadecimal encoding.
const COOKIE_BYTES: usize = 32;

type Digested = [u8; 32];

struct Session {
    user: Arc<User>,
    used: Instant,
}

/// All sessions of browsers, by the digest of their cookie.
#[derive(Default)]
pub(crate) struct Sessions {
    by_cookie: Mutex<HashMap<Digested, Session>>,
}

impl Sessions {
    /// Starts a session for this user and returns the cookie. `None`: the system gave no random
    /// bytes.
    pub fn begin(&self, user: Arc<User>) -> Option<String> {
        let mut bytes = [0; COOKIE_BYTES];
        getrandom::fill(&mut bytes).ok()?;
        let cookie: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let now = Instant::now();
        let mut sessions = self.lock();
        sessions.retain(|_, session| now.duration_since(session.used) < IDLE_MOST);
        while sessions.len() >= MOST {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            let Some(oldest) = oldest.map(|(digest, _)| *digest) else { break };
            sessions.remove(&oldest);
        }
        sessions.insert(digest(&cookie), Session { user, used: now });
        Some(cookie)
    }

    /// The user of this cookie, according to the users in force.
    pub fn find(&self, cookie: &str, now: &VersionedUsers) -> Option<Login> {
        let key = digest(cookie);
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key)?;
        let user = now.users.find(session.user.name());
        let user = user.filter(|user| is_still(user, &session.user)).map(Arc::clone);
        let (Some(user), true) = (user, session.used.elapsed() < IDLE_MOST) else {
            sessions.remove(&key);
            return None;
        };
        session.used = Instant::now();
        session.user = Arc::clone(&user);
        Some(Login::of_user(user, now.version))
    }

    /// Ends the session of this cookie.
    pub fn end(&self, cookie: &str) {
        self.lock().remove(&digest(cookie));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digested, Session>> {
        self.by_cookie.lock()
    }
}

/// Whether a user is the one that has logged in, and could log in again.
fn is_still(user: &Arc<User>, before: &Arc<User>) -> bool {
    Arc::ptr_eq(user, before)
        || user.id() == before.id()
            && user.is_on()
            && user.has_no_password() == before.has_no_password()
            && user.password_texts().eq(before.password_texts())
}

fn digest(cookie: &str) -> Digested {
    Sha256::digest(cookie.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use pantala_acl::Acl;
    use pantala_commands::Registry;

    use super::*;

    fn acl() -> Acl {
        let registry = Registry::new(&[]);
        Acl::new(pantala_acl::Users::new(Arc::new(registry.catalogue())))
    }

    fn set(acl: &Acl, rules: &[&str]) {
        let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
        let channels = pantala_acl::DefaultChannels::None;
        acl.change(|users| users.with_rules(b"anna", &rules, channels)).expect("good rules");
    }

    fn anna(acl: &Acl) -> Arc<User> {
        Arc::clone(acl.in_force().users.find(b"anna").expect("she is there"))
    }

    #[test]
    fn a_session_lasts_as_long_as_its_user_could_log_in_again() {
        for (change, lasts) in [
            (&["+@all", "~*"][..], true),
            (&["off"], false),
            (&[">other"], false),
            (&["nopass"], false),
        ] {
            let (acl, sessions) = (acl(), Sessions::default());
            set(&acl, &["on", ">secret"]);
            let cookie = sessions.begin(anna(&acl)).expect("randomness");
            assert!(sessions.find(&cookie, &acl.in_force()).is_some());
            set(&acl, change);
            assert_eq!(sessions.find(&cookie, &acl.in_force()).is_some(), lasts, "{change:?}");
        }
    }

    #[test]
    fn a_user_of_the_same_name_is_somebody_else() {
        let (acl, sessions) = (acl(), Sessions::default());
        set(&acl, &["on", "nopass"]);
        let cookie = sessions.begin(anna(&acl)).expect("randomness");
        let gone = acl.change(|users| Ok::<_, ()>(users.without(&[b"anna"]).0));
        assert!(gone.is_ok());
        set(&acl, &["on", "nopass"]);
        assert!(sessions.find(&cookie, &acl.in_force()).is_none());
    }

    #[test]
    fn cookies_are_many_and_bounded_and_end() {
        let (acl, sessions) = (acl(), Sessions::default());
        set(&acl, &["on", "nopass"]);
        let first = sessions.begin(anna(&acl)).expect("randomness");
        let mut last = first.clone();
        for _ in 0..MOST {
            let next = sessions.begin(anna(&acl)).expect("randomness");
            assert_ne!(next, last);
            last = next;
        }
        assert_eq!(sessions.lock().len(), MOST);
        assert!(sessions.find(&first, &acl.in_force()).is_none(), "the oldest had to go");
        sessions.end(&last);
        assert!(sessions.find(&last, &acl.in_force()).is_none());
        assert!(sessions.find("", &acl.in_force()).is_none());
    }
}
