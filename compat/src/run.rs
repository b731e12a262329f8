//! Plays cases against a target and compares.
//!
//! 1. After the first mismatch the rest of the case is still played, so that it restores the
//!    settings it changed; only the first mismatch is reported. If the server stops answering, the
//!    case ends at once.
//! 2. The protocol version used to judge a reply is the connection's: the run's version, changed by
//!    the HELLO and RESET that the case itself sends.

use crate::client::Fault;
use crate::parse::{Act, Case, Expected, Reply, Send, Step, TargetServer, Transcript};
use crate::pattern::{Pattern, Resp};
use crate::quoting;
use crate::render;
use crate::target::Target;
use crate::value::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long `#! wait-until` repeats a command.
const UNTIL_LIMIT: Duration = Duration::from_secs(60);
/// The time between two of its attempts.
const UNTIL_POLL: Duration = Duration::from_millis(10);

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every reply was as expected.
    Passed,
    /// One was not.
    Failed(Mismatch),
    /// It was not played, for this reason.
    Skipped(String),
}

/// The first reply that was not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its line, counted from 1.
    pub line: usize,
    /// The command before it.
    pub command: String,
    /// As the transcript says.
    pub expected: String,
    /// As it came.
    pub got: String,
}

/// The result of reading where a reply was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// A reply.
    Value(Value),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// Neither: the read failed.
    Fault(Fault),
}

impl ReadResult {
    /// The text that a transcript would have for it.
    pub fn text(&self) -> String {
        match self {
            ReadResult::Value(value) => render::lines(value).join("\n"),
            ReadResult::Bytes(bytes) => quoting::quote(bytes),
            ReadResult::Fault(Fault::Closed) => "(connection closed)".into(),
            ReadResult::Fault(Fault::Silent) => "(no reply)".into(),
            ReadResult::Fault(Fault::Malformed(why)) => format!("(malformed reply: {why})"),
            ReadResult::Fault(Fault::Unreachable(why)) => format!("(unreachable: {why})"),
        }
    }
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the target is this repository's server or the reference.
    pub whose: TargetServer,
    /// Abilities it lacks: cases that need one are skipped.
    pub lacks: Vec<String>,
    /// Whether `#! server:` can be had.
    pub starts_servers: bool,
}

/// Plays a case in one protocol version.
pub fn case(case: &Case, resp: Resp, target: &mut dyn Target, options: &Options) -> Outcome {
    if let Some(reason) = skipped(case, resp, options) {
        return Outcome::Skipped(reason);
    }
    if let Some((line, command)) = unanswered(case) {
        let expected = "a reply (record it, or write `< nothing`)".to_string();
        return Outcome::Failed(Mismatch { line, command, expected, got: "no `<` line".into() });
    }
    let mut first = None;
    let mut judge = |_, expected: &Reply, resp: Resp, names: &Names, got: &ReadResult| {
        matches(expected, resp, names, got)
    };
    Player::new(resp, target, &mut judge).play(case, &mut first);
    first.map_or(Outcome::Passed, Outcome::Failed)
}

/// The reason to skip a case, if there is one.
pub fn skipped(case: &Case, resp: Resp, options: &Options) -> Option<String> {
    if case.resp.is_some_and(|only| only != resp) {
        return Some(format!("not about RESP{}", resp.number()));
    }
    if let Some((whose, reason)) = &case.only
        && *whose != options.whose
    {
        let who = if *whose == TargetServer::Pantala { "pantala" } else { "the reference" };
        return Some(format!("only {who}: {reason}"));
    }
    if case.server.is_some() && !options.starts_servers {
        return Some("needs a server of its own".into());
    }
    let lacking = case.needs.iter().find(|need| options.lacks.contains(need));
    lacking.map(|need| format!("needs {need}"))
}

