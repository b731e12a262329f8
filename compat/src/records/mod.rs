//! Plays transcripts on two servers that write append-only files, and checks the records in them.
//!
//! ```text
//! case --> valkey-server, append-only   --> its records --+--> are they the same?
//!      `-> another server, append-only  --> its records --+
//!                    |                        |
//!                    v                        +--> played on an empty valkey-server, redis-server
//!                its data  == theirs? <-------------------/
//! ```
//!
//! 1. Records are compared one by one, in order. Times in them (deadlines, ids) may differ by as
//!    much as playing a case takes; where chance decides, records are not compared.
//! 2. Records that are replayed must be accepted without an error, and make the same data: same
//!    values, same deadlines to the millisecond. Some time passes in between, so that a deadline
//!    recorded as a time span would show.
//! 3. A case whose records a server does not support is not replayed there; the number of such
//!    cases is printed.
//! 4. Intended differences between the records are listed in [`OTHERWISE`].

mod data;
mod log;

use crate::client::{Connection, Server, encode};
use crate::parse::{Act, Case, Send, TargetServer, Transcript};
use crate::pattern::Resp;
use crate::run::{self, Options, Outcome, command_line};
use crate::target::{Target as _, Tcp};
use crate::value::Value;
use log::{Log, Record};
use std::collections::BTreeMap;
use std::time::Duration;

/// Options with which a server writes an append-only file.
const RECORDING: &str = "--appendonly yes --appendfsync no --auto-aof-rewrite-percentage 0";
/// The pause between recording and replay: more than a millisecond, so that wrong deadlines differ.
const PAUSE: Duration = Duration::from_millis(3);
/// Times in the records of two servers may differ by this much.
const MOMENTS_APART_MS: u64 = 120_000;

/// File, title (none: all) and reason of cases in which the servers intentionally record different
/// things.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("generic/swapdb.txt", "with itself", "here that is no change"),
    ("hash/hsetex.txt", "", ASIDE),
    ("hash/hincrby.txt", "the deadline stays", ASIDE),
    ("hash/hincrbyfloat.txt", "the deadline stays", ASIDE),
    ("hash/hpersist.txt", "takes deadlines away", ASIDE),
    ("hash/hset.txt", "a new value takes the field's deadline away", ASIDE),
    ("generic/restore.txt", "a hash with deadlines", OLD),
    ("generic/restore_types.txt", "a stream with a group", OLD),
    ("geo/geosearchstore.txt", "as positions, as distances", "few servers know polygons"),
    ("stream/xinfo.txt", "GROUPS and how far they are", "what a claim says is not said again"),
    ("string/msetex.txt", "", "few servers know MSETEX: here it is several SET"),
    (
        "bitmap/bitfield.txt",
        "the string reaches as far as the furthest write, failed or not",
        "the reference forgets that the string became longer",
    ),
    ("scripting/transactions.txt", "the time stands still in a script", EXPIRED),
    ("generic/restore.txt", "a hash with a deadline that has passed", EXPIRED),
    ("stream/xautoclaim.txt", "entries that are gone count, too", GONE),
    ("stream/xclaim.txt", "entries that are gone", GONE),
    ("stream/xautoclaim.txt", "mistakes", NEW_CONSUMER),
    ("stream/xclaim.txt", "mistakes", NEW_CONSUMER),
    ("stream/xpending.txt", "one by one", READ_AGAIN),
    ("holes/streams.txt", "times and counts of XCLAIM that overflow", READ_AGAIN),
    ("stream/xreadgroup.txt", "new entries, then what is pending", READ_AGAIN),
    ("stream/xreadgroup.txt", "several streams", READ_AGAIN),
    (
        "stream/xreadgroup.txt",
        "waiting does not hold up what is pending, and ends with the time",
        NEW_CONSUMER,
    ),
    ("stream/xinfo.txt", "the count of all entries at its highest", NEGATIVE),
];
const ASIDE: &str = "here it is HSET, which all know, and the deadlines aside";
const OLD: &str = "here it comes twice: as Redis 7.0 reads it, and aside as it is";
const EXPIRED: &str = "which of them finds out in time that something has expired is chance";
const GONE: &str = "the reference lets a claim find out that an entry is gone; here it is XACK";
const NEW_CONSUMER: &str = "the reference forgets consumers that were given nothing";
const READ_AGAIN: &str = "the reference forgets how often pending entries were read again";
const NEGATIVE: &str = "the reference records a count that it does not take";

