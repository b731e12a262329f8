//! Meta commands: their flags select one of the operations, and which results are returned.
//!
//! ```text
//! mg key v t        [mg key "v t"]
//! ms key 3 T30      [ms key data "T30"]        keys in base64 are decoded: they are what is hashed
//! ```
//!
//! Whether a client is to renew an item (`W`), and whether it is stale (`X`), are bits beside the
//! record (`item::state`). They are kept neither in files nor by replicas: at worst two clients
//! renew the same item. Whether an item was read (`h`) follows from its hotness, which fades. The
//! time of its last use (`l`, `la`) is not kept: a hot item was used just now, another one was used
//! last when its cas number was requested, or later; without a number it counts as used just now.

use pantala_base::UnixMs;
use pantala_keyspace::OpenKey;
use pantala_memcached::expiry::Expires;
use pantala_memcached::meta::reply::{self as meta_reply, Description, Outcome, Renewal};
use pantala_memcached::meta::{Action, Get, Request, reply::Item as Shown};
use pantala_memcached::number;
use pantala_memcached::request::StoreMode;
use pantala_memcached::size::item_bytes;
use pantala_protocol::Reply;
use pantala_table::IntText;

use super::item::{self, Count, Counted, Deleted, Mode, Store, Stored, state};
use super::refusal;
use super::text::count_miss;
use crate::calls::call::{Call, CommandResult, Lane, Stop};

const LINE_END: &[u8] = b"\r\n";

/// `mg`, `md`, `ma`, `me`: parses key and flags.
fn request<'a>(call: &Call<'a, '_>, letter: u8) -> Result<Request<'a>, Stop> {
    let (key, flags) = (call.args[1], call.args[2]);
    Request::of_parts(letter, key, flags, b"").ok_or_else(|| refusal::MALFORMED.into())
}

pub(super) fn describe(call: &mut Call<'_, '_>) -> CommandResult {
    let request = request(call, b'e')?;
    let (key, now) = (call.key(), call.now());
    let mut opened = call.keys.look(key);
    let Some(bytes) = opened.string()?.map(|value| value.len()) else {
        call.reply.raw(b"EN\r\n");
        return Ok(());
    };
    let was_fetched = is_hot(&opened);
    let description = Description {
        ttl_s: seconds_left(opened.deadline(), now),
        since_access_s: idle_s(&opened, was_fetched, now),
        was_fetched,
        size: item_bytes(key.bytes.len(), bytes, opened.tail().flags),
        cas: opened.cas_number(),
    };
    drop(opened);
    meta_reply::description(call.reply.output(), &request, &description);
    Ok(())
}

pub(super) fn get(call: &mut Call<'_, '_>) -> CommandResult {
    let request = request(call, b'g')?;
    let Action::Get(get) = request.action else { return Err(refusal::MALFORMED.into()) };
    let (key, now, lane) = (call.key(), call.now(), call.lane);
    let Call { keys, reply, .. } = call;
    let mut opened = keys.look(key);
    let Some(value_bytes) = opened.string()?.map(|value| value.len()) else {
        if let Some(exptime_s) = get.vivify_exptime_s {
            let change = vivify(reply, &mut opened, &request, Expires::of(exptime_s, now));
            drop(opened);
            item::record_change(call, Store::of(b""), change);
        } else {
            opened.scope().tally.item_fetch_misses.add(1);
            meta_reply::outcome(reply.output(), &request, Outcome::NotFound);
        }
        return Ok(());
    };
    if get.wants_value && lane == Lane::Worker && value_bytes > item::WORKER_BYTES {
        // A too long reply would be noticed only after the item was changed, so the length is
        // checked here.
        return Err(Stop::Lane);
    }
    let was_fetched = is_hot(&opened);
    let since_access_s = idle_s(&opened, was_fetched, now);
    if !get.is_unnoticed {
        opened.touch();
    }
    let shown = Shown { was_fetched, since_access_s, ..Shown::default() };
    show(reply, &mut opened, &request, get, shown)?;
    let Some(exptime_s) = get.exptime_s else { return Ok(()) };
    // After it was read, as it may be gone afterwards.
    let touched = item::touch_opened(&mut opened, Expires::of(exptime_s, now));
    drop(opened);
    item::record_touched(call, touched);
    Ok(())
}

