//! What a command brings to its lookups.

use pantala_base::UnixMs;
use pantala_journal::Recorder;

use crate::Keyspace;
use crate::key::DbIndex;
use crate::tally::Tally;

/// The context of a command's lookups.
#[derive(Clone, Copy)]
pub struct Scope<'k> {
    /// The keyspace itself.
    pub space: &'k Keyspace,
    /// The logical database the command works in.
    pub db: DbIndex,
    /// The time at which the command runs (Unix, milliseconds).
    pub now: UnixMs,
    /// The counters of the thread that runs it.
    pub tally: &'k Tally,
    /// False under CLIENT NO-TOUCH.
    pub touch: bool,
    /// Expired keys stay visible: for replicas and loaders, which are told when a key is gone. See
    /// `lifetime/expiry`.
    pub sees_expired: bool,
    /// Records changes, if they are recorded.
    pub recorder: Option<&'k Recorder>,
}