/// Cases that cannot be compared: fields that expire while they are read; commands that the
/// reference refuses; counts that cannot be set; the databases whose swap marks the end; scripts
/// that choose themselves what is recorded.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("hash/hpexpire.txt", "NX only where there is no deadline"),
    ("connection/select.txt", "the last of sixteen"),
    ("scripting/redis_api.txt", "replication"),
    (
        "hash/hsetex.txt",
        "a key named like the word: the reference looks for the word from the command's name on",
    ),
    ("stream/references.txt", "ACKED keeps what groups have still to read or to acknowledge"),
    ("stream/xinfo.txt", "the count of all entries at its highest"),
];

/// Folders of cases about things that are not recorded, or about recording itself.
const LEFT_OUT: &[&str] = &["/notifications/", "/tracking/", "/protocol/", "/server/"];

/// The results of a run.
#[derive(Default)]
pub struct Compared {
    /// Cases without a difference.
    pub same: usize,
    /// Cases with a difference.
    pub different: usize,
    /// The number of records compared.
    pub records: usize,
    /// The number of cases that a server could not replay, by its name.
    pub unknown: BTreeMap<&'static str, usize>,
}

/// The input of a run: transcripts and servers.
pub struct Plan<'p> {
    /// The transcripts.
    pub transcripts: &'p [Transcript],
    /// Only files or titles with this text.
    pub filter: &'p str,
    /// How the reference and the server under test are started.
    pub commands: [String; 2],
    /// The servers that replay the records: names and how they are started.
    pub again: Vec<(&'static str, String)>,
    /// The options of every run.
    pub options: Options,
}

/// One of the servers that record.
struct Side {
    tcp: Tcp,
    log: Log,
}

impl Side {
    fn start(command: &str) -> Result<Side, String> {
        let tcp = Tcp::spawned(&format!("{command} {RECORDING}"))?;
        let folder = tcp.folder().ok_or("it has no folder")?;
        let log = Log::of(folder);
        Ok(Side { tcp, log })
    }

    /// Plays a case and returns its records.
    fn play(&mut self, case: &Case, options: &Options) -> Result<Option<Vec<Record>>, String> {
        let begun = self.tcp.begin(case, Resp::Two);
        begun.map_err(|fault| format!("{}: {fault:?}", case.title))?;
        self.log.take(self.tcp.address())?;
        if let Outcome::Skipped(_) = run::case(case, Resp::Two, &mut self.tcp, options) {
            return Ok(None);
        }
        let mut records = self.log.take(self.tcp.address())?;
        // The case began with emptying the server over another connection: the records of that
        // about libraries may come later, or before the rest of it.
        if !sends_function_flush(case) {
            records.retain(|record| !is_function_flush(&record.args));
        }
        if sends_flushall(case) {
            let is_emptying = |record: &&Record| record.is("flushall");
            records.drain(..records.iter().take(1).take_while(is_emptying).count());
        } else {
            records.retain(|record| !record.is("flushall"));
        }
        Ok(Some(records))
    }
}

/// Plays all cases and reports differences to `tell`.
pub fn compare(plan: &Plan<'_>, tell: &mut dyn FnMut(&str)) -> Result<Compared, String> {
    let [there, here] = &plan.commands;
    let mut sides = [Side::start(there)?, Side::start(here)?];
    let start = |(name, command): &(&'static str, String)| {
        Server::start(command, "").map(|server| (*name, server))
    };
    let again = plan.again.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let mut compared = Compared::default();
    for transcript in plan.transcripts {
        let path = transcript.path.display().to_string();
        if LEFT_OUT.iter().any(|part| path.contains(part)) {
            continue;
        }
        for case in &transcript.cases {
            let is_asked_for = path.contains(plan.filter) || case.title.contains(plan.filter);
            let is_left_out =
                NOT_COMPARED.iter().any(|row| path.ends_with(row.0) && case.title == row.1);
            if !is_asked_for || is_left_out || !can_be_compared(case) {
                continue;
            }
            let Some(faults) = look_at(plan, case, &path, &mut sides, &again, &mut compared)?
            else {
                continue;
            };
            if faults.is_empty() {
                compared.same += 1;
                continue;
            }
            compared.different += 1;
            tell(&format!("{path}: {}\n{}", case.title, faults.concat()));
        }
    }
    Ok(compared)
}