/// Writes an item that is there, as it will be.
fn show(
    reply: &mut Reply<'_>,
    opened: &mut OpenKey<'_, '_>,
    request: &Request<'_>,
    get: Get,
    mut shown: Shown,
) -> CommandResult {
    let now = opened.scope().now;
    let before = opened.deadline();
    let after = match get.exptime_s.map(|exptime_s| Expires::of(exptime_s, now)) {
        Some(Expires::Never) => None,
        Some(Expires::Now) => Some(now),
        Some(Expires::At(deadline)) => Some(deadline),
        None => before,
    };
    shown.ttl_before_s = seconds_left(before, now);
    shown.ttl_after_s = seconds_left(after, now);
    let tail = opened.tail();
    shown.client_flags = tail.flags;
    if tail.state != 0 || get.recache_s.is_some() {
        let ttl_s = if get.recache_after_touch { shown.ttl_after_s } else { shown.ttl_before_s };
        shown.renewal = renew(opened, get, ttl_s, now);
    }
    if request.asks(b'c') {
        shown.cas = opened.cas_number();
    }
    let Some(value) = opened.string()? else { return Ok(()) };
    shown.size = value.len();
    if reply.has_room_for(value.len()) {
        let out = reply.output();
        if meta_reply::item(out, request, &shown) {
            out.extend_from_slice(value.bytes(&mut IntText::new()));
            out.extend_from_slice(LINE_END);
        }
    }
    Ok(())
}

/// Creates an empty item, which this client is to fill.
fn vivify(
    reply: &mut Reply<'_>,
    opened: &mut OpenKey<'_, '_>,
    request: &Request<'_>,
    expires: Expires,
) -> item::Change {
    let now = opened.scope().now;
    opened.make_way_for_writer();
    let change = item::put(opened, Store { expires, ..Store::of(b"") });
    opened.set_item_state(state::WON);
    let ttl_s = seconds_left(opened.deadline(), now);
    let shown = Shown {
        ttl_before_s: vivified_s(request, now).unwrap_or(ttl_s),
        ttl_after_s: ttl_s,
        cas: if request.asks(b'c') { opened.cas_number() } else { 0 },
        was_made: true,
        renewal: Renewal { wins: true, ..Renewal::default() },
        ..Shown::default()
    };
    let out = reply.output();
    if meta_reply::item(out, request, &shown) {
        out.extend_from_slice(LINE_END);
    }
    change
}

/// The time in the flag `N` itself; a later `T` may have overridden it.
fn vivified_s(request: &Request<'_>, now: UnixMs) -> Option<Option<u32>> {
    let word = request.flags.iter().find(|flag| flag[0] == b'N')?;
    match Expires::of(number::signed(&word[1..])?, now) {
        Expires::Never => Some(None),
        Expires::Now => Some(Some(0)),
        Expires::At(moment) => Some(seconds_left(Some(moment), now)),
    }
}

/// Whether this client is to renew an item with this many seconds to live.
fn renew(opened: &mut OpenKey<'_, '_>, get: Get, ttl_s: Option<u32>, now: UnixMs) -> Renewal {
    let bits = opened.tail().state;
    let (is_stale, was_won) = (bits & state::STALE != 0, bits & state::WON != 0);
    let at_most_s = match get.recache_s.map(|recache_s| Expires::of(recache_s, now)) {
        Some(Expires::At(moment)) => seconds_left(Some(moment), now),
        _ => None,
    };
    let is_due = ttl_s.zip(at_most_s).is_some_and(|(ttl_s, at_most_s)| ttl_s < at_most_s);
    let wins = !was_won && (is_stale || is_due);
    if wins {
        opened.set_item_state(bits | state::WON);
    }
    Renewal { is_stale, was_won, wins }
}

/// `ms key data flags`
pub(super) fn set(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, data, flags) = (call.args[1], call.args[2], call.args[3]);
    let request = Request::of_parts(b's', key, flags, data);
    let Some(request) = request else { return Err(refusal::MALFORMED.into()) };
    let Action::Store(wanted) = request.action else { return Err(refusal::MALFORMED.into()) };
    let how = Store {
        mode: mode_of(wanted.storing),
        value: wanted.data,
        flags: wanted.client_flags,
        expires: Expires::of(wanted.exptime_s, call.now()),
        unchanged: wanted.cas,
        allows_stale: wanted.allows_stale,
        wants_cas: request.asks(b'c'),
    };
    let outcome = match item::store(call, how)? {
        Stored::Yes(cas) => Outcome::Done(cas),
        Stored::No => Outcome::NotStored,
        Stored::Exists => Outcome::Exists,
        Stored::NotFound => Outcome::NotFound,
    };
    meta_reply::outcome(call.reply.output(), &request, outcome);
    Ok(())
}

