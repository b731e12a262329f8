//! All data of a server as text, so that two servers can be compared.
//!
//! Excluded is everything that the commands which made the data do not determine: encodings, the
//! order of sets and hashes, when a consumer was last seen, and a stream's internal figures. A
//! HyperLogLog sketch is compared by its count.

use crate::client::{Connection, Fault, encode};
use crate::pattern::Resp;
use crate::render;
use crate::value::Value;
use std::collections::BTreeMap;

const DATABASES: usize = 16;
/// Fields of XINFO STREAM FULL that are not data.
const NOT_DATA: [&[u8]; 5] =
    [b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time", b"inactive"];

/// Each key of each database, with its deadline and value.
pub fn of(address: &str) -> Result<BTreeMap<String, String>, String> {
    let fault = |fault: Fault| format!("{address}: {fault:?}");
    let mut reader = Reader { connection: Connection::open(address, Resp::Two).map_err(fault)? };
    let mut data = BTreeMap::new();
    for db in 0..DATABASES {
        reader.ask(&[b"SELECT", db.to_string().as_bytes()]).map_err(fault)?;
        let Value::Array(keys) = reader.ask(&[b"KEYS", b"*"]).map_err(fault)? else { continue };
        for key in keys {
            let Value::Bulk(key) = key else { continue };
            if let Some(text) = reader.key(&key).map_err(fault)? {
                let name = format!("{db}:{}", render::line(&Value::Bulk(key)));
                data.insert(name, text);
            }
        }
    }
    let library = reader.ask(&[b"FUNCTION", b"LIST", b"WITHCODE"]).map_err(fault)?;
    data.insert("functions".into(), sorted(&library));
    Ok(data)
}

struct Reader {
    connection: Connection,
}

impl Reader {
    fn ask(&mut self, words: &[&[u8]]) -> Result<Value, Fault> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        self.connection.send(&encode(&words));
        self.connection.receive()
    }

    /// One key as text; `None` if it no longer exists.
    fn key(&mut self, key: &[u8]) -> Result<Option<String>, Fault> {
        let Value::Simple(kind) = self.ask(&[b"TYPE", key])? else { return Ok(None) };
        let value = match kind.as_slice() {
            b"string" => self.string(key)?,
            b"list" => render::line(&self.ask(&[b"LRANGE", key, b"0", b"-1"])?),
            b"set" => {
                let members = self.ask(&[b"SMEMBERS", key])?;
                let deadlines = self.seconds(key, &members)?;
                format!("{} {deadlines}", sorted(&members))
            }
            b"zset" => {
                let scored = self.ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])?;
                let deadlines = self.deadlines(key, &scored, 2, b"ZPEXPIRETIME")?;
                format!("{} {deadlines}", render::line(&with_plain_scores(scored)))
            }
            b"hash" => self.hash(key)?,
            b"stream" => {
                let full = self.ask(&[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"])?;
                render::line(&only_data(full))
            }
            _ => return Ok(None),
        };
        let deadline = render::line(&self.ask(&[b"PEXPIRETIME", key])?);
        Ok(Some(format!("{} until {deadline}: {value}", String::from_utf8_lossy(&kind))))
    }

    /// A string as text. A HyperLogLog sketch is shown by its count: its encoding depends on
    /// settings.
    fn string(&mut self, key: &[u8]) -> Result<String, Fault> {
        let value = self.ask(&[b"GET", key])?;
        match &value {
            Value::Bulk(text) if text.starts_with(b"HYLL") => {
                let count = self.ask(&[b"PFCOUNT", key])?;
                Ok(format!("a sketch of {}", render::line(&count)))
            }
            _ => Ok(render::line(&value)),
        }
    }

    /// Deadlines of members, read by a command that few servers support.
    fn deadlines(
        &mut self,
        key: &[u8],
        members: &Value,
        step: usize,
        name: &[u8],
    ) -> Result<String, Fault> {
        let Value::Array(members) = members else { return Ok(String::new()) };
        let mut told = String::new();
        for member in members.iter().step_by(step) {
            let Value::Bulk(text) = member else { continue };
            match self.ask(&[name, key, b"MEMBERS", b"1", text])? {
                Value::Array(items) if items != [Value::Int(-1)] => {
                    told += &render::line(&Value::Array(items));
                }
                Value::Array(_) => {}
                _ => break,
            }
        }
        Ok(told)
    }

    /// Deadlines of a set's members, rounded to tens of seconds: no command reports them more
    /// exactly.
    fn seconds(&mut self, key: &[u8], members: &Value) -> Result<String, Fault> {
        let Value::Array(members) = members else { return Ok(String::new()) };
        let mut told = Vec::new();
        for member in members {
            let Value::Bulk(text) = member else { continue };
            match self.ask(&[b"FIELDTTL", key, text])? {
                Value::Int(-1) => {}
                Value::Int(left) => told.push(format!("{}:{}", render::line(member), left / 10)),
                _ => break,
            }
        }
        told.sort();
        Ok(told.join(" "))
    }

    fn hash(&mut self, key: &[u8]) -> Result<String, Fault> {
        let Value::Array(flat) = self.ask(&[b"HGETALL", key])? else { return Ok("?".into()) };
        let mut fields = Vec::new();
        for pair in flat.chunks_exact(2) {
            let Value::Bulk(field) = &pair[0] else { continue };
            let deadline = self.ask(&[b"HPEXPIRETIME", key, b"FIELDS", b"1", field])?;
            // A server without this command has no such deadlines.
            let deadline = match deadline {
                Value::Array(items) => items.first().map_or(String::new(), render::line),
                _ => ":-1".into(),
            };
            fields.push(format!(
                "{} {} {deadline}",
                render::line(&pair[0]),
                render::line(&pair[1])
            ));
        }
        fields.sort();
        Ok(fields.join(", "))
    }
}

/// Members and scores, the scores formatted here: servers differ in the last digits.
fn with_plain_scores(value: Value) -> Value {
    let Value::Array(items) = value else { return value };
    let plain = |(at, item): (usize, Value)| match item {
        Value::Bulk(text) if at % 2 == 1 => {
            let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<f64>().ok());
            // 0 and -0 are one score.
            let number = number.map(|number| number + 0.0);
            Value::Bulk(number.map_or(text, |number| number.to_string().into_bytes()))
        }
        other => other,
    };
    Value::Array(items.into_iter().enumerate().map(plain).collect())
}

/// Removes the pairs of names and values that are not data.
fn only_data(value: Value) -> Value {
    let Value::Array(items) = value else { return value };
    let mut kept = Vec::new();
    let mut items = items.into_iter();
    while let Some(item) = items.next() {
        match item {
            Value::Bulk(name) if NOT_DATA.contains(&name.as_slice()) => _ = items.next(),
            other => kept.push(only_data(other)),
        }
    }
    Value::Array(kept)
}

fn sorted(value: &Value) -> String {
    let Value::Array(items) = value else { return render::line(value) };
    let mut lines: Vec<String> = items.iter().map(sorted).collect();
    lines.sort();
    format!("[{}]", lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_data_is_left_out_at_every_depth() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let inner =
            Value::Array(vec![bulk("seen-time"), Value::Int(7), bulk("pel"), Value::Int(1)]);
        let outer = Value::Array(vec![bulk("radix-tree-keys"), Value::Int(3), inner]);
        let expected = Value::Array(vec![Value::Array(vec![bulk("pel"), Value::Int(1)])]);
        assert_eq!(only_data(outer), expected);
    }
}
