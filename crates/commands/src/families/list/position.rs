//! LPOS: where an element stands.

use std::ops::ControlFlow;

use pantala_base::number::parse_i64;
use pantala_values::List;
use pantala_values::list::Way;
use pantala_values::packed::Element;

use super::WORKER_ELEMENTS;
use crate::call::{Call, Done, Lane, Stop};
use crate::error::{self, ClientError};
use crate::options::is_word;

/// What is asked for.
struct Question {
    way: Way,
    /// Matches to pass over.
    skip: u64,
    /// Matches to answer, as an array; `None`: one, by itself.
    count: Option<usize>,
    /// Elements to look at.
    most: usize,
}

impl Question {
    fn parse(options: &[&[u8]]) -> Result<Question, ClientError> {
        let mut asked = Question { way: Way::Forward, skip: 0, count: None, most: usize::MAX };
        let mut rest = options.iter();
        while let Some(word) = rest.next() {
            let Some(number) = rest.next() else { return Err(error::SYNTAX) };
            if is_word(word, "RANK") {
                asked.set_rank(parse_i64(number).ok_or(error::NOT_INTEGER)?)?;
            } else if is_word(word, "COUNT") {
                asked.count = Some(all_if_zero(number).ok_or(COUNT_NEGATIVE)?);
            } else if is_word(word, "MAXLEN") {
                asked.most = all_if_zero(number).ok_or(MOST_NEGATIVE)?;
            } else {
                return Err(error::SYNTAX);
            }
        }
        Ok(asked)
    }

    fn set_rank(&mut self, rank: i64) -> Result<(), ClientError> {
        match rank {
            i64::MIN => return Err(error::NOT_OPPOSITE),
            0 => return Err(RANK_ZERO),
            1.. => self.way = Way::Forward,
            _ => self.way = Way::Backward,
        }
        self.skip = rank.unsigned_abs() - 1;
        Ok(())
    }
}

const RANK_ZERO: ClientError = ClientError::text(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
     negative to start from the end of the list",
);
const COUNT_NEGATIVE: ClientError = ClientError::text("ERR COUNT can't be negative");
const MOST_NEGATIVE: ClientError = ClientError::text("ERR MAXLEN can't be negative");

fn all_if_zero(number: &[u8]) -> Option<usize> {
    match usize::try_from(parse_i64(number)?).ok()? {
        0 => Some(usize::MAX),
        number => Some(number),
    }
}

pub(super) fn lpos(call: &mut Call<'_, '_>) -> Done {
    let asked = Question::parse(&call.args[3..])?;
    let (key, wanted, lane) = (call.key(), Element::of(call.args[2]), call.lane);
    let opened = call.keys.read(key);
    let list = opened.collection::<List>()?;
    let Some(_) = asked.count else {
        let found = match list {
            Some(list) => search(list, wanted, &asked, lane, &mut |_| {})?,
            None => None,
        };
        match found {
            Some(place) => call.reply.int(place as i64),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let mark = call.reply.begin();
    let (mut count, reply) = (0, &mut call.reply);
    if let Some(list) = list {
        search(list, wanted, &asked, lane, &mut |place| {
            reply.int(place as i64);
            count += 1;
        })?;
    }
    call.reply.end_array(mark, count);
    Ok(())
}

/// Shows the places of matches; the last of them is the answer, too. On a worker it does not go on
/// for long.
fn search(
    list: &List,
    wanted: Element<'_>,
    asked: &Question,
    lane: Lane,
    show: &mut dyn FnMut(usize),
) -> Result<Option<usize>, Stop> {
    let most = asked.most.min(list.len());
    let patience = if lane == Lane::Worker { WORKER_ELEMENTS } else { usize::MAX };
    let (mut seen, mut skip, mut left) = (0, asked.skip, asked.count.unwrap_or(1));
    let mut found = None;
    let last = list.len() - 1;
    let from = if asked.way == Way::Forward { 0 } else { last };
    list.visit(from, asked.way, |element| {
        if seen == most || left == 0 || seen == patience {
            return ControlFlow::Break(());
        }
        if element == wanted {
            if skip > 0 {
                skip -= 1;
            } else {
                let place = if asked.way == Way::Forward { seen } else { last - seen };
                found = Some(place);
                show(place);
                left -= 1;
            }
        }
        seen += 1;
        ControlFlow::Continue(())
    });
    if seen == patience && left > 0 && seen < most {
        return Err(Stop::Lane);
    }
    Ok(found)
}
