//! The arguments of a command, parsed from the line that documents them.
//!
//! ```text
//! key value [condition: NX | XX | IFEQ comparison-value] [GET] [EX seconds:int | KEEPTTL]
//! ```
//!
//! | written | means |
//! |---|---|
//! | `name`, `name:type` | an argument; types: int, double, key, pattern, time, string |
//! | `name:type#1` | of the key specification 1; other keys have one after the other |
//! | `WORD` | the word itself |
//! | `WORD name`, `WORD ( ... )` | an argument, or a group, introduced by a word |
//! | `[ ... ]` | may be left out |
//! | `( ... )` | what belongs together |
//! | `a \| b` | one of them |
//! | `x [x ...]` | once or more; `...` after anything means the same |
//! | `WORD x [x ...]` | the word once; `WORD x [WORD x ...]` each time |
//! | `label: ` at the start of brackets | the name of the choice, group or word |
//!
//! A word that begins a group without a label introduces the group; in a group with a label it is a
//! part.
//!
//! Invariants
//! 1. Every text gives some list of arguments: the lines are ours, and a test parses all of them.
//! 2. Brackets nest at most [`MOST_DEPTH`] deep; deeper ones are read as words.

use crate::Command;

/// The deepest nesting of brackets.
const MOST_DEPTH: usize = 8;

/// The kind of an argument, as COMMAND DOCS names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `double`
    Double,
    /// `key`
    Key,
    /// `pattern`
    Pattern,
    /// `unix-time`
    UnixTime,
    /// `pure-token`: a word without a value.
    PureToken,
    /// `oneof`: one of its parts.
    OneOf,
    /// `block`: its parts, together.
    Block,
}

impl ArgumentKind {
    /// The name in COMMAND DOCS.
    pub fn name(self) -> &'static str {
        match self {
            ArgumentKind::String => "string",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Double => "double",
            ArgumentKind::Key => "key",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::UnixTime => "unix-time",
            ArgumentKind::PureToken => "pure-token",
            ArgumentKind::OneOf => "oneof",
            ArgumentKind::Block => "block",
        }
    }

    fn of(name: &str, written: Option<&str>) -> ArgumentKind {
        match written.unwrap_or(name) {
            "int" | "integer" => ArgumentKind::Integer,
            "double" | "float" => ArgumentKind::Double,
            "key" | "newkey" => ArgumentKind::Key,
            "pattern" => ArgumentKind::Pattern,
            "time" | "unix-time" => ArgumentKind::UnixTime,
            _ => ArgumentKind::String,
        }
    }
}

/// One argument, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ArgumentKind,
    /// The word in front of it, or the word that it is.
    pub token: Option<String>,
    /// It may be left out.
    pub optional: bool,
    /// It may come more than once.
    pub multiple: bool,
    /// With its word each time.
    pub multiple_token: bool,
    /// The key specification that it belongs to.
    pub key_spec: Option<usize>,
    /// The parts of a choice or group.
    pub parts: Vec<Argument>,
}

impl Argument {
    fn new(name: impl Into<String>, kind: ArgumentKind) -> Argument {
        Argument {
            name: name.into(),
            kind,
            token: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            key_spec: None,
            parts: Vec::new(),
        }
    }

    fn word(word: &str) -> Argument {
        let mut argument = Argument::new(word.to_ascii_lowercase(), ArgumentKind::PureToken);
        argument.token = Some(word.into());
        argument
    }

    fn plain(word: &str) -> Argument {
        let (name, written) = match word.split_once(':') {
            Some((name, written)) => (name, Some(written)),
            None => (word, None),
        };
        let (written, key_spec) = match written.and_then(|written| written.split_once('#')) {
            Some((written, number)) => (Some(written), number.parse().ok()),
            None => (written, None),
        };
        let kind = ArgumentKind::of(name, written);
        Argument { key_spec, ..Argument::new(name, kind) }
    }

    fn is_word(&self) -> bool {
        self.kind == ArgumentKind::PureToken && !self.optional && !self.multiple
    }

    /// Whether both have the same name, and `other` has the same word or none.
    fn is_repeated_by(&self, other: &Argument) -> bool {
        self.name == other.name && (other.token.is_none() || self.token == other.token)
    }

    fn number_keys(&mut self, next: &mut usize, count: usize) {
        if self.kind == ArgumentKind::Key && self.key_spec.is_none() {
            self.key_spec = count.checked_sub(1).map(|last| last.min(*next));
            *next += 1;
        }
        self.parts.iter_mut().for_each(|part| part.number_keys(next, count));
    }
}

/// The arguments of a command.
pub fn arguments(row: &Command) -> Vec<Argument> {
    let mut arguments = parse(row.syntax);
    let mut next = 0;
    arguments.iter_mut().for_each(|one| one.number_keys(&mut next, row.keys.len()));
    arguments
}

