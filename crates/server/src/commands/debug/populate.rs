//! DEBUG POPULATE: many keys, quickly, while other clients go on.
//!
//! ```text
//! DEBUG POPULATE count [prefix] [size] [RAND] [TYPE type] [ELEMENTS n]
//!                [SLOTS from to | SLOT slot] [EXPIRE least most]
//! ```
//!
//! Key `prefix:N` gets `value:N`, cut or filled up with zero bytes to `size`; with RAND random
//! bytes instead. With TYPE it is a collection of that type, with as many elements as ELEMENTS
//! says; element M is `value:M`, or random. With SLOTS only keys of these cluster slots are made,
//! `count` in all; with EXPIRE each gets a time to live between the two, in seconds. Keys that are
//! there stay as they are.
//!
//! One partition is held for one key; between batches the thread gives way.

use std::ops::Range;

use pantala_base::UnixMs;
use pantala_base::crc::slot_of;
use pantala_base::number::parse_i64;
use pantala_base::rng::Rng;
use pantala_commands::{Call, ClientError, Done, Stop, error, options::is_word};
use pantala_keyspace::{Expiry, Key, LockPlan, Locked};
use pantala_protocol::Reply;
use pantala_values::Type;

use super::set_if_absent;
use crate::shared::Shared;

/// The arguments, for HELP.
pub(super) const SYNTAX: &str = "count:int [prefix] [size:int] [RAND] [TYPE type] \
     [ELEMENTS count:int] \
     [SLOTS from:int to:int | SLOT slot:int] [EXPIRE least-seconds:int most-seconds:int]";

const UNKNOWN_TYPE: ClientError = ClientError::text("ERR unknown type name");
/// Elements of one collection at most: they are written with its partition held.
const MOST_ELEMENTS: u64 = 1 << 20;
/// Elements written by one command.
const ELEMENTS_AT_ONCE: u64 = 256;
const NOT_POSITIVE: ClientError = ClientError::text("ERR value is out of range, must be positive");
/// Cluster slots.
const SLOTS: i64 = 16_384;
/// Keys made before other threads are let in and memory is looked at.
const BATCH: u64 = 128;

/// What is to be made.
struct Options<'a> {
    count: u64,
    prefix: &'a [u8],
    size: Option<usize>,
    is_random: bool,
    kind: Type,
    elements: u64,
    slots: Option<(u16, u16)>,
    ttl_s: Option<(u64, u64)>,
}

fn positive(word: &[u8]) -> Result<u64, ClientError> {
    parse_i64(word).and_then(|number| u64::try_from(number).ok()).ok_or(NOT_POSITIVE)
}

fn slot(word: &[u8]) -> Result<u16, ClientError> {
    let number = parse_i64(word).filter(|number| (0..SLOTS).contains(number));
    number.map(|number| number as u16).ok_or(ClientError::text("ERR Invalid or out of range slot"))
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a [u8]], longest: usize) -> Result<Options<'a>, ClientError> {
        let mut options = Options {
            count: positive(words[0])?,
            prefix: b"key",
            size: None,
            is_random: false,
            kind: Type::String,
            elements: 1,
            slots: None,
            ttl_s: None,
        };
        if let Some(prefix) = words.get(1) {
            options.prefix = prefix;
        }
        if let Some(size) = words.get(2) {
            let size = usize::try_from(positive(size)?).unwrap_or(usize::MAX);
            if size > longest {
                return Err(error::STRING_TOO_LONG);
            }
            options.size = (size > 0).then_some(size);
        }
        let mut rest = words.get(3..).unwrap_or_default();
        while let Some(taken) = options.option(rest)? {
            rest = &rest[taken..];
        }
        Ok(options)
    }

    /// Reads one option; how many words it took, `None` at the end.
    fn option(&mut self, rest: &[&'a [u8]]) -> Result<Option<usize>, ClientError> {
        match rest {
            [] => Ok(None),
            [word, ..] if is_word(word, "RAND") => {
                self.is_random = true;
                Ok(Some(1))
            }
            [word, kind, ..] if is_word(word, "TYPE") => {
                self.kind = Type::from_name(kind).ok_or(UNKNOWN_TYPE)?;
                Ok(Some(2))
            }
            [word, count, ..] if is_word(word, "ELEMENTS") => {
                self.elements = positive(count)?;
                if !(1..=MOST_ELEMENTS).contains(&self.elements) {
                    return Err(error::OUT_OF_RANGE);
                }
                Ok(Some(2))
            }
            [word, number, ..] if is_word(word, "SLOT") => {
                self.slots = Some((slot(number)?, slot(number)?));
                Ok(Some(2))
            }
            [word, from, to, ..] if is_word(word, "SLOTS") => {
                let (from, to) = (slot(from)?, slot(to)?);
                if from > to {
                    return Err(error::OUT_OF_RANGE);
                }
                self.slots = Some((from, to));
                Ok(Some(3))
            }
            [word, least, most, ..] if is_word(word, "EXPIRE") => {
                let (least, most) = (positive(least)?, positive(most)?);
                if least > most || most > u32::MAX.into() {
                    return Err(error::OUT_OF_RANGE);
                }
                self.ttl_s = Some((least, most));
                Ok(Some(3))
            }
            _ => Err(error::SYNTAX),
        }
    }

    fn value(&self, number: u64, random: &mut Rng, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(b"value:");
        pantala_base::number::push_u64(value, number);
        let size = self.size.unwrap_or(value.len());
        value.resize(size, 0);
        if self.is_random {
            random.bytes(value);
        }
    }

    /// Makes a collection under a key that is free, by the commands that clients use.
    fn fill(
        &self,
        call: &mut Call<'_, '_>,
        locked: &mut Locked<'_>,
        key: Key<'_>,
        expiry: Expiry,
        random: &mut Rng,
    ) -> Result<(), Stop> {
        let mut from = 0;
        while from < self.elements {
            let to = (from + ELEMENTS_AT_ONCE).min(self.elements);
            let words = self.command(key.bytes, from..to, random);
            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let Some(found) = Shared::of(call).registry.find(args[0]) else { break };
            let mut reply = Vec::new();
            (found.row.handler)(&mut Call {
                args: &args,
                command: found.row,
                reply: Reply::new(&mut reply, call.session.version),
                keys: locked,
                hashes: &[key.hash],
                session: &mut call.session.clone(),
                server: call.server,
                settings: call.settings,
                lane: call.lane,
                ready: None,
                may_wait: false,
            })?;
            from = to;
        }
        if let Expiry::At(deadline) = expiry {
            let mut opened = locked.peek(key);
            opened.set_deadline(Some(deadline));
            opened.publish(pantala_keyspace::event::EXPIRE);
        }
        Ok(())
    }

    /// The command that adds these elements.
    fn command(&self, key: &[u8], numbers: Range<u64>, random: &mut Rng) -> Vec<Vec<u8>> {
        let name: &[u8] = match self.kind {
            Type::List => b"RPUSH",
            Type::Set => b"SADD",
            Type::SortedSet => b"ZADD",
            Type::Hash => b"HSET",
            Type::Stream => b"XADD",
            Type::String => b"APPEND",
        };
        let mut words = vec![name.to_vec(), key.to_vec()];
        if self.kind == Type::Stream {
            words.push(b"*".to_vec());
        }
        for number in numbers {
            let mut before = Vec::new();
            match self.kind {
                Type::SortedSet => pantala_base::number::push_u64(&mut before, number),
                Type::Hash | Type::Stream => {
                    before.extend_from_slice(b"field:");
                    pantala_base::number::push_u64(&mut before, number);
                }
                Type::String | Type::List | Type::Set => {}
            }
            if !before.is_empty() {
                words.push(before);
            }
            let mut value = Vec::new();
            self.value(number, random, &mut value);
            words.push(value);
        }
        words
    }

    fn expiry(&self, now: UnixMs, random: &mut Rng) -> Expiry {
        match self.ttl_s {
            None => Expiry::Never,
            Some((least, most)) => {
                let ttl_ms = (least + random.below(most - least + 1)) * 1000;
                Expiry::At(UnixMs(now.0.saturating_add(ttl_ms.cast_signed())))
            }
        }
    }
}

