//! A selector: rules for commands, keys, channels and databases that must all allow a call.

use pantala_base::words;

use super::catalogue::{Catalogue, CommandId};
use super::commands::CommandRules;
use super::databases::DatabaseRules;
use super::patterns::{ChannelRules, DefaultChannels, KeyRules};
use super::request::{Access, AccessRequest, ChannelKind, Denial};
use super::words::{RuleTexts, quoted};
use crate::error::RuleError;

/// One set of rules; a command passes if all four parts allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub(crate) commands: CommandRules,
    pub(crate) keys: KeyRules,
    pub(crate) channels: ChannelRules,
    pub(crate) databases: DatabaseRules,
}

impl Selector {
    /// A selector that allows only what the settings allow everybody.
    pub(crate) fn new(catalogue: &Catalogue, channels: DefaultChannels) -> Selector {
        let mut selector = Selector {
            commands: CommandRules::new(catalogue),
            keys: KeyRules::default(),
            channels: ChannelRules::default(),
            databases: DatabaseRules::default(),
        };
        if channels == DefaultChannels::All {
            selector.channels.allow_all();
        }
        selector
    }

    /// Parses the rules between parentheses, each of which may be quoted.
    pub(crate) fn parse(
        text: &[u8],
        catalogue: &Catalogue,
        channels: DefaultChannels,
    ) -> Result<Selector, RuleError> {
        let mut selector = Selector::new(catalogue, channels);
        for rule in words::split(text).ok_or(RuleError::Syntax)? {
            selector.change(&rule, catalogue)?;
        }
        Ok(selector)
    }

    /// Applies one rule.
    pub(crate) fn change(&mut self, rule: &[u8], catalogue: &Catalogue) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("allkeys") || is("~*") => self.keys.allow_all(),
            _ if is("resetkeys") => self.keys.reset(),
            _ if is("allchannels") || is("&*") => self.channels.allow_all(),
            _ if is("resetchannels") => self.channels.reset(),
            _ if is("allcommands") || is("+@all") => self.commands.allow_all(),
            _ if is("nocommands") || is("-@all") => self.commands.allow_none(catalogue),
            _ if is("alldbs") => self.databases.allow_all(),
            _ if is("resetdbs") => self.databases.reset(),
            [b'~' | b'%', ..] => self.keys.add(rule)?,
            [b'&', pattern @ ..] => self.channels.add(pattern)?,
            [b'd' | b'D', b'b' | b'B', b'=', list @ ..] => self.databases.set(list)?,
            [b'+' | b'-', ..] => self.commands.change(rule, catalogue)?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    /// Whether it allows everything.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.commands.is_all()
            && self.keys.is_all()
            && self.channels.is_all()
            && self.databases.is_all()
    }

    /// Whether all of the request is allowed; fails with the first refusal.
    #[inline]
    pub(crate) fn check(&self, request: &AccessRequest<'_>) -> Result<(), Denial> {
        for &(position, database) in request.databases {
            if !self.databases.allow(database) {
                return Err(Denial::Database(position));
            }
        }
        if !self.commands.allow(request.command, request.args.get(1).copied()) {
            return Err(Denial::Command);
        }
        for &(position, access) in request.keys {
            let key = request.args.get(position).copied().unwrap_or_default();
            if !self.keys.allow(key, access) {
                return Err(Denial::Key(position));
            }
        }
        for &(position, kind) in request.channels {
            let channel = request.args.get(position).copied().unwrap_or_default();
            if !self.channels.allow(channel, kind) {
                return Err(Denial::Channel(position));
            }
        }
        Ok(())
    }

    /// Whether a command with this first argument is allowed.
    pub(crate) fn may_run(&self, command: CommandId, first_arg: Option<&[u8]>) -> bool {
        self.commands.allow(command, first_arg)
    }

    /// Whether a channel is allowed.
    pub(crate) fn may_use_channel(&self, channel: &[u8], kind: ChannelKind) -> bool {
        self.channels.allow(channel, kind)
    }

    /// Whether this access to every key is allowed.
    pub(crate) fn may_use_every_key(&self, access: Access) -> bool {
        self.keys.allow_any(access)
    }

    /// The commands, as GETUSER shows them.
    pub fn commands_text(&self) -> Vec<u8> {
        self.commands.words().join(&b' ')
    }

    /// The keys, as GETUSER shows them.
    pub fn keys_text(&self) -> Vec<u8> {
        self.keys.words().join(&b' ')
    }

    /// The channels, as GETUSER shows them.
    pub fn channels_text(&self) -> Vec<u8> {
        self.channels.words().join(&b' ')
    }

    /// The databases, as GETUSER shows them.
    pub fn databases_text(&self) -> Vec<u8> {
        self.databases.word()
    }

    /// All rules, as ACL LIST shows them.
    pub(crate) fn words(&self) -> RuleTexts {
        let mut words = self.keys.words();
        if !self.channels.is_all() {
            words.push(b"resetchannels".to_vec());
        }
        words.extend(self.channels.words());
        match self.databases.word() {
            _ if self.databases.is_all() => {}
            none if none.is_empty() => words.push(b"resetdbs".to_vec()),
            some => words.push(some),
        }
        words.extend(self.commands.words());
        words
    }

    /// The selector's rules in parentheses, as ACL SETUSER takes them.
    pub(crate) fn words_within(&self) -> Vec<u8> {
        let words: RuleTexts = self.words().into_iter().map(quoted).collect();
        [b"(", &words.join(&b' ')[..], b")"].concat()
    }
}
