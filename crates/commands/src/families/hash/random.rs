//! HRANDFIELD: random fields.

use std::ops::ControlFlow;

use pantala_base::number::parse_i64;
use pantala_protocol::{Reply, Version};
use pantala_table::StrRef;
use pantala_values::Hash;

use super::{check_lane, reads};
use crate::calls::call::{Call, CommandResult, reply_string};
use crate::error::{self, ClientError};
use crate::long_work::draws::{Selection, are_few};
use crate::long_work::incremental::{self, Aggregate, Header};
use crate::options::is_word;
use crate::rows::command::Command;

/// How many fields are wanted, and how.
struct Options {
    count: usize,
    /// The same field may be returned more than once.
    repeats: bool,
    with_values: bool,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Options, ClientError> {
        let count = parse_i64(args[2]).ok_or(error::NOT_INTEGER)?;
        if count == i64::MIN {
            return Err(error::COUNT_OUT_OF_RANGE);
        }
        let with_values = match args[3..] {
            [] => false,
            [word] if is_word(word, "WITHVALUES") => true,
            _ => return Err(error::SYNTAX),
        };
        if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(error::OUT_OF_RANGE);
        }
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(Options { count: size, repeats: count < 0, with_values })
    }

    fn write(&self, reply: &mut Reply<'_>, field: StrRef<'_>, value: StrRef<'_>) {
        if self.with_values && reply.version() == Version::Resp3 {
            reply.array(2);
        }
        reply_string(reply, field);
        if self.with_values {
            reply_string(reply, value);
        }
    }

    /// The number of reply elements for this many fields.
    fn elements(&self, fields: usize, version: Version) -> usize {
        if self.with_values && version == Version::Resp2 { 2 * fields } else { fields }
    }
}

pub(super) const HRANDFIELD: Command = reads("HRANDFIELD", hrandfield)
    .arity(-2)
    .tips(&["nondeterministic_output"])
    .since("6.2.0")
    .complexity("O(N) for N fields returned; at most of the order of the hash's size")
    .syntax("key [options: count:int [WITHVALUES]]")
    .summary("Returns random fields of a hash.");

fn hrandfield(call: &mut Call<'_, '_>) -> CommandResult {
    if call.args.len() == 2 {
        return one(call);
    }
    let options = Options::parse(call.args)?;
    if !options.repeats {
        return different(call, &options);
    }
    let (now, lane, mut chance) = (call.now(), call.lane, call.space().chance());
    let each = options.elements(1, call.reply.version());
    call.draw_repeatedly(
        incremental::open,
        (options.count, each),
        || check_lane(lane, options.count),
        |hash: &Hash, left, step| {
            let mut drawn = 0;
            hash.view().draw_many(left, &mut chance, now, |field, value| {
                options.write(step.reply, field, value);
                drawn += 1;
                step.has_room()
            });
            drawn
        },
    )
}

fn different(call: &mut Call<'_, '_>, options: &Options) -> CommandResult {
    let (key, now, lane, mut chance) = (call.key(), call.now(), call.lane, call.space().chance());
    let each = options.elements(1, call.reply.version());
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?.map(Hash::view).filter(|_| options.count > 0);
    let Some(hash) = hash else {
        call.reply.array(0);
        return Ok(());
    };
    if are_few(options.count, hash.len()) {
        let picked = hash.sample(options.count, &mut chance, now);
        call.reply.array(picked.len() * each);
        picked.into_iter().for_each(|(field, value)| options.write(&mut call.reply, field, value));
        return Ok(());
    }
    drop(opened);
    let read = call.read_whole(
        |keys, key| Ok(keys.peek(key)),
        |hash: &Hash, reply| {
            let hash = hash.view();
            check_lane(lane, hash.len())?;
            let selection = Selection::new(options.count, hash.live_len(now));
            Ok((0, selection, Header::later(reply)))
        },
        |hash, (from, mut selection, mut header), step| {
            selection.begin_step();
            let next = hash.view().part(from, now, |field, value| {
                if selection.picks(&mut chance) {
                    options.write(step.reply, field, value);
                    header.count += each;
                }
                selection.goes_on(step)
            });
            match next.filter(|_| !selection.is_done()) {
                Some(next) => ControlFlow::Continue((next, selection, header)),
                None => ControlFlow::Break(header),
            }
        },
    )?;
    match read {
        Some(header) => header.end(Aggregate::Array, &mut call.reply),
        None => call.reply.array(0),
    }
    Ok(())
}

fn one(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, now, space) = (call.key(), call.now(), call.space());
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?.map(Hash::view);
    match hash.and_then(|hash| hash.random(&mut space.chance(), now)) {
        Some((field, _)) => reply_string(&mut call.reply, field),
        None => call.reply.null(),
    }
    Ok(())
}
