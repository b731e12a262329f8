//! Samples keys of the other server: types and sizes.
//!
//! SCAN returns them in the order of a hash table, which is as good as random. They are read with
//! CLIENT NO-TOUCH if the server knows it, so that no key seems used.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pantala_client::{Connection, Value, text_of};

use crate::facts::{Database, ProbeResult, databases, short};

/// The time limit of the sample.
const TIME_MOST: Duration = Duration::from_secs(10);
/// The most calls of SCAN per database: many buckets may be nearly empty.
const SCANS_MOST: usize = 200;
/// The most databases that are sampled, those with most keys first.
const DATABASES_MOST: usize = 16;
/// Longer keys are skipped.
const KEY_BYTES_MOST: usize = 64 << 10;

/// A sampled key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its length.
    pub key_bytes: usize,
    /// `string`, `list` ..., or a module's type.
    pub kind: String,
    /// The length of a string.
    pub value_bytes: Option<usize>,
    /// The reply of MEMORY USAGE.
    pub used_bytes: Option<u64>,
}

/// Samples at most this many keys of all databases, in proportion to their sizes.
///
/// # Errors
/// The connection is lost.
pub fn sample(
    connection: &mut Connection,
    info: &BTreeMap<String, String>,
    most: usize,
) -> Result<ProbeResult<Vec<Key>>, String> {
    let mut of_keys = databases(info);
    of_keys.retain(|database| database.keys > 0);
    of_keys.sort_by_key(|database| std::cmp::Reverse(database.keys));
    of_keys.truncate(DATABASES_MOST);
    if most == 0 || of_keys.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    // It may be unknown, or refused.
    connection.ask(&["CLIENT", "NO-TOUCH", "ON"])?;
    let all: u64 = of_keys.iter().fold(0, |sum, database| sum.saturating_add(database.keys));
    let mut sampler = Sampler { connection, until: Instant::now() + TIME_MOST, keys: Vec::new() };
    let mut refused = String::new();
    for database in &of_keys {
        let share = (most as u128 * u128::from(database.keys)).div_ceil(u128::from(all)) as usize;
        if let Err(why) = sampler.database(database, share)? {
            refused = why;
        }
    }
    let keys = sampler.keys;
    Ok(if keys.is_empty() && !refused.is_empty() { Err(refused) } else { Ok(keys) })
}

struct Sampler<'c> {
    connection: &'c mut Connection,
    until: Instant,
    keys: Vec<Key>,
}

impl Sampler<'_> {
    /// Samples `count` keys of a database; or why that failed.
    fn database(&mut self, database: &Database, count: usize) -> Result<ProbeResult<()>, String> {
        let selected = self.connection.ask(&["SELECT", &database.index.to_string()])?;
        if let Value::Error(_) = selected {
            return Ok(Err(short(&text_of(&selected))));
        }
        let enough = self.keys.len() + count;
        let mut cursor = b"0".to_vec();
        for _ in 0..SCANS_MOST {
            let reply = self.connection.ask_bytes(&[b"SCAN", &cursor, b"COUNT", b"100"])?;
            let (next, names) = match scanned(reply) {
                Ok(page) => page,
                Err(why) => return Ok(Err(why)),
            };
            for name in names {
                if self.keys.len() >= enough || Instant::now() >= self.until {
                    return Ok(Ok(()));
                }
                self.key(&name)?;
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
        Ok(Ok(()))
    }

    fn key(&mut self, name: &[u8]) -> Result<(), String> {
        let kind = match self.connection.ask_bytes(&[b"TYPE", name])? {
            Value::Simple(kind) | Value::Bulk(kind) => short(&text_of(&Value::Bulk(kind))),
            _ => return Ok(()),
        };
        if kind == "none" || kind.is_empty() {
            return Ok(());
        }
        let mut number = |words: &[&[u8]]| {
            Ok::<_, String>(match self.connection.ask_bytes(words)? {
                Value::Int(number) => u64::try_from(number).ok(),
                _ => None,
            })
        };
        let value_bytes = if kind == "string" { number(&[b"STRLEN", name])? } else { None };
        let used_bytes = number(&[b"MEMORY", b"USAGE", name])?;
        let value_bytes = value_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        self.keys.push(Key { key_bytes: name.len(), kind, value_bytes, used_bytes });
        Ok(())
    }
}

type Page = (Vec<u8>, Vec<Vec<u8>>);

/// The cursor and the names in a reply to SCAN.
fn scanned(reply: Value) -> ProbeResult<Page> {
    let strange = || "SCAN is answered by what is not understood".to_owned();
    let parts = match reply {
        Value::Array(parts) => parts,
        reply @ Value::Error(_) => return Err(short(&text_of(&reply))),
        _ => return Err(strange()),
    };
    let mut parts = parts.into_iter();
    let (Some(Value::Bulk(cursor)), Some(Value::Array(names))) = (parts.next(), parts.next())
    else {
        return Err(strange());
    };
    let names = names.into_iter().filter_map(|name| match name {
        Value::Bulk(name) if name.len() <= KEY_BYTES_MOST => Some(name),
        _ => None,
    });
    Ok((cursor, names.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let name = Value::Bulk(b"a\xff".to_vec());
        let reply = |cursor, names| Value::Array(vec![cursor, names]);
        let sound =
            reply(Value::Bulk(b"7".to_vec()), Value::Array(vec![name.clone(), Value::Null]));
        assert_eq!(scanned(sound), Ok((b"7".to_vec(), vec![b"a\xff".to_vec()])));
        for strange in [Value::Int(1), Value::Array(Vec::new()), reply(Value::Int(0), name)] {
            assert!(scanned(strange).is_err());
        }
        assert_eq!(scanned(Value::Error(b"NOPERM x".to_vec())), Err("NOPERM x".into()));
    }
}
