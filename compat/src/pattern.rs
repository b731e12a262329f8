//! The expected reply of a transcript, parsed from its text.
//!
//! ```text
//! OK            +text         the simple string (the rest of the line; inside an array up to , or ])
//! -ERR text                   the error (likewise; -"text" where it must be quoted)
//! :5  ,1.5  #t  (123          integer, double, boolean, big number
//! "bulk"  =txt:"text"         bulk and verbatim string
//! nil  nil-array              RESP2 $-1 and *-1; both are _ in RESP3
//! [ a, b ]  ~[ a, b ]  >[ a, b ]  { k => v }     array, set (in any order), push, map
//! /regex/                     matches the rendered reply
//! *                           anything
//! p & q                       both
//! ```
//!
//! 1. One text serves both protocols: where RESP2 has no such type the pattern is flattened (map
//!    and set to array, double to bulk, boolean to integer, verbatim to bulk, push to array).
//! 2. `Unfinished` means "more lines may complete this"; every other error is final.

use crate::quoting;
use crate::regex::Regex;
use crate::render;
use crate::value::Value;

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resp {
    /// RESP2, what a connection starts with.
    Two,
    /// RESP3, after `HELLO 3`.
    Three,
}

impl Resp {
    /// The number that `HELLO` takes.
    pub fn number(self) -> u8 {
        match self {
            Resp::Two => 2,
            Resp::Three => 3,
        }
    }
}

/// An expected reply.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Anything.
    Any,
    /// The rendered reply matches.
    Regex(Regex),
    /// All of them match.
    All(Vec<Pattern>),
    /// Exactly this scalar.
    Exact(Value),
    /// An array of these.
    Array(Vec<Pattern>),
    /// A map of these, in this order.
    Map(Vec<(Pattern, Pattern)>),
    /// A set of these, in any order.
    Set(Vec<Pattern>),
    /// A push of these.
    Push(Vec<Pattern>),
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// The text ends inside brackets or a quoted text.
    Unfinished,
    /// More lines would not make it a pattern.
    Wrong(String),
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Pattern, BadPattern> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let pattern = parser.conjunction()?;
        match parser.peek() {
            None => Ok(pattern),
            Some(_) => Err(wrong(format!("left over: {}", &text[parser.at..]))),
        }
    }

    /// Whether `value` matches; `unordered` compares arrays and maps as multisets, at every depth.
    pub fn matches(&self, value: &Value, resp: Resp, unordered: bool) -> bool {
        let old = resp == Resp::Two;
        let list = |patterns: &[Pattern], values: &[Value], unordered: bool| {
            match_lists(patterns, values, resp, unordered)
        };
        match (self, value) {
            (Pattern::Any, _) => true,
            (Pattern::Regex(regex), value) => regex.is_match(render::line(value).as_bytes()),
            (Pattern::All(all), value) => all.iter().all(|p| p.matches(value, resp, unordered)),
            (Pattern::Exact(exact), value) => *value == flattened(exact, resp),
            (Pattern::Array(items), Value::Array(values)) => list(items, values, unordered),
            (Pattern::Set(items), Value::Set(values)) if !old => list(items, values, true),
            (Pattern::Set(items), Value::Array(values)) if old => list(items, values, true),
            (Pattern::Push(items), Value::Push(values)) if !old => list(items, values, unordered),
            (Pattern::Push(items), Value::Array(values)) if old => list(items, values, unordered),
            (Pattern::Map(pairs), Value::Map(values)) if !old => {
                match_pairs(pairs, values, resp, unordered)
            }
            (Pattern::Map(pairs), Value::Array(values)) if old && values.len() % 2 == 0 => {
                let two = |both: &[Value]| (both[0].clone(), both[1].clone());
                let values: Vec<_> = values.chunks_exact(2).map(two).collect();
                match_pairs(pairs, &values, resp, unordered)
            }
            _ => false,
        }
    }

    /// Whether the pattern was written by hand for a volatile reply, so that recording must keep
    /// it.
    pub fn is_loose(&self) -> bool {
        match self {
            Pattern::Any | Pattern::Regex(_) | Pattern::All(_) => true,
            Pattern::Exact(_) => false,
            Pattern::Array(items) | Pattern::Set(items) | Pattern::Push(items) => {
                items.iter().any(Pattern::is_loose)
            }
            Pattern::Map(pairs) => pairs.iter().any(|(k, v)| k.is_loose() || v.is_loose()),
        }
    }
}

/// The form that a scalar has in a protocol version.
fn flattened(value: &Value, resp: Resp) -> Value {
    match (resp, value) {
        (Resp::Two, Value::Double(text) | Value::BigNumber(text) | Value::Verbatim(_, text)) => {
            Value::Bulk(text.clone())
        }
        (Resp::Two, Value::Bool(flag)) => Value::Int(i64::from(*flag)),
        (Resp::Three, Value::NilArray) => Value::Nil,
        (_, other) => other.clone(),
    }
}