/// The first command without an expected reply: its line and text.
pub fn unanswered(case: &Case) -> Option<(usize, String)> {
    case.steps.iter().enumerate().find_map(|(at, step)| {
        let Act::Send(send) = &step.act else { return None };
        let mut later = case.steps[at + 1..].iter().filter(|next| next.client == step.client);
        let answered = matches!(later.next(), Some(Step { act: Act::Expect(_), .. }));
        (!answered).then(|| (step.lines.start + 1, command_line(&send.args)))
    })
}

/// A command as a transcript writes it.
pub fn command_line(args: &[Vec<u8>]) -> String {
    args.iter().map(|arg| quoting::argument(arg)).collect::<Vec<_>>().join(" ")
}

/// Whether a reply is the expected one.
pub fn matches(expected: &Reply, resp: Resp, names: &Names, got: &ReadResult) -> bool {
    match (expected, got) {
        (Reply::Closed, ReadResult::Fault(Fault::Closed)) => true,
        (Reply::Bytes(bytes), ReadResult::Bytes(got)) => bytes == got,
        (Reply::Pattern { pattern: Some(pattern), unordered, .. }, ReadResult::Value(value)) => {
            pattern.matches(value, resp, *unordered)
        }
        (Reply::Pattern { text, unordered, pattern: None }, ReadResult::Value(value)) => {
            let text = names.fill(text.as_bytes());
            let pattern = Pattern::parse(&String::from_utf8_lossy(&text));
            pattern.is_ok_and(|pattern| pattern.matches(value, resp, *unordered))
        }
        _ => false,
    }
}

/// The values of `${name}`: what `#! let` kept, and the time at which the case began as `now_ms`
/// and `now_s`.
pub struct Names(BTreeMap<String, Vec<u8>>);

impl Names {
    fn new() -> Names {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut names = BTreeMap::new();
        names.insert("now_ms".to_string(), now.as_millis().to_string().into_bytes());
        names.insert("now_s".to_string(), now.as_secs().to_string().into_bytes());
        Names(names)
    }

    fn keep(&mut self, name: &str, value: &Value) {
        let text = match value {
            Value::Int(number) => number.to_string().into_bytes(),
            Value::Bulk(text) | Value::Simple(text) | Value::Verbatim(_, text) => text.clone(),
            other => render::line(other).into_bytes(),
        };
        self.0.insert(name.to_string(), text);
    }

    /// The text with `${name}`, `${name+5}` and `${name-5}` replaced; unknown names stay.
    fn fill(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.windows(2).position(|two| two == b"${") {
            let end = rest[at..].iter().position(|&byte| byte == b'}').map(|end| at + end);
            let Some(end) = end else { break };
            out.extend(&rest[..at]);
            match self.value(&String::from_utf8_lossy(&rest[at + 2..end])) {
                Some(value) => out.extend(value),
                None => out.extend(&rest[at..=end]),
            }
            rest = &rest[end + 1..];
        }
        out.extend(rest);
        out
    }

    fn value(&self, inside: &str) -> Option<Vec<u8>> {
        if let Some(value) = self.0.get(inside) {
            return Some(value.clone());
        }
        let at = inside.find(['+', '-'])?;
        let base: i64 = std::str::from_utf8(self.0.get(&inside[..at])?).ok()?.parse().ok()?;
        let more: i64 = inside[at..].parse().ok()?;
        Some((base + more).to_string().into_bytes())
    }
}

/// Decides whether the reply at a step (its index in the case) is as expected, or only records it.
pub type Judge<'a> = &'a mut dyn FnMut(usize, &Reply, Resp, &Names, &ReadResult) -> bool;

/// Plays one case.
pub struct Player<'a> {
    /// How long `#! wait-until` repeats a command.
    pub until_limit: Duration,
    /// Whether a reply may arrive that no step expects.
    pub may_leave: bool,
    resp: Resp,
    target: &'a mut dyn Target,
    judge: Judge<'a>,
    names: Names,
    clients: BTreeMap<String, Speaker>,
}

struct Speaker {
    resp: Resp,
    last: Send,
}

