//! Single positions: GEOADD, GEOPOS, GEOHASH, GEODIST.

use pantala_values::geo::{Position, distance};
use smallvec::SmallVec;

use super::{READS, position, reply_distance, reply_position, unit};
use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::families::zset::{self, add};
use crate::options::is_word;
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

pub(super) const GEOADD: Command = Command::write("GEOADD", geoadd, Group::Geo)
    .arity(-5)
    .flags(Flags::DENYOOM)
    .keys(&[KeySpec::one(1, KeyFlags::MODIFY)])
    .since("3.2.0")
    .complexity("O(log(N)) for each member, of N in all")
    .syntax(
        "key [condition: NX | XX] [change: CH] \
         (data: longitude:double latitude:double member) ...",
    )
    .summary("Adds members with positions to a sorted set, or moves them.");

fn geoadd(call: &mut Call<'_, '_>) -> CommandResult {
    let mut options = add::Options::default();
    let mut at = 2;
    while let Some(word) = call.args.get(at) {
        let option = match *word {
            word if is_word(word, "NX") => &mut options.nx,
            word if is_word(word, "XX") => &mut options.xx,
            word if is_word(word, "CH") => &mut options.ch,
            _ => break,
        };
        *option = true;
        at += 1;
    }
    let places = &call.args[at..];
    if places.is_empty() || !places.len().is_multiple_of(3) || (options.nx && options.xx) {
        return Err(error::SYNTAX.into());
    }
    let entries: SmallVec<[(f64, &[u8]); 8]> = places
        .chunks_exact(3)
        .map(|place| Ok((position(place[0], place[1])?.score(), place[2])))
        .collect::<Result<_, ClientError>>()?;
    add::put(call, options, &entries)
}

pub(super) const GEOPOS: Command = Command::read("GEOPOS", geopos, Group::Geo)
    .arity(-2)
    .keys(READS)
    .since("3.2.0")
    .complexity("O(1) for each member")
    .syntax("key [member ...]")
    .summary("Returns the longitudes and latitudes of members.");

fn geopos(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, members, lane) = (call.key(), &call.args[2..], call.lane);
    let opened = zset::read(call.keys, key, lane)?;
    let set = zset::view(&opened)?;
    let mut text = Vec::new();
    call.reply.array(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => {
                reply_position(&mut call.reply, Position::of_score(score), &mut text);
            }
            None => call.reply.null_array(),
        }
    }
    Ok(())
}

pub(super) const GEOHASH: Command = Command::read("GEOHASH", geohash, Group::Geo)
    .arity(-2)
    .keys(READS)
    .since("3.2.0")
    .complexity("O(1) for each member")
    .syntax("key [member ...]")
    .summary("Returns the standard geohashes of members.");

fn geohash(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, members, lane) = (call.key(), &call.args[2..], call.lane);
    let opened = zset::read(call.keys, key, lane)?;
    let set = zset::view(&opened)?;
    call.reply.array(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => call.reply.bulk(&Position::of_score(score).geohash()),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) const GEODIST: Command = Command::read("GEODIST", geodist, Group::Geo)
    .arity(-4)
    .keys(READS)
    .since("3.2.0")
    .syntax("key member1 member2 [unit: M | KM | FT | MI]")
    .summary("Returns the distance between two members.");

fn geodist(call: &mut Call<'_, '_>) -> CommandResult {
    let metres = match call.args[4..] {
        [] => 1.0,
        [word] => unit(word)?,
        _ => return Err(error::SYNTAX.into()),
    };
    let (key, from, to, lane) = (call.key(), call.args[2], call.args[3], call.lane);
    let opened = zset::read(call.keys, key, lane)?;
    let set = zset::view(&opened)?;
    let place = |member: &[u8]| set.and_then(|set| set.score(member)).map(Position::of_score);
    match (place(from), place(to)) {
        (Some(from), Some(to)) => {
            let length = distance(from, to) / metres;
            reply_distance(&mut call.reply, length, &mut Vec::new());
        }
        _ => call.reply.null(),
    }
    Ok(())
}
