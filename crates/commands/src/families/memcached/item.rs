//! Everything that Memcached can do with an item: fetch, store, delete, count.
//!
//! Each protocol says what it wants in the options here, and renders what comes of it. What the
//! text protocol does not ask for, and meta commands do, has its place as an option.
//!
//! A change is recorded as what it did: `SET`, `APPEND`, `DEL`, `PEXPIREAT`, `PERSIST`.

use pantala_base::UnixMs;
use pantala_base::number::{I64_TEXT_MAX_BYTES, fmt_u64, parse_u64};
use pantala_keyspace::{Expiry, Opened, event};
use pantala_memcached::arithmetic::{self, Direction, Text};
use pantala_memcached::expiry::Expires;
use pantala_memcached::size::item_bytes;
use pantala_protocol::Reply;
use pantala_table::{IntText, StrRef, Tail};

use crate::calls::call::{Call, Done, Lane, Stop};
use crate::error;
use crate::families::generic::{give_deadline, record_deadline};

/// Copying more bytes than this is for the slow lane.
pub(super) const WORKER_BYTES: usize = 1 << 20;

/// How an item is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetch {
    /// With the number that `cas` compares.
    pub with_cas: bool,
    /// It lives so long from now on.
    pub expires: Option<Expires>,
}

/// What is there.
pub struct Item<'v> {
    /// The value.
    pub value: StrRef<'v>,
    /// The client's own.
    pub flags: u32,
    /// 0 where it was not asked for.
    pub cas: u64,
}

/// Reads an item, which `render` writes; `None`: there is none.
pub fn fetch(
    call: &mut Call<'_, '_>,
    how: Fetch,
    render: impl FnOnce(&mut Reply<'_>, Option<&Item<'_>>),
) -> Done {
    let key = call.key();
    let Call { keys, reply, lane, .. } = call;
    let mut opened = keys.read(key);
    let Some(value) = opened.string()? else {
        render(reply, None);
        return Ok(());
    };
    if how.expires.is_some() && *lane == Lane::Worker && value.len() > WORKER_BYTES {
        // A reply that is too long is seen when the time to live has changed already.
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

/// Gives an item another time to live; whether it was there.
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

/// What became of a deadline.
pub(super) enum Touched {
    Unchanged,
    Persists,
    Lives(UnixMs, bool),
}

pub(super) fn touch_opened(opened: &mut Opened<'_, '_>, expires: Expires) -> Touched {
    match expires {
        Expires::Never if opened.deadline().is_none() => Touched::Unchanged,
        Expires::Never => {
            opened.set_deadline(None);
            opened.publish(event::PERSIST);
            Touched::Persists
        }
        Expires::Now => {
            let now = opened.scope().now;
            Touched::Lives(now, give_deadline(opened, now))
        }
        Expires::At(deadline) => Touched::Lives(deadline, give_deadline(opened, deadline)),
    }
}

pub(super) fn record_touched(call: &Call<'_, '_>, touched: Touched) {
    let key = call.key();
    match touched {
        Touched::Persists if call.is_recorded() => call.record_as(&[b"PERSIST", key.bytes]),
        Touched::Lives(deadline, stays) => record_deadline(call, key, deadline, stays),
        Touched::Unchanged | Touched::Persists => {}
    }
}

/// Bits that lie with an item until it is another.
pub mod state {
    /// Somebody has said that it is old.
    pub const STALE: u8 = 1;
    /// Somebody has been told to renew it.
    pub const WON: u8 = 2;
}

/// Which items are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever there is.
    Set,
    /// Where there is none.
    Add,
    /// Where there is one.
    Replace,
    /// After what is there, which keeps its flags and its time to live.
    Append,
    /// Before it.
    Prepend,
}

/// How an item is stored.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// Which.
    pub mode: Mode,
    /// The value.
    pub value: &'a [u8],
    /// The client's own.
    pub flags: u32,
    /// Its time to live.
    pub expires: Expires,
    /// Only if the number that names the present state is this.
    pub unchanged: Option<u64>,
    /// If that number is a later one it is stored as well, as a stale value.
    pub allows_stale: bool,
    /// The number that names the new state is asked for.
    pub wants_cas: bool,
}