fn match_lists(patterns: &[Pattern], values: &[Value], resp: Resp, unordered: bool) -> bool {
    if patterns.len() != values.len() {
        return false;
    }
    if !unordered {
        return patterns.iter().zip(values).all(|(p, v)| p.matches(v, resp, false));
    }
    let mut left: Vec<&Value> = values.iter().collect();
    patterns.iter().all(|pattern| {
        let found = left.iter().position(|value| pattern.matches(value, resp, true));
        found.map(|at| left.swap_remove(at)).is_some()
    })
}

fn match_pairs(
    patterns: &[(Pattern, Pattern)],
    values: &[(Value, Value)],
    resp: Resp,
    unordered: bool,
) -> bool {
    let same = |(kp, vp): &(Pattern, Pattern), (k, v): &(Value, Value)| {
        kp.matches(k, resp, unordered) && vp.matches(v, resp, unordered)
    };
    if patterns.len() != values.len() {
        return false;
    }
    if !unordered {
        return patterns.iter().zip(values).all(|(p, v)| same(p, v));
    }
    let mut left: Vec<&(Value, Value)> = values.iter().collect();
    patterns.iter().all(|pattern| {
        let found = left.iter().position(|value| same(pattern, value));
        found.map(|at| left.swap_remove(at)).is_some()
    })
}