/// Plays one case. Returns its differences, or `None` if it cannot be played.
fn look_at(
    plan: &Plan<'_>,
    case: &Case,
    path: &str,
    sides: &mut [Side; 2],
    again: &[(&'static str, Server)],
    compared: &mut Compared,
) -> Result<Option<Vec<String>>, String> {
    let [there, here] = sides;

    let as_whom = |whose| Options { whose, starts_servers: false, ..plan.options.clone() };
    let is_ours = case.only.as_ref().is_some_and(|(whose, _)| *whose == TargetServer::Pantala);
    let expected = match is_ours {
        true => None,
        false => there.play(case, &as_whom(TargetServer::Reference))?,
    };
    let Some(records) = here.play(case, &as_whom(TargetServer::Pantala))? else { return Ok(None) };
    compared.records += records.len();
    let mut faults = Vec::new();
    let mut otherwise = OTHERWISE.iter();
    let is_otherwise =
        otherwise.any(|row| path.ends_with(row.0) && (row.1.is_empty() || case.title == row.1));
    if let Some(expected) = expected.filter(|_| !is_otherwise) {
        faults.extend(difference(&expected, &records));
    }
    let made = data::of(here.tcp.address())?;
    std::thread::sleep(PAUSE);
    for (name, server) in again {
        match play_again(&records, &server.address)? {
            Played::Whole => {}
            Played::Unknown => {
                *compared.unknown.entry(name).or_default() += 1;
                continue;
            }
            Played::Refused(text) => {
                faults.push(format!("    {name} refuses {text}\n"));
                continue;
            }
        }
        let found = data::of(&server.address)?;
        faults.extend(data_difference(name, &made, &found));
    }
    Ok(Some(faults))
}

/// Whether a case can be compared: not if it changes what is recorded, or is about the server more
/// than about its data.
fn can_be_compared(case: &Case) -> bool {
    let words: [&[u8]; 9] = [
        b"appendonly",
        b"KILL",
        b"SHUTDOWN",
        b"RELOAD",
        b"LOADAOF",
        b"BGREWRITEAOF",
        b"REPLICAOF",
        b"set-active-expire",
        b"POPULATE",
    ];
    let is_left_out = |arg: &Vec<u8>| words.iter().any(|word| arg.eq_ignore_ascii_case(word));
    let repeats_or_is_left_out = |step: &Act| match step {
        Act::Send(Send { args, wait_until, .. }) => *wait_until || args.iter().any(is_left_out),
        _ => false,
    };
    let is_of_reference =
        case.only.as_ref().is_some_and(|(whose, _)| *whose == TargetServer::Reference);
    !is_of_reference
        && case.server.is_none()
        && !case.steps.iter().any(|step| repeats_or_is_left_out(&step.act))
}

fn is_function_flush(args: &[Vec<u8>]) -> bool {
    let is =
        |at: usize, word: &[u8]| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
    is(0, b"function") && is(1, b"flush")
}

/// Whether the case empties the server itself, perhaps in a script.
fn sends_flushall(case: &Case) -> bool {
    const WORD: &[u8] = b"flushall";
    let has = |arg: &Vec<u8>| arg.windows(WORD.len()).any(|part| part.eq_ignore_ascii_case(WORD));
    case.steps.iter().any(|step| match &step.act {
        Act::Send(send) => send.args.iter().any(has),
        _ => false,
    })
}

fn sends_function_flush(case: &Case) -> bool {
    let mut sent = case.steps.iter().filter_map(|step| match &step.act {
        Act::Send(send) => Some(&send.args),
        _ => None,
    });
    sent.any(|args| args.iter().any(|arg| arg.eq_ignore_ascii_case(b"flush")))
}

enum Played {
    Whole,
    /// The server does not support the command, or not with these words.
    Unknown,
    Refused(String),
}

/// Plays records on an emptied server.
fn play_again(records: &[Record], address: &str) -> Result<Played, String> {
    let fault = |fault| format!("{address}: {fault:?}");
    let mut connection = Connection::open(address, Resp::Two).map_err(fault)?;
    connection.command(&["FLUSHALL"]).map_err(fault)?;
    connection.command(&["FUNCTION", "FLUSH"]).map_err(fault)?;
    let mut db = 0;
    for record in records {
        if record.db != db {
            db = record.db;
            connection.command(&["SELECT", &db.to_string()]).map_err(fault)?;
        }
        connection.send(&encode(&record.args));
        let answer = connection.receive().map_err(fault)?;
        let errors = match &answer {
            Value::Array(items) if record.is("exec") => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let error = errors.iter().find_map(|value| match value {
            Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        });
        match error {
            Some(text) if is_unknown(&text) => return Ok(Played::Unknown),
            Some(text) => {
                return Ok(Played::Refused(format!("{}: {text}", command_line(&record.args))));
            }
            None => {}
        }
    }
    Ok(Played::Whole)
}

/// Whether an error is an older server's answer to newer commands, words, payloads or libraries.
fn is_unknown(error: &str) -> bool {
    const TEXTS: [&str; 6] = [
        "ERR unknown command",
        "ERR unknown subcommand",
        "ERR syntax error",
        "ERR DUMP payload version or checksum are wrong",
        "nonexistent global variable 'server'",
        "unknown field",
    ];
    TEXTS.iter().any(|text| error.contains(text))
}

fn data_difference(
    name: &str,
    made: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> Option<String> {
    let keys = made.keys().chain(found.keys().filter(|key| !made.contains_key(*key)));
    let lines: String = keys
        .filter(|key| made.get(*key) != found.get(*key))
        .map(|key| {
            let text =
                |of: &'_ BTreeMap<String, String>| of.get(key).map_or("-", |t| t).to_string();
            let (made, found) = (text(made), text(found));
            let from = same_start(&made, &found);
            let shown = |text: &str| shortened(text.get(from..).unwrap_or(text));
            format!("      {key}\n        {}\n        {}\n", shown(&made), shown(&found))
        })
        .collect();
    (!lines.is_empty()).then(|| format!("    played again on {name}: other data\n{lines}"))
}

/// The position from which two texts should be shown: a little before they differ.
fn same_start(one: &str, other: &str) -> usize {
    const SHOWN_BEFORE: usize = 60;
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    same.saturating_sub(SHOWN_BEFORE)
}

/// The first difference between the records of two servers.
fn difference(there: &[Record], here: &[Record]) -> Option<String> {
    let (there, here) = (&one_by_one(there), &one_by_one(here));
    let same = there.iter().zip(here).take_while(|(there, here)| is_same(there, here)).count();
    if same == there.len() && same == here.len() {
        return None;
    }
    let show = |mark: &str, records: &[Record]| {
        let line = |record: &Record| {
            let line = shortened(&command_line(&record.args));
            format!("    {mark} {} {line}\n", record.db)
        };
        records[same..].iter().take(4).map(line).collect::<String>()
    };
    let lines = [show("-", there), show("+", here)].concat();
    Some(format!("    {same} records are the same\n{lines}"))
}

/// The records without the marks of one step, with one entry in each XCLAIM, because the reference
/// makes more steps and more records; and without new consumers, some of which it does not record.
fn one_by_one(records: &[Record]) -> Vec<Record> {
    let mut single = Vec::new();
    let is_left_out = |record: &Record| {
        let creates = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"CREATECONSUMER");
        record.is("multi") || record.is("exec") || record.args.get(1).is_some_and(creates)
    };
    for record in records.iter().filter(|record| !is_left_out(record)) {
        let is_time = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"TIME");
        match record.args.iter().position(is_time).filter(|_| record.is("xclaim")) {
            Some(at) => single.extend(record.args[5..at].iter().map(|id| {
                let mut args = record.args.clone();
                args.splice(5..at, [id.clone()]);
                // The reference adds to each entry the group's last id.
                args.truncate(args.len() - 2);
                Record { db: record.db, args }
            })),
            None => single.push(record.clone()),
        }
    }
    single
}

fn shortened(text: &str) -> String {
    const MOST: usize = 300;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_string(),
    }
}

fn is_same(there: &Record, here: &Record) -> bool {
    if there.db != here.db {
        return false;
    }
    let (there, here) = (plain(there), plain(here));
    match (there[0].as_slice(), here[0].as_slice()) {
        // The reference's form has the same effect.
        (b"ZADD", b"GEOADD") => there[1] == here[1],
        // With a deadline the reference sets the whole value again.
        (b"HSETEX", b"HINCRBY") => there[1] == here[1],
        // Only elements that have changed may be recorded, so the others are not compared.
        (b"HPEXPIREAT" | b"HSETEX", b"HPEXPIREAT" | b"HSETEX")
        | (b"HPERSIST", b"HPERSIST")
        | (b"HDEL", b"HDEL") => {
            let is_alike =
                |(one, other): (&Vec<u8>, &Vec<u8>)| one == other || are_near(one, other);
            let at = there.len().min(3);
            there.iter().zip(&here).take(at).all(is_alike)
        }
        // The version of a payload follows from its contents.
        (b"RESTORE", b"RESTORE") => {
            there[1] == here[1] && (there[2] == here[2] || are_near(&there[2], &here[2]))
        }
        // The order of libraries in it is random.
        (b"FUNCTION", b"FUNCTION") if there[1].eq_ignore_ascii_case(b"RESTORE") => {
            here[1].eq_ignore_ascii_case(b"RESTORE") && there.len() == here.len()
        }
        // Which members are removed is random.
        (b"SREM", b"SREM") => there.len() == here.len(),
        _ => {
            let same = |(one, other): (&Vec<u8>, &Vec<u8>)| {
                one.eq_ignore_ascii_case(other) || are_near(one, other)
            };
            there.len() == here.len() && there.iter().zip(&here).all(same)
        }
    }
}

/// The words of a record in one standard form, where there are several: without conditions that
/// were met.
fn plain(record: &Record) -> Vec<Vec<u8>> {
    let mut words = record.args.clone();
    words[0].make_ascii_uppercase();
    let is = |word: &Vec<u8>, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match words[0].as_slice() {
        b"UNLINK" => words[0] = b"DEL".to_vec(),
        b"PEXPIREAT" => words.truncate(3),
        b"HPEXPIREAT" if words.len() > 3 && !is(&words[3], "FIELDS") => _ = words.remove(3),
        b"SET" => {
            words.retain(|word| !is(word, "NX") && !is(word, "XX"));
            if let Some(at) = words.iter().skip(3).position(|word| is(word, "IFEQ")) {
                words.drain(at + 3..at + 5);
            }
        }
        b"HGETDEL" if words.len() > 4 => {
            words.drain(2..4);
            words[0] = b"HDEL".to_vec();
        }
        b"HSETEX" if words.len() > 4 && is(&words[2], "FIELDS") => {
            words.drain(2..4);
            words[0] = b"HSET".to_vec();
        }
        b"RESTORE" => words.retain(|word| !is(word, "REPLACE") && !is(word, "ABSTTL")),
        b"XADD" | b"XTRIM" => {
            if words.len() > 5 && is(&words[5], "LIMIT") {
                words.drain(5..7);
            }
            words.retain(|word| !is(word, "NOMKSTREAM"));
        }
        _ => {}
    }
    words
}

/// Whether two texts are times that are close to each other, or ids with such times.
fn are_near(there: &[u8], here: &[u8]) -> bool {
    let moment = |text: &[u8]| -> Option<(u64, String)> {
        let text = std::str::from_utf8(text).ok()?;
        let (moment, rest) = text.split_once('-').unwrap_or((text, ""));
        let moment = moment.parse::<u64>().ok().filter(|ms| *ms > 1_000_000_000_000)?;
        Some((moment, rest.to_string()))
    };
    match (moment(there), moment(here)) {
        (Some((there, rest)), Some((here, other))) => {
            rest == other && there.abs_diff(here) < MOMENTS_APART_MS
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record {
        let args = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Record { db: 0, args }
    }

    fn check(there: &str, here: &str, expected: bool) {
        assert_eq!(is_same(&record(there), &record(here)), expected, "{there} | {here}");
    }

    #[test]
    fn records_are_the_same_but_for_moments_and_chance() {
        check("SET k v", "set k v", true);
        check("SET k v", "SET k w", false);
        check("SET k v", "SET k v EX 1", false);
        check("SET k v PXAT 1800000000000", "SET k v PXAT 1800000000100", true);
        check("SET k v PXAT 1800000000000", "SET k v PXAT 1800001000000", false);
        check("SET k 5", "SET k 6", false);
        check("XADD s 1800000000000-0 a b", "XADD s 1800000000005-0 a b", true);
        check("XADD s 1800000000000-0 a b", "XADD s 1800000000005-1 a b", false);
        check("SREM s a b", "SREM s c d", true);
        check("SREM s a b", "SREM s c", false);
        check("UNLINK k", "DEL k", true);
        check("SET k v IFEQ w PXAT 5", "SET k v PXAT 5", true);
        check("PEXPIREAT k 5 GT", "PEXPIREAT k 5", true);
        check("HGETDEL h FIELDS 2 a b", "HDEL h a b", true);
        check("XADD s MAXLEN = 1 LIMIT 5 1-1 a b", "XADD s MAXLEN = 1 1-1 a b", true);
    }

    #[test]
    fn the_first_difference_is_told() {
        let [one, two] = [record("SET k v"), record("DEL k")];
        assert_eq!(difference(std::slice::from_ref(&one), std::slice::from_ref(&one)), None);
        let text = difference(&[one.clone(), two.clone()], &[one]).unwrap();
        assert_eq!(text, "    1 records are the same\n    - 0 DEL k\n");
    }
}
