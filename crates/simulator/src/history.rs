//! The data at each position of each history, computed from the stream by a second reader that is
//! as simple as possible.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A value and its deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Value {
    /// Of a string: its single item.
    pub items: Vec<Vec<u8>>,
    pub deadline: Option<i64>,
}

/// Data, by database and key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    db: u32,
    values: BTreeMap<(u32, Vec<u8>), Value>,
    digest: u64,
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

impl Model {
    /// A digest of all the data.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn get(&self, db: u32, key: &[u8]) -> Option<&Value> {
        self.values.get(&(db, key.to_vec()))
    }

    pub fn put(&mut self, db: u32, key: &[u8], value: Option<Value>) {
        let place = (db, key.to_vec());
        if let Some(old) = self.values.remove(&place) {
            self.digest ^= hash(&(&place, &old));
        }
        if let Some(value) = value.filter(|value| !value.items.is_empty()) {
            self.digest ^= hash(&(&place, &value));
            self.values.insert(place, value);
        }
    }

    fn change(&mut self, key: &[u8], change: impl FnOnce(&mut Value)) {
        let mut value = self.get(self.db, key).cloned().unwrap_or_default();
        change(&mut value);
        self.put(self.db, key, Some(value));
    }

    fn add(&mut self, key: &[u8], more: i64) {
        self.change(key, |value| {
            let now = value.items.first().map_or(0, |text| number(text));
            value.items = vec![(now + more).to_string().into_bytes()];
        });
    }

    /// Executes a command of a stream.
    fn run(&mut self, args: &[&[u8]]) -> Result<(), String> {
        let name = args[0].to_ascii_uppercase();
        match (&*name, &args[1..]) {
            (b"SELECT", [db]) => self.db = number(db) as u32,
            (b"SET", [key, text]) => self.set(key, text, None),
            (b"SET", [key, text, _, deadline]) => self.set(key, text, Some(number(deadline))),
            (b"PEXPIREAT", [key, deadline, ..]) => {
                self.change(key, |value| value.deadline = Some(number(deadline)));
            }
            (b"DEL" | b"UNLINK", keys) => {
                keys.iter().for_each(|key| self.put(self.db, key, None));
            }
            (b"INCRBY", [key, more]) => self.add(key, number(more)),
            (b"DECRBY", [key, less]) => self.add(key, -number(less)),
            (b"RPUSH", [key, items @ ..]) => self.change(key, |value| {
                value.items.extend(items.iter().map(|item| item.to_vec()));
            }),
            (b"LPOP", [key]) => self.change(key, |value| _ = value.items.remove(0)),
            (b"FLUSHDB", _) => {
                let of_db = |place: &&(u32, Vec<u8>)| place.0 == self.db;
                let keys: Vec<_> = self.values.keys().filter(of_db).cloned().collect();
                keys.iter().for_each(|(db, key)| self.put(*db, key, None));
            }
            (b"PING" | b"REPLCONF", _) => {}
            _ => return Err(format!("the stream says {}", String::from_utf8_lossy(&name))),
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], text: &[u8], deadline: Option<i64>) {
        self.put(self.db, key, Some(Value { items: vec![text.to_vec()], deadline }));
    }

    /// A text that names the keys whose values differ.
    pub fn difference(&self, other: &Model) -> String {
        let shown = |value: Option<&Value>| {
            let mut text = format!("{:?}", value.map(|one| (one.deadline, one.items.len())));
            for item in value.iter().flat_map(|value| &value.items).rev().take(8) {
                text += &format!(" {}", item[..item.len().min(12)].escape_ascii());
            }
            text
        };
        let mut out = String::new();
        for place in self.values.keys().chain(other.values.keys()) {
            let (one, two) = (self.values.get(place), other.values.get(place));
            if one != two {
                let key = place.1.escape_ascii();
                out += &format!("{}:{key} is {}, not {}; ", place.0, shown(one), shown(two));
            }
        }
        out
    }
}

/// A history: its bytes, and a digest of the data after each of its steps.
pub(super) struct Log {
    base: u64,
    first: Model,
    last: Model,
    bytes: Vec<u8>,
    /// Number of bytes executed so far.
    read: usize,
    is_in_multi: bool,
    /// Positions between steps, and the digest of the data at each.
    steps: Vec<(u64, u64)>,
}

impl Log {
    /// A history that begins at this position with this data.
    pub fn new(base: u64, first: Model) -> Log {
        let (last, steps) = (first.clone(), vec![(base, first.digest())]);
        Log { base, first, last, bytes: Vec::new(), read: 0, is_in_multi: false, steps }
    }

    /// The position after its last byte.
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The data at the end.
    pub fn last(&self) -> &Model {
        &self.last
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(bytes);
        while let Some((args, used)) = command(&self.bytes[self.read..]) {
            match &*args[0].to_ascii_uppercase() {
                b"MULTI" => self.is_in_multi = true,
                b"EXEC" => self.is_in_multi = false,
                _ => self.last.run(&args)?,
            }
            self.read += used;
            if !self.is_in_multi {
                self.steps.push((self.base + self.read as u64, self.last.digest()));
            }
        }
        Ok(())
    }

    /// The digest of the data at this position; `None`: it is not between two steps.
    pub fn digest_at(&self, position: u64) -> Option<u64> {
        let at = self.steps.binary_search_by_key(&position, |step| step.0).ok()?;
        Some(self.steps[at].1)
    }

    /// A copy of this history that ends at this position.
    pub fn branch(&self, position: u64) -> Result<Log, String> {
        self.digest_at(position).ok_or("a history parts within a step")?;
        let mut log = Log::new(self.base, self.first.clone());
        log.append(&self.bytes[..(position - self.base) as usize])?;
        Ok(log)
    }

    /// The bytes between two positions, if the history has them.
    pub fn bytes(&self, from: u64, to: u64) -> Option<&[u8]> {
        let (from, to) = (from.checked_sub(self.base)?, to.checked_sub(self.base)?);
        self.bytes.get(from as usize..to as usize)
    }
}

/// The first command of these bytes, and its length.
pub(super) fn command(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (count, mut next) = line(bytes, 0)?;
    let mut args = Vec::new();
    for _ in 0..count {
        let (length, begin) = line(bytes, next)?;
        args.push(bytes.get(begin..begin + length)?);
        next = begin + length + 2;
    }
    (next <= bytes.len()).then_some((args, next))
}

/// The number in the line at `from`, and where the next line begins.
fn line(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    Some((number(&rest[1..end]) as usize, from + end + 2))
}
