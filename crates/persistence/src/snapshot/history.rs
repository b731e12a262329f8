//! Outcomes of past snapshots, for INFO, LASTSAVE and the schedule. Times are arguments.

/// The outcomes of past snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedHistory {
    /// When the last good snapshot was finished, or the server started (Unix, seconds).
    pub last_good_s: i64,
    /// Whether the last snapshot was good.
    pub is_last_good: bool,
    /// When the last snapshot failed, if no good one followed (Unix, seconds).
    pub last_failed_s: Option<i64>,
    /// How long the last snapshot took, in seconds.
    pub last_took_s: Option<u64>,
    /// How many good snapshots there were.
    pub count: u64,
    /// The count of changes when the last good snapshot began.
    pub changes: u64,
}

impl SavedHistory {
    /// The history of a server that starts now.
    pub fn begin(now_s: i64) -> SavedHistory {
        SavedHistory {
            last_good_s: now_s,
            is_last_good: true,
            last_failed_s: None,
            last_took_s: None,
            count: 0,
            changes: 0,
        }
    }

    /// Records a good snapshot that ended now; `changes` is the count at its beginning.
    pub fn succeeded(&mut self, now_s: i64, took_s: u64, changes: u64) {
        *self = SavedHistory {
            last_good_s: now_s,
            is_last_good: true,
            last_failed_s: None,
            last_took_s: Some(took_s),
            count: self.count + 1,
            changes,
        };
    }

    /// Records a failed snapshot that ended now.
    pub fn failed(&mut self, now_s: i64, took_s: u64) {
        self.is_last_good = false;
        self.last_failed_s = Some(now_s);
        self.last_took_s = Some(took_s);
    }
}
