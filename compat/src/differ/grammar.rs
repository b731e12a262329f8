//! The random input of the differ: the commands of `grammar.txt` and random texts for their
//! arguments.
//!
//! 1. Equal seeds give equal commands.
//! 2. Time spans are either not allowed, or so long that nothing expires while the differ runs.
//!    They are hardly ever equal, so that comparing two of them does not depend on the time.
//! 3. One command in `MUTATED_ONCE_IN` is corrupted: an argument is missing, added, repeated, or
//!    garbage.

use super::random::Random;

/// One command in this many is corrupted.
const MUTATED_ONCE_IN: usize = 12;
/// Repeated arguments are repeated less often than this.
const REPEAT_LIMIT: usize = 4;

/// A number above this is a time in milliseconds.
const LONG_AGO_MS: i64 = 1_000_000_000_000;

/// The allowed differences of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedDifference {
    /// No difference.
    None,
    /// An integer may differ by this much.
    Integer(i64),
    /// The order of an array may differ.
    Order,
    /// `embstr` and `raw` count as the same.
    Raw,
    /// Integers above this may differ, at any depth: times, or all integers.
    Above(i64),
    /// The order of sets and maps may differ, at any depth: a script's tables have none.
    Tables,
    /// An array: the allowed differences of each of its items.
    Each(Vec<AllowedDifference>),
}

/// A command and its arguments.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, in capitals.
    pub name: String,
    /// The allowed differences of its answers.
    pub slack: AllowedDifference,
    arguments: Item,
}

#[derive(Clone, Debug)]
enum Item {
    Token(String),
    Kind(Kind),
    Sequence(Vec<Item>),
    OneOf(Vec<Item>),
    Optional(Box<Item>),
    Many(Box<Item>),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Key,
    Value,
    Int,
    Float,
    Index,
    Offset,
    Seconds,
    Millis,
    Moment,
    MomentMs,
    Database,
    Pattern,
    Small,
    /// A count: mostly how often the next repeated argument is repeated.
    Count,
    /// One of a few texts, some of them long, so that some are equal.
    Element,
    /// A bit: 0 or 1, rarely 2.
    Bit,
    /// A type of BITFIELD.
    Field,
    /// A longitude or latitude.
    Degrees,
    /// An id of a stream's entry.
    Id,
    /// An id for a new entry: often only its time.
    NewId,
    /// An end of an interval of ids.
    Bound,
    /// The start of XREAD.
    From,
    /// `~` or `=`, as in XADD and XTRIM.
    Roughly,
    /// A group, or a consumer.
    Group,
    /// A member of a sorted set: one of a few dozen.
    Member,
    /// A score, often one that another member has.
    Score,
    /// An end of a range of scores.
    ScoreEnd,
    /// An end of a range of members.
    LexEnd,
    /// How many items to skip.
    Skip,
    /// A short time to wait, in seconds.
    Wait,
}

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Name and arguments.
    pub args: Vec<Vec<u8>>,
    /// The allowed differences of its answers.
    pub slack: AllowedDifference,
    /// For a script: the commands it calls.
    pub calls: Vec<Sent>,
}

impl Sent {
    /// A command whose answer is certain.
    pub fn of(args: impl IntoIterator<Item = Vec<u8>>) -> Sent {
        Sent { args: args.into_iter().collect(), slack: AllowedDifference::None, calls: Vec::new() }
    }

    /// All words as they are sent: the arguments, then the commands called by a script, each
    /// preceded by its number of words.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let mut words = self.args.clone();
        for call in &self.calls {
            words.push(call.args.len().to_string().into());
            words.extend_from_slice(&call.args);
        }
        words
    }

    /// The allowed differences of its answers.
    pub fn slack(&self) -> AllowedDifference {
        if self.calls.is_empty() {
            return self.slack.clone();
        }
        AllowedDifference::Each(self.calls.iter().map(|call| call.slack.clone()).collect())
    }
}

/// Reads the grammar.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| rule(line).map_err(|why| format!("{line}: {why}"))).collect()
}