fn wrong(text: impl Into<String>) -> BadPattern {
    BadPattern::Wrong(text.into())
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().bytes().next()
    }

    fn eat(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn conjunction(&mut self) -> Result<Pattern, BadPattern> {
        let first = self.pattern()?;
        let mut all = vec![first];
        while self.eat("&") {
            all.push(self.pattern()?);
        }
        Ok(if all.len() > 1 { Pattern::All(all) } else { all.swap_remove(0) })
    }

    fn pattern(&mut self) -> Result<Pattern, BadPattern> {
        for (open, close) in [("[", "]"), ("~[", "]"), (">[", "]"), ("{", "}")] {
            if self.eat(open) {
                return self.items(open, close);
            }
        }
        match self.peek().ok_or(BadPattern::Unfinished)? {
            b'*' => {
                self.at += 1;
                Ok(Pattern::Any)
            }
            b'/' => self.regex(),
            b'"' => Ok(Pattern::Exact(Value::Bulk(self.quoted()?))),
            b'+' | b'-' => self.status(),
            b'=' => self.verbatim(),
            _ => self.word(),
        }
    }

    fn items(&mut self, open: &str, close: &str) -> Result<Pattern, BadPattern> {
        self.depth += 1;
        let mut items = Vec::new();
        let mut pairs = Vec::new();
        while !self.eat(close) {
            self.peek().ok_or(BadPattern::Unfinished)?;
            let item = self.conjunction()?;
            if open == "{" {
                if !self.eat("=>") {
                    self.peek().ok_or(BadPattern::Unfinished)?;
                    return Err(wrong("a map needs => between key and value"));
                }
                pairs.push((item, self.conjunction()?));
            } else {
                items.push(item);
            }
            if !self.eat(",") && self.peek().ok_or(BadPattern::Unfinished)? != close.as_bytes()[0] {
                return Err(wrong(format!("expected , or {close} before: {}", self.rest())));
            }
        }
        self.depth -= 1;
        Ok(match open {
            "[" => Pattern::Array(items),
            "~[" => Pattern::Set(items),
            ">[" => Pattern::Push(items),
            _ => Pattern::Map(pairs),
        })
    }

    fn regex(&mut self) -> Result<Pattern, BadPattern> {
        let bytes = self.rest().as_bytes();
        let mut end = 1;
        while bytes.get(end).ok_or(BadPattern::Unfinished)? != &b'/' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let source = self.rest()[1..end].to_string();
        self.at += end + 1;
        Ok(Pattern::Regex(Regex::new(&source).map_err(wrong)?))
    }

    fn quoted(&mut self) -> Result<Vec<u8>, BadPattern> {
        if self.peek() != Some(b'"') {
            return Err(wrong(format!("expected a quoted text: {}", self.rest())));
        }
        match quoting::quoted(self.rest().as_bytes()) {
            Ok((text, used)) => {
                self.at += used;
                Ok(text)
            }
            Err(why) if why == "unbalanced quotes" => Err(BadPattern::Unfinished),
            Err(why) => Err(wrong(why)),
        }
    }

    fn status(&mut self) -> Result<Pattern, BadPattern> {
        let kind = self.rest().as_bytes()[0];
        self.at += 1;
        let text = if self.rest().starts_with('"') {
            self.quoted()?
        } else {
            let nested = |c: char| ",]}".contains(c) || c.is_whitespace();
            let end = if self.depth > 0 { self.rest().find(nested) } else { None };
            let text = self.rest().as_bytes()[..end.unwrap_or(self.rest().len())].to_vec();
            self.at += text.len();
            text
        };
        Ok(Pattern::Exact(if kind == b'+' { Value::Simple(text) } else { Value::Error(text) }))
    }

    fn verbatim(&mut self) -> Result<Pattern, BadPattern> {
        match self.rest().as_bytes() {
            [b'=', a, b, c, b':', ..] => {
                let format = vec![*a, *b, *c];
                self.at += 5;
                Ok(Pattern::Exact(Value::Verbatim(format, self.quoted()?)))
            }
            _ => Err(wrong("a verbatim text is =txt:\"...\"")),
        }
    }

    fn word(&mut self) -> Result<Pattern, BadPattern> {
        // the first sign may be the comma of a double
        let ends = |(at, c): &(usize, char)| *at > 0 && (",]}&".contains(*c) || c.is_whitespace());
        let end = self.rest().char_indices().find(ends).map(|(at, _)| at);
        let word = self.rest()[..end.unwrap_or(self.rest().len())].to_string();
        self.at += word.len();
        let value = match word.as_str() {
            "OK" => Value::Simple(b"OK".to_vec()),
            "nil" => Value::Nil,
            "nil-array" => Value::NilArray,
            "#t" => Value::Bool(true),
            "#f" => Value::Bool(false),
            _ => {
                let number = |text: &str| text.parse().map(Value::Int).ok();
                let int = word.strip_prefix(':').and_then(number);
                let double = word.strip_prefix(',').map(|t| Value::Double(t.as_bytes().to_vec()));
                let big = word.strip_prefix('(').map(|t| Value::BigNumber(t.as_bytes().to_vec()));
                let value = int.or(double).or(big);
                value.ok_or_else(|| wrong(format!("no reply is written {word:?}")))?
            }
        };
        Ok(Pattern::Exact(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, wire: &str, resp: Resp, expected: bool) {
        let (value, _) = crate::value::read(wire.as_bytes()).unwrap().unwrap();
        let pattern = Pattern::parse(pattern).unwrap();
        assert_eq!(pattern.matches(&value, resp, false), expected, "{pattern:?} {wire:?} {resp:?}");
    }

    #[test]
    fn scalars() {
        check("OK", "+OK\r\n", Resp::Two, true);
        check("+OK", "+OK\r\n", Resp::Two, true);
        check("\"OK\"", "+OK\r\n", Resp::Two, false);
        check("-ERR a, b ]", "-ERR a, b ]\r\n", Resp::Two, true);
        check(":5", ":5\r\n", Resp::Two, true);
        check(":5", "$1\r\n5\r\n", Resp::Two, false);
        check(r#""a\r\n""#, "$3\r\na\r\n\r\n", Resp::Two, true);
        check("nil", "$-1\r\n", Resp::Two, true);
        check("nil", "_\r\n", Resp::Three, true);
        check("nil-array", "*-1\r\n", Resp::Two, true);
        check("nil-array", "$-1\r\n", Resp::Two, false);
        check("nil-array", "_\r\n", Resp::Three, true);
        check("*", ":1\r\n", Resp::Two, true);
        check(r"/^:\d$/", ":1\r\n", Resp::Two, true);
        check(r"/1/ & /2/", ":1\r\n", Resp::Two, false);
    }

    #[test]
    fn flattening() {
        check(",1.5", ",1.5\r\n", Resp::Three, true);
        check(",1.5", "$3\r\n1.5\r\n", Resp::Two, true);
        check(",1.5", "$3\r\n1.5\r\n", Resp::Three, false);
        check("#t", ":1\r\n", Resp::Two, true);
        check("=txt:\"a\"", "$1\r\na\r\n", Resp::Two, true);
        check("{ :1 => :2 }", "*2\r\n:1\r\n:2\r\n", Resp::Two, true);
        check("{ :1 => :2 }", "*2\r\n:1\r\n:2\r\n", Resp::Three, false);
        check("{ :1 => :2 }", "%1\r\n:1\r\n:2\r\n", Resp::Three, true);
        check("~[ :1, :2 ]", "*2\r\n:2\r\n:1\r\n", Resp::Two, true);
        check("~[ :1, :2 ]", "~2\r\n:2\r\n:1\r\n", Resp::Three, true);
        check("[ :1, :2 ]", "*2\r\n:2\r\n:1\r\n", Resp::Two, false);
        check(">[ +a, -\"E b\" ]", ">2\r\n+a\r\n-E b\r\n", Resp::Three, true);
    }

    #[test]
    fn unordered_reaches_every_depth() {
        let (value, _) = crate::value::read(b"*2\r\n:0\r\n*2\r\n:2\r\n:1\r\n").unwrap().unwrap();
        let pattern = Pattern::parse("[ :0, [ :1, :2 ] ]").unwrap();
        assert!(pattern.matches(&value, Resp::Two, true));
        assert!(!pattern.matches(&value, Resp::Two, false));
    }

    #[test]
    fn unfinished_is_told_from_wrong() {
        for text in ["[", "[ \"a\",", "[ :1", "{ :1 =>", "\"ab", "/a", "/a/ &", ""] {
            assert_eq!(Pattern::parse(text).unwrap_err(), BadPattern::Unfinished, "{text}");
        }
        for text in ["[ :1 :2 ]", "foo", "OK OK", "{ :1, :2 }", "/(/"] {
            assert!(matches!(Pattern::parse(text), Err(BadPattern::Wrong(_))), "{text}");
        }
    }
}