impl<'a> Store<'a> {
    /// A value to put there, with nothing special about it.
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

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is there; with the number that names its state, if that was asked for.
    Yes(u64),
    /// There is one already, or none.
    No,
    /// It is another by now.
    Exists,
    /// There is none that could be the same as before.
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

/// What storing an item came to.
pub(super) enum Change {
    /// It was put there.
    Put(Expiry),
    /// It would have been gone at once, and so is what was there.
    Removed,
    /// It would have expired at once, and nothing was there.
    Nothing,
    Appended,
    /// With what it begins now, these are value and flags.
    Prepended(Vec<u8>, u32),
}

/// The number that names the state of an item that was stored just now; that of one which is gone
/// already names none there will ever be.
fn number_of(opened: &mut Opened<'_, '_>) -> u64 {
    const OF_NONE: u64 = 1;
    opened.cas_number().max(OF_NONE)
}

/// Puts a whole new value.
#[inline]
pub(super) fn put(opened: &mut Opened<'_, '_>, how: Store<'_>) -> Change {
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

/// Puts a value that is older than the one it replaces: time to live and state stay.
fn put_stale(opened: &mut Opened<'_, '_>, how: Store<'_>, state: u8) -> Change {
    set(opened, how.value, Expiry::Keep, how.flags);
    opened.publish(event::SET);
    opened.set_item_state(state);
    Change::Put(Expiry::Keep)
}

#[inline]
fn set(opened: &mut Opened<'_, '_>, value: &[u8], expiry: Expiry, flags: u32) {
    if flags == 0 {
        opened.set_string(value, expiry);
    } else {
        opened.set_string_with_tail(value, expiry, Tail::of_flags(flags));
    }
}

/// Appends or prepends to a string that is there.
fn extend(opened: &mut Opened<'_, '_>, how: Store<'_>) -> Result<Change, Stop> {
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

/// Records what storing an item came to, if changes are recorded.
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

/// The key is this item now.
fn record_item(call: &Call<'_, '_>, value: &[u8], expiry: Expiry, flags: u32) {
    call.record_string_with_flags(call.key().bytes, value, expiry, flags);
}

/// mc.flags: what is kept beside an item, as [`record_item`] tells of it.
pub fn flags(call: &mut Call<'_, '_>) -> Done {
    let flags = parse_u64(call.args[2]).and_then(|flags| u32::try_from(flags).ok());
    let flags = flags.ok_or(error::NOT_INTEGER)?;
    let mut opened = call.keys.peek(call.key());
    if opened.set_item_flags(flags) {
        opened.publish_silently();
    }
    call.reply.ok();
    Ok(())
}

/// What became of an item that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Yes,
    /// There is none.
    NotFound,
    /// It is another by now.
    Exists,
}

/// Removes an item; only if its number is this one, where that is said.
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

/// Marks an item as stale, so that who asks for it next is to renew it; only if its number is this
/// one, where that is said.
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
    // Whoever has a number has that of the state before.
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

/// How it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// How far.
    pub delta: u64,
    /// Which way.
    pub direction: Direction,
    /// Only if the number that names the present state is this.
    pub unchanged: Option<u64>,
    /// Where there is nothing, this is put there.
    pub made_as: Option<(u64, Expires)>,
    /// It lives so long from now on.
    pub expires: Option<Expires>,
    /// The number that names the new state is asked for.
    pub wants_cas: bool,
}

impl Count {
    /// By so many, with nothing special about it.
    pub fn by(delta: u64, direction: Direction) -> Self {
        let (unchanged, made_as, expires) = (None, None, None);
        Count { delta, direction, unchanged, made_as, expires, wants_cas: false }
    }
}

/// A number as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// It.
    pub number: u64,
    /// Nothing was there before.
    pub was_made: bool,
    /// What names its state; 0 where it was not asked for.
    pub cas: u64,
    /// When it would have been gone before the request, and when it will be.
    pub deadlines: [Option<UnixMs>; 2],
}

/// What became of a number that was to be counted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It is this now.
    Number(Number),
    /// There is none.
    NotFound,
    /// It is no number.
    NotNumeric,
    /// It is another by now.
    Exists,
}

/// Adds to a number, or takes from it.
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
        // Memcached has only written over it.
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
