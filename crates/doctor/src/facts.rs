//! Facts about the examined server, from commands that only read: INFO, CONFIG GET, COMMAND, MODULE
//! LIST, CLIENT LIST.
//!
//! A server without INFO cannot be examined. For everything else that the server does not know or
//! refuses to tell, the reason is kept.

use std::collections::{BTreeMap, BTreeSet};

use pantala_client::{Connection, Value, fields_of, pairs_of, text_of};

use crate::keys::{self, Key};
use crate::options::DoctorOptions;

/// The most clients that are looked at.
const CLIENTS_MOST: usize = 10_000;
/// The length at which foreign names and values are cut.
pub const TEXT_BYTES: usize = 200;

/// A reply, or why there is none.
pub type ProbeResult<T> = Result<T, String>;

/// Call counts of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that ran.
    pub all: u64,
    /// Calls of these that ended with an error.
    pub failed: u64,
}

/// What the examined server says about itself.
#[derive(Debug)]
pub struct ServerFacts {
    /// The server's address, for messages.
    pub place: String,
    /// Whether the connection used TLS.
    pub is_over_tls: bool,
    /// Fields of INFO.
    pub info: BTreeMap<String, String>,
    /// Call counts by command: `get`, `config|get`.
    pub calls: BTreeMap<String, Calls>,
    /// The settings, from CONFIG GET *.
    pub settings: ProbeResult<BTreeMap<String, String>>,
    /// Names of the server's commands, in lower case.
    pub commands: ProbeResult<BTreeSet<String>>,
    /// Names of its modules.
    pub modules: ProbeResult<BTreeSet<String>>,
    /// Its clients, without this one.
    pub clients: ProbeResult<Vec<BTreeMap<String, String>>>,
    /// A sample of its keys.
    pub keys: ProbeResult<Vec<Key>>,
}

/// Asks the server.
///
/// # Errors
/// A text for the operator: the connection is lost, or the server cannot be examined.
pub fn gather(connection: &mut Connection, options: &DoctorOptions) -> Result<ServerFacts, String> {
    let (info, calls) = info(connection)?;
    let facts = ServerFacts {
        place: options.address.place(),
        is_over_tls: options.address.tls,
        settings: told(connection, &["CONFIG", "GET", "*"], settings_of)?,
        commands: commands(connection)?,
        modules: told(connection, &["MODULE", "LIST"], modules_of)?,
        clients: told(connection, &["CLIENT", "LIST"], clients_of)?,
        keys: keys::sample(connection, &info, options.sample)?,
        info,
        calls,
    };
    Ok(facts)
}

impl ServerFacts {
    /// A field of INFO; empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    /// A number of INFO; 0 if it is missing.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The value of a setting; empty if it is unknown.
    pub fn setting(&self, name: &str) -> &str {
        let found = self.settings.as_ref().ok().and_then(|settings| settings.get(name));
        found.map_or("", String::as_str)
    }

    /// The number of keys, and of keys with a deadline, in all databases.
    pub fn key_counts(&self) -> (u64, u64) {
        let counts = databases(&self.info);
        counts.iter().fold((0, 0), |(keys, expires), database| {
            (keys.saturating_add(database.keys), expires.saturating_add(database.expires))
        })
    }
}

/// A line of INFO's section `keyspace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its number.
    pub index: u32,
    /// Its keys.
    pub keys: u64,
    /// Keys with a deadline.
    pub expires: u64,
}

/// The databases that have keys.
pub fn databases(info: &BTreeMap<String, String>) -> Vec<Database> {
    let of_line = |(name, line): (&String, &String)| {
        let index = name.strip_prefix("db")?.parse().ok()?;
        let line = line.replace(',', " ");
        let fields = fields_of(&line);
        let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
        let (keys, expires) = (number("keys")?, number("expires").unwrap_or(0));
        Some(Database { index, keys, expires })
    };
    info.iter().filter_map(of_line).collect()
}

type Info = (BTreeMap<String, String>, BTreeMap<String, Calls>);

fn info(connection: &mut Connection) -> Result<Info, String> {
    let mut refused = String::new();
    for section in ["everything", "all", ""] {
        let reply = if section.is_empty() {
            connection.ask(&["INFO"])?
        } else {
            connection.ask(&["INFO", section])?
        };
        if let Value::Error(_) = reply {
            refused = short(&text_of(&reply));
            continue;
        }
        let (info, calls) = info_of(&text_of(&reply));
        if info.is_empty() {
            refused = "it tells nothing of itself".into();
            continue;
        }
        if info.get("redis_mode").is_some_and(|mode| mode == "sentinel") {
            return Err("this is a Sentinel; ask the primary that it watches".into());
        }
        if info.get("loading").is_some_and(|loading| loading == "1") {
            return Err("it loads its data; ask again when it has".into());
        }
        if !info.keys().any(|name| name.ends_with("_version")) {
            return Err("INFO names no version: this is no server that could be examined".into());
        }
        return Ok((info, calls));
    }
    Err(format!("INFO: {refused}"))
}