impl<'a> Player<'a> {
    /// A player for one case.
    pub fn new(resp: Resp, target: &'a mut dyn Target, judge: Judge<'a>) -> Player<'a> {
        let clients = BTreeMap::new();
        let (until_limit, may_leave, names) = (UNTIL_LIMIT, false, Names::new());
        Player { until_limit, may_leave, resp, target, judge, names, clients }
    }

    /// Plays all steps; `first` becomes the first mismatch.
    pub fn play(&mut self, case: &Case, first: &mut Option<Mismatch>) {
        if let Err(fault) = self.target.begin(case, self.resp) {
            let got = ReadResult::Fault(fault).text();
            let expected = "an empty server".to_string();
            *first = Some(Mismatch { line: case.line, command: "FLUSHALL".into(), expected, got });
            return;
        }
        for (at, step) in case.steps.iter().enumerate() {
            match self.step(at, step) {
                Ok(None) => {}
                Ok(Some(mismatch)) => _ = first.get_or_insert(mismatch),
                Err(mismatch) => {
                    first.get_or_insert(mismatch);
                    return;
                }
            }
        }
        self.nothing_is_left(case, first);
    }

    fn speaker(&mut self, client: &str) -> &mut Speaker {
        let resp = self.resp;
        let new = || Speaker { resp, last: Send::default() };
        self.clients.entry(client.to_string()).or_insert_with(new)
    }

    /// Runs a step. `Ok(Some(_))` is a mismatch after which the case goes on, an error one that
    /// ends it.
    fn step(&mut self, at: usize, step: &Step) -> Result<Option<Mismatch>, Mismatch> {
        let client = &step.client;
        let sent = match &step.act {
            Act::Send(send) => {
                let args = send.args.iter().map(|arg| self.names.fill(arg)).collect();
                self.speaker(client).last = Send { args, ..send.clone() };
                let args = self.speaker(client).last.args.clone();
                self.target.send(client, &args)
            }
            Act::SendBytes(bytes) => {
                self.speaker(client).last = Send { args: vec![bytes.clone()], ..Send::default() };
                self.target.send_bytes(client, bytes)
            }
            Act::Expect(expected) => return self.expect(at, step, expected),
        };
        match sent {
            Ok(()) => Ok(None),
            Err(fault) => {
                Err(self.mismatch(step, "a connection".into(), &ReadResult::Fault(fault)))
            }
        }
    }

    fn expect(
        &mut self,
        at: usize,
        step: &Step,
        expected: &Expected,
    ) -> Result<Option<Mismatch>, Mismatch> {
        let Some(reply) = expected.under(self.resp) else { return Ok(None) };
        if matches!(reply, Reply::Nothing) {
            return Ok(None);
        }
        let end = Instant::now() + self.until_limit;
        loop {
            let got = self.receive(&step.client, reply);
            let resp = self.learn(&step.client, &got);
            if (self.judge)(at, reply, resp, &self.names, &got) {
                return Ok(None);
            }
            let last = &self.speaker(&step.client).last;
            if last.wait_until && matches!(got, ReadResult::Value(_)) && Instant::now() < end {
                std::thread::sleep(UNTIL_POLL);
                let args = last.args.clone();
                if self.target.send(&step.client, &args).is_ok() {
                    continue;
                }
            }
            let mismatch = self.mismatch(step, reply_text(reply), &got);
            return if matches!(got, ReadResult::Fault(_)) {
                Err(mismatch)
            } else {
                Ok(Some(mismatch))
            };
        }
    }

    fn receive(&mut self, client: &str, reply: &Reply) -> ReadResult {
        let got = match reply {
            Reply::Bytes(bytes) => {
                self.target.receive_bytes(client, bytes.len()).map(ReadResult::Bytes)
            }
            _ => self.target.receive(client).map(ReadResult::Value),
        };
        got.unwrap_or_else(ReadResult::Fault)
    }

    /// Records the state that a reply changes; returns the protocol version by which to judge the
    /// reply.
    fn learn(&mut self, client: &str, got: &ReadResult) -> Resp {
        let speaker = self.speaker(client);
        let ReadResult::Value(value) = got else { return speaker.resp };
        let name = speaker.last.args.first().map(|name| name.to_ascii_lowercase());
        let version = speaker.last.args.get(1).map(Vec::as_slice);
        match (name.as_deref(), version, value) {
            (_, _, Value::Error(_)) => {}
            (Some(b"hello"), Some(b"2"), _) | (Some(b"reset"), _, _) => speaker.resp = Resp::Two,
            (Some(b"hello"), Some(b"3"), _) => speaker.resp = Resp::Three,
            _ => {}
        }
        let resp = speaker.resp;
        if let Some(name) = speaker.last.keep_as.clone() {
            self.names.keep(&name, value);
        }
        resp
    }

    fn nothing_is_left(&mut self, case: &Case, first: &mut Option<Mismatch>) {
        if first.is_some() || self.may_leave {
            return;
        }
        for client in self.clients.keys().cloned().collect::<Vec<_>>() {
            if let Some(value) = self.target.unread(&client) {
                let Some(step) = case.steps.iter().rfind(|step| step.client == client) else {
                    continue;
                };
                let expected = "nothing more".to_string();
                *first = Some(self.mismatch(step, expected, &ReadResult::Value(value)));
                return;
            }
        }
    }

    fn mismatch(&mut self, step: &Step, expected: String, got: &ReadResult) -> Mismatch {
        let command = command_line(&self.speaker(&step.client).last.args);
        Mismatch { line: step.lines.start + 1, command, expected, got: got.text() }
    }
}

