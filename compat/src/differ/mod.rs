//! Sends the same random commands to two servers until their answers differ, then looks for the
//! shortest script that still makes them differ.
//!
//! 1. A session starts with empty servers and has its own seed, which is printed with a difference.
//! 2. Sessions alternate between RESP2 and RESP3. Some commands are sent in transactions or called
//!    by scripts (`programs`).
//! 3. A server that closes the connection, stops answering or dies counts as different from one
//!    that does not; it is started again.

mod grammar;
mod programs;
pub mod random;

use crate::client::{Connection, Fault, Server, encode};
use crate::pattern::Resp;
use crate::render;
use crate::run::command_line;
use crate::value::Value;
use grammar::{AllowedDifference, Rule, Sent};
use programs::{Follower, Maker};
use random::Random;
use std::time::{Duration, Instant};

/// A server that does not answer for this long counts as silent. It is short, because the shortest
/// script that silences a server is found by trying.
const SILENCE: Duration = Duration::from_secs(20);
/// Commands of one session, sent without waiting in between.
const SESSION_COMMANDS: usize = 150;

/// The options of a comparison.
pub struct Options {
    /// How long to search.
    pub time: Duration,
    /// The seed of the first session; session n has the seed `seed + n`.
    pub seed: u64,
    /// How both servers are started.
    pub commands: [String; 2],
    /// Commands to leave out.
    pub skip: Vec<String>,
    /// If not empty, the only commands to send.
    pub only: Vec<String>,
}

/// Searches for a difference. Returns the report of the first one, or the number of commands sent.
pub fn search(
    options: &Options,
    tell: &mut dyn FnMut(&str),
) -> Result<Result<u64, String>, String> {
    let rules = grammar::parse(include_str!("../../grammar.txt"))?;
    let [a, b] = &options.commands;
    let mut sides = [Side::start(a)?, Side::start(b)?];
    let maker = wanted(rules, options, &mut sides, tell);
    if maker.is_empty() {
        return Err("no command is left to send".into());
    }
    let end = Instant::now() + options.time;
    let mut sent = 0;
    let mut seed = options.seed;
    while Instant::now() < end {
        let resp = if seed.is_multiple_of(2) { Resp::Two } else { Resp::Three };
        let mut random = Random::new(seed);
        let script = maker.session(SESSION_COMMANDS, &mut random, resp);
        if let Some(at) = again(&mut sides, &script, resp, tell)? {
            let script = shortest(&mut sides, script[..=at].to_vec(), resp)?;
            return Ok(Err(report(&mut sides, &script, resp, seed)?));
        }
        sent += script.iter().map(|sent| sent.calls.len().max(1) as u64).sum::<u64>();
        seed = seed.wrapping_add(1);
    }
    Ok(Ok(sent))
}

/// A maker of the commands that were asked for and that both servers support.
fn wanted(
    rules: Vec<Rule>,
    options: &Options,
    sides: &mut [Side; 2],
    tell: &mut dyn FnMut(&str),
) -> Maker {
    let named = |names: &[String], name: &str| names.iter().any(|n| n.eq_ignore_ascii_case(name));
    let mut keep = |name: &str| {
        if named(&options.skip, name) || !(options.only.is_empty() || named(&options.only, name)) {
            return false;
        }
        let known = sides.each_mut().map(|side| side.knows(name));
        if known[0] != known[1] {
            tell(&format!("left out: {name} (only one of the servers knows it)"));
        }
        known[0] == known[1]
    };
    let rules = rules.into_iter().filter(|rule| keep(&rule.name)).collect();
    Maker::new(rules, &mut keep)
}

/// One of the two servers.
struct Side {
    command: String,
    server: Server,
}

/// The answer to one command.
type Answer = Result<Value, Fault>;

impl Side {
    fn start(command: &str) -> Result<Side, String> {
        let mut side = Side { command: command.to_string(), server: Server::start(command, "")? };
        side.load()?;
        Ok(side)
    }

    /// Loads the library of functions; a server without functions is not sent any calls of them.
    fn load(&mut self) -> Result<(), String> {
        let fault = |fault| format!("FUNCTION LOAD: {fault:?}");
        let mut connection = Connection::open(&self.server.address, Resp::Two).map_err(fault)?;
        connection.command(&["FUNCTION", "LOAD", programs::LIBRARY]).map_err(fault)?;
        Ok(())
    }