fn info_of(text: &str) -> Info {
    let (mut info, mut calls) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in text.lines().filter_map(|line| line.trim_end().split_once(':')) {
        match name.strip_prefix("cmdstat_") {
            Some(command) => drop(calls.insert(short(command).to_lowercase(), calls_of(value))),
            None => drop(info.insert(short(name), short(value))),
        }
    }
    (info, calls)
}

/// `calls=3,usec=9,failed_calls=0`
fn calls_of(value: &str) -> Calls {
    let fields = fields_of(&value.replace(',', " "));
    let number = |name: &str| fields.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Calls { all: number("calls"), failed: number("failed_calls") }
}

/// The reply to a command, or why there is none.
fn told<T>(
    connection: &mut Connection,
    words: &[&str],
    read: fn(&Value) -> Option<T>,
) -> Result<ProbeResult<T>, String> {
    let reply = connection.ask(words)?;
    Ok(match &reply {
        Value::Error(_) => Err(short(&text_of(&reply))),
        reply => read(reply).ok_or_else(|| "an answer that is not understood".into()),
    })
}

fn settings_of(reply: &Value) -> Option<BTreeMap<String, String>> {
    let pairs = pairs_of(reply).into_iter();
    let settings: BTreeMap<_, _> =
        pairs.map(|(name, value)| (short(&text_of(name)), short(&text_of(value)))).collect();
    (!settings.is_empty()).then_some(settings)
}

/// COMMAND LIST, or if that is unknown COMMAND.
fn commands(connection: &mut Connection) -> Result<ProbeResult<BTreeSet<String>>, String> {
    match told(connection, &["COMMAND", "LIST"], names_of)? {
        Ok(names) => Ok(Ok(names)),
        Err(_) => told(connection, &["COMMAND"], names_of),
    }
}

/// Names that are elements, or the first part of an element.
fn names_of(reply: &Value) -> Option<BTreeSet<String>> {
    let (Value::Array(entries) | Value::Set(entries)) = reply else { return None };
    let name = |entry: &Value| match entry {
        Value::Array(about) => about.first().map(text_of),
        entry => Some(text_of(entry)),
    };
    let names = entries.iter().filter_map(name).map(|name| short(&name).to_lowercase());
    let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then_some(names)
}

fn modules_of(reply: &Value) -> Option<BTreeSet<String>> {
    let (Value::Array(modules) | Value::Set(modules)) = reply else { return None };
    let name = |module: &Value| {
        let about = pairs_of(module).into_iter();
        let name = about.map(|(field, value)| (text_of(field), text_of(value)));
        name.into_iter().find(|(field, _)| field == "name").map(|(_, name)| short(&name))
    };
    Some(modules.iter().filter_map(name).collect())
}

fn clients_of(reply: &Value) -> Option<Vec<BTreeMap<String, String>>> {
    let text = text_of(reply);
    let lines = text.lines().take(CLIENTS_MOST).map(fields_of).filter(|line| !line.is_empty());
    let is_other = |line: &BTreeMap<String, String>| {
        let command = line.get("cmd").map_or("", String::as_str);
        !matches!(command, "client" | "client|list" | "CLIENT")
    };
    matches!(reply, Value::Bulk(_) | Value::Verbatim(..)).then(|| lines.filter(is_other).collect())
}

/// The text, cut to a readable length, on one line.
pub fn short(text: &str) -> String {
    let text = text.trim();
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = text[..end].replace(['\r', '\n'], " ");
    if end < text.len() { format!("{cut}...") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn info_is_read() {
        let (info, calls) = info_of(
            "# Server\r\nredis_version:7.0.15\r\n\r\n# Commandstats\r\n\
             cmdstat_get:calls=3,usec=9,usec_per_call=3.00,rejected_calls=1,failed_calls=2\r\n\
             cmdstat_CONFIG|GET:calls=x\r\n:\r\ndb0:keys=5,expires=2,avg_ttl=0\r\ndbx:keys=1\r\n\
             db3:keys=99999999999999999999\r\n",
        );
        assert_eq!(info["redis_version"], "7.0.15");
        assert_eq!(calls["get"], Calls { all: 3, failed: 2 });
        assert_eq!(calls["config|get"], Calls::default());
        assert_eq!(databases(&info), [Database { index: 0, keys: 5, expires: 2 }]);
    }

    #[test]
    fn names_are_read_of_both_forms() {
        let list = Value::Array(vec![bulk("GET"), bulk("set")]);
        let table = Value::Array(vec![
            Value::Array(vec![bulk("get"), Value::Int(2)]),
            Value::Array(vec![bulk("set")]),
            Value::Array(Vec::new()),
        ]);
        assert_eq!(names_of(&list), names_of(&table));
        assert_eq!(names_of(&Value::Int(1)), None);
        let module = Value::Array(vec![bulk("name"), bulk("ReJSON"), bulk("ver"), Value::Int(1)]);
        let modules = modules_of(&Value::Array(vec![module, Value::Null])).expect("a list");
        assert!(modules.contains("ReJSON") && modules.len() == 1, "{modules:?}");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let text = "ä".repeat(TEXT_BYTES);
        assert!(short(&text).len() <= TEXT_BYTES + 3 && short(&text).ends_with("..."));
        assert_eq!(short("a\r\nb "), "a  b");
    }
}
