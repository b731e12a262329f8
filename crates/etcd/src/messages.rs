//! Requests and answers as JSON, in the form that protobuf gives them: bytes in base64, numbers of
//! 64 bits as text, and no fields that are zero.
//!
//! Nothing here trusts what came: a field of the wrong kind makes the whole answer wrong.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::error::{Complaint, EtcdError};
use crate::watch::WatchEvent;

/// The most keys of one page of a list.
pub(crate) const PAGE_KEYS: usize = 512;

/// What each answer says of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdHeader {
    /// The cluster that answered.
    pub cluster_id: u64,
    /// The member that answered.
    pub member_id: u64,
    /// The store's revision, which each change of it raises by one.
    pub revision: u64,
    /// The number of the leader's term.
    pub raft_term: u64,
}

/// An answer with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAnswer<T> {
    /// What each answer says of the store.
    pub header: EtcdHeader,
    /// What was asked for.
    pub value: T,
}

/// A key with what is stored at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision that created it.
    pub create_revision: u64,
    /// The revision that changed it last.
    pub mod_revision: u64,
    /// How often it was put since it was created.
    pub version: u64,
    /// The lease with which it ends; 0 for none.
    pub lease: i64,
}

/// What a transaction asks of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// It was changed last by this revision.
    ModRevision(u64),
    /// It was created by this revision.
    CreateRevision(u64),
    /// It was put this often.
    Version(u64),
    /// It does not exist.
    Absent,
    /// It exists.
    Present,
    /// Its value.
    Value(Vec<u8>),
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOp {
    /// Puts a value; the lease is 0 for none.
    Put {
        /// Where.
        key: Vec<u8>,
        /// What.
        value: Vec<u8>,
        /// The lease with which the key ends.
        lease: i64,
    },
    /// Removes one key.
    Delete {
        /// Which.
        key: Vec<u8>,
    },
    /// Removes all keys that begin so.
    DeletePrefix {
        /// How they begin.
        prefix: Vec<u8>,
    },
    /// Reads one key.
    Get {
        /// Which.
        key: Vec<u8>,
    },
}

/// Comparisons, and what is done if all of them hold, or otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Keys, and what is asked of each.
    pub compares: Vec<(Vec<u8>, Compare)>,
    /// What is done if all hold.
    pub then: Vec<TxnOp>,
    /// What is done if one does not.
    pub otherwise: Vec<TxnOp>,
}

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnResult {
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// What the [`TxnOp::Get`] of the branch taken found; keys that do not exist are left out.
    pub found: Vec<KeyValue>,
}

/// An answer that makes no sense.
fn senseless(what: &str) -> EtcdError {
    EtcdError::NoAnswer(format!("the answer makes no sense: {what}"))
}

fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The first key after all that begin with `prefix`, as etcd wants it: a zero byte for "no end".
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// The first key of a range: etcd takes no empty one.
fn start_of(prefix: &[u8]) -> &[u8] {
    if prefix.is_empty() { &[0] } else { prefix }
}

pub(crate) fn get_request(key: &[u8]) -> Value {
    json!({ "key": encode(key) })
}

/// One page of a list: from the key `from` on, at a revision, or at the present one if it is 0.
pub(crate) fn page_request(prefix: &[u8], from: Option<&[u8]>, revision: u64) -> Value {
    json!({
        "key": encode(from.unwrap_or(start_of(prefix))),
        "range_end": encode(&end_of(prefix)),
        "limit": PAGE_KEYS.to_string(),
        "revision": revision.to_string(),
    })
}

/// Whether anything below `prefix` has changed since `revision`.
pub(crate) fn probe_request(prefix: &[u8], revision: u64) -> Value {
    json!({
        "key": encode(start_of(prefix)),
        "range_end": encode(&end_of(prefix)),
        "limit": "1",
        "keys_only": true,
        "min_mod_revision": revision.to_string(),
    })
}

pub(crate) fn watch_request(prefix: &[u8], from_revision: u64) -> Value {
    json!({ "create_request": {
        "key": encode(start_of(prefix)),
        "range_end": encode(&end_of(prefix)),
        "start_revision": from_revision.to_string(),
        "progress_notify": true,
    } })
}

pub(crate) fn txn_request(txn: &Txn) -> Value {
    let compares = txn.compares.iter().map(|(key, compare)| compare_request(key, compare));
    json!({
        "compare": compares.collect::<Vec<_>>(),
        "success": txn.then.iter().map(op_request).collect::<Vec<_>>(),
        "failure": txn.otherwise.iter().map(op_request).collect::<Vec<_>>(),
    })
}

