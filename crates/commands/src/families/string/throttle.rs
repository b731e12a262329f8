//! CL.THROTTLE: rate limiting.
//!
//! The generic cell rate algorithm (ATM Forum, Traffic Management 4.0, 1996), in the form of the
//! module redis-cell. A key stores one number: the time, in nanoseconds since 1970, at which a
//! client that keeps exactly to the rate would come next. A request moves it on by one interval; it
//! may be ahead of the clock by the burst. The key is a string with that number, and its deadline
//! is that time: once it has passed there is nothing to store.
//!
//! Tests: at the foot of this file, with chosen times; compat/transcripts/string/cl.throttle.txt.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_i64, parse_i64};
use pantala_keyspace::{Expiry, event};
use pantala_table::StrRef;

use crate::calls::call::{Call, CommandResult};
use crate::error::{self, ClientError};
use crate::rows::command::{Command, Flags, Group, KeyFlags, KeySpec};

const NS_OF_S: i64 = 1_000_000_000;
const NS_OF_MS: i64 = 1_000_000;
const MOST_ARGUMENTS: usize = 6;

/// The rate of a client, and its request.
#[derive(Clone, Copy)]
struct Rate {
    /// How many requests at once: the burst and one.
    limit: i64,
    /// The time between two at the steady rate, in nanoseconds.
    interval_ns: i64,
    quantity: i64,
}

impl Rate {
    /// `None`: some product exceeds 64 bits.
    fn new(burst: i64, count: i64, period_s: i64, quantity: i64) -> Option<Rate> {
        let limit = burst.checked_add(1)?;
        let interval_ns = period_s.checked_mul(NS_OF_S)?.checked_div(count)?;
        interval_ns.checked_mul(limit)?;
        interval_ns.checked_mul(quantity)?;
        Some(Rate { limit, interval_ns, quantity })
    }

