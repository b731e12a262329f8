//! The operations on an item: fetch, store, delete, count.
//!
//! Each protocol expresses its requests in the options here, and renders the results. What only
//! meta commands ask for is an option, too.
//!
//! A change is recorded by its effect: `SET`, `APPEND`, `DEL`, `PEXPIREAT`, `PERSIST`.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_u64, parse_u64};
use pantala_keyspace::{Expiry, OpenKey, event};
use pantala_memcached::arithmetic::{self, Direction, Text};
use pantala_memcached::expiry::Expires;
use pantala_memcached::size::item_bytes;
use pantala_protocol::Reply;
use pantala_table::{IntText, StrRef, Tail};

use crate::calls::call::{Call, CommandResult, Lane, Stop};
use crate::error;
use crate::families::generic::{give_deadline, record_deadline};

/// Copying more bytes than this is for the slow lane.
pub(super) const WORKER_BYTES: usize = 1 << 20;

/// The options of fetching.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetch {
    /// With the cas number.
    pub with_cas: bool,
    /// Sets this time to live.
    pub expires: Option<Expires>,
}

/// An item.
pub struct Item<'v> {
    /// The value.
    pub value: StrRef<'v>,
    /// The client's flags.
    pub flags: u32,
    /// The cas number; 0 if it was not requested.
    pub cas: u64,
}

/// Fetches an item, which `render` writes; `None`: there is none.
pub fn fetch(
    call: &mut Call<'_, '_>,
    how: Fetch,
    render: impl FnOnce(&mut Reply<'_>, Option<&Item<'_>>),
) -> CommandResult {
    let key = call.key();
    let Call { keys, reply, lane, .. } = call;
    let mut opened = keys.read(key);
    let Some(value) = opened.string()? else {
        render(reply, None);
        return Ok(());
    };
    if how.expires.is_some() && *lane == Lane::Worker && value.len() > WORKER_BYTES {
        // A too long reply would be noticed only after the time to live was changed, so the length
        // is checked here.
        return Err(Stop::Lane);
    }
    let cas = if how.with_cas { opened.cas_number() } else { 0 };
    let flags = opened.tail().flags;
    let Some(value) = opened.string()? else { return Ok(()) };
    render(reply, Some(&Item { value, flags, cas }));
    let Some(expires) = how.expires else { return Ok(()) };
    let touched = touch_opened(&mut opened, expires);
    drop(opened);
    record_touched(call, touched);
    Ok(())
}

/// Sets the time to live of an item; whether it was there.
pub fn touch(call: &mut Call<'_, '_>, expires: Expires) -> Result<bool, Stop> {
    let key = call.key();
    let mut opened = call.keys.open(key);
    if opened.string()?.is_none() {
        return Ok(false);
    }
    let touched = touch_opened(&mut opened, expires);
    drop(opened);
    record_touched(call, touched);
    Ok(true)
}

/// The result of setting a time to live.
pub(super) enum TouchOutcome {
    Unchanged,
    Persists,
    Lives(UnixMs, bool),
}

pub(super) fn touch_opened(opened: &mut OpenKey<'_, '_>, expires: Expires) -> TouchOutcome {
    match expires {
        Expires::Never if opened.deadline().is_none() => TouchOutcome::Unchanged,
        Expires::Never => {
            opened.set_deadline(None);
            opened.publish(event::PERSIST);
            TouchOutcome::Persists
        }
        Expires::Now => {
            let now = opened.scope().now;
            TouchOutcome::Lives(now, give_deadline(opened, now))
        }
        Expires::At(deadline) => TouchOutcome::Lives(deadline, give_deadline(opened, deadline)),
    }
}

pub(super) fn record_touched(call: &Call<'_, '_>, touched: TouchOutcome) {
    let key = call.key();
    match touched {
        TouchOutcome::Persists if call.is_recorded() => call.record_as(&[b"PERSIST", key.bytes]),
        TouchOutcome::Lives(deadline, stays) => record_deadline(call, key, deadline, stays),
        TouchOutcome::Unchanged | TouchOutcome::Persists => {}
    }
}

/// State bits of an item, which last until it is replaced.
pub mod state {
    /// It was marked as stale.
    pub const STALE: u8 = 1;
    /// A client was told to renew it.
    pub const WON: u8 = 2;
}

