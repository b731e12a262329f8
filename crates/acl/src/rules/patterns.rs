//! Rules about keys and channels: glob patterns.

use pantala_base::glob;

use super::request::{Access, ChannelKind};
use super::words::{RuleTexts, has_space};
use crate::error::RuleError;

/// Everything, or what patterns allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patterns<P> {
    all: bool,
    some: Vec<P>,
}

/// A selector's rules for keys.
pub(crate) type KeyRules = Patterns<KeyPattern>;

/// Channels of a new user, or after `reset`: `acl-pubsub-default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultChannels {
    /// `resetchannels`
    #[default]
    None,
    /// `allchannels`
    All,
}

/// A selector's rules for channels.
pub(crate) type ChannelRules = Patterns<ChannelPattern>;

/// `~pattern`, `%R~pattern`, `%W~pattern`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pattern: Box<[u8]>,
    access: Access,
}

/// `&pattern`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelPattern(Box<[u8]>);

impl<P> Default for Patterns<P> {
    fn default() -> Self {
        Patterns { all: false, some: Vec::new() }
    }
}

impl<P> Patterns<P> {
    /// `allkeys`, `allchannels`
    pub fn allow_all(&mut self) {
        *self = Patterns { all: true, some: Vec::new() };
    }

    /// `resetkeys`, `resetchannels`
    pub fn reset(&mut self) {
        *self = Patterns::default();
    }

    /// Whether everything is allowed.
    pub fn is_all(&self) -> bool {
        self.all
    }

    #[inline]
    fn allow_by(&self, allows: impl Fn(&P) -> bool) -> bool {
        self.all || self.some.iter().any(allows)
    }

    /// The rules as text; `all` is the word that allows everything.
    fn words_of(&self, all: &[u8], word: impl Fn(&P) -> Vec<u8>) -> RuleTexts {
        if self.all { vec![all.to_vec()] } else { self.some.iter().map(word).collect() }
    }
}

impl KeyRules {
    /// Applies a rule that begins with `~` or `%`.
    pub fn add(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all {
            return Err(RuleError::KeysAfterAll);
        }
        let (access, pattern) = match rule {
            [b'~', pattern @ ..] => (Access::READ_WRITE, pattern),
            _ => access_and_pattern(&rule[1..])?,
        };
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.some.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => known.access = known.access.and(access),
            None => self.some.push(KeyPattern { pattern: pattern.into(), access }),
        }
        // A rule shown as `~*` must mean the same when it is read back.
        if self.allow_any(Access::READ_WRITE) {
            self.allow_all();
        }
        Ok(())
    }

    /// Whether this access to the key is allowed.
    #[inline]
    pub fn allow(&self, key: &[u8], access: Access) -> bool {
        self.allow_by(|known| known.access.covers(access) && glob::matches(&known.pattern, key))
    }

    /// Whether this access to every key is allowed.
    pub fn allow_any(&self, access: Access) -> bool {
        self.allow_by(|known| *known.pattern == *b"*" && known.access.covers(access))
    }

    /// The rules as text.
    pub fn words(&self) -> RuleTexts {
        self.words_of(b"~*", |known| {
            let before = match known.access {
                Access::READ => &b"%R~"[..],
                Access::WRITE => b"%W~",
                _ => b"~",
            };
            [before, &known.pattern].concat()
        })
    }
}

/// Parses `R~pattern`, as it follows `%`. Without `~` the pattern is empty.
fn access_and_pattern(rule: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let mut access = Access::NONE;
    let mut rest = rule;
    while let [letter, after @ ..] = rest {
        rest = after;
        let more = match letter {
            b'r' | b'R' => Access::READ,
            b'w' | b'W' => Access::WRITE,
            b'~' => break,
            _ => return Err(RuleError::Syntax),
        };
        if access.covers(more) {
            return Err(RuleError::Syntax);
        }
        access = access.and(more);
    }
    if access == Access::NONE { Err(RuleError::Syntax) } else { Ok((access, rest)) }
}

impl ChannelRules {
    /// Whether each of these patterns is among those of `others`.
    pub fn is_within<'c, I: Iterator<Item = &'c ChannelRules>>(
        &self,
        others: impl Fn() -> I,
    ) -> bool {
        let is_there = |pattern| others().any(|other| other.some.contains(pattern));
        !self.all && self.some.iter().all(is_there)
    }

    /// Adds the pattern after `&`.
    pub fn add(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all {
            return Err(RuleError::ChannelsAfterAll);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        let pattern = ChannelPattern(pattern.into());
        if !self.some.contains(&pattern) {
            self.some.push(pattern);
        }
        Ok(())
    }

    /// Whether a channel, or a pattern of channels, is allowed.
    pub fn allow(&self, channel: &[u8], kind: ChannelKind) -> bool {
        self.allow_by(|ChannelPattern(known)| match kind {
            ChannelKind::Exact => glob::matches(known, channel),
            ChannelKind::Pattern => **known == *channel,
        })
    }

    /// The patterns as text.
    pub fn words(&self) -> RuleTexts {
        self.words_of(b"&*", |ChannelPattern(known)| [b"&", &known[..]].concat())
    }
}
