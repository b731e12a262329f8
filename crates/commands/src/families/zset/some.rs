//! Some of the members: by chance, and in parts.

use pantala_base::number::{parse_i64, parse_u64, push_f64};
use pantala_base::rng::Rng;
use pantala_protocol::{Reply, Version};
use pantala_values::sorted_set::SortedSetRef;

use super::{begin_members, check_lane, read, reply_member, view};
use crate::call::{Call, Done, reply_string};
use crate::error::{self, ClientError};
use crate::options::{ElementScan, LeaveOut, is_word};

/// No reply is made longer than this, however many members are wished for.
const MOST_REPLY_BYTES: usize = 512 << 20;

/// How many members, and how.
struct Options {
    count: usize,
    /// The same member may come more than once.
    repeats: bool,
    with_scores: bool,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Options, ClientError> {
        let count = parse_i64(args[2]).ok_or(error::NOT_INTEGER)?;
        if count == i64::MIN {
            return Err(error::COUNT_OUT_OF_RANGE);
        }
        let with_scores = match args[3..] {
            [] => false,
            [word] if is_word(word, "WITHSCORES") => true,
            _ => return Err(error::SYNTAX),
        };
        if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(error::OUT_OF_RANGE);
        }
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(Options { count: size, repeats: count < 0, with_scores })
    }
}

pub(super) fn zrandmember(call: &mut Call<'_, '_>) -> Done {
    if call.args.len() == 2 {
        return one(call);
    }
    let options = Options::parse(call.args)?;
    let (key, space) = (call.key(), call.space());
    let opened = read(call.keys, key, call.lane)?;
    let Some(set) = view(&opened)?.filter(|_| options.count > 0) else {
        call.reply.array(0);
        return Ok(());
    };
    let mut chance = space.chance();
    if !options.repeats {
        let count = options.count.min(set.len());
        check_lane(call.lane, count)?;
        begin_members(&mut call.reply, count, options.with_scores);
        sample(set, count, &mut chance, &mut |rank| {
            reply_rank(&mut call.reply, set, rank, options.with_scores);
        });
        return Ok(());
    }
    check_lane(call.lane, options.count)?;
    let reply = &mut call.reply;
    let most_bytes = call.limits.most_output_bytes.min(reply.len() + MOST_REPLY_BYTES);
    begin_members(reply, options.count, options.with_scores);
    for _ in 0..options.count {
        let rank = chance.below(set.len() as u64) as usize;
        reply_rank(reply, set, rank, options.with_scores);
        if reply.len() > most_bytes {
            return Err(error::OUT_OF_RANGE.into());
        }
    }
    Ok(())
}

fn reply_rank(reply: &mut Reply<'_>, set: SortedSetRef<'_>, rank: usize, with_scores: bool) {
    if let Some((member, score)) = set.entries(rank, 1).next() {
        reply_member(reply, member, score, with_scores);
    }
}

/// Shows `count` different ranks, each set of ranks as likely as any other, in a random order:
/// Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", 1987), then a shuffle.
fn sample(set: SortedSetRef<'_>, count: usize, chance: &mut Rng, show: &mut dyn FnMut(usize)) {
    let len = set.len();
    let mut picked: Vec<usize> = Vec::with_capacity(count);
    if count * 3 >= len {
        picked.extend(0..len);
        for at in 0..count {
            let other = at + chance.below((len - at) as u64) as usize;
            picked.swap(at, other);
        }
        picked.truncate(count);
    } else {
        let mut seen = std::collections::HashSet::with_capacity(count);
        for last in len - count..len {
            let rank = chance.below(last as u64 + 1) as usize;
            let rank = if seen.insert(rank) { rank } else { last };
            seen.insert(rank);
            picked.push(rank);
        }
        for at in (1..count).rev() {
            picked.swap(at, chance.below(at as u64 + 1) as usize);
        }
    }
    picked.into_iter().for_each(show);
}

fn one(call: &mut Call<'_, '_>) -> Done {
    let (key, space) = (call.key(), call.space());
    let opened = read(call.keys, key, call.lane)?;
    match view(&opened)? {
        Some(set) => {
            let rank = space.chance().below(set.len() as u64) as usize;
            reply_rank(&mut call.reply, set, rank, false);
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// As in the reference, a missing key and one of another type are found before a wrong option is.
/// Scores are strings here, in RESP3 too.
pub(super) fn zscan(call: &mut Call<'_, '_>) -> Done {
    let cursor = parse_u64(call.args[2]).ok_or(error::INVALID_CURSOR)?;
    let key = call.key();
    let opened = read(call.keys, key, call.lane)?;
    let Some(set) = view(&opened)? else {
        ElementScan::begin(&mut call.reply, 0);
        call.reply.array(0);
        return Ok(());
    };
    let options = ElementScan::parse(&call.args[3..], LeaveOut::Scores)?;
    check_lane(call.lane, set.len().min(options.count))?;
    // The cursor is known last and written first: the rest waits in a reply of its own.
    let (mut behind, mut text, mut count) = (Vec::new(), Vec::new(), 0);
    let mut rest = Reply::new(&mut behind, Version::Resp2);
    let next = set.scan(cursor, options.count, &mut |member, score| {
        if options.fits(member) {
            reply_string(&mut rest, pantala_table::StrRef::Bytes(member));
            count += 1;
            if options.is_whole {
                text.clear();
                push_f64(&mut text, score);
                rest.bulk(&text);
                count += 1;
            }
        }
    });
    ElementScan::begin(&mut call.reply, next);
    call.reply.array(count);
    call.reply.raw(&behind);
    Ok(())
}
