//! Fills in the replies of a transcript from a server. This is how transcripts are made.
//!
//! 1. A command without a `<` line gets one; a `<` line with plain text is replaced.
//! 2. Hand-written texts for volatile replies (`*`, `/regex/`, `<~`, `${name}`, `nothing`, raw
//!    bytes, and everything after `#! wait-until`) are kept, and reported if they do not match.
//! 3. Each case is played once in each protocol version; a single text is written where it fits
//!    both.

use crate::client::Fault;
use crate::parse::{Act, Case, Expected, Reply, Send, Step, TargetServer, Transcript};
use crate::pattern::{Pattern, Resp};
use crate::render;
use crate::run::{Names, Player, ReadResult, matches};
use crate::target::Target;
use std::collections::BTreeMap;
use std::ops::Range;

/// The new text for some lines of the file, by first line and step.
type Edits = BTreeMap<(usize, usize), (Range<usize>, Vec<String>)>;

/// Plays a transcript and returns its text with the replies filled in; replies that do not match a
/// kept text are reported to `tell`.
pub fn text(
    transcript: &Transcript,
    target: &mut dyn Target,
    starts_servers: bool,
    tell: &mut dyn FnMut(&str),
) -> String {
    let mut edits = Edits::new();
    for case in &transcript.cases {
        let foreign = case.only.as_ref().is_some_and(|(whose, _)| *whose == TargetServer::Pantala);
        if foreign || (case.server.is_some() && !starts_servers) {
            continue;
        }
        let case = with_blanks(case);
        let heard = hear(&case, target, tell);
        for (at, step) in case.steps.iter().enumerate() {
            if let Act::Expect(expected) = &step.act
                && !is_kept(&case, at, expected)
                && let Some(lines) = written(&step.client, &heard[at])
            {
                edits.insert((step.lines.start, at), (step.lines.clone(), lines));
            }
        }
    }
    apply(&transcript.lines, &edits)
}

/// The case with a blank expectation after every command without one. It has no line of its own:
/// its range is empty, after the command's line.
fn with_blanks(case: &Case) -> Case {
    let mut steps: Vec<Step> = Vec::new();
    for (at, step) in case.steps.iter().enumerate() {
        steps.push(step.clone());
        if !matches!(step.act, Act::Send(_)) {
            continue;
        }
        let mut later = case.steps[at + 1..].iter().filter(|next| next.client == step.client);
        if !matches!(later.next(), Some(Step { act: Act::Expect(_), .. })) {
            let expected = Expected { two: Some(Reply::Blank), three: Some(Reply::Blank) };
            let lines = step.lines.end..step.lines.end;
            let client = step.client.clone();
            steps.push(Step { lines, client, act: Act::Expect(expected) });
        }
    }
    Case { steps, ..case.clone() }
}

/// The replies at each step's expectation, in RESP2 and RESP3.
type Heard = Vec<[Option<ReadResult>; 2]>;

fn hear(case: &Case, target: &mut dyn Target, tell: &mut dyn FnMut(&str)) -> Heard {
    let mut heard: Heard = vec![[None, None]; case.steps.len()];
    for (version, resp) in [Resp::Two, Resp::Three].into_iter().enumerate() {
        if case.resp.is_some_and(|only| only != resp) {
            continue;
        }
        let mut judge = |at: usize, reply: &Reply, resp: Resp, names: &Names, got: &ReadResult| {
            let Act::Expect(expected) = &case.steps[at].act else { return false };
            if is_kept(case, at, expected) {
                return matches(reply, resp, names, got);
            }
            heard[at][version] = Some(got.clone());
            matches!(got, ReadResult::Value(_) | ReadResult::Fault(Fault::Closed))
        };
        let mut first = None;
        Player::new(resp, target, &mut judge).play(case, &mut first);
        if let Some(mismatch) = first {
            tell(&format!(
                "line {} RESP{}: {}\n    - {}\n    + {}",
                mismatch.line,
                resp.number(),
                mismatch.command,
                mismatch.expected,
                mismatch.got
            ));
        }
    }
    heard
}

/// Whether an expectation was written by hand and must stay.
fn is_kept(case: &Case, at: usize, expected: &Expected) -> bool {
    let mut before = case.steps[..at].iter().rev();
    let sender = before
        .find(|step| step.client == case.steps[at].client && !matches!(step.act, Act::Expect(_)));
    let waited = matches!(sender, Some(Step { act: Act::Send(Send { wait_until: true, .. }), .. }));
    let by_hand = |reply: &Reply| match reply {
        Reply::Blank => false,
        Reply::Nothing | Reply::Closed | Reply::Bytes(_) => true,
        Reply::Pattern { text, unordered, pattern } => {
            *unordered || text.contains("${") || pattern.as_ref().is_some_and(Pattern::is_loose)
        }
    };
    let one_sided = expected.two.is_none() || expected.three.is_none();
    waited || one_sided || [&expected.two, &expected.three].into_iter().flatten().any(by_hand)
}

/// The lines for these replies, or `None` if there were none.
fn written(client: &str, heard: &[Option<ReadResult>; 2]) -> Option<Vec<String>> {
    let lines = |mark: &str, got: &ReadResult| match got {
        ReadResult::Value(value) => Some(
            render::lines(value).iter().map(|line| format!("{client}<{mark} {line}")).collect(),
        ),
        ReadResult::Fault(Fault::Closed) => Some(vec![format!("{client}<<{mark}")]),
        _ => None,
    };
    match heard {
        [Some(ReadResult::Value(two)), Some(ReadResult::Value(three))] => {
            if let Some(value) = render::unified(two, three) {
                return lines("", &ReadResult::Value(value));
            }
            let mut both: Vec<String> = lines("2", &ReadResult::Value(two.clone()))?;
            both.extend(lines("3", &ReadResult::Value(three.clone()))?);
            Some(both)
        }
        [Some(two), Some(three)] if two == three => lines("", two),
        [Some(two), Some(three)] => {
            let mut both: Vec<String> = lines("2", two)?;
            both.extend(lines("3", three)?);
            Some(both)
        }
        [Some(got), None] | [None, Some(got)] => lines("", got),
        [None, None] => None,
    }
}

fn apply(lines: &[String], edits: &Edits) -> String {
    let mut out = String::new();
    let mut at = 0;
    let copy = |range: Range<usize>, out: &mut String| {
        for line in &lines[range] {
            out.push_str(line);
            out.push('\n');
        }
    };
    for (range, text) in edits.values() {
        copy(at..range.start, &mut out);
        for line in text {
            out.push_str(line);
            out.push('\n');
        }
        at = range.end;
    }
    copy(at..lines.len(), &mut out);
    out
}