fn compare_request(key: &[u8], compare: &Compare) -> Value {
    let (target, result, field, value) = match compare {
        Compare::ModRevision(revision) => ("MOD", "EQUAL", "mod_revision", revision.to_string()),
        Compare::CreateRevision(at) => ("CREATE", "EQUAL", "create_revision", at.to_string()),
        Compare::Version(version) => ("VERSION", "EQUAL", "version", version.to_string()),
        Compare::Absent => ("CREATE", "EQUAL", "create_revision", "0".into()),
        Compare::Present => ("VERSION", "GREATER", "version", "0".into()),
        Compare::Value(value) => ("VALUE", "EQUAL", "value", encode(value)),
    };
    json!({ "key": encode(key), "target": target, "result": result, field: value })
}

fn op_request(op: &TxnOp) -> Value {
    match op {
        TxnOp::Put { key, value, lease } => json!({ "request_put": {
            "key": encode(key), "value": encode(value), "lease": lease.to_string(),
        } }),
        TxnOp::Delete { key } => json!({ "request_delete_range": { "key": encode(key) } }),
        TxnOp::DeletePrefix { prefix } => json!({ "request_delete_range": {
            "key": encode(start_of(prefix)), "range_end": encode(&end_of(prefix)),
        } }),
        TxnOp::Get { key } => json!({ "request_range": { "key": encode(key) } }),
    }
}

/// A message as JSON, whose depth serde_json limits to 128.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, EtcdError> {
    serde_json::from_slice(bytes).map_err(|error| senseless(&format!("it is no JSON: {error}")))
}

/// What etcd complains of, in the forms of both generations of gateways and of streams.
pub(crate) fn complaint(message: &Value) -> Option<Complaint> {
    let inner = message.get("error").filter(|error| error.is_object()).unwrap_or(message);
    let text = ["message", "error"].iter().find_map(|name| inner.get(name)?.as_str())?;
    let code = ["code", "grpc_code"].iter().find_map(|name| inner.get(name)?.as_i64());
    Some(Complaint { code: code.unwrap_or(0), text: text.into() })
}

/// A field, unless it is absent or null.
fn field<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    of.get(name).filter(|value| !value.is_null())
}

fn number<T: std::str::FromStr>(of: &Value, name: &str) -> Result<T, EtcdError> {
    let text = match field(of, name) {
        None => "0".to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(senseless(name)),
    };
    text.parse().map_err(|_| senseless(name))
}

fn flag(of: &Value, name: &str) -> Result<bool, EtcdError> {
    match field(of, name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| senseless(name)),
    }
}

fn bytes(of: &Value, name: &str) -> Result<Vec<u8>, EtcdError> {
    let Some(value) = field(of, name) else { return Ok(Vec::new()) };
    let text = value.as_str().ok_or_else(|| senseless(name))?;
    STANDARD.decode(text).map_err(|_| senseless(name))
}

fn rows<'a>(of: &'a Value, name: &str) -> Result<&'a [Value], EtcdError> {
    match field(of, name) {
        None => Ok(&[]),
        Some(Value::Array(rows)) => Ok(rows),
        Some(_) => Err(senseless(name)),
    }
}

/// The header, without which nothing is an answer of etcd.
pub(crate) fn header(answer: &Value) -> Result<EtcdHeader, EtcdError> {
    let header = field(answer, "header").ok_or_else(|| senseless("it has no header"))?;
    let read = EtcdHeader {
        cluster_id: number(header, "cluster_id")?,
        member_id: number(header, "member_id")?,
        revision: number(header, "revision")?,
        raft_term: number(header, "raft_term")?,
    };
    match read.cluster_id {
        0 => Err(senseless("its header names no cluster")),
        _ => Ok(read),
    }
}

fn key_value(row: &Value) -> Result<KeyValue, EtcdError> {
    let read = KeyValue {
        key: bytes(row, "key")?,
        value: bytes(row, "value")?,
        create_revision: number(row, "create_revision")?,
        mod_revision: number(row, "mod_revision")?,
        version: number(row, "version")?,
        lease: number(row, "lease")?,
    };
    match read.key.is_empty() || read.mod_revision == 0 {
        true => Err(senseless("a key without a name or revision")),
        false => Ok(read),
    }
}

/// The keys of a range, and whether there are more.
pub(crate) fn range_answer(answer: &Value) -> Result<(Vec<KeyValue>, bool), EtcdError> {
    let keys = rows(answer, "kvs")?.iter().map(key_value).collect::<Result<Vec<_>, _>>()?;
    Ok((keys, flag(answer, "more")?))
}