/// A line for people: without labels and types.
pub fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    for word in line.split_ascii_whitespace() {
        let (name, written) = word.split_once(':').unwrap_or((word, ""));
        let opening = if written.is_empty() && word.ends_with(':') {
            name.trim_end_matches(|of: char| !matches!(of, '[' | '('))
        } else {
            name
        };
        let closing = written.trim_start_matches(|of: char| !matches!(of, ']' | ')'));
        plain.push_str(opening);
        plain.push_str(closing);
        // No blank after an opening bracket.
        if !plain.ends_with(['[', '(']) {
            plain.push(' ');
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

/// Parses a line of documentation.
pub fn parse(line: &str) -> Vec<Argument> {
    let pieces = pieces(line);
    let mut rest = pieces.as_slice();
    let mut arguments = Vec::new();
    while !rest.is_empty() {
        let mut read = Reader { rest, depth: 0 };
        arguments.extend(read.sequence());
        // A closing bracket without an opening one is skipped.
        rest = read.rest.get(1..).unwrap_or_default();
    }
    arguments
}

/// Splits a line into words, brackets and bars.
fn pieces(line: &str) -> Vec<&str> {
    let is_mark = |byte: u8| matches!(byte, b'[' | b']' | b'(' | b')' | b'|');
    let mut pieces = Vec::new();
    for word in line.split_ascii_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let at = rest.bytes().position(is_mark).unwrap_or(rest.len()).max(1);
            let (piece, behind) = rest.split_at(at);
            pieces.push(piece);
            rest = behind;
        }
    }
    pieces
}

struct Reader<'p> {
    rest: &'p [&'p str],
    depth: usize,
}

impl<'p> Reader<'p> {
    fn next(&mut self) -> Option<&'p str> {
        let (first, behind) = self.rest.split_first()?;
        self.rest = behind;
        Some(first)
    }

    fn peek(&self) -> &'p str {
        self.rest.first().copied().unwrap_or_default()
    }

    /// Items up to a bar, a closing bracket or the end.
    fn sequence(&mut self) -> Vec<Argument> {
        let mut items: Vec<Argument> = Vec::new();
        while !matches!(self.peek(), "" | "|" | "]" | ")") {
            let Some(piece) = self.next() else { break };
            match piece {
                "..." => {
                    if let Some(last) = items.last_mut() {
                        last.multiple = true;
                        last.multiple_token = last.token.is_some();
                    }
                }
                "[" if self.depth < MOST_DEPTH => self.optional(&mut items),
                "(" if self.depth < MOST_DEPTH => {
                    let group = self.choice(")");
                    join(&mut items, group);
                }
                word if is_upper(word) => items.push(Argument::word(word)),
                word => join(&mut items, Argument::plain(word)),
            }
        }
        items
    }

    /// The contents of square brackets: something optional, or the repetition of the item before.
    fn optional(&mut self, items: &mut Vec<Argument>) {
        let mut inner = self.choice("]");
        let parts: &[Argument] = if inner.kind == ArgumentKind::Block {
            &inner.parts
        } else {
            std::slice::from_ref(&inner)
        };
        let repeated = parts.last().is_some_and(|part| part.multiple) || inner.multiple;
        let tail = items.len().checked_sub(parts.len()).map(|from| &items[from..]);
        let is_repetition = repeated
            && tail.is_some_and(|tail| tail.iter().zip(parts).all(|(a, b)| a.is_repeated_by(b)));
        if is_repetition {
            let has_word = parts.len() == 1 && parts[0].token.is_some();
            let from = items.len() - parts.len();
            let mut before: Vec<Argument> = items.drain(from..).collect();
            let mut all = match (before.pop(), before.is_empty()) {
                (Some(only), true) => only,
                (last, _) => {
                    let mut block = Argument::new("data", ArgumentKind::Block);
                    before.extend(last);
                    block.parts = before;
                    block
                }
            };
            (all.multiple, all.multiple_token) = (true, has_word);
            items.push(all);
            return;
        }
        inner.optional = true;
        items.push(inner);
    }

    /// Alternatives up to the closing bracket.
    fn choice(&mut self, closing: &str) -> Argument {
        self.depth += 1;
        let label = self.peek().strip_suffix(':');
        if label.is_some() {
            self.next();
        }
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.sequence());
            match self.next() {
                Some("|") => {}
                Some(mark) if mark != closing => {}
                _ => break,
            }
        }
        self.depth -= 1;
        let mut chosen = match (alternatives.len(), label) {
            (1, None) => together(alternatives.remove(0)),
            (1, Some(label)) => block(label, alternatives.remove(0)),
            _ => {
                let parts: Vec<Argument> = alternatives.into_iter().map(together).collect();
                let choice = Argument::new(name_of(&parts), ArgumentKind::OneOf);
                Argument { parts, ..choice }
            }
        };
        if let Some(label) = label {
            chosen.name = label.into();
        }
        chosen
    }
}

/// A word in front of an argument introduces it.
fn join(items: &mut Vec<Argument>, mut argument: Argument) {
    if let Some(word) = items.pop_if(|last| last.is_word()) {
        argument.token = word.token;
    }
    items.push(argument);
}