/// The mode of storing.
pub(super) fn mode_of(storing: StoreMode) -> Mode {
    match storing {
        StoreMode::Always | StoreMode::IfUnchanged(_) => Mode::Set,
        StoreMode::IfMissing => Mode::Add,
        StoreMode::IfPresent => Mode::Replace,
        StoreMode::After => Mode::Append,
        StoreMode::Before => Mode::Prepend,
    }
}

pub(super) fn delete(call: &mut Call<'_, '_>) -> CommandResult {
    let request = request(call, b'd')?;
    let Action::Delete(wanted) = request.action else { return Err(refusal::MALFORMED.into()) };
    let deleted = if wanted.makes_stale {
        let expires = wanted.exptime_s.map(|exptime_s| Expires::of(exptime_s, call.now()));
        item::make_stale(call, wanted.cas, expires)?
    } else {
        item::delete(call, wanted.cas)?
    };
    let outcome = match deleted {
        Deleted::Yes => Outcome::Done(0),
        Deleted::Exists => Outcome::Exists,
        Deleted::NotFound => {
            call.keys.scope().tally.item_delete_misses.add(1);
            Outcome::NotFound
        }
    };
    meta_reply::outcome(call.reply.output(), &request, outcome);
    Ok(())
}

pub(super) fn count(call: &mut Call<'_, '_>) -> CommandResult {
    let request = request(call, b'a')?;
    let Action::Count(wanted) = request.action else { return Err(refusal::MALFORMED.into()) };
    let now = call.now();
    let lives = |exptime_s| Expires::of(exptime_s, now);
    let how = Count {
        delta: wanted.delta,
        direction: wanted.direction,
        unchanged: wanted.cas,
        made_as: wanted.vivify_exptime_s.map(|exptime_s| (wanted.initial, lives(exptime_s))),
        expires: wanted.exptime_s.map(lives),
        wants_cas: request.asks(b'c'),
    };
    let made = match item::count(call, how)? {
        Counted::Number(made) => made,
        Counted::NotNumeric => return Err(refusal::NOT_NUMERIC.into()),
        counted => {
            let is_other = counted == Counted::Exists;
            if !is_other {
                count_miss(call, wanted.direction);
            }
            let outcome = if is_other { Outcome::Exists } else { Outcome::NotFound };
            meta_reply::outcome(call.reply.output(), &request, outcome);
            return Ok(());
        }
    };
    let digits = made.number.to_string();
    let [before, after] = made.deadlines;
    let ttl_after_s = seconds_left(after, now);
    let ttl_before_s = match vivified_s(&request, now) {
        Some(ttl_s) if made.was_made => ttl_s,
        _ => seconds_left(before, now),
    };
    let shown = Shown {
        size: digits.len(),
        cas: made.cas,
        ttl_before_s,
        ttl_after_s,
        was_made: made.was_made,
        ..Shown::default()
    };
    let out = call.reply.output();
    if meta_reply::item(out, &request, &shown) {
        out.extend_from_slice(digits.as_bytes());
        out.extend_from_slice(LINE_END);
    }
    Ok(())
}

/// An oversized value was to be stored: the old one is removed.
pub(super) fn too_large(call: &mut Call<'_, '_>) -> CommandResult {
    item::delete(call, None)?;
    call.reply.raw(pantala_memcached::reply::TOO_LARGE);
    Ok(())
}

/// Whole seconds until the deadline, as Memcached counts them; `None`: no deadline.
fn seconds_left(deadline: Option<UnixMs>, now: UnixMs) -> Option<u32> {
    let left_ms = deadline?.0.saturating_sub(now.0).max(0);
    Some(u32::try_from((left_ms + 999) / 1000).unwrap_or(u32::MAX))
}

/// Seconds since the last use, as far as known: 0 if it was used lately, else the time since its
/// cas number was assigned.
fn idle_s(opened: &OpenKey<'_, '_>, was_fetched: bool, now: UnixMs) -> u32 {
    let given_at = if was_fetched { None } else { opened.cas_given_at() };
    let idle_ms = given_at.map_or(0, |moment| now.0.saturating_sub(moment.0).max(0));
    u32::try_from(idle_ms / 1000).unwrap_or(u32::MAX)
}

fn is_hot(opened: &OpenKey<'_, '_>) -> bool {
    opened.record().is_some_and(|(table, place)| table.hotness(place) > table.fresh_hotness())
}
