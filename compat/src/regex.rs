//! A small regular expression matcher over bytes, for replies that differ from run to run.
//!
//! Supported: literals, `.` (any byte), `[a-z]` and `[^..]`, `\d \w \s` and `\` before a special
//! character, `( | )`, `* + ? {n} {n,} {n,m}` (greedy), `^` and `$` (ends of the whole text). A
//! match may be anywhere in the text, as usual.
//!
//! 1. Backtracking stops after `STEP_LIMIT` steps; the answer is then "no match".
//! 2. A repeated single byte is matched by a loop, so that the depth of recursion depends on the
//!    length of the pattern and not on that of the text.

use std::cell::Cell;

/// Steps of backtracking before a match is given up.
const STEP_LIMIT: u64 = 20_000_000;

/// A compiled expression with its source text.
#[derive(Clone, Debug)]
pub struct Regex {
    source: String,
    branches: Vec<Vec<Node>>,
}

#[derive(Clone, Debug)]
enum Node {
    One(Box<[bool; 256]>),
    Start,
    End,
    Group(Vec<Vec<Node>>),
    Repeat(Box<Node>, usize, usize),
}

impl Regex {
    /// Compiles an expression.
    pub fn new(source: &str) -> Result<Regex, String> {
        let mut parser = Parser { bytes: source.as_bytes(), at: 0 };
        let branches = parser.branches()?;
        if parser.at < source.len() {
            return Err(format!("a ) without ( in /{source}/"));
        }
        Ok(Regex { source: source.to_string(), branches })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it matches anywhere in `text`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let run = Run { text, steps: Cell::new(0) };
        (0..=text.len()).any(|start| run.any(&self.branches, start, &mut |_| true))
    }
}

struct Run<'a> {
    text: &'a [u8],
    steps: Cell<u64>,
}

type Then<'a> = &'a mut dyn FnMut(usize) -> bool;

impl Run<'_> {
    fn any(&self, branches: &[Vec<Node>], at: usize, then: Then) -> bool {
        branches.iter().any(|branch| self.sequence(branch, at, then))
    }

    fn sequence(&self, nodes: &[Node], at: usize, then: Then) -> bool {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEP_LIMIT {
            return false;
        }
        let Some((first, rest)) = nodes.split_first() else { return then(at) };
        match first {
            Node::One(set) => self.is_one(set, at) && self.sequence(rest, at + 1, then),
            Node::Start => at == 0 && self.sequence(rest, at, then),
            Node::End => at == self.text.len() && self.sequence(rest, at, then),
            Node::Group(branches) => {
                self.any(branches, at, &mut |next| self.sequence(rest, next, then))
            }
            Node::Repeat(node, min, max) => match &**node {
                Node::One(set) => {
                    let mut count = 0;
                    while count < *max && self.is_one(set, at + count) {
                        count += 1;
                    }
                    (*min..=count).rev().any(|n| self.sequence(rest, at + n, then))
                }
                node => {
                    self.repeat(node, *min, *max, at, &mut |next| self.sequence(rest, next, then))
                }
            },
        }
    }

    fn repeat(&self, node: &Node, min: usize, max: usize, at: usize, then: Then) -> bool {
        let more = max > 0
            && self.sequence(std::slice::from_ref(node), at, &mut |next| {
                next > at && self.repeat(node, min.saturating_sub(1), max - 1, next, then)
            });
        more || (min == 0 && then(at))
    }

    fn is_one(&self, set: &[bool; 256], at: usize) -> bool {
        self.text.get(at).is_some_and(|&byte| set[usize::from(byte)])
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn branches(&mut self) -> Result<Vec<Vec<Node>>, String> {
        let mut branches = vec![Vec::new()];
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b')' => break,
                b'|' => {
                    self.at += 1;
                    branches.push(Vec::new());
                }
                _ => {
                    let atom = self.atom()?;
                    let node = self.repeat(atom)?;
                    if let Some(last) = branches.last_mut() {
                        last.push(node);
                    }
                }
            }
        }
        Ok(branches)
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied().ok_or("the expression ends too early")?;
        self.at += 1;
        Ok(byte)
    }

    fn atom(&mut self) -> Result<Node, String> {
        Ok(match self.next()? {
            b'^' => Node::Start,
            b'$' => Node::End,
            b'.' => Node::One(Box::new([true; 256])),
            b'(' => {
                let branches = self.branches()?;
                match self.next()? {
                    b')' => Node::Group(branches),
                    _ => return Err("a ( without )".into()),
                }
            }
            b'[' => Node::One(self.class()?),
            b'\\' => Node::One(escaped(self.next()?)),
            b'*' | b'+' | b'?' => return Err("nothing to repeat".into()),
            byte => Node::One(only(|b| b == byte)),
        })
    }

    fn class(&mut self) -> Result<Box<[bool; 256]>, String> {
        let mut set = Box::new([false; 256]);
        let negated = self.bytes.get(self.at) == Some(&b'^');
        self.at += usize::from(negated);
        loop {
            let byte = match self.next()? {
                b']' => break,
                b'\\' => {
                    let letter = self.next()?;
                    if b"dws".contains(&letter) {
                        let more = escaped(letter);
                        set.iter_mut().zip(more.iter()).for_each(|(to, from)| *to |= from);
                        continue;
                    }
                    letter
                }
                byte => byte,
            };
            let ranged = self.bytes.get(self.at) == Some(&b'-')
                && self.bytes.get(self.at + 1).is_some_and(|&next| next != b']');
            let last = if ranged { self.bytes[self.at + 1] } else { byte };
            self.at += if ranged { 2 } else { 0 };
            (byte..=last).for_each(|b| set[usize::from(b)] = true);
        }
        if negated {
            set.iter_mut().for_each(|flag| *flag = !*flag);
        }
        Ok(set)
    }

    fn repeat(&mut self, atom: Node) -> Result<Node, String> {
        let (min, max) = match self.bytes.get(self.at) {
            Some(b'*') => (0, usize::MAX),
            Some(b'+') => (1, usize::MAX),
            Some(b'?') => (0, 1),
            Some(b'{') => {
                let rest = &self.bytes[self.at..];
                let end = rest.iter().position(|&b| b == b'}').ok_or("a { without }")?;
                let bounds = String::from_utf8_lossy(&rest[1..end]).into_owned();
                self.at += end;
                let number = |text: &str| text.parse().map_err(|_| "bad {n,m}".to_string());
                match bounds.split_once(',') {
                    None => (number(&bounds)?, number(&bounds)?),
                    Some((min, "")) => (number(min)?, usize::MAX),
                    Some((min, max)) => (number(min)?, number(max)?),
                }
            }
            _ => return Ok(atom),
        };
        self.at += 1;
        Ok(Node::Repeat(Box::new(atom), min, max))
    }
}