/// Several items as one argument.
fn together(mut items: Vec<Argument>) -> Argument {
    // `LIMIT offset count`: the word introduces all that follows.
    let token = match items.as_mut_slice() {
        [first, _, ..] if first.kind != ArgumentKind::PureToken && !first.optional => {
            first.token.take()
        }
        _ => None,
    };
    let named = token.as_deref().map(str::to_ascii_lowercase);
    let name = named.unwrap_or_else(|| items.first().map_or("", |item| &item.name).to_owned());
    let one = block(&name, items);
    Argument { token: token.or(one.token), ..one }
}

/// Several items as one group of this name.
fn block(name: &str, mut items: Vec<Argument>) -> Argument {
    match items.len() {
        1 => items.remove(0),
        _ => Argument { parts: items, ..Argument::new(name, ArgumentKind::Block) },
    }
}

fn name_of(alternatives: &[Argument]) -> String {
    let has = |word: &str| alternatives.iter().any(|one| one.token.as_deref() == Some(word));
    if has("EX") || has("PX") {
        "expiration".into()
    } else if has("NX") || has("XX") {
        "condition".into()
    } else {
        alternatives.first().map_or("", |first| first.name.as_str()).to_owned()
    }
}

fn is_upper(word: &str) -> bool {
    let mut letters = word.bytes().filter(u8::is_ascii_alphabetic).peekable();
    letters.peek().is_none() || letters.all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(arguments: &[Argument]) -> String {
        let shown: Vec<String> = arguments.iter().map(show_one).collect();
        shown.join(" ")
    }

    fn show_one(argument: &Argument) -> String {
        let mut text = format!("{}/{}", argument.name, argument.kind.name());
        if let Some(token) = &argument.token {
            text = format!("{token}>{text}");
        }
        if !argument.parts.is_empty() {
            text = format!("{text}({})", show(&argument.parts));
        }
        for (is_set, mark) in
            [(argument.optional, "?"), (argument.multiple, "*"), (argument.multiple_token, "!")]
        {
            if is_set {
                text.push_str(mark);
            }
        }
        text
    }

    fn check(line: &str, want: &str) {
        assert_eq!(show(&parse(line)), want, "{line}");
    }

    #[test]
    fn arguments_words_and_repetitions() {
        check("", "");
        check("key", "key/key");
        check("[message]", "message/string?");
        check("key [key ...]", "key/key*");
        check("key ...", "key/key*");
        check("[section [section ...]]", "section/string?*");
        check(
            "parameter value [parameter value ...]",
            "data/block(parameter/string value/string)*",
        );
        check(
            "source:key destination:key [DB db:int] [REPLACE]",
            "source/key destination/key DB>db/integer? REPLACE>replace/pure-token?",
        );
        check("[LIMIT offset:int count:int]", "LIMIT>limit/block(offset/integer count/integer)?");
        check("[GET pattern [GET pattern ...]]", "GET>pattern/pattern?*!");
    }

    #[test]
    fn choices() {
        check(
            "key [NX | XX] [GET]",
            "key/key condition/oneof(NX>nx/pure-token XX>xx/pure-token)? GET>get/pure-token?",
        );
        check(
            "[EX seconds:int | EXAT unix:time | KEEPTTL]",
            "expiration/oneof(EX>seconds/integer EXAT>unix/unix-time KEEPTTL>keepttl/pure-token)?",
        );
        check(
            "(where: BEFORE | AFTER) pivot",
            "where/oneof(BEFORE>before/pure-token AFTER>after/pure-token) pivot/string",
        );
    }

    #[test]
    fn labels_and_words() {
        check(
            "[count-block: COUNT count:int [ANY]]",
            "count-block/block(COUNT>count/integer ANY>any/pure-token?)?",
        );
        check(
            "STREAMS (streams: key [key ...] id [id ...])",
            "STREAMS>streams/block(key/key* id/string*)",
        );
        check("[ID client-id:int [client-id:int ...]]", "ID>client-id/integer?*");
        check(
            "[GET (get-block: encoding offset:int) ...]",
            "GET>get-block/block(encoding/string offset/integer)?*!",
        );
        check("[change: CH] (auto-id: *)", "CH>change/pure-token? *>auto-id/pure-token");
    }

    #[test]
    fn plain_lines() {
        for (line, shown) in [
            ("key [count-block: COUNT count:int [ANY]]", "key [COUNT count [ANY]]"),
            ("STREAMS (streams: key [key ...])", "STREAMS (key [key ...])"),
            ("[operator: (equal: =) | (approximately: ~)] t", "[(=) | (~)] t"),
            ("[[IDLE idle:int] start (a:int)]", "[[IDLE idle] start (a)]"),
        ] {
            assert_eq!(plain(line), shown, "{line}");
        }
    }

    #[test]
    fn odd_brackets_end() {
        for line in ["[", "]", "a ] b", "((((((((((a", "[ | ", "| |", "...", "[[[]]] ) ("] {
            let _some = parse(line);
        }
    }
}