fn rule(line: &str) -> Result<Rule, String> {
    let (slack, rest) = match line.strip_prefix('~') {
        None => (AllowedDifference::None, line),
        Some(rest) => {
            let (slack, rest) = rest.split_once(' ').ok_or("~ without a command")?;
            let slack = match slack {
                "sorted" => AllowedDifference::Order,
                "raw" => AllowedDifference::Raw,
                "moments" => AllowedDifference::Above(LONG_AGO_MS),
                "integers" => AllowedDifference::Above(i64::MIN),
                number => {
                    AllowedDifference::Integer(number.parse().map_err(|_| "~ and no number")?)
                }
            };
            (slack, rest)
        }
    };
    let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut parser = Parser { tokens: tokens(arguments), at: 0 };
    let arguments = parser.alternatives()?;
    if parser.at < parser.tokens.len() {
        return Err(format!("left over: {}", parser.tokens[parser.at]));
    }
    Ok(Rule { name: name.to_string(), slack, arguments })
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        while let Some(at) = rest.find(|c| "[]()|+".contains(c)) {
            if at > 0 {
                tokens.push(rest[..at].to_string());
            }
            tokens.push(rest[at..=at].to_string());
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            tokens.push(rest.to_string());
        }
    }
    tokens
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn alternatives(&mut self) -> Result<Item, String> {
        let mut all = vec![self.sequence()?];
        while self.eat("|") {
            all.push(self.sequence()?);
        }
        Ok(if all.len() > 1 { Item::OneOf(all) } else { all.swap_remove(0) })
    }

    fn sequence(&mut self) -> Result<Item, String> {
        let mut items = Vec::new();
        while let Some(token) = self.peek()
            && !["|", "]", ")"].contains(&token)
        {
            let mut item = self.item()?;
            if self.eat("+") {
                item = Item::Many(Box::new(item));
            }
            items.push(item);
        }
        Ok(Item::Sequence(items))
    }

    fn item(&mut self) -> Result<Item, String> {
        let token = self.peek().unwrap_or_default().to_string();
        self.at += 1;
        let closed =
            |found: bool, item| if found { Ok(item) } else { Err("not closed".to_string()) };
        match token.as_str() {
            "[" => {
                let inner = self.alternatives()?;
                closed(self.eat("]"), Item::Optional(Box::new(inner)))
            }
            "(" => {
                let inner = self.alternatives()?;
                closed(self.eat(")"), inner)
            }
            word if word.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'-')) => {
                Ok(Item::Token(token))
            }
            word => kind(word).map(Item::Kind),
        }
    }
}

fn kind(word: &str) -> Result<Kind, String> {
    Ok(match word {
        "key" => Kind::Key,
        "value" => Kind::Value,
        "int" => Kind::Int,
        "float" => Kind::Float,
        "index" => Kind::Index,
        "offset" => Kind::Offset,
        "seconds" => Kind::Seconds,
        "millis" => Kind::Millis,
        "moment" => Kind::Moment,
        "moment_ms" => Kind::MomentMs,
        "db" => Kind::Database,
        "pattern" => Kind::Pattern,
        "small" => Kind::Small,
        "count" => Kind::Count,
        "element" => Kind::Element,
        "bit" => Kind::Bit,
        "degrees" => Kind::Degrees,
        "field" => Kind::Field,
        "id" => Kind::Id,
        "newid" => Kind::NewId,
        "bound" => Kind::Bound,
        "from" => Kind::From,
        "roughly" => Kind::Roughly,
        "group" => Kind::Group,
        "member" => Kind::Member,
        "score" => Kind::Score,
        "score_end" => Kind::ScoreEnd,
        "lex_end" => Kind::LexEnd,
        "skip" => Kind::Skip,
        "wait" => Kind::Wait,
        _ => return Err(format!("no kind of argument is called {word}")),
    })
}

impl Rule {
    /// Makes a random command by this rule.
    pub fn generate(&self, random: &mut Random) -> Sent {
        let repeats = 1 + random.below(REPEAT_LIMIT);
        let mut args = vec![self.name.clone().into_bytes()];
        fill(&self.arguments, repeats, random, &mut args);
        if random.once_in(MUTATED_ONCE_IN) {
            mutate(&mut args, random);
        }
        Sent { args, slack: self.slack.clone(), calls: Vec::new() }
    }
}

fn fill(item: &Item, repeats: usize, random: &mut Random, args: &mut Vec<Vec<u8>>) {
    match item {
        Item::Token(token) if random.once_in(8) => args.push(token.to_ascii_lowercase().into()),
        Item::Token(token) => args.push(token.clone().into()),
        Item::Kind(Kind::Count) if !random.once_in(10) => args.push(repeats.to_string().into()),
        Item::Kind(kind) => args.push(argument(*kind, random)),
        Item::Sequence(items) => items.iter().for_each(|item| fill(item, repeats, random, args)),
        Item::OneOf(items) => fill(random.pick(items), repeats, random, args),
        Item::Optional(item) => {
            if random.once_in(2) {
                fill(item, repeats, random, args);
            }
        }
        Item::Many(item) => (0..repeats).for_each(|_| fill(item, repeats, random, args)),
    }
}

fn mutate(args: &mut Vec<Vec<u8>>, random: &mut Random) {
    let at = 1 + random.below(args.len().saturating_sub(1));
    match random.below(5) {
        0 => _ = (args.len() > 1).then(|| args.remove(at)),
        1 => args.push(garbage(random)),
        2 if at < args.len() => args.insert(at, args[at].clone()),
        3 if at < args.len() => args[at] = garbage(random),
        _ => args[0].make_ascii_lowercase(),
    }
}