pub(super) fn populate(call: &mut Call<'_, '_>) -> Done {
    let options = Options::parse(&call.args[2..], call.most_string_bytes())?;
    if call.keys.holds_everything() {
        return Err(error::not_in_multi("debug|populate").into());
    }
    let shared = Shared::of(call);
    let scope = *call.keys.scope();
    let mut random = Rng::random();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let (mut made, mut number) = (0_u64, 0_u64);
    while made < options.count {
        key.clear();
        key.extend_from_slice(options.prefix);
        key.push(b':');
        pantala_base::number::push_u64(&mut key, number);
        number += 1;
        if options.slots.is_some_and(|(from, to)| !(from..=to).contains(&slot_of(&key))) {
            continue;
        }
        options.value(number - 1, &mut random, &mut value);
        let key = scope.space.key(&key);
        let expiry = options.expiry(scope.now, &mut random);
        let plan = LockPlan::of(std::iter::once(key.hash));
        let mut locked = scope.space.lock_or_abort(&plan, scope)?;
        if options.kind == Type::String {
            set_if_absent(&mut locked, key, &value, expiry);
        } else if !locked.peek(key).exists() {
            options.fill(call, &mut locked, key, expiry, &mut random)?;
        }
        drop(locked);
        made += 1;
        if made.is_multiple_of(BATCH) {
            pause(shared)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Lets others in; ends early where there is no memory, or no server any more.
fn pause(shared: &Shared) -> Result<(), ClientError> {
    if shared.shutdown.is_final() {
        return Err(ClientError::text("ERR the server stops"));
    }
    if shared.memory.is_full(shared.settings.current().maxmemory) {
        return Err(error::OUT_OF_MEMORY);
    }
    std::thread::yield_now();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options<'a>(words: &[&'a str]) -> Result<Options<'a>, ClientError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        Options::parse(&words, 1 << 20)
    }

    #[test]
    fn options_are_read() {
        let all = options(&["9", "p", "0", "rand", "TYPE", "string", "SLOTS", "3", "5"]);
        let all = all.expect("well formed");
        assert_eq!((all.count, all.size, all.is_random, all.slots), (9, None, true, Some((3, 5))));
        let one = options(&["1", "p", "7", "SLOT", "16383", "EXPIRE", "5", "5"]);
        assert_eq!(one.expect("well formed").slots, Some((16_383, 16_383)));
        for wrong in [
            &["x"][..],
            &["-1"],
            &["1", "p", "x"],
            &["1", "p", "2000000"],
            &["1", "p", "1", "SLOT", "16384"],
            &["1", "p", "1", "SLOTS", "5", "3"],
            &["1", "p", "1", "EXPIRE", "5"],
            &["1", "p", "1", "TYPE", "NOSUCH"],
        ] {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_have_their_size() {
        let mut random = Rng::from_seed(1);
        let mut value = Vec::new();
        for (words, want) in [
            (&["1"][..], &b"value:7"[..]),
            (&["1", "p", "9"], b"value:7\0\0"),
            (&["1", "p", "3"], b"val"),
        ] {
            options(words).expect("well formed").value(7, &mut random, &mut value);
            assert_eq!(value, want);
        }
    }
}