/// What a transaction did. An answer that does not fit the branch taken is none.
pub(crate) fn txn_answer(txn: &Txn, answer: &Value) -> Result<TxnResult, EtcdError> {
    let succeeded = flag(answer, "succeeded")?;
    let branch = if succeeded { &txn.then } else { &txn.otherwise };
    let responses = rows(answer, "responses")?;
    if responses.len() != branch.len() {
        return Err(senseless("it does not fit the transaction"));
    }
    let mut found = Vec::new();
    for (op, response) in branch.iter().zip(responses) {
        let name = match op {
            TxnOp::Put { .. } => "response_put",
            TxnOp::Delete { .. } | TxnOp::DeletePrefix { .. } => "response_delete_range",
            TxnOp::Get { .. } => "response_range",
        };
        let response = field(response, name).ok_or_else(|| senseless(name))?;
        if matches!(op, TxnOp::Get { .. }) {
            found.extend(range_answer(response)?.0);
        }
    }
    Ok(TxnResult { succeeded, found })
}

/// A new lease and its seconds.
pub(crate) fn grant_answer(answer: &Value) -> Result<(i64, u64), EtcdError> {
    match (number(answer, "ID")?, number(answer, "TTL")?) {
        (0, _) | (_, 0) => Err(senseless("a lease without a number or time")),
        granted => Ok(granted),
    }
}

/// The seconds that a lease has again; none if there is no such lease.
pub(crate) fn keep_alive_answer(lease: i64, answer: &Value) -> Result<Option<u64>, EtcdError> {
    if number::<i64>(answer, "ID")? != lease {
        return Err(senseless("it is about another lease"));
    }
    let ttl: i64 = number(answer, "TTL")?;
    Ok(u64::try_from(ttl).ok().filter(|ttl| *ttl > 0))
}

pub(crate) fn token(answer: &Value) -> Result<String, EtcdError> {
    let token = field(answer, "token").and_then(Value::as_str).filter(|token| !token.is_empty());
    token.map(str::to_string).ok_or_else(|| senseless("a login without a token"))
}

/// A message of a watch.
pub(crate) enum WatchMessage {
    /// The watch exists.
    Created(EtcdHeader),
    /// The watch has ended; with the reason.
    Ended(EtcdError),
    /// For the caller.
    Event(WatchEvent),
}

/// Takes a line of a watch's answer apart.
pub(crate) fn watch_message(line: &[u8]) -> Result<Option<WatchMessage>, EtcdError> {
    let message = parse(line)?;
    let Some(result) = field(&message, "result").filter(|result| result.is_object()) else {
        return match complaint(&message) {
            Some(complaint) => Ok(Some(WatchMessage::Ended(complaint.into_error()))),
            None => Err(senseless("neither a result nor an error")),
        };
    };
    let header = header(result)?;
    let compacted: u64 = number(result, "compact_revision")?;
    if compacted > 0 {
        let event = WatchEvent::Compacted { revision: compacted };
        return Ok(Some(WatchMessage::Event(event)));
    }
    if flag(result, "canceled")? {
        let reason = field(result, "cancel_reason").and_then(Value::as_str);
        let reason = reason.unwrap_or("etcd has ended the watch").to_string();
        return Ok(Some(WatchMessage::Ended(cancel_error(reason))));
    }
    if flag(result, "created")? {
        return Ok(Some(WatchMessage::Created(header)));
    }
    let changes = rows(result, "events")?.iter().map(change).collect::<Result<Vec<_>, _>>()?;
    // A notice to the whole connection, not to this watch, may come before changes (etcd-io/etcd,
    // issue 15220): it says nothing.
    let is_ours = number::<i64>(result, "watch_id")? >= 0;
    Ok(match changes.last() {
        Some((last, _)) => {
            Some(WatchMessage::Event(WatchEvent::Changes { revision: last.mod_revision, changes }))
        }
        None if is_ours => {
            Some(WatchMessage::Event(WatchEvent::Progress { revision: header.revision }))
        }
        None => None,
    })
}

/// The reason of an end is text without a code.
fn cancel_error(reason: String) -> EtcdError {
    let code = if reason.contains("permission denied") { 7 } else { 0 };
    Complaint { code, text: reason }.into_error()
}