fn only(test: impl Fn(u8) -> bool) -> Box<[bool; 256]> {
    let mut set = Box::new([false; 256]);
    (0..=255u8).for_each(|byte| set[usize::from(byte)] = test(byte));
    set
}

fn escaped(letter: u8) -> Box<[bool; 256]> {
    match letter {
        b'd' => only(|b| b.is_ascii_digit()),
        b'w' => only(|b| b.is_ascii_alphanumeric() || b == b'_'),
        b's' => only(|b| b.is_ascii_whitespace()),
        other => only(|b| b == other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, yes: &[&str], no: &[&str]) {
        let regex = Regex::new(source).unwrap();
        for text in yes {
            assert!(regex.is_match(text.as_bytes()), "/{source}/ should match {text:?}");
        }
        for text in no {
            assert!(!regex.is_match(text.as_bytes()), "/{source}/ should not match {text:?}");
        }
    }

    #[test]
    fn the_usual_signs() {
        check("abc", &["abc", "xabcx"], &["ab", "acb"]);
        check("^a.c$", &["abc", "a\nc"], &["abcd", "xabc", "ac"]);
        check(r"^:\d+$", &[":0", ":123"], &[":", ":1x", "1"]);
        check("^(ab|c)+d?$", &["ab", "cabd", "c"], &["", "d", "abdd"]);
        check("^[a-c_]{2,3}$", &["ab", "__c"], &["a", "abca", "xy"]);
        check(r"^[^\d]+$", &["ab"], &["a1"]);
        check(r"^a{2}\.$", &["aa."], &["aa", "a.", "aax"]);
        check("^(a*)*$", &["", "aaa"], &["b"]);
        check("x*", &["", "anything"], &[]);
    }

    #[test]
    fn broken_expressions_are_refused() {
        for source in ["(", ")", "*", "[a", "a{", "a{x}", "\\"] {
            assert!(Regex::new(source).is_err(), "/{source}/");
        }
    }

    #[test]
    fn long_texts_take_no_deep_recursion() {
        let text = vec![b'a'; 1_000_000];
        assert!(Regex::new("^.*a$").unwrap().is_match(&text));
    }
}