    fn knows(&mut self, name: &str) -> bool {
        let answer = Connection::open(&self.server.address, Resp::Two)
            .and_then(|mut connection| connection.command(&["COMMAND", "INFO", name]));
        let nil = [Value::Nil];
        !matches!(answer, Ok(Value::Array(items)) if items == nil || items == [Value::NilArray])
    }

    /// Plays a script on the emptied server.
    fn play(&mut self, script: &[Sent], resp: Resp) -> Result<Vec<Answer>, String> {
        let mut connection = match Connection::open(&self.server.address, resp) {
            Ok(connection) => connection,
            Err(_) => {
                self.server = Server::start(&self.command, "")?;
                self.load()?;
                Connection::open(&self.server.address, resp).map_err(|e| format!("{e:?}"))?
            }
        };
        connection.limit(SILENCE);
        connection.command(&["FLUSHALL"]).map_err(|fault| format!("FLUSHALL: {fault:?}"))?;
        let bytes: Vec<u8> = script.iter().flat_map(|sent| encode(&sent.words())).collect();
        connection.send(&bytes);
        let mut answers = Vec::new();
        for _ in script {
            let answer = connection.receive();
            let broken = answer.is_err();
            answers.push(answer);
            if broken {
                break;
            }
        }
        Ok(answers)
    }
}

/// The first command of the script whose answers differ.
fn difference(sides: &mut [Side; 2], script: &[Sent], resp: Resp) -> Result<Option<usize>, String> {
    let [a, b] = sides;
    let a = a.play(script, resp)?;
    let b = b.play(script, resp)?;
    let mut follower = Follower::default();
    Ok((0..script.len()).find(|&at| match (a.get(at), b.get(at)) {
        (Some(Ok(a)), Some(Ok(b))) => !same(a, b, &follower.slack(&script[at], a)),
        (a, b) => a != b,
    }))
}

/// The first difference that shows in two runs. A difference that appears only once, because a
/// server failed to wake a client or the machine stood still, cannot be investigated.
fn again(
    sides: &mut [Side; 2],
    script: &[Sent],
    resp: Resp,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<usize>, String> {
    let Some(at) = difference(sides, script, resp)? else { return Ok(None) };
    let found = difference(sides, script, resp)?;
    if found.is_none() {
        let name = String::from_utf8_lossy(&script[at].args[0]).into_owned();
        tell(&format!("a difference at {name} did not show again"));
    }
    Ok(found)
}

fn same(a: &Value, b: &Value, slack: &AllowedDifference) -> bool {
    match (slack, a, b) {
        (AllowedDifference::Each(each), Value::Array(a), Value::Array(b))
            if each.len() == a.len() =>
        {
            a.len() == b.len() && each.iter().zip(a).zip(b).all(|((s, a), b)| same(a, b, s))
        }
        (AllowedDifference::Tables, Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, slack))
        }
        (AllowedDifference::Tables, Value::Set(_) | Value::Map(_), _) => sorted(a) == sorted(b),
        (AllowedDifference::Integer(most), Value::Int(a), Value::Int(b)) => {
            a.abs_diff(*b) <= most.unsigned_abs()
        }
        (AllowedDifference::Integer(_), Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, slack))
        }
        (AllowedDifference::Order, Value::Array(_) | Value::Set(_) | Value::Map(_), _) => {
            sorted(a) == sorted(b)
        }
        (AllowedDifference::Raw, Value::Bulk(a), Value::Bulk(b)) => {
            let one = |text: &[u8]| if text == b"raw" { b"embstr".to_vec() } else { text.to_vec() };
            one(a) == one(b)
        }
        (AllowedDifference::Above(least), Value::Int(a), Value::Int(b)) if a.min(b) >= least => {
            true
        }
        (AllowedDifference::Above(_), Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, slack))
        }
        (AllowedDifference::Above(_), Value::Map(a), Value::Map(b)) => {
            let both = a.iter().zip(b);
            a.len() == b.len()
                && both.into_iter().all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1, slack))
        }
        _ => a == b,
    }
}

/// The text of a value, with its members sorted at every depth.
fn sorted(value: &Value) -> String {
    let mut lines: Vec<String> = match value {
        Value::Array(items) | Value::Set(items) => items.iter().map(sorted).collect(),
        Value::Map(pairs) => {
            pairs.iter().map(|(key, value)| [sorted(key), sorted(value)].join(" => ")).collect()
        }
        one => return render::line(one),
    };
    lines.sort();
    format!("[{}]", lines.join(", "))
}

