//! Rules about commands.

use std::iter;

use super::catalogue::{Catalogue, CommandId};
use super::category::Category;
use super::words::RuleTexts;
use super::words::has_space;
use crate::error::RuleError;

/// A selector's rules for commands.
///
/// Kept in two forms: bits, which are checked, and the rules, which are shown. Rules that later
/// ones override are dropped, as in Valkey: by name, not by meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandRules {
    /// One bit per command, set if it is allowed. Always set for commands open to all.
    bits: Box<[u64]>,
    /// Whether the rules begin with `+@all` instead of `-@all`.
    from_all: bool,
    /// `+get`, `-config|set`, `+@read`, in lower case.
    rules: Vec<Box<[u8]>>,
    /// First arguments with which a command is allowed even if its bit is not set, in lower case.
    first_args: Vec<(CommandId, Box<[u8]>)>,
}

impl CommandRules {
    /// Nothing is allowed.
    pub fn new(catalogue: &Catalogue) -> CommandRules {
        let bits = vec![0; catalogue.len().div_ceil(64)].into();
        let mut rules =
            CommandRules { bits, from_all: false, rules: Vec::new(), first_args: Vec::new() };
        rules.allow_none(catalogue);
        rules
    }

    /// `+@all`
    pub fn allow_all(&mut self) {
        self.bits.fill(u64::MAX);
        self.from_all = true;
        self.rules.clear();
        self.first_args.clear();
    }

    /// `-@all`
    pub fn allow_none(&mut self, catalogue: &Catalogue) {
        self.bits.fill(0);
        self.from_all = false;
        self.rules.clear();
        self.first_args.clear();
        for (id, _) in catalogue.iter().filter(|(_, entry)| entry.is_open) {
            self.set_bit(id);
        }
    }

    /// Whether every command is allowed.
    pub fn is_all(&self) -> bool {
        self.bits.iter().all(|word| *word == u64::MAX)
    }

    /// Applies a rule that begins with `+` or `-`, other than `+@all` and `-@all`.
    pub fn change(&mut self, rule: &[u8], catalogue: &Catalogue) -> Result<(), RuleError> {
        let is_allowed = rule[0] == b'+';
        let what = &rule[1..];
        if let [b'@', category @ ..] = what {
            let category = Category::find(category).ok_or(RuleError::UnknownCommand)?;
            for (id, _) in catalogue.of_category(category) {
                self.set(id, is_allowed, catalogue);
            }
        } else {
            match what.iter().rposition(|byte| *byte == b'|') {
                Some(bar) if is_allowed => self.allow_within(what, bar, catalogue)?,
                _ => {
                    let id = catalogue.find(what).ok_or(RuleError::UnknownCommand)?;
                    self.set(id, is_allowed, catalogue);
                }
            }
        }
        self.note(rule);
        Ok(())
    }

    /// Applies `container|subcommand`, or `command|first-argument`.
    fn allow_within(
        &mut self,
        what: &[u8],
        bar: usize,
        catalogue: &Catalogue,
    ) -> Result<(), RuleError> {
        let command = catalogue.find(&what[..bar]).ok_or(RuleError::UnknownCommand)?;
        if catalogue.is_subcommand(command) {
            return Err(RuleError::WithinSubcommand);
        }
        let word = &what[bar + 1..];
        // A rule with a space in it could not be read back.
        if word.is_empty() || has_space(word) {
            return Err(RuleError::Syntax);
        }
        if !catalogue.subcommands(command).is_empty() {
            let id = catalogue.find(what).ok_or(RuleError::UnknownCommand)?;
            self.set(id, true, catalogue);
            return Ok(());
        }
        let is_known = |(id, known): &(CommandId, Box<[u8]>)| {
            *id == command && known.eq_ignore_ascii_case(word)
        };
        if !self.first_args.iter().any(is_known) {
            self.first_args.push((command, word.to_ascii_lowercase().into()));
        }
        Ok(())
    }

    /// Allows or forbids a command and all its subcommands.
    fn set(&mut self, id: CommandId, is_allowed: bool, catalogue: &Catalogue) {
        let is_open = |id: CommandId| catalogue.entry(id).is_some_and(|entry| entry.is_open);
        self.first_args.retain(|(known, _)| *known != id);
        for &id in [id].iter().chain(catalogue.subcommands(id)) {
            if is_allowed || is_open(id) { self.set_bit(id) } else { self.clear_bit(id) }
        }
    }

    fn set_bit(&mut self, CommandId(id): CommandId) {
        self.bits[usize::from(id / 64)] |= 1 << (id % 64);
    }

    fn clear_bit(&mut self, CommandId(id): CommandId) {
        self.bits[usize::from(id / 64)] &= !(1 << (id % 64));
    }

    /// Appends a rule, and drops earlier ones about the same name or its subcommands.
    fn note(&mut self, rule: &[u8]) {
        let rule = rule.to_ascii_lowercase();
        let name = &rule[1..];
        self.rules.retain(|known| match known[1..].strip_prefix(name) {
            Some([] | [b'|', ..]) => false,
            Some(_) | None => true,
        });
        self.rules.push(rule.into());
    }

    /// Whether a command with this first argument is allowed.
    #[inline]
    pub fn allow(&self, CommandId(id): CommandId, first_arg: Option<&[u8]>) -> bool {
        let word = self.bits.get(usize::from(id / 64)).copied().unwrap_or_default();
        word & 1 << (id % 64) != 0 || self.allow_by_first(CommandId(id), first_arg)
    }

    #[cold]
    fn allow_by_first(&self, id: CommandId, first_arg: Option<&[u8]>) -> bool {
        let Some(word) = first_arg else { return false };
        self.first_args.iter().any(|(known, arg)| *known == id && arg.eq_ignore_ascii_case(word))
    }

    /// The rules as text.
    pub fn words(&self) -> RuleTexts {
        let all = if self.from_all { &b"+@all"[..] } else { b"-@all" };
        iter::once(all).chain(self.rules.iter().map(|rule| &rule[..])).map(<[u8]>::to_vec).collect()
    }
}
