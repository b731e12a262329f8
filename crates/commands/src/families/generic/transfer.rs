//! MIGRATE's work on the keys: making payloads of them, and removing those that the target has. The
//! transfer is not here (the server's `migrate`).
//!
//! Invariants
//! 1. A key is removed only if it has not changed since its payload was made: each is watched.
//! 2. If the command may wait, it releases the partitions between two keys, and between two parts
//!    of a large value.
//!
//! Tests: crates/server/tests/migrate.rs.

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_keyspace::{Key, Watch, event};
use pantala_rdb::payload;

use super::dump::{DumpProgress, is_large};
use crate::calls::call::{Call, Stop};

/// The partitions are freed after so many bytes,
const STEP_BYTES: usize = 256 << 10;
/// or after so many keys.
const STEP_KEYS: usize = 256;
/// How often a value that changes meanwhile is read again; then its partition is held to its end.
const MOST_RESTARTS: usize = 2;

/// A key that is transferred.
#[derive(Debug)]
pub struct KeyTransfer {
    /// Its number among the command's keys.
    pub nth: usize,
    /// The payload for RESTORE, in pieces.
    pub payload: Vec<Vec<u8>>,
    /// The rest of its time to live, in milliseconds; 0: it has no deadline.
    pub ttl_ms: i64,
    watch: Arc<Watch>,
}

impl KeyTransfer {
    /// The length of its payload.
    pub fn bytes(&self) -> usize {
        self.payload.iter().map(Vec::len).sum()
    }
}

/// The result of removing the keys that the target has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many keys stay, because they have changed since.
    pub changed: usize,
}

/// The payloads of the present ones of these keys.
///
/// # Errors
/// A partition has been held for too long.
pub fn pack(call: &mut Call<'_, '_>, keys: &[Key<'_>]) -> Result<Vec<KeyTransfer>, Stop> {
    let mut parcels = Vec::new();
    let (mut bytes, mut count) = (0, 0);
    for (nth, key) in keys.iter().enumerate() {
        let Some((payload, deadline, watch)) = pack_one(call, *key)? else { continue };
        let ttl_ms =
            deadline.map_or(0, |deadline| deadline.0.saturating_sub(call.clock().0).max(1));
        let parcel = KeyTransfer { nth, payload, ttl_ms, watch };
        bytes += parcel.bytes();
        count += 1;
        parcels.push(parcel);
        if (bytes > STEP_BYTES || count == STEP_KEYS) && nth + 1 < keys.len() {
            (bytes, count) = (0, 0);
            call.meanwhile(|| ())?;
        }
    }
    Ok(parcels)
}

type Packed = (Vec<Vec<u8>>, Option<UnixMs>, Arc<Watch>);

fn pack_one(call: &mut Call<'_, '_>, key: Key<'_>) -> Result<Option<Packed>, Stop> {
    let now = call.now();
    let mut restarts = 0;
    'anew: loop {
        let watch = Arc::new(Watch::default());
        call.keys.watch(key, &watch);
        let opened = call.keys.peek(key);
        let Some((table, place)) = opened.record() else {
            drop(opened);
            call.keys.unwatch(key, &watch);
            return Ok(None);
        };
        let deadline = table.deadline(place);
        if !is_large(&opened) {
            let mut bytes = Vec::new();
            payload::write(&table.value(place), table.tail(place).flags, now, &mut bytes);
            return Ok(Some((vec![bytes], deadline, watch)));
        }
        let mut dumping = DumpProgress::begin(table, place, now);
        drop(opened);
        loop {
            let opened = call.keys.peek(key);
            let Some((table, place)) = opened.record() else { continue 'anew };
            let is_last = dumping.go_on(table, place);
            drop(opened);
            if is_last {
                break;
            }
            if restarts < MOST_RESTARTS {
                call.meanwhile(|| ())?;
                if watch.is_touched() {
                    restarts += 1;
                    continue 'anew;
                }
            }
        }
        let pieces = call.meanwhile(|| dumping.end())?;
        return Ok(Some((pieces, deadline, watch)));
    }
}

/// Removes the keys of the parcels that `is_there` says the target has, unless they have changed
/// since; recorded as one DEL.
pub fn remove(
    call: &mut Call<'_, '_>,
    keys: &[Key<'_>],
    parcels: &[KeyTransfer],
    is_there: impl Fn(usize) -> bool,
) -> Removed {
    let mut removed = Removed::default();
    let mut names: Vec<&[u8]> = vec![b"DEL"];
    for (_, parcel) in parcels.iter().enumerate().filter(|(at, _)| is_there(*at)) {
        let key = keys[parcel.nth];
        if parcel.watch.is_touched() {
            removed.changed += usize::from(call.keys.peek(key).exists());
            continue;
        }
        call.keys.unwatch(key, &parcel.watch);
        let mut opened = call.keys.peek(key);
        if opened.remove() {
            opened.publish(event::DEL);
            names.push(key.bytes);
        }
    }
    if names.len() > 1 && call.is_recorded() {
        call.record_as(&names);
    }
    removed
}