/// Removes commands, then calls in scripts, then arguments, while the servers still differ.
fn shortest(sides: &mut [Side; 2], script: Vec<Sent>, resp: Resp) -> Result<Vec<Sent>, String> {
    let mut script = without_commands(sides, script, resp)?;
    for at in 0..script.len() {
        for call in (0..script[at].calls.len()).rev() {
            shorten(sides, &mut script, resp, |script| _ = script[at].calls.remove(call))?;
        }
        for call in 0..script[at].calls.len() {
            for argument in (1..script[at].calls[call].args.len()).rev() {
                shorten(sides, &mut script, resp, |script| {
                    script[at].calls[call].args.remove(argument);
                })?;
            }
        }
        for argument in (1..script[at].args.len()).rev() {
            shorten(sides, &mut script, resp, |script| _ = script[at].args.remove(argument))?;
        }
    }
    without_commands(sides, script, resp)
}

/// Removes a part if the servers still differ without it.
fn shorten(
    sides: &mut [Side; 2],
    script: &mut Vec<Sent>,
    resp: Resp,
    change: impl Fn(&mut [Sent]),
) -> Result<(), String> {
    let mut shorter = script.clone();
    change(&mut shorter);
    if difference(sides, &shorter, resp)?.is_some() {
        *script = shorter;
    }
    Ok(())
}

/// Removes halves, quarters and so on down to single commands.
fn without_commands(
    sides: &mut [Side; 2],
    mut script: Vec<Sent>,
    resp: Resp,
) -> Result<Vec<Sent>, String> {
    let mut chunk = script.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < script.len() {
            let mut shorter = script.clone();
            shorter.drain(at..(at + chunk).min(script.len()));
            match difference(sides, &shorter, resp)? {
                Some(last) => script = shorter[..=last].to_vec(),
                None => at += chunk,
            }
        }
        chunk /= 2;
    }
    Ok(script)
}

/// The script as a case of a transcript, with the first server's answers, and the second server's
/// where they differ.
fn report(sides: &mut [Side; 2], script: &[Sent], resp: Resp, seed: u64) -> Result<String, String> {
    let [a, b] = sides;
    let a = a.play(script, resp)?;
    let b = b.play(script, resp)?;
    let text = |answer: Option<&Answer>| match answer {
        Some(Ok(value)) => render::line(value),
        Some(Err(fault)) => format!("({fault:?})"),
        None => "(no more)".to_string(),
    };
    let mut out = format!("# differ, seed {seed}\n#! resp: {}\n", resp.number());
    let mut follower = Follower::default();
    for (at, sent) in script.iter().enumerate() {
        let (a, b) = (a.get(at), b.get(at));
        out.push_str(&format!("> {}\n< {}\n", command_line(&sent.words()), text(a)));
        let equal = match (a, b) {
            (Some(Ok(a)), Some(Ok(b))) => same(a, b, &follower.slack(sent, a)),
            _ => a == b,
        };
        if !equal {
            out.push_str(&format!("# the other server answers: {}\n", text(b)));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_given_only_where_it_was_allowed() {
        let int = Value::Int;
        assert!(same(&int(5), &int(7), &AllowedDifference::Integer(2)));
        assert!(!same(&int(5), &int(8), &AllowedDifference::Integer(2)));
        assert!(!same(&int(5), &int(6), &AllowedDifference::None));
        let list = |numbers: [i64; 2]| Value::Array(numbers.map(int).to_vec());
        assert!(same(&list([1, 2]), &list([2, 1]), &AllowedDifference::Order));
        assert!(!same(&list([1, 2]), &list([2, 1]), &AllowedDifference::None));
        assert!(!same(&list([1, 2]), &list([2, 1]), &AllowedDifference::Tables));
        let map = |numbers: [i64; 2]| Value::Map(numbers.map(|n| (int(n), int(n))).to_vec());
        assert!(same(&map([1, 2]), &map([2, 1]), &AllowedDifference::Tables));
        assert!(!same(&map([1, 2]), &map([2, 3]), &AllowedDifference::Tables));
        let each =
            AllowedDifference::Each(vec![AllowedDifference::None, AllowedDifference::Integer(1)]);
        assert!(same(&list([1, 2]), &list([1, 3]), &each));
        assert!(!same(&list([1, 2]), &list([2, 2]), &each));
        assert!(!same(&list([1, 2]), &Value::Array(vec![int(1)]), &each));
        let bulk = |text: &str| Value::Bulk(text.into());
        assert!(same(&bulk("raw"), &bulk("embstr"), &AllowedDifference::Raw));
        assert!(!same(&bulk("raw"), &bulk("int"), &AllowedDifference::Raw));
    }
}
