//! HRANDFIELD: fields by chance.

use pantala_base::number::parse_i64;
use pantala_protocol::{Reply, Version};
use pantala_table::StrRef;
use pantala_values::Hash;

use super::check_lane;
use crate::call::{Call, Done, reply_string};
use crate::error::{self, ClientError};
use crate::options::is_word;

/// No reply is made longer than this, however many fields are wished for.
const MOST_REPLY_BYTES: usize = 512 << 20;

/// How many fields, and how.
struct Options {
    count: usize,
    /// The same field may come more than once.
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

    /// Elements of the reply for so many fields.
    fn elements(&self, fields: usize, version: Version) -> usize {
        if self.with_values && version == Version::Resp2 { 2 * fields } else { fields }
    }
}

pub(super) fn hrandfield(call: &mut Call<'_, '_>) -> Done {
    if call.args.len() == 2 {
        return one(call);
    }
    let options = Options::parse(call.args)?;
    let (key, now, space) = (call.key(), call.now(), call.space());
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?.map(Hash::view).filter(|_| options.count > 0);
    let Some(hash) = hash else {
        call.reply.array(0);
        return Ok(());
    };
    let mut chance = space.chance();
    let version = call.reply.version();
    if !options.repeats {
        let is_few = options.count.saturating_mul(3) <= hash.len();
        check_lane(call.lane, if is_few { options.count } else { hash.len() })?;
        let picked = hash.sample(options.count, &mut chance, now);
        call.reply.array(options.elements(picked.len(), version));
        for (field, value) in picked {
            options.write(&mut call.reply, field, value);
        }
        return Ok(());
    }
    check_lane(call.lane, options.count)?;
    let reply = &mut call.reply;
    let most_bytes = call.limits.most_output_bytes.min(reply.len() + MOST_REPLY_BYTES);
    let (mark, mut count) = (reply.begin(), 0);
    hash.draw_many(options.count, &mut chance, now, |field, value| {
        options.write(reply, field, value);
        count += 1;
        reply.len() <= most_bytes
    });
    if reply.len() > most_bytes {
        return Err(error::OUT_OF_RANGE.into());
    }
    reply.end_array(mark, options.elements(count, version));
    Ok(())
}

fn one(call: &mut Call<'_, '_>) -> Done {
    let (key, now, space) = (call.key(), call.now(), call.space());
    let opened = call.keys.read(key);
    let hash = opened.collection::<Hash>()?.map(Hash::view);
    match hash.and_then(|hash| hash.random(&mut space.chance(), now)) {
        Some((field, _)) => reply_string(&mut call.reply, field),
        None => call.reply.null(),
    }
    Ok(())
}