/// Which items are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In any case.
    Set,
    /// Only if there is none.
    Add,
    /// Only if there is one.
    Replace,
    /// After the present value, which keeps its flags and time to live.
    Append,
    /// Before the present value.
    Prepend,
}

/// The options of storing.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// In which cases.
    pub mode: Mode,
    /// The value.
    pub value: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// Its time to live.
    pub expires: Expires,
    /// Only if the present cas number is this.
    pub unchanged: Option<u64>,
    /// If the present number is a later one, the item is stored as a stale value.
    pub allows_stale: bool,
    /// The new cas number is returned.
    pub wants_cas: bool,
}

impl<'a> Store<'a> {
    /// Stores a value in any case, without further options.
    pub fn of(value: &'a [u8]) -> Self {
        Store {
            mode: Mode::Set,
            value,
            flags: 0,
            expires: Expires::Never,
            unchanged: None,
            allows_stale: false,
            wants_cas: false,
        }
    }
}

/// The result of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It was stored; with the new cas number, if requested.
    Yes(u64),
    /// There is one already, or none, contrary to the mode.
    No,
    /// The cas number does not match.
    Exists,
    /// There is none to compare the cas number with.
    NotFound,
}

/// Stores an item.
pub fn store(call: &mut Call<'_, '_>, how: Store<'_>) -> Result<Stored, Stop> {
    let (key, most_bytes) = (call.key(), most_item_bytes(call));
    let mut opened = call.keys.open(key);
    opened.make_way_for_writer();
    let old_bytes = opened.string()?.map(|old| old.len());
    let mut stale = None;
    let refusal = match (how.unchanged, old_bytes, how.mode) {
        (Some(_), None, Mode::Append | Mode::Prepend) => Some(Stored::No),
        (Some(_), None, _) => Some(Stored::NotFound),
        (Some(cas), Some(_), _) if opened.tail().cas != cas || cas == 0 => {
            let is_stale = how.allows_stale && cas != 0 && cas < opened.cas_number();
            stale = is_stale.then(|| opened.tail().state | state::STALE);
            (!is_stale).then_some(Stored::Exists)
        }
        (None, Some(_), Mode::Add) => Some(Stored::No),
        (None, None, Mode::Replace | Mode::Append | Mode::Prepend) => Some(Stored::No),
        _ => None,
    };
    if let Some(refusal) = refusal {
        return Ok(refusal);
    }
    let change = match (how.mode, old_bytes) {
        (Mode::Append | Mode::Prepend, Some(old_bytes)) => {
            let bytes = old_bytes + how.value.len();
            if item_bytes(key.bytes.len(), bytes, opened.tail().flags) > most_bytes {
                return Ok(Stored::No);
            }
            if call.lane == Lane::Worker && old_bytes > WORKER_BYTES {
                return Err(Stop::Lane);
            }
            extend(&mut opened, how)?
        }
        _ => match stale {
            Some(state) => put_stale(&mut opened, how, state),
            None => put(&mut opened, how),
        },
    };
    let cas = if how.wants_cas { number_of(&mut opened) } else { 0 };
    drop(opened);
    record_change(call, how, change);
    Ok(Stored::Yes(cas))
}

/// The largest item, in bytes, as Memcached counts them.
fn most_item_bytes(call: &Call<'_, '_>) -> usize {
    let most = usize::try_from(call.settings.memcached_item_size_max).unwrap_or(usize::MAX);
    most.min(call.most_string_bytes())
}

/// What storing an item has changed.
pub(super) enum Change {
    /// It was stored.
    Put(Expiry),
    /// It would have expired at once, so the old one was removed.
    Removed,
    /// It would have expired at once, and nothing was there.
    Nothing,
    Appended,
    /// The new beginning of the value, and the flags.
    Prepended(Vec<u8>, u32),
}

/// The cas number of an item just stored; for one that is gone already, a number that no item ever
/// has.
fn number_of(opened: &mut OpenKey<'_, '_>) -> u64 {
    const OF_NONE: u64 = 1;
    opened.cas_number().max(OF_NONE)
}