fn garbage(random: &mut Random) -> Vec<u8> {
    let texts: [&[u8]; 14] = [
        b"",
        b"foo",
        b"NX",
        b"EX",
        b"0",
        b"-1",
        b"1.5",
        b" 1",
        b"1 ",
        b"\xff\x01",
        b"nan",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"18446744073709551616",
    ];
    random.pick(&texts).to_vec()
}

fn argument(kind: Kind, random: &mut Random) -> Vec<u8> {
    let text = match kind {
        Kind::Key => return key(random),
        Kind::Value => return value(random),
        Kind::Float => return float(random),
        Kind::Pattern => return pattern(random),
        Kind::Element => return element(random),
        Kind::Id | Kind::NewId | Kind::Bound | Kind::From | Kind::Roughly | Kind::Group => {
            return stream_word(kind, random);
        }
        Kind::Member => return member(random),
        Kind::Score => return score(random),
        Kind::ScoreEnd => return score_end(random),
        Kind::LexEnd => return lex_end(random),
        Kind::Wait => return b"0.001".to_vec(),
        Kind::Skip => match random.below(12) {
            0 => *random.pick(&[1 << 31, 1 << 32, i64::MAX]),
            _ => random.below(5) as i64,
        },
        Kind::Int => integer(random),
        Kind::Index => match random.below(8) {
            0 => integer(random),
            _ => random.below(24) as i64 - 12,
        },
        Kind::Offset => match random.below(12) {
            0 => *random.pick(&[-1, 536_870_912, 4_294_967_296, i64::MAX, i64::MIN]),
            _ => random.below(30) as i64,
        },
        Kind::Seconds => span(random, 1, i64::MAX / 1000),
        Kind::Millis => span(random, 1000, i64::MAX),
        Kind::Moment => moment(random, 1, i64::MAX / 1000),
        Kind::MomentMs => moment(random, 1000, i64::MAX),
        Kind::Database => match random.below(10) {
            0 => *random.pick(&[-1, 15, 16, 2_147_483_648, i64::MAX]),
            _ => random.below(3) as i64,
        },
        Kind::Degrees if random.once_in(30) => return garbage(random),
        Kind::Degrees => {
            let whole = random.below(170) as i64 - 85;
            return format!("{whole}.{}", random.below(1000)).into_bytes();
        }
        Kind::Field => {
            let fields: [&[u8]; 10] =
                [b"u8", b"i8", b"u1", b"i1", b"i5", b"u16", b"u63", b"i64", b"u64", b"i0"];
            return random.pick(&fields).to_vec();
        }
        Kind::Bit => i64::from(random.once_in(2)) + i64::from(random.once_in(20)),
        Kind::Small => random.below(6) as i64 - 1,
        Kind::Count => *random.pick(&[0, -1, 1, 2, 3, 2_147_483_648, i64::MAX]),
    };
    text.to_string().into_bytes()
}

fn stream_word(kind: Kind, random: &mut Random) -> Vec<u8> {
    match (kind, random.below(6)) {
        (Kind::Roughly, _) => random.pick(&["~", "="]).to_string(),
        (Kind::Group, _) => random.pick(&["g", "g", "g", "h", "c", ""]).to_string(),
        (Kind::NewId, 0..4) => format!("{}-*", 1 + random.below(4)),
        (Kind::Bound, 0) => "-".to_string(),
        (Kind::Bound, 1 | 2) => "+".to_string(),
        (Kind::Bound, 3) => format!("({}", entry_id(random)),
        (Kind::From, 0..3) => ">".to_string(),
        (Kind::From, 3) => random.pick(&["$", "+"]).to_string(),
        _ => entry_id(random),
    }
    .into_bytes()
}

fn entry_id(random: &mut Random) -> String {
    let odd = [
        "-",
        "+",
        "0",
        "0-0",
        "18446744073709551615-18446744073709551615",
        "18446744073709551615-18446744073709551614",
        "3-18446744073709551615",
        "1-2-3",
        "007-01",
        " 1-1",
        "a-1",
        "2-",
        "5--3",
    ];
    match random.below(12) {
        0 => random.pick(&odd).to_string(),
        1 | 2 => random.below(6).to_string(),
        _ => format!("{}-{}", random.below(5), random.below(6)),
    }
}

/// A time span: so long that it does not end during a run; rarely 0, a negative or an extreme one.
fn span(random: &mut Random, unit: i64, most: i64) -> i64 {
    match random.below(10) {
        0 => *random.pick(&[
            0,
            -1,
            -1000,
            i64::MIN,
            i64::MAX,
            most,
            most + i64::from(most < 1 << 62),
        ]),
        _ => (100_000 + random.below(1_000_000_000) as i64) * unit,
    }
}

