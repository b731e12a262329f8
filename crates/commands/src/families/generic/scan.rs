//! Going through the keys of a database: KEYS, SCAN, RANDOMKEY.
//!
//! None of them stops others from changing keys meanwhile: each partition is read at a moment of
//! its own.

use pantala_base::glob;
use pantala_base::number::{parse_i64, parse_u64};
use pantala_keyspace::{Busy, ScanCursor, WalkedKey};
use pantala_values::Type;

use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::options::is_word;
use crate::rows::command::{Category, Command, Flags, Group};

/// A SCAN with a larger COUNT runs on the slow lane.
const WORKER_COUNT: usize = 4096;
const DEFAULT_COUNT: usize = 10;

pub(super) const KEYS: Command = Command::read("KEYS", keys, Group::Generic)
    .arity(2)
    .flags(Flags::LANE.union(Flags::WHOLE))
    .categories(&[Category::Keyspace, Category::Dangerous])
    .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
    .complexity("O(N) for N keys in the database")
    .syntax("pattern")
    .summary("Lists the keys that match a pattern.");

pub(super) const SCAN: Command = Command::read("SCAN", scan, Group::Generic)
    .arity(-2)
    .flags(Flags::WHOLE)
    .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
    .since("2.8.0")
    .complexity("O(COUNT) for one call, O(N) for N keys in the database in all")
    .syntax("cursor:int [MATCH pattern] [COUNT count:int] [TYPE type]")
    .summary("Lists some keys, and tells where to go on.");

pub(super) const RANDOMKEY: Command = Command::read("RANDOMKEY", random_key, Group::Generic)
    .arity(1)
    .flags(Flags::WHOLE)
    .tips(&["request_policy:all_shards", "response_policy:special", "nondeterministic_output"])
    .syntax("")
    .summary("Returns a random key.");

fn keys(call: &mut Call<'_, '_>) -> CommandResult {
    let pattern = call.args[1];
    let mark = call.reply.begin();
    let mut count = 0;
    if glob::is_literal(pattern) {
        if tag_of(call, pattern)?.is_some() {
            call.reply.bulk(pattern);
            count += 1;
        }
    } else {
        let limit = match call.settings.keys_output_limit {
            0 => usize::MAX,
            limit => limit,
        };
        let reply = &mut call.reply;
        call.keys.walk(&mut |one| {
            if fits(pattern, one.key()) {
                reply.bulk(one.key());
                count += 1;
            }
            count < limit
        })?;
    }
    call.reply.end_array(mark, count);
    Ok(())
}

/// A single star matches every key, even the empty one, which no other pattern of stars matches.
fn fits(pattern: &[u8], key: &[u8]) -> bool {
    pattern == b"*" || glob::matches(pattern, key)
}

/// The type tag of the key with this name.
fn tag_of(call: &mut Call<'_, '_>, name: &[u8]) -> Result<Option<u8>, Busy> {
    let key = call.space().key(name);
    call.keys.tag_of(key)
}

struct Options<'c> {
    from: ScanCursor,
    pattern: Option<&'c [u8]>,
    count: usize,
    kind: Option<Type>,
}

impl<'c> Options<'c> {
    fn parse(args: &[&'c [u8]]) -> Result<Options<'c>, ClientError> {
        let from = parse_u64(args[1]).ok_or(error::INVALID_CURSOR)?;
        let mut found =
            Options { from: ScanCursor(from), pattern: None, count: DEFAULT_COUNT, kind: None };
        let mut rest = args[2..].iter();
        while let Some(word) = rest.next() {
            found.option(word, &mut rest)?;
        }
        Ok(found)
    }

    fn option(
        &mut self,
        word: &[u8],
        rest: &mut std::slice::Iter<'_, &'c [u8]>,
    ) -> Result<(), ClientError> {
        if is_word(word, "NOVALUES") {
            return Err(error::NOVALUES_NOT_HERE);
        }
        if is_word(word, "NOSCORES") {
            return Err(error::NOSCORES_NOT_HERE);
        }
        let mut next = || rest.next().copied().ok_or(error::SYNTAX);
        if is_word(word, "MATCH") {
            self.pattern = Some(next()?);
        } else if is_word(word, "COUNT") {
            let count = parse_i64(next()?).ok_or(error::NOT_INTEGER)?;
            let count = usize::try_from(count).map_err(|_| error::SYNTAX)?;
            self.count = if count > 0 { count } else { return Err(error::SYNTAX) };
        } else if is_word(word, "TYPE") {
            let name = next()?;
            self.kind = Some(Type::from_name(name).ok_or_else(|| error::unknown_type(name))?);
        } else {
            return Err(error::SYNTAX);
        }
        Ok(())
    }

    fn wants(&self, one: &WalkedKey<'_>) -> bool {
        self.kind.is_none_or(|kind| one.type_tag() == kind as u8)
            && self.pattern.is_none_or(|pattern| fits(pattern, one.key()))
    }

    /// The only key that can match, if that is certain; for a scan that begins.
    fn only_key(&self) -> Option<&'c [u8]> {
        let pattern = self.pattern.filter(|pattern| glob::is_literal(pattern))?;
        (self.from == ScanCursor(0)).then_some(pattern)
    }
}

fn scan(call: &mut Call<'_, '_>) -> CommandResult {
    let options = Options::parse(call.args)?;
    if let Some(name) = options.only_key() {
        return scan_one(call, &options, name);
    }
    if call.lane == Lane::Worker && options.count > WORKER_COUNT {
        return Err(Stop::Lane);
    }
    // The cursor is known last and written first, so the keys are collected here.
    let (mut names, mut ends) = (Vec::new(), Vec::new());
    let next = call.keys.scan(options.from, options.count, &mut |one| {
        if options.wants(one) {
            names.extend_from_slice(one.key());
            ends.push(names.len());
        }
    })?;
    begin_reply(call, next, ends.len());
    let mut begin = 0;
    for end in ends {
        call.reply.bulk(&names[begin..end]);
        begin = end;
    }
    Ok(())
}

/// Looks up the only key that can match the pattern; the scan is then complete.
fn scan_one(call: &mut Call<'_, '_>, options: &Options<'_>, name: &[u8]) -> CommandResult {
    let found = tag_of(call, name)?;
    let found = found.filter(|tag| options.kind.is_none_or(|kind| kind as u8 == *tag));
    begin_reply(call, ScanCursor(0), usize::from(found.is_some()));
    if found.is_some() {
        call.reply.bulk(name);
    }
    Ok(())
}

fn begin_reply(call: &mut Call<'_, '_>, next: ScanCursor, count: usize) {
    call.reply.array(2);
    call.reply.bulk(next.0.to_string().as_bytes());
    call.reply.array(count);
}

fn random_key(call: &mut Call<'_, '_>) -> CommandResult {
    let mut chance = call.space().chance();
    match call.keys.random_key(&mut chance)? {
        Some(name) => call.reply.bulk(&name),
        None => call.reply.null(),
    }
    Ok(())
}