    /// Answers a request; `next_ns` is the stored number. `None`: it is too far away to compute
    /// with.
    fn ask(&self, next_ns: Option<i64>, now_ns: i64) -> Option<Answer> {
        // Both products were checked when the rate was made.
        let tolerance_ns = self.interval_ns * self.limit;
        let increment_ns = self.interval_ns * self.quantity;
        let next_ns = next_ns.map_or(now_ns, |next| next.max(now_ns));
        let moved_ns = next_ns.checked_add(increment_ns)?;
        let wait_ns = moved_ns.checked_sub(tolerance_ns)?.checked_sub(now_ns)?;
        let is_limited = wait_ns > 0;
        let ahead_ns = if is_limited { next_ns } else { moved_ns }.checked_sub(now_ns)?;
        let never = increment_ns > tolerance_ns;
        Some(Answer {
            is_limited,
            remaining: (tolerance_ns - ahead_ns).max(0) / self.interval_ns,
            retry_s: (is_limited && !never).then(|| seconds(wait_ns)),
            reset_s: seconds(ahead_ns),
            next_ns: (!is_limited).then_some(moved_ns),
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    is_limited: bool,
    remaining: i64,
    retry_s: Option<i64>,
    reset_s: i64,
    /// The number to store, if the request was allowed.
    next_ns: Option<i64>,
}

/// Whole seconds, rounded up: a client that comes back after them does not come too early.
fn seconds(ns: i64) -> i64 {
    ns / NS_OF_S + i64::from(ns % NS_OF_S > 0)
}

pub(super) const CL_THROTTLE: Command = Command::write("CL.THROTTLE", throttle, Group::String)
    .arity(-5)
    .flags(Flags::DENYOOM.union(Flags::FAST))
    .keys(&[KeySpec::one(1, KeyFlags::CHANGE)])
    .since("4.0.0")
    .syntax("key max-burst:int count:int period:int [quantity:int]")
    .summary("Redis-cell's: asks whether something may be done now, at a rate and a burst.");

fn throttle(call: &mut Call<'_, '_>) -> CommandResult {
    let rate = parse(call)?;
    let (key, now) = (call.key(), call.now());
    let now_ns = now.0.saturating_mul(NS_OF_MS);
    let mut opened = call.keys.open(key);
    let kept_ns = match opened.string()? {
        None => None,
        Some(StrRef::Int(number)) => Some(number),
        Some(StrRef::Bytes(text)) => Some(parse_i64(text).ok_or(error::NOT_INTEGER)?),
    };
    let answer = rate.ask(kept_ns, now_ns).ok_or(error::NOT_INTEGER)?;
    // A request for a quantity of 0 only looks, and stores nothing.
    if let Some(next_ns) = answer.next_ns.filter(|_| rate.quantity > 0) {
        let ms = next_ns / NS_OF_MS + i64::from(next_ns % NS_OF_MS > 0);
        let digits = &mut [0; I64_TEXT_MAX_BYTES];
        let (text, expiry) = (fmt_i64(next_ns, digits), Expiry::At(UnixMs(ms)));
        opened.set_string(text, expiry);
        opened.publish(event::SET);
        opened.announce(event::EXPIRE);
        drop(opened);
        if call.is_recorded() {
            call.record_string(key.bytes, text, expiry);
        }
    }
    call.reply.array(5);
    call.reply.int(i64::from(answer.is_limited));
    call.reply.int(rate.limit);
    call.reply.int(answer.remaining);
    call.reply.int(answer.retry_s.unwrap_or(-1));
    call.reply.int(answer.reset_s);
    Ok(())
}

fn parse(call: &Call<'_, '_>) -> Result<Rate, ClientError> {
    if call.args.len() > MOST_ARGUMENTS {
        return Err(error::wrong_arity(&call.command.full_name()));
    }
    let number = |position: usize| -> Result<i64, ClientError> {
        let number = call.int(position)?;
        if number < 0 { Err(error::NOT_INTEGER) } else { Ok(number) }
    };
    let (burst, count, period_s) = (number(2)?, number(3)?, number(4)?);
    let quantity = if call.args.len() == MOST_ARGUMENTS { number(5)? } else { 1 };
    let rate = Rate::new(burst, count, period_s, quantity).ok_or(error::NOT_INTEGER)?;
    if rate.interval_ns == 0 { Err(error::ZERO_RATE) } else { Ok(rate) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks at a time and keeps what is to be kept: limited, remaining, retry, reset.
    fn ask(
        rate: &Rate,
        kept: &mut Option<i64>,
        at_ms: i64,
        quantity: i64,
    ) -> (bool, i64, i64, i64) {
        let rate = Rate { quantity, ..*rate };
        let answer = rate.ask(*kept, at_ms * NS_OF_MS).expect("it can be reckoned with");
        *kept = answer.next_ns.or(*kept);
        (answer.is_limited, answer.remaining, answer.retry_s.unwrap_or(-1), answer.reset_s)
    }

    #[test]
    fn five_at_once_and_one_a_second() {
        let rate = Rate::new(4, 1, 1, 1).expect("a rate");
        let kept = &mut None;
        let start = 1_800_000_000_000;
        let mut at = |ms: i64, quantity| ask(&rate, kept, start + ms, quantity);
        assert_eq!(at(0, 6), (true, 5, -1, 0), "more than there ever is");
        assert_eq!(at(0, 0), (false, 5, -1, 0), "a look");
        for taken in 1..=5 {
            assert_eq!(at(0, 1), (false, 5 - taken, -1, taken));
        }
        assert_eq!(at(0, 1), (true, 0, 1, 5));
        assert_eq!(at(300, 1), (true, 0, 1, 5), "0.7 s and 4.7 s, rounded up");
        assert_eq!(at(3_000, 1), (false, 2, -1, 3));
        assert_eq!(at(3_100, 1), (false, 1, -1, 4));
        assert_eq!(at(4_000, 1), (false, 1, -1, 4));
        assert_eq!(at(8_000, 1), (false, 4, -1, 1));
        assert_eq!(at(9_500, 1), (false, 4, -1, 1), "what was saved up is one burst at most");
        assert_eq!(at(9_500, 0), (false, 4, -1, 1));
        assert_eq!(at(9_500, 2), (false, 2, -1, 3));
        assert_eq!(at(9_500, 5), (true, 2, 3, 3));
        assert_eq!(at(9_500, 100), (true, 2, -1, 3));
    }

    #[test]
    fn intervals_below_a_millisecond() {
        let rate = Rate::new(4, 500_000, 1, 1).expect("a rate");
        let mut kept = None;
        assert_eq!(ask(&rate, &mut kept, 7, 2), (false, 3, -1, 1));
        assert_eq!(kept, Some(7 * NS_OF_MS + 4_000));
    }

    #[test]
    fn what_64_bits_do_not_hold() {
        assert!(Rate::new(i64::MAX, 1, 1, 1).is_none());
        assert!(Rate::new(1, 0, 1, 1).is_none());
        assert!(Rate::new(1, 1, i64::MAX, 1).is_none());
        assert!(Rate::new(1, 1, 1, i64::MAX).is_none());
        let rate = Rate::new(0, 1, 1, 1).expect("a rate");
        assert!(rate.ask(Some(i64::MAX), 0).is_none());
        assert!(rate.ask(Some(i64::MIN), i64::MAX).is_none());
        assert!(rate.ask(Some(i64::MIN), 5).is_some());
        let rate = Rate::new(1, 1, 1, 0).expect("a rate");
        assert!(rate.ask(None, i64::MIN).is_none());
    }
}
