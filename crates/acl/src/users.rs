//! All users of the server.

use std::sync::Arc;

use crate::by_name::NameMap;
use crate::error::SetUserError;
use crate::password::Password;
use crate::rules::catalogue::Catalogue;
use crate::rules::patterns::DefaultChannels;
use crate::rules::words::has_space;
use crate::user::User;

/// The name of the user of a new connection.
pub const DEFAULT_NAME: &[u8] = b"default";

/// All users at one moment. Immutable: a change of a user makes a new `Users`.
#[derive(Clone, Debug)]
pub struct Users {
    catalogue: Arc<Catalogue>,
    by_name: NameMap,
    default: Arc<User>,
}

impl Users {
    /// Only the default user, with all permissions.
    pub fn new(catalogue: Arc<Catalogue>) -> Users {
        let mut default = User::new(DEFAULT_NAME, &catalogue, DefaultChannels::All);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on", b"nopass"] {
            let done = default.change(rule, &catalogue, DefaultChannels::All);
            debug_assert_eq!(done, Ok(()));
        }
        let default = Arc::new(default.settled());
        let mut by_name = NameMap::default();
        by_name.insert(Arc::clone(&default));
        Users { catalogue, by_name, default }
    }

    /// The commands that rules can name.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// The user of a new connection.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// The user with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// Whether the default user is the only one and needs no password.
    pub fn needs_no_login(&self) -> bool {
        self.by_name.len() == 1 && self.default.is_open()
    }

    /// All users, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.iter()
    }

    /// The user with this name, if it is on and has this password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // The password is digested for any name, so that the time does not tell which names exist,
        // and compared in any case, so that it does not tell which users are off.
        let given = Password::of(password);
        let user = self.find(name)?;
        let accepts = user.accepts(&given);
        (accepts && user.is_on()).then(|| Arc::clone(user))
    }

    /// The users after SETUSER has created or changed a user by these rules, or an error.
    pub fn with_rules(
        &self,
        name: &[u8],
        rules: &[&[u8]],
        channels: DefaultChannels,
    ) -> Result<Users, SetUserError> {
        if has_space(name) {
            return Err(SetUserError::BadName);
        }
        let rules = merged(rules)?;
        let mut user = match self.find(name) {
            Some(user) => User::clone(user),
            None => User::new(name, &self.catalogue, channels),
        };
        for rule in rules {
            let changed = user.change(&rule, &self.catalogue, channels);
            changed.map_err(|error| SetUserError::Rule(rule, error))?;
        }
        let mut users = self.clone();
        users.insert(user);
        Ok(users)
    }

    /// The users without these names, and how many were removed. The default user stays.
    pub fn without(&self, names: &[&[u8]]) -> (Users, usize) {
        let mut users = self.clone();
        for name in names.iter().filter(|name| **name != DEFAULT_NAME) {
            users.by_name.remove(name);
        }
        let gone = self.by_name.len() - users.by_name.len();
        (users, gone)
    }

    /// The users after a change of `requirepass`: the default user's only password, or none.
    pub fn with_default_password(&self, password: &[u8]) -> Users {
        let mut user = User::clone(&self.default);
        user.set_only_password(password);
        let mut users = self.clone();
        users.insert(user);
        users
    }

    /// These users as the successors of `before`: a user with the same name keeps its id.
    #[must_use]
    pub fn in_place_of(mut self, before: &Users) -> Users {
        let users: Vec<Arc<User>> = self.iter().cloned().collect();
        for user in users {
            match before.find(user.name()) {
                Some(known) if *known == user => self.put(Arc::clone(known)),
                Some(known) => self.put(Arc::new(User::clone(&user).with_id(known.id()))),
                None => {}
            }
        }
        self
    }

    /// Inserts a user with these rules, or replaces the one with the name.
    pub(crate) fn insert(&mut self, user: User) {
        let user = match self.find(user.name()) {
            Some(before) => user.with_id(before.id()),
            None => user,
        };
        self.put(Arc::new(user.settled()));
    }

    fn put(&mut self, user: Arc<User>) {
        if user.name() == DEFAULT_NAME {
            self.default = Arc::clone(&user);
        }
        self.by_name.insert(user);
    }
}

/// Joins rules that were split between parentheses: `(+get` and `~a)` become one.
pub(crate) fn merged(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, SetUserError> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    // The start of a selector that is not closed yet, and all of it so far.
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &rule in rules {
        let (first, whole) = match open.take() {
            Some((first, mut whole)) => {
                whole.push(b' ');
                whole.extend(rule);
                (first, whole)
            }
            None => (rule, rule.to_vec()),
        };
        if whole.first() == Some(&b'(') && whole.last() != Some(&b')') {
            open = Some((first, whole));
        } else {
            merged.push(whole);
        }
    }
    match open {
        None => Ok(merged),
        Some((first, _)) => Err(SetUserError::Unclosed(first.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::digests_made;

    /// CVE-2026-47783: existing names could be told by the time of the answer.
    #[test]
    fn an_unknown_name_takes_the_work_of_a_known_one() {
        let users =
            Users::new(Arc::new(Catalogue::new(Vec::new()))).with_default_password(b"secret");
        for (name, password, comes_in) in [
            (&b"default"[..], &b"secret"[..], true),
            (b"default", b"wrong", false),
            (b"nobody", b"secret", false),
        ] {
            let before = digests_made();
            assert_eq!(users.authenticate(name, password).is_some(), comes_in);
            assert_eq!(digests_made(), before + 1, "{}", name.escape_ascii());
        }
    }
}
