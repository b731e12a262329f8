//! Plays the same case on the reference and on the server, both wrapped in the same way, and
//! compares their answers.
//!
//! A transcript states the answers of plain commands. Inside a transaction or a script some
//! commands answer differently by design: blocking commands do not wait, a script's errors have a
//! suffix, its doubles become integers. No case is excluded because of that. For each reply
//!
//! 1. if the wrapped reference still answers what the transcript says, so must the server;
//! 2. otherwise the server must answer what the reference did: the same reply, or, where the
//!    transcript has a pattern because the answer is never the same twice, a reply of the same
//!    type.
//!
//! If the reference gives no reply, because the event that would have caused it did not happen, the
//! case ends for both.
//!
//! Cases that are only about this server have no reference: in a transaction they must answer what
//! the transcript says; in a script they are skipped.

use crate::client::{Fault, Server};
use crate::inside::{self, Inside, Table, Wrapped};
use crate::parse::{Case, Reply, TargetServer, Transcript};
use crate::pattern::{Pattern, Resp};
use crate::run::{self, Mismatch, Names, Options, Outcome, Player, ReadResult, Summary};
use crate::target::Tcp;
use crate::value::Value;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long to wait for the reference to give the reply that a transcript waits for. When wrapped
/// it may never give it.
const REFERENCE_LIMIT: Duration = Duration::from_secs(1);

/// Both servers.
pub struct Pair {
    inside: Inside,
    reference: Wrapped,
    server: Wrapped,
    _guide: Server,
}

/// The reference's answer at each step, and whether it matches the transcript.
type Record = BTreeMap<usize, (ReadResult, bool)>;

impl Pair {
    /// A pair of the server and a reference started by this command.
    pub fn new(inside: Inside, reference: &str, server: Tcp) -> Result<Pair, String> {
        let guide = Server::start(reference, "")?;
        let trouble = |fault| format!("the reference: {fault:?}");
        let table = Rc::new(Table::of([&guide.address, server.address()]).map_err(trouble)?);
        let wrap =
            |tcp| Wrapped::new(tcp, inside, Rc::clone(&table), &guide.address).map_err(trouble);
        let mut reference = Tcp::spawned(reference)?;
        reference.reply_limit = Some(REFERENCE_LIMIT);
        let (reference, server) = (wrap(reference)?, wrap(server)?);
        Ok(Pair { inside, reference, server, _guide: guide })
    }

    /// Plays all cases whose path or title contains `filter`, and reports each failure to `tell`.
    pub fn all(
        &mut self,
        transcripts: &[Transcript],
        versions: &[Resp],
        filter: &str,
        options: &Options,
        tell: &mut dyn FnMut(&str),
    ) -> Summary {
        let mut play = |case: &Case, resp| self.case(case, resp, options);
        run::each(transcripts, versions, filter, &mut play, tell)
    }

    fn case(&mut self, case: &Case, resp: Resp, options: &Options) -> Outcome {
        let reason = run::skipped(case, resp, options).or_else(|| inside::unfit(case, self.inside));
        if let Some(reason) = reason {
            return Outcome::Skipped(reason);
        }
        let is_ours = case.only.as_ref().is_some_and(|(whose, _)| *whose == TargetServer::Pantala);
        match (is_ours, self.inside) {
            (true, Inside::Multi | Inside::Reload) => {
                return run::case(case, resp, &mut self.server, options);
            }
            (true, _) => return Outcome::Skipped("no reference to ask".into()),
            (false, _) => {}
        }
        let record = self.record(case, resp);
        let is_silent = |(at, (got, _)): (&usize, &(ReadResult, bool))| {
            (*got == ReadResult::Fault(Fault::Silent)).then_some(*at)
        };
        let mut heard = case.clone();
        heard.steps.truncate(record.iter().find_map(is_silent).unwrap_or(usize::MAX));
        let mut judge = |at: usize, reply: &Reply, resp: Resp, names: &Names, got: &ReadResult| {
            match record.get(&at) {
                Some((_, true)) => run::matches(reply, resp, names, got),
                Some((heard, false)) => {
                    is_alike(heard, got, reply)
                        || is_number_in_script(heard) && run::matches(reply, resp, names, got)
                }
                // The reference had closed the connection.
                None => true,
            }
        };
        let mut first = None;
        let mut player = Player::new(resp, &mut self.server, &mut judge);
        player.may_leave = record.values().any(|(_, is_as_said)| !is_as_said);
        player.play(&heard, &mut first);
        match first {
            None => Outcome::Passed,
            Some(mismatch) => Outcome::Failed(explained(mismatch, case, &record)),
        }
    }