/// A point in time: about the year 3021; rarely one long ago or an extreme one.
fn moment(random: &mut Random, unit: i64, most: i64) -> i64 {
    match random.below(10) {
        0 => *random.pick(&[0, -1, 1, 1_000_000, i64::MIN, i64::MAX, most]),
        _ => 33_177_117_420 * unit + random.below(2000) as i64,
    }
}

fn integer(random: &mut Random) -> i64 {
    match random.below(8) {
        0 => *random.pick(&[i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1, 1 << 31, 1 << 32]),
        1 => random.bits() as i64,
        _ => random.below(40) as i64 - 20,
    }
}

/// The name of a key, rarely an odd one.
pub fn key(random: &mut Random) -> Vec<u8> {
    let few: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    let rare: [&[u8]; 4] =
        [b"", b"a\0b\r\n", b"12345", b"a rather long key, longer than others are"];
    if random.once_in(15) { random.pick(&rare).to_vec() } else { random.pick(&few).to_vec() }
}

fn member(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0 => value(random),
        1 => vec![b'm'; 60 + random.below(10)],
        2..8 => random.below(16).to_string().into_bytes(),
        _ => format!("m{}", random.below(16)).into_bytes(),
    }
}

fn score(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => float(random),
        1 => random.pick(&[&b"inf"[..], b"-inf", b"-0", b"1.1"]).to_vec(),
        _ => (random.below(9) as i64 - 3).to_string().into_bytes(),
    }
}

fn score_end(random: &mut Random) -> Vec<u8> {
    let open: &[u8] = if random.once_in(3) { b"(" } else { b"" };
    let end = match random.below(4) {
        0 => random.pick(&[&b"+inf"[..], b"-inf"]).to_vec(),
        _ => score(random),
    };
    [open, &end].concat()
}

fn lex_end(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => b"-".to_vec(),
        1 => b"+".to_vec(),
        2 => [&b"("[..], &member(random)].concat(),
        _ => [&b"["[..], &member(random)].concat(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 | 1 => integer(random).to_string().into_bytes(),
        2 => float(random),
        3 => garbage(random),
        4 => vec![b'x'; *random.pick(&[1, 20, 43, 44, 45, 63, 64, 65, 200, 2000])],
        5 => (0..random.below(20)).map(|_| random.bits() as u8).collect(),
        _ => (0..1 + random.below(12)).map(|_| *random.pick(b"abcd")).collect(),
    }
}

fn element(random: &mut Random) -> Vec<u8> {
    match random.below(16) {
        0 => value(random),
        1 => vec![b'l'; 8188 + random.below(8)],
        2 => vec![b'm'; 2700],
        3 => integer(random).to_string().into_bytes(),
        _ => vec![*random.pick(b"abc123")],
    }
}

fn float(random: &mut Random) -> Vec<u8> {
    let texts = [
        "0",
        "1.5",
        "-1.5",
        "0.1",
        "3.0e3",
        "1e17",
        "1e-17",
        "-0",
        "+2",
        ".5",
        "5.",
        "0x1p3",
        "1e300",
        "inf",
        "-inf",
        "nan",
        "1e5000",
        "1e-400",
        "17179869184",
        "0.000001",
        "123456789.987654321",
    ];
    match random.below(3) {
        0 => random.pick(&texts).as_bytes().to_vec(),
        1 => {
            let scale = 10f64.powi(random.below(12) as i32 - 6);
            format!("{}", (random.below(2_000_001) as f64 - 1e6) * scale).into_bytes()
        }
        _ => integer(random).to_string().into_bytes(),
    }
}

fn pattern(random: &mut Random) -> Vec<u8> {
    let texts: [&[u8]; 12] =
        [b"*", b"a", b"?", b"[a-c]", b"[^a]", b"a*", b"*b*", b"\\a", b"[", b"[a", b"", b"*a?*[b-]"];
    random.pick(&texts).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_grammar_and_seeds_repeat() {
        let rules = parse(include_str!("../../grammar.txt")).unwrap();
        assert!(rules.len() > 50);
        let commands = |seed| {
            let mut random = Random::new(seed);
            rules.iter().map(|rule| rule.generate(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(commands(1), commands(1));
        assert_ne!(commands(1), commands(2));
    }

    #[test]
    fn mistakes_are_told() {
        for text in ["A foo", "A [key", "A (key", "A key ]", "~x A"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_and_repeats() {
        let rule = &parse("MSETEX count (key value)+ [NX|(EX seconds)]").unwrap()[0];
        let mut random = Random::new(7);
        let lengths: Vec<usize> = (0..200).map(|_| rule.generate(&mut random).args.len()).collect();
        assert!(lengths.contains(&4) && lengths.contains(&5) && lengths.contains(&10));
    }
}
