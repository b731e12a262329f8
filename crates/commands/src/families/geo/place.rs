//! Single positions: GEOADD, GEOPOS, GEOHASH, GEODIST.

use pantala_values::geo::{Position, distance};
use smallvec::SmallVec;

use super::{position, reply_distance, reply_position, unit};
use crate::call::{Call, Done};
use crate::error::{self, ClientError};
use crate::families::zset::{self, add};
use crate::options::is_word;

pub(super) fn geoadd(call: &mut Call<'_, '_>) -> Done {
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

pub(super) fn geopos(call: &mut Call<'_, '_>) -> Done {
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

pub(super) fn geohash(call: &mut Call<'_, '_>) -> Done {
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

pub(super) fn geodist(call: &mut Call<'_, '_>) -> Done {
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