    fn record(&mut self, case: &Case, resp: Resp) -> Record {
        let mut record = Record::new();
        let mut judge = |at: usize, reply: &Reply, resp: Resp, names: &Names, got: &ReadResult| {
            let is_as_said = run::matches(reply, resp, names, got);
            record.insert(at, (got.clone(), is_as_said));
            is_as_said
        };
        let mut player = Player::new(resp, &mut self.reference, &mut judge);
        player.until_limit = REFERENCE_LIMIT;
        player.play(case, &mut None);
        record
    }
}

/// The mismatch, with the reference's answer as the expected one where that was used.
fn explained(mismatch: Mismatch, case: &Case, record: &Record) -> Mismatch {
    let heard = record.iter().find(|(at, _)| case.steps[**at].lines.start + 1 == mismatch.line);
    match heard {
        Some((_, (got, false))) => {
            Mismatch { expected: format!("{} (the reference)", got.text()), ..mismatch }
        }
        _ => mismatch,
    }
}

/// OBJECT ENCODING of a number that a script has written: the reference keeps it as text for a
/// while, this server does not.
fn is_number_in_script(heard: &ReadResult) -> bool {
    *heard == ReadResult::Value(Value::Bulk(b"embstr".to_vec()))
}

fn is_alike(heard: &ReadResult, got: &ReadResult, reply: &Reply) -> bool {
    let (unordered, loose) = match reply {
        Reply::Pattern { unordered, pattern, .. } => {
            (*unordered, pattern.as_ref().is_none_or(Pattern::is_loose))
        }
        _ => (false, false),
    };
    match (heard, got) {
        (ReadResult::Value(heard), ReadResult::Value(got)) if loose => same_shape(heard, got),
        (ReadResult::Value(heard), ReadResult::Value(got)) => same(heard, got, unordered),
        (ReadResult::Bytes(heard), ReadResult::Bytes(got)) => heard == got,
        (heard, got) => heard == got,
    }
}

fn same_shape(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Error(_), _) | (_, Value::Error(_)) => one == other,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// Equality, with sets and maps in any order: a script's tables have none.
fn same(one: &Value, other: &Value, unordered: bool) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) | (Value::Push(one), Value::Push(other)) => {
            if unordered {
                same_members(one, other, |one, other| same(one, other, true))
            } else {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| same(one, other, false))
            }
        }
        (Value::Set(one), Value::Set(other)) => {
            same_members(one, other, |one, other| same(one, other, unordered))
        }
        (Value::Map(one), Value::Map(other)) => same_members(one, other, |one, other| {
            same(&one.0, &other.0, unordered) && same(&one.1, &other.1, unordered)
        }),
        _ => one == other,
    }
}

fn same_members<T>(one: &[T], other: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    let mut left: Vec<&T> = other.iter().collect();
    one.len() == other.len()
        && one.iter().all(|member| {
            let place = left.iter().position(|candidate| same(member, candidate));
            place.map(|place| left.swap_remove(place)).is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn tables_of_a_script_have_no_order() {
        let pair = |key: &str, value| (bulk(key), Value::Int(value));
        let one = Value::Map(vec![pair("a", 1), pair("b", 2)]);
        let other = Value::Map(vec![pair("b", 2), pair("a", 1)]);
        assert!(same(&one, &other, false));
        assert!(!same(&one, &Value::Map(vec![pair("b", 1), pair("a", 2)]), false));
        let one = Value::Array(vec![bulk("a"), bulk("b")]);
        let other = Value::Array(vec![bulk("b"), bulk("a")]);
        assert!(!same(&one, &other, false) && same(&one, &other, true));
    }

    #[test]
    fn what_is_never_the_same_twice_has_the_same_type() {
        assert!(same_shape(&Value::Int(1), &Value::Int(2)));
        assert!(!same_shape(&Value::Int(1), &bulk("2")));
        assert!(!same_shape(&Value::Error(b"ERR a".to_vec()), &Value::Error(b"ERR b".to_vec())));
    }
}
