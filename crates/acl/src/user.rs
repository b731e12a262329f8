//! A user: name, passwords, selectors.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::RuleError;
use crate::password::Password;
use crate::rules::catalogue::{Catalogue, CommandId};
use crate::rules::patterns::{ChannelRules, DefaultChannels};
use crate::rules::request::{Access, AccessRequest, ChannelKind, Denial};
use crate::rules::selector::Selector;

/// Distinguishes users with the same name: SETUSER and LOAD keep it; a user that is deleted and
/// created again gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserId(u64);

impl UserId {
    fn next() -> UserId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        UserId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A user: name, passwords and selectors. Immutable: a change makes a new `User`.
#[derive(Clone, Debug)]
pub struct User {
    id: UserId,
    name: Box<[u8]>,
    is_on: bool,
    no_password: bool,
    passwords: Vec<Password>,
    /// The first is the root selector.
    selectors: Vec<Selector>,
    is_unrestricted: bool,
}

impl User {
    /// A user as `ACL SETUSER name` makes it: off, with nothing allowed.
    pub(crate) fn new(name: &[u8], catalogue: &Catalogue, channels: DefaultChannels) -> User {
        User {
            id: UserId::next(),
            name: name.into(),
            is_on: false,
            no_password: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(catalogue, channels)],
            is_unrestricted: false,
        }
    }

    /// The user's id, which changes of its rules leave as it is.
    pub fn id(&self) -> UserId {
        self.id
    }

    /// This user's rules with the id of the user that it replaces.
    pub(crate) fn with_id(mut self, id: UserId) -> User {
        self.id = id;
        self
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it may log in.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether it accepts any password.
    pub fn has_no_password(&self) -> bool {
        self.no_password
    }

    /// Whether it needs no password: the default user is then available to every connection.
    pub fn is_open(&self) -> bool {
        self.is_on && self.no_password
    }

    /// The digests of its passwords, as text.
    pub fn password_texts(&self) -> impl Iterator<Item = [u8; 64]> {
        self.passwords.iter().map(Password::hex)
    }

    /// Whether this is one of its passwords. Compares with all, whichever matches.
    pub(crate) fn accepts(&self, given: &Password) -> bool {
        let found = self.passwords.iter().fold(false, |found, known| found | known.is(given));
        found | self.no_password
    }

    /// Whether it may run all commands on all keys, channels and databases.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// The root selector, whose rules are written without parentheses.
    pub fn root(&self) -> &Selector {
        &self.selectors[0]
    }

    /// The other selectors.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors[1..]
    }

    /// Whether some selector allows the command with this first argument, ignoring keys and
    /// channels.
    #[inline]
    pub fn may_run(&self, command: CommandId, first_arg: Option<&[u8]>) -> bool {
        self.selectors.iter().any(|selector| selector.may_run(command, first_arg))
    }

    /// Whether a selector allows all of the request. If none does, fails with the refusal of the
    /// selector that came furthest.
    #[inline]
    pub fn check(&self, request: &AccessRequest<'_>) -> Result<(), Denial> {
        let mut worst = Denial::Database(0);
        for selector in &self.selectors {
            match selector.check(request) {
                Ok(()) => return Ok(()),
                Err(denied) if denied.rank() > worst.rank() => worst = denied,
                Err(_) => {}
            }
        }
        Err(worst)
    }

    /// Whether a selector allows all of the request, and this access to every key: required for
    /// SORT's BY and GET.
    pub fn check_with_every_key(&self, request: &AccessRequest<'_>, access: Access) -> bool {
        self.selectors.iter().any(|one| one.check(request).is_ok() && one.may_use_every_key(access))
    }

    /// Whether some selector allows the channel.
    pub fn may_use_channel(&self, channel: &[u8], kind: ChannelKind) -> bool {
        self.selectors.iter().any(|selector| selector.may_use_channel(channel, kind))
    }

    /// Whether it still has all channel permissions of `before`: compares patterns, not their
    /// meaning.
    pub fn keeps_channels_of(&self, before: &User) -> bool {
        let mine = || self.selectors.iter().map(|selector| &selector.channels);
        mine().any(ChannelRules::is_all)
            || before.selectors.iter().all(|selector| selector.channels.is_within(mine))
    }

    /// The flags as GETUSER shows them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let switch = if self.is_on { "on" } else { "off" };
        let no_password = self.no_password.then_some("nopass");
        [Some(switch), no_password].into_iter().flatten()
    }

    /// Applies one rule. After an error the user may be half changed, and must be dropped.
    pub(crate) fn change(
        &mut self,
        rule: &[u8],
        catalogue: &Catalogue,
        channels: DefaultChannels,
    ) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            _ if is("nopass") => {
                self.no_password = true;
                self.passwords.clear();
            }
            _ if is("resetpass") => {
                self.no_password = false;
                self.passwords.clear();
            }
            // Payloads are always checked, whoever sends them.
            _ if is("sanitize-payload") || is("skip-sanitize-payload") => {}
            [b'>', password @ ..] => self.add_password(Password::of(password)),
            [b'#', hex @ ..] => {
                self.add_password(Password::from_hex(hex).ok_or(RuleError::BadHash)?);
            }
            [b'<', password @ ..] => self.remove_password(Password::of(password))?,
            [b'!', hex @ ..] => {
                self.remove_password(Password::from_hex(hex).ok_or(RuleError::BadHash)?)?;
            }
            [b'(', within @ .., b')'] => {
                self.selectors.push(Selector::parse(within, catalogue, channels)?);
            }
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => {
                let fresh = User::new(&self.name, catalogue, channels);
                *self = fresh.with_id(self.id);
            }
            _ => self.selectors[0].change(rule, catalogue)?,
        }
        Ok(())
    }

    /// Computes what is asked often, after the last rule.
    pub(crate) fn settled(mut self) -> User {
        self.is_unrestricted = self.selectors.iter().any(Selector::is_unrestricted);
        self
    }

    /// Sets this password as the only one; an empty one: any password is accepted.
    pub(crate) fn set_only_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.no_password = password.is_empty();
        if !password.is_empty() {
            self.passwords.push(Password::of(password));
        }
    }

    fn add_password(&mut self, password: Password) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.no_password = false;
    }

    fn remove_password(&mut self, password: Password) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| *known == password);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// `user name on nopass ~* &* +@all`, as in ACL LIST and in files.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = [b"user ", self.name()].concat();
        for flag in self.flags() {
            text.push(b' ');
            text.extend(flag.as_bytes());
        }
        for password in self.password_texts() {
            text.extend(b" #");
            text.extend(password);
        }
        let selectors = self.selectors().iter().map(Selector::words_within);
        for word in self.root().words().into_iter().chain(selectors) {
            text.push(b' ');
            text.extend(word);
        }
        text
    }
}

impl PartialEq for User {
    /// Whether both have the same name and permissions.
    fn eq(&self, other: &User) -> bool {
        self.name == other.name
            && self.is_on == other.is_on
            && self.no_password == other.no_password
            && self.passwords == other.passwords
            && self.selectors == other.selectors
    }
}

impl Eq for User {}
