//! LPOS: the positions of an element.

use std::ops::ControlFlow;

use pantala_base::number::parse_i64;
use pantala_protocol::Reply;
use pantala_values::List;
use pantala_values::list::ListEnd;
use pantala_values::packed::Element;

use super::{READ, WORKER_ELEMENTS};
use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error::{self, ClientError};
use crate::long_work::incremental::{Aggregate, Budget, GatherState, Header};
use crate::options::is_word;
use crate::rows::command::{Command, Group};

/// The options of LPOS.
struct Question {
    way: ListEnd,
    /// How many matches are skipped.
    skip: u64,
    /// How many matches are returned, as an array; `None`: one, by itself.
    count: Option<usize>,
    /// How many elements are looked at.
    most: usize,
}

impl Question {
    fn parse(options: &[&[u8]]) -> Result<Question, ClientError> {
        let mut asked = Question { way: ListEnd::Forward, skip: 0, count: None, most: usize::MAX };
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
            1.. => self.way = ListEnd::Forward,
            _ => self.way = ListEnd::Backward,
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

pub(super) const LPOS: Command = Command::read("LPOS", lpos, Group::List)
    .arity(-3)
    .keys(READ)
    .since("6.0.6")
    .complexity("O(N) for N elements looked at")
    .syntax("key element [RANK rank:int] [COUNT num-matches:int] [MAXLEN len:int]")
    .summary("Returns where an element stands in a list.");

fn lpos(call: &mut Call<'_, '_>) -> CommandResult {
    let asked = Question::parse(&call.args[3..])?;
    let (key, wanted) = (call.key(), Element::of(call.args[2]));
    call.keys.read(key).collection::<List>()?;
    call.gather(
        &[key],
        |call| Ok(Search::begin(&asked, &call.reply)),
        |call, search, budget| {
            if call.lane == Lane::Worker && search.seen >= WORKER_ELEMENTS {
                return Err(Stop::Lane);
            }
            let opened = call.keys.peek(key);
            let Some(list) = opened.collection::<List>()? else { return Ok(GatherState::Whole) };
            Ok(search.go_on(list, wanted, &asked, budget, &mut call.reply))
        },
        |reply, search| search.end(&asked, reply),
    )
}

/// A search in progress.
struct Search {
    seen: usize,
    /// How many matches are still to be skipped.
    skip: u64,
    /// How many matches are still wanted.
    left: usize,
    /// The last match.
    found: Option<usize>,
    /// The header of the array of matches, if one is returned.
    header: Header,
}

impl Search {
    fn begin(asked: &Question, reply: &Reply<'_>) -> Search {
        let header = Header::later(reply);
        Search { seen: 0, skip: asked.skip, left: asked.count.unwrap_or(1), found: None, header }
    }

    /// Looks at elements while there is room; writes the matches of an array.
    fn go_on(
        &mut self,
        list: &List,
        wanted: Element<'_>,
        asked: &Question,
        budget: &mut Budget,
        reply: &mut Reply<'_>,
    ) -> GatherState {
        let (most, last) = (asked.most.min(list.len()), list.len() - 1);
        let place = |seen| if asked.way == ListEnd::Forward { seen } else { last - seen };
        list.visit(place(self.seen), asked.way, |element| {
            if element == wanted && self.skip > 0 {
                self.skip -= 1;
            } else if element == wanted {
                self.found = Some(place(self.seen));
                self.left -= 1;
                if asked.count.is_some() {
                    reply.int(place(self.seen) as i64);
                    self.header.count += 1;
                }
            }
            self.seen += 1;
            match self.is_done(most) || !budget.take(element.len()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        GatherState::whole_if(self.is_done(most))
    }

    fn is_done(&self, most: usize) -> bool {
        self.seen == most || self.left == 0
    }

    fn end(self, asked: &Question, reply: &mut Reply<'_>) {
        match (asked.count, self.found) {
            (Some(_), _) => self.header.end(Aggregate::Array, reply),
            (None, Some(place)) => reply.int(place as i64),
            (None, None) => reply.null(),
        }
    }
}