/// Replaces the value.
#[inline]
pub(super) fn put(opened: &mut OpenKey<'_, '_>, how: Store<'_>) -> Change {
    let expiry = match how.expires {
        Expires::Never => Expiry::Never,
        Expires::At(deadline) => Expiry::At(deadline),
        Expires::Now if opened.remove_expired() => {
            opened.publish(event::EXPIRED);
            return Change::Removed;
        }
        Expires::Now => return Change::Nothing,
    };
    set(opened, how.value, expiry, how.flags);
    opened.publish(event::SET);
    if let Expiry::At(_) = expiry {
        opened.announce(event::EXPIRE);
    }
    Change::Put(expiry)
}

/// Stores a value that is older than the present one: time to live and state stay.
fn put_stale(opened: &mut OpenKey<'_, '_>, how: Store<'_>, state: u8) -> Change {
    set(opened, how.value, Expiry::Keep, how.flags);
    opened.publish(event::SET);
    opened.set_item_state(state);
    Change::Put(Expiry::Keep)
}

#[inline]
fn set(opened: &mut OpenKey<'_, '_>, value: &[u8], expiry: Expiry, flags: u32) {
    if flags == 0 {
        opened.set_string(value, expiry);
    } else {
        opened.set_string_with_tail(value, expiry, Tail::of_flags(flags));
    }
}

/// Appends or prepends to a present string.
fn extend(opened: &mut OpenKey<'_, '_>, how: Store<'_>) -> Result<Change, Stop> {
    if how.mode == Mode::Append {
        opened.append(how.value);
        opened.publish(event::APPEND);
        return Ok(Change::Appended);
    }
    let Some(old) = opened.string()? else { return Ok(Change::Nothing) };
    let value = [how.value, old.bytes(&mut IntText::new())].concat();
    let flags = opened.tail().flags;
    set(opened, &value, Expiry::Keep, flags);
    opened.publish(event::SETRANGE);
    Ok(Change::Prepended(value, flags))
}

/// Records the effect of storing an item, if changes are recorded.
#[inline]
pub(super) fn record_change(call: &Call<'_, '_>, how: Store<'_>, change: Change) {
    if call.is_recorded() {
        write_change(call, how, change);
    }
}

#[inline(never)]
fn write_change(call: &Call<'_, '_>, how: Store<'_>, change: Change) {
    let key = call.key().bytes;
    match change {
        Change::Put(expiry) => record_item(call, how.value, expiry, how.flags),
        Change::Removed => call.record_removal(key),
        Change::Nothing => {}
        Change::Appended => call.record_as(&[b"APPEND", key, how.value]),
        Change::Prepended(value, flags) => record_item(call, &value, Expiry::Keep, flags),
    }
}

/// Records that the key is this item now.
fn record_item(call: &Call<'_, '_>, value: &[u8], expiry: Expiry, flags: u32) {
    call.record_string_with_flags(call.key().bytes, value, expiry, flags);
}

/// mc.flags: sets the flags of an item, as [`record_item`] records them.
pub fn flags(call: &mut Call<'_, '_>) -> CommandResult {
    let flags = parse_u64(call.args[2]).and_then(|flags| u32::try_from(flags).ok());
    let flags = flags.ok_or(error::NOT_INTEGER)?;
    let mut opened = call.keys.peek(call.key());
    if opened.set_item_flags(flags) {
        opened.publish_silently();
    }
    call.reply.ok();
    Ok(())
}

/// The result of deleting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It was removed.
    Yes,
    /// There is none.
    NotFound,
    /// The cas number does not match.
    Exists,
}

/// Removes an item; if a cas number is given, only if it matches.
pub fn delete(call: &mut Call<'_, '_>, unchanged: Option<u64>) -> Result<Deleted, Stop> {
    let key = call.key();
    let mut opened = call.keys.open(key);
    if opened.string()?.is_none() {
        return Ok(Deleted::NotFound);
    }
    if unchanged.is_some_and(|cas| opened.tail().cas != cas || cas == 0) {
        return Ok(Deleted::Exists);
    }
    opened.remove();
    opened.publish(event::DEL);
    drop(opened);
    if call.is_recorded() {
        call.record_removal(key.bytes);
    }
    Ok(Deleted::Yes)
}