/// An expected reply as it was written.
fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Blank => "a recorded reply".into(),
        Reply::Nothing => "nothing".into(),
        Reply::Closed => "(connection closed)".into(),
        Reply::Bytes(bytes) => quoting::quote(bytes),
        Reply::Pattern { text, unordered, .. } if *unordered => format!("{text} (in any order)"),
        Reply::Pattern { text, .. } => text.clone(),
    }
}

/// How a run ended.
#[derive(Debug, Default)]
pub struct Summary {
    /// Cases times protocol versions that passed.
    pub passed: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those that were skipped, by reason.
    pub skipped: BTreeMap<String, usize>,
}

/// Plays all cases whose path or title contains `filter`, and reports each failure to `tell`.
pub fn all(
    transcripts: &[Transcript],
    versions: &[Resp],
    filter: &str,
    target: &mut dyn Target,
    options: &Options,
    tell: &mut dyn FnMut(&str),
) -> Summary {
    let mut play = |each: &Case, resp| case(each, resp, target, options);
    each(transcripts, versions, filter, &mut play, tell)
}

/// Calls `play` for all cases whose path or title contains `filter`.
pub fn each(
    transcripts: &[Transcript],
    versions: &[Resp],
    filter: &str,
    play: &mut dyn FnMut(&Case, Resp) -> Outcome,
    tell: &mut dyn FnMut(&str),
) -> Summary {
    let mut summary = Summary::default();
    for transcript in transcripts {
        let path = transcript.path.display().to_string();
        for each in &transcript.cases {
            if !path.contains(filter) && !each.title.contains(filter) {
                continue;
            }
            for &resp in versions {
                match play(each, resp) {
                    Outcome::Passed => summary.passed += 1,
                    Outcome::Skipped(reason) => {
                        if each.resp.is_none_or(|only| only == resp) {
                            *summary.skipped.entry(reason).or_default() += 1;
                        }
                    }
                    Outcome::Failed(mismatch) => {
                        summary.failed += 1;
                        tell(&told(&path, each, resp, &mismatch));
                    }
                }
            }
        }
    }
    summary
}

fn told(path: &str, case: &Case, resp: Resp, mismatch: &Mismatch) -> String {
    let indented = |text: &str| text.replace('\n', "\n      ");
    format!(
        "{path}:{} RESP{}: {}\n    > {}\n    - {}\n    + {}",
        mismatch.line,
        resp.number(),
        case.title,
        mismatch.command,
        indented(&mismatch.expected),
        indented(&mismatch.got),
    )
}
