//! DEBUG POPULATE: many keys, quickly, while other clients go on.
//!
//! ```text
//! DEBUG POPULATE count [prefix] [size] [RAND] [TYPE type] [ELEMENTS n]
//!                [SLOTS from to | SLOT slot] [EXPIRE least most]
//! ```
//!
//! Key `prefix:N` gets `value:N`, cut or padded with zero bytes to `size`; with RAND random bytes
//! instead. With TYPE it is a collection of that type, with as many elements as ELEMENTS says;
//! element M is `value:M`, or random. With SLOTS only keys of these cluster slots are made, `count`
//! in all; with EXPIRE each gets a time to live between the two, in seconds. Present keys stay as
//! they are.
//!
//! Threads of its own, one for each core, take the numbers in batches; the result does not depend
//! on how many they are. One partition is held for one key; between batches a thread yields. They
//! end before the command does, and the thread that waits for them represents them at the gate.
//!
//! Tests: at the foot, compat/transcripts/server/debug.txt.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{Builder, ScopedJoinHandle};

use pantala_base::UnixMs;
use pantala_base::crc::slot_of;
use pantala_base::limits::available_cores;
use pantala_base::number::parse_i64;
use pantala_base::rng::Rng;
use pantala_commands::{Call, ClientError, CommandResult, Lane, Session, error, options::is_word};
use pantala_keyspace::{DbIndex, Expiry, Key, LockPlan, Locked, PartitionId, Scope, Tally};
use pantala_protocol::Reply;
use pantala_settings::Settings;
use pantala_values::Type;
use parking_lot::Mutex;

use super::set_if_absent;
use pantala_engine::Engine;

/// The syntax of the arguments, for HELP.
pub(super) const SYNTAX: &str = "count:int [prefix] [size:int] [RAND] [TYPE type] \
     [ELEMENTS count:int] \
     [SLOTS from:int to:int | SLOT slot:int] [EXPIRE least-seconds:int most-seconds:int]";

const UNKNOWN_TYPE: ClientError = ClientError::text("ERR unknown type name");
/// The most elements of one collection: they are written with its partition held.
const MOST_ELEMENTS: u64 = 1 << 20;
/// Elements written by one command.
const ELEMENTS_AT_ONCE: u64 = 256;
const NOT_POSITIVE: ClientError = ClientError::text("ERR value is out of range, must be positive");
/// Cluster slots.
const SLOTS: i64 = 16_384;
/// How many keys are made before other threads are let in and memory is checked: as many as have
/// their buckets in the first-level cache together.
const BATCH: usize = 128;
/// How many numbers are tried for keys of the wanted slots before other threads are let in.
const MOST_LOOKED_AT: usize = 1 << 14;
/// How many keys are worth a thread.
const KEYS_OF_A_THREAD: u64 = 1 << 10;
/// How many keys are tried to see whether a prefix puts all of them into one slot.
const TRIED_SLOTS: u64 = 64;
const NO_SUCH_KEY: ClientError =
    ClientError::text("ERR no key with this prefix belongs to these slots");

/// The options of POPULATE.
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

