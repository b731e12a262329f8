//! Sends the same random commands to two servers until their answers differ, then looks for the
//! shortest script that still makes them differ.
//!
//! 1. A session begins with empty servers and has a seed of its own, told with the difference.
//! 2. Sessions change between RESP2 and RESP3.
//! 3. A server that closes the connection, falls silent or dies differs from one that does not; it
//!    is started again.

mod grammar;
pub mod random;

use crate::client::{Connection, Fault, Server, encode};
use crate::pattern::Resp;
use crate::render;
use crate::run::command_line;
use crate::value::Value;
use grammar::{Rule, Sent, Slack};
use random::Random;
use std::time::{Duration, Instant};

/// Commands of one session, sent in one go.
const SESSION_COMMANDS: usize = 150;

/// What to compare.
pub struct Options {
    /// How long to look.
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

/// Looks for a difference; gives the report of the first one found, or the number of commands sent.
pub fn search(
    options: &Options,
    tell: &mut dyn FnMut(&str),
) -> Result<Result<u64, String>, String> {
    let rules = grammar::parse(include_str!("../../grammar.txt"))?;
    let [a, b] = &options.commands;
    let mut sides = [Side::start(a)?, Side::start(b)?];
    let rules = wanted(rules, options, &mut sides, tell);
    if rules.is_empty() {
        return Err("no command is left to send".into());
    }
    let end = Instant::now() + options.time;
    let mut sent = 0;
    let mut seed = options.seed;
    while Instant::now() < end {
        let resp = if seed.is_multiple_of(2) { Resp::Two } else { Resp::Three };
        let mut random = Random::new(seed);
        let script: Vec<Sent> =
            (0..SESSION_COMMANDS).map(|_| random.pick(&rules).generate(&mut random)).collect();
        if let Some(at) = again(&mut sides, &script, resp, tell)? {
            let script = shortest(&mut sides, script[..=at].to_vec(), resp)?;
            return Ok(Err(report(&mut sides, &script, resp, seed)?));
        }
        sent += script.len() as u64;
        seed = seed.wrapping_add(1);
    }
    Ok(Ok(sent))
}

/// The rules that were asked for and that both servers know.
fn wanted(
    rules: Vec<Rule>,
    options: &Options,
    sides: &mut [Side; 2],
    tell: &mut dyn FnMut(&str),
) -> Vec<Rule> {
    let named =
        |names: &[String], rule: &Rule| names.iter().any(|n| n.eq_ignore_ascii_case(&rule.name));
    let mut keep = |rule: &Rule| {
        if named(&options.skip, rule) || !(options.only.is_empty() || named(&options.only, rule)) {
            return false;
        }
        let known = sides.each_mut().map(|side| side.knows(&rule.name));
        if known[0] != known[1] {
            tell(&format!("left out: {} (only one of the servers knows it)", rule.name));
        }
        known[0] == known[1]
    };
    rules.into_iter().filter(|rule| keep(rule)).collect()
}

/// One of the two servers.
struct Side {
    command: String,
    server: Server,
}

/// What came back for one command.
type Answer = Result<Value, Fault>;

impl Side {
    fn start(command: &str) -> Result<Side, String> {
        Ok(Side { command: command.to_string(), server: Server::start(command, "")? })
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
                Connection::open(&self.server.address, resp).map_err(|e| format!("{e:?}"))?
            }
        };
        connection.command(&["FLUSHALL"]).map_err(|fault| format!("FLUSHALL: {fault:?}"))?;
        let bytes: Vec<u8> = script.iter().flat_map(|sent| encode(&sent.args)).collect();
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
    Ok((0..script.len()).find(|&at| match (a.get(at), b.get(at)) {
        (Some(Ok(a)), Some(Ok(b))) => !same(a, b, script[at].slack),
        (a, b) => a != b,
    }))
}

/// The same, if it shows twice: a server that once forgets to wake a client, or a machine that
/// stands still, makes a difference that nobody can look at.
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

fn same(a: &Value, b: &Value, slack: Slack) -> bool {
    match (slack, a, b) {
        (Slack::Integer(most), Value::Int(a), Value::Int(b)) => {
            a.abs_diff(*b) <= most.unsigned_abs()
        }
        (Slack::Integer(_), Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, slack))
        }
        (Slack::Order, Value::Array(_) | Value::Set(_) | Value::Map(_), _) => {
            sorted(a) == sorted(b)
        }
        (Slack::Raw, Value::Bulk(a), Value::Bulk(b)) => {
            let one = |text: &[u8]| if text == b"raw" { b"embstr".to_vec() } else { text.to_vec() };
            one(a) == one(b)
        }
        (Slack::Above(least), Value::Int(a), Value::Int(b)) if *a.min(b) >= least => true,
        (Slack::Above(_), Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, slack))
        }
        (Slack::Above(_), Value::Map(a), Value::Map(b)) => {
            let both = a.iter().zip(b);
            a.len() == b.len()
                && both.into_iter().all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1, slack))
        }
        _ => a == b,
    }
}

/// The text of a value with all its members, and their members, in order.
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

/// Takes away commands, then arguments, as long as the servers still differ.
fn shortest(sides: &mut [Side; 2], script: Vec<Sent>, resp: Resp) -> Result<Vec<Sent>, String> {
    let mut script = without_commands(sides, script, resp)?;
    for at in 0..script.len() {
        let mut argument = script[at].args.len();
        while argument > 1 {
            argument -= 1;
            let mut shorter = script.clone();
            shorter[at].args.remove(argument);
            if difference(sides, &shorter, resp)?.is_some() {
                script = shorter;
            }
        }
    }
    without_commands(sides, script, resp)
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

/// The script as a case of a transcript, with the first server's answers, and the second's where it
/// differs.
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
    for (at, sent) in script.iter().enumerate() {
        let (a, b) = (a.get(at), b.get(at));
        out.push_str(&format!("> {}\n< {}\n", command_line(&sent.args), text(a)));
        let equal = match (a, b) {
            (Some(Ok(a)), Some(Ok(b))) => same(a, b, sent.slack),
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
        assert!(same(&int(5), &int(7), Slack::Integer(2)));
        assert!(!same(&int(5), &int(8), Slack::Integer(2)));
        assert!(!same(&int(5), &int(6), Slack::None));
        let list = |numbers: [i64; 2]| Value::Array(numbers.map(int).to_vec());
        assert!(same(&list([1, 2]), &list([2, 1]), Slack::Order));
        assert!(!same(&list([1, 2]), &list([2, 1]), Slack::None));
        let bulk = |text: &str| Value::Bulk(text.into());
        assert!(same(&bulk("raw"), &bulk("embstr"), Slack::Raw));
        assert!(!same(&bulk("raw"), &bulk("int"), Slack::Raw));
    }
}