/// Marks an item as stale, so that the next client that fetches it is to renew it; if a cas number
/// is given, only if it matches.
pub fn make_stale(
    call: &mut Call<'_, '_>,
    unchanged: Option<u64>,
    expires: Option<Expires>,
) -> Result<Deleted, Stop> {
    let key = call.key();
    let mut opened = call.keys.open(key);
    if opened.string()?.is_none() {
        return Ok(Deleted::NotFound);
    }
    if unchanged.is_some_and(|cas| opened.tail().cas != cas || cas == 0) {
        return Ok(Deleted::Exists);
    }
    // Numbers given out before are those of the old state.
    opened.set_cas_number(0);
    opened.cas_number();
    opened.set_item_state(state::STALE);
    if let Some(expires) = expires {
        let touched = touch_opened(&mut opened, expires);
        drop(opened);
        record_touched(call, touched);
    }
    Ok(Deleted::Yes)
}

/// The options of counting.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// The difference.
    pub delta: u64,
    /// The direction.
    pub direction: Direction,
    /// Only if the present cas number is this.
    pub unchanged: Option<u64>,
    /// If there is no item, this number is stored.
    pub made_as: Option<(u64, Expires)>,
    /// Sets this time to live.
    pub expires: Option<Expires>,
    /// The new cas number is returned.
    pub wants_cas: bool,
}

impl Count {
    /// Counts by `delta`, without further options.
    pub fn by(delta: u64, direction: Direction) -> Self {
        let (unchanged, made_as, expires) = (None, None, None);
        Count { delta, direction, unchanged, made_as, expires, wants_cas: false }
    }
}

/// A number after counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its value.
    pub number: u64,
    /// There was no item before.
    pub was_made: bool,
    /// The cas number; 0 if it was not requested.
    pub cas: u64,
    /// Its deadline before the request, and after it.
    pub deadlines: [Option<UnixMs>; 2],
}

/// The result of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The new number.
    Number(Number),
    /// There is none.
    NotFound,
    /// The value is no number.
    NotNumeric,
    /// The cas number does not match.
    Exists,
}

/// Adds to a number, or subtracts from it.
pub fn count(call: &mut Call<'_, '_>, how: Count) -> Result<Counted, Stop> {
    let key = call.key();
    let mut opened = call.keys.open(key);
    opened.make_way_for_writer();
    let Some(old) = opened.string()? else {
        let Some((number, expires)) = how.made_as else { return Ok(Counted::NotFound) };
        let digits = &mut [0; I64_TEXT_MAX_BYTES];
        let store = Store { expires, ..Store::of(fmt_u64(number, digits)) };
        let change = put(&mut opened, store);
        let cas = if how.wants_cas { number_of(&mut opened) } else { 0 };
        let deadlines = [None, opened.deadline()];
        drop(opened);
        record_change(call, store, change);
        return Ok(Counted::Number(Number { number, was_made: true, cas, deadlines }));
    };
    if old.is_empty() {
        return Ok(Counted::NotNumeric);
    }
    if how.unchanged.is_some_and(|cas| opened.tail().cas != cas) {
        return Ok(Counted::Exists);
    }
    let text = &mut Text::default();
    let old_text = &mut IntText::new();
    let old = old.bytes(old_text);
    let old_bytes = old.len();
    let Some((number, text)) = arithmetic::count(old, how.delta, how.direction, text) else {
        return Ok(Counted::NotNumeric);
    };
    let (tail, before, flags) = (opened.tail(), opened.deadline(), opened.tail().flags);
    set(&mut opened, text, Expiry::Keep, flags);
    opened.publish(event::INCRBY);
    if tail.state != 0 && text.len() == old_bytes {
        // Memcached overwrites the number in place, so the state bits stay.
        opened.set_item_state(tail.state);
    }
    let cas = if how.wants_cas { opened.cas_number() } else { 0 };
    let touched = how.expires.map(|expires| touch_opened(&mut opened, expires));
    let after = opened.deadline();
    drop(opened);
    if call.is_recorded() {
        record_item(call, text, Expiry::Keep, flags);
    }
    if let Some(touched) = touched {
        record_touched(call, touched);
    }
    Ok(Counted::Number(Number { number, was_made: false, cas, deadlines: [before, after] }))
}