fn change(event: &Value) -> Result<(KeyValue, bool), EtcdError> {
    let is_put = match field(event, "type") {
        None => true,
        Some(Value::String(kind)) if kind == "PUT" => true,
        Some(Value::String(kind)) if kind == "DELETE" => false,
        Some(_) => return Err(senseless("a change of an unknown kind")),
    };
    let row = field(event, "kv").ok_or_else(|| senseless("a change of no key"))?;
    Ok((key_value(row)?, is_put))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#""header":{"cluster_id":"7","member_id":"8","revision":"9"}"#;

    fn answer(rest: &str) -> Value {
        parse(format!("{{{HEADER}{rest}}}").as_bytes()).expect("it is JSON")
    }

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(end_of(b"ab"), b"ac");
        assert_eq!(end_of(b"a\xff\xff"), b"b");
        assert_eq!(end_of(b"\xff"), b"\0");
        assert_eq!((end_of(b""), start_of(b"")), (b"\0".to_vec(), &b"\0"[..]));
    }

    #[test]
    fn numbers_are_text_or_absent_and_nothing_else() {
        let read = |text: &str| number::<u64>(&parse(text.as_bytes()).expect("JSON"), "n");
        assert_eq!(read(r#"{"n":"18446744073709551615"}"#), Ok(u64::MAX));
        assert_eq!(read(r#"{"n":5}"#), Ok(5));
        assert_eq!((read("{}"), read(r#"{"n":null}"#)), (Ok(0), Ok(0)));
        for wrong in [r#"{"n":"-1"}"#, r#"{"n":1.5}"#, r#"{"n":[]}"#, r#"{"n":""}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_without_a_header_is_no_failed_comparison() {
        for text in ["{}", "[]", "3", r#"{"header":{}}"#, r#"{"header":7}"#] {
            assert!(header(&parse(text.as_bytes()).expect("JSON")).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).is_err());
        assert!(parse(b"{\"a\":\xff}").is_err());
    }

    #[test]
    fn a_transaction_and_its_answer_fit() {
        let get = TxnOp::Get { key: b"k".to_vec() };
        let txn = Txn { then: vec![get], ..Txn::default() };
        let missing = answer(r#","succeeded":true"#);
        assert!(txn_answer(&txn, &missing).is_err());
        let failed = txn_answer(&txn, &answer("")).expect("the other branch is empty");
        assert!(!failed.succeeded);
        let kvs = r#"[{"key":"aw==","mod_revision":"3","value":"dg=="}]"#;
        let found =
            format!(r#","succeeded":true,"responses":[{{"response_range":{{"kvs":{kvs}}}}}]"#);
        let found = txn_answer(&txn, &answer(&found)).expect("it fits").found;
        assert_eq!((&found[0].key[..], &found[0].value[..]), (&b"k"[..], &b"v"[..]));
        let other = answer(r#","succeeded":true,"responses":[{"response_put":{}}]"#);
        assert!(txn_answer(&txn, &other).is_err());
    }

    #[test]
    fn a_lease_is_there_or_not_or_another() {
        assert_eq!(keep_alive_answer(5, &answer(r#","ID":"5","TTL":"9""#)), Ok(Some(9)));
        assert_eq!(keep_alive_answer(5, &answer(r#","ID":"5""#)), Ok(None));
        assert_eq!(keep_alive_answer(5, &answer(r#","ID":"5","TTL":"-1""#)), Ok(None));
        assert!(keep_alive_answer(5, &answer(r#","ID":"6","TTL":"9""#)).is_err());
        assert!(keep_alive_answer(5, &answer("")).is_err());
        assert!(grant_answer(&answer(r#","ID":"5""#)).is_err());
    }

    #[test]
    fn complaints_come_in_three_forms() {
        for text in [
            r#"{"error":"no","message":"no","code":5}"#,
            r#"{"code":5,"message":"no","details":[]}"#,
            r#"{"error":{"grpc_code":5,"http_code":404,"message":"no"}}"#,
        ] {
            let found = complaint(&parse(text.as_bytes()).expect("JSON"));
            assert_eq!(found, Some(Complaint { code: 5, text: "no".into() }), "{text}");
        }
        assert_eq!(complaint(&answer("")), None);
    }

    #[test]
    fn messages_of_a_watch_are_told_apart() {
        let read =
            |rest: &str| watch_message(format!("{{\"result\":{{{HEADER}{rest}}}}}").as_bytes());
        let event = |rest: &str| match read(rest) {
            Ok(Some(WatchMessage::Event(event))) => event,
            _ => panic!("{rest} is an event"),
        };
        assert!(matches!(read(r#","created":true"#), Ok(Some(WatchMessage::Created(_)))));
        assert_eq!(event(""), WatchEvent::Progress { revision: 9 });
        assert!(matches!(read(r#","watch_id":"-1""#), Ok(None)));
        let compacted = event(r#","canceled":true,"compact_revision":"4""#);
        assert_eq!(compacted, WatchEvent::Compacted { revision: 4 });
        let gone = r#","events":[{"type":"DELETE","kv":{"key":"aw==","mod_revision":"6"}}]"#;
        let WatchEvent::Changes { revision, changes } = event(gone) else { panic!("a change") };
        assert_eq!((revision, changes[0].1), (6, false));
        assert!(read(r#","events":[{"type":"MOVED","kv":{"key":"aw=="}}]"#).is_err());
        assert!(watch_message(b"{}").is_err());
    }
}