/// The command that adds elements to a value of this type, if it can be populated.
fn adding_command(kind: Type) -> Option<&'static [u8]> {
    Some(match kind {
        Type::List => b"RPUSH",
        Type::Set => b"SADD",
        Type::SortedSet => b"ZADD",
        Type::Hash => b"HSET",
        Type::Stream => b"XADD",
        Type::String => b"APPEND",
    })
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

    /// Parses one option; returns how many words it took, `None` at the end.
    fn option(&mut self, rest: &[&'a [u8]]) -> Result<Option<usize>, ClientError> {
        match rest {
            [] => Ok(None),
            [word, ..] if is_word(word, "RAND") => {
                self.is_random = true;
                Ok(Some(1))
            }
            [word, kind, ..] if is_word(word, "TYPE") => {
                let known = Type::from_name(kind).filter(|kind| adding_command(*kind).is_some());
                self.kind = known.ok_or(UNKNOWN_TYPE)?;
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

    /// Appends the name of the key with this number.
    fn name(&self, number: u64, name: &mut Vec<u8>) {
        name.extend_from_slice(self.prefix);
        name.push(b':');
        pantala_base::number::push_u64(name, number);
    }

    /// Whether the key with this number is to be made. `name` is scratch.
    fn is_wanted(&self, number: u64, name: &mut Vec<u8>) -> bool {
        let Some((from, to)) = self.slots else { return true };
        name.clear();
        self.name(number, name);
        (from..=to).contains(&slot_of(name))
    }

    /// Whether there are such keys at all: a prefix with `{...}` has all its keys in one slot.
    fn has_keys(&self) -> bool {
        let mut name = Vec::new();
        (0..TRIED_SLOTS).any(|number| self.is_wanted(number, &mut name)) || {
            let mut slot = |number| {
                name.clear();
                self.name(number, &mut name);
                slot_of(&name)
            };
            let first = slot(0);
            (1..TRIED_SLOTS).any(|number| slot(number) != first)
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

    /// The command that adds these elements.
    fn command(&self, key: &[u8], numbers: Range<u64>, random: &mut Rng) -> Vec<Vec<u8>> {
        let name = adding_command(self.kind).unwrap_or_default();
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
                _ => {}
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

/// The numbers of the keys still to be made.
struct Numbers<'a> {
    options: &'a Options<'a>,
    /// How many are left, and the first number that was not tried.
    left: Mutex<(u64, u64)>,
}

impl<'a> Numbers<'a> {
    fn of(options: &'a Options<'a>) -> Self {
        Numbers { options, left: Mutex::new((options.count, 0)) }
    }

    /// Puts the next numbers into `batch`, possibly none; whether there may be more.
    fn take(&self, batch: &mut Vec<u64>) -> bool {
        batch.clear();
        let mut name = Vec::new();
        let mut left = self.left.lock();
        let (count, next) = *left;
        let most = count.min(BATCH as u64) as usize;
        let looked_at = (next..).take(MOST_LOOKED_AT);
        let wanted = looked_at.filter(|&number| self.options.is_wanted(number, &mut name));
        batch.extend(wanted.take(most));
        let is_full = batch.len() == most;
        let seen = if is_full { batch.last().map(|&last| last + 1) } else { None };
        *left = (count - batch.len() as u64, seen.unwrap_or(next + MOST_LOOKED_AT as u64));
        count > 0
    }

    /// Ends giving out numbers.
    fn stop(&self) {
        self.left.lock().0 = 0;
    }
}

/// What a thread needs to make keys.
#[derive(Clone, Copy)]
struct Maker<'a> {
    options: &'a Options<'a>,
    numbers: &'a Numbers<'a>,
    engine: &'a Engine,
    settings: &'a Settings,
    db: DbIndex,
    now: UnixMs,
}

impl Maker<'_> {
    /// The main loop of a thread: makes keys until there are no more numbers, or one fails.
    fn run(self, session: Session) -> (CommandResult, Tally) {
        let tally = Tally::default();
        let Maker { engine, db, now, .. } = self;
        // As in Valkey, the keys are not recorded.
        let scope = Scope {
            space: &engine.space,
            db,
            now,
            tally: &tally,
            touch: true,
            sees_expired: false,
            recorder: None,
        };
        let done = self.make(session, scope);
        if done.is_err() {
            self.numbers.stop();
        }
        (done, tally)
    }

    fn make(&self, mut session: Session, scope: Scope<'_>) -> CommandResult {
        let Scope { space, db, .. } = scope;
        let mut random = Rng::random();
        let (mut names, mut value) = (Vec::new(), Vec::new());
        let (mut batch, mut keys) = (Vec::new(), Vec::new());
        while self.numbers.take(&mut batch) {
            pause(self.engine)?;
            names.clear();
            keys.clear();
            for &number in &batch {
                let start = names.len();
                self.options.name(number, &mut names);
                let hash = space.hash(&names[start..]);
                space.prefetch_bucket(db, hash);
                keys.push((number, start..names.len(), hash));
            }
            for (number, name, hash) in keys.drain(..) {
                let key = Key { bytes: &names[name], hash };
                self.options.value(number, &mut random, &mut value);
                self.make_one(key, &value, &mut random, (&mut session, scope))?;
            }
        }
        Ok(())
    }

    fn make_one(
        &self,
        key: Key<'_>,
        value: &[u8],
        random: &mut Rng,
        (session, scope): (&mut Session, Scope<'_>),
    ) -> CommandResult {
        let options = self.options;
        let expiry = options.expiry(scope.now, random);
        let mut locked = match scope.space.lock_one(PartitionId::of(key.hash), scope) {
            Ok(locked) => locked,
            Err(_) => scope.space.lock_or_abort(&LockPlan::of([key.hash]), scope)?,
        };
        if options.kind == Type::String {
            set_if_absent(&mut locked, key, value, expiry);
        } else if !locked.peek(key).exists() {
            self.fill(&mut locked, key, expiry, random, session)?;
        }
        Ok(())
    }

    /// Makes a collection under an absent key, by the commands that clients use.
    fn fill(
        &self,
        locked: &mut Locked<'_>,
        key: Key<'_>,
        expiry: Expiry,
        random: &mut Rng,
        session: &mut Session,
    ) -> CommandResult {
        let mut from = 0;
        while from < self.options.elements {
            let to = (from + ELEMENTS_AT_ONCE).min(self.options.elements);
            let words = self.options.command(key.bytes, from..to, random);
            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let Some(found) = self.engine.registry.find_own(args[0]) else { break };
            let mut reply = Vec::new();
            (found.row.handler)(&mut Call {
                args: &args,
                command: found.row,
                reply: Reply::new(&mut reply, session.version),
                keys: locked,
                hashes: &[key.hash],
                session,
                server: self.engine,
                settings: self.settings,
                lane: Lane::Slow,
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
}

pub(super) fn populate(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(&call.args[2..], call.most_string_bytes())?;
    if call.keys.holds_everything() {
        return Err(error::not_in_multi("debug|populate").into());
    }
    if !options.has_keys() {
        return Err(NO_SUCH_KEY.into());
    }
    let threads = (options.count / KEYS_OF_A_THREAD).clamp(1, available_cores() as u64);
    let maker = Maker {
        options: &options,
        numbers: &Numbers::of(&options),
        engine: Engine::of(call),
        settings: call.settings,
        db: call.keys.scope().db,
        now: call.keys.scope().now,
    };
    let mine = call.keys.scope().tally;
    let session = &*call.session;
    let results = std::thread::scope(|threads_scope| {
        let start = |_| {
            let session = session.clone();
            let life = move || {
                let result = maker.run(session);
                pantala_memory::release_seat();
                result
            };
            // If the system has no more threads, there are fewer.
            Builder::new().name("populate".into()).spawn_scoped(threads_scope, life).ok()
        };
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut results = vec![maker.run(session.clone())];
        let join = |thread: ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panicked) => resume_unwind(panicked),
        };
        results.extend(others.into_iter().map(join));
        results
    });
    for (_, tally) in &results {
        mine.settle_counts(tally, true);
    }
    results.into_iter().try_for_each(|(done, _)| done)?;
    call.reply.ok();
    Ok(())
}

/// Lets other threads in; fails if there is no memory, or the server stops.
fn pause(engine: &Engine) -> Result<(), ClientError> {
    if engine.condition.shutdown.is_final() {
        return Err(ClientError::text("ERR the server stops"));
    }
    if engine.is_full(engine.settings.current().memory_limit()) {
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
