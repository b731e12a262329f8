//! Whole files in the object storage of a cloud: S3, Google Cloud Storage, Azure.
//!
//! ```text
//! thread that writes  --Upload::write-->   bounded queue --> task: parts of 16 MB  --> store
//! thread that reads   <--Download::read--  bounded queue <-- task: ranges of 8 MB  <-- store
//!                                                            (on the runtime given)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `place` | `s3://bucket/prefix` and its kin, read |
//! | `bucket` | a place that is open: what lies there, what is removed |
//! | `connector` | how storage is spoken to over HTTP |
//! | `upload`, `download` | one file, both ways, for threads that may block |
//! | `unfinished` | uploads whose server was killed |
//!
//! Invariants
//! 1. A file is there whole or not at all: an upload that is not finished leaves nothing behind
//!    under its name, and is aborted when it is dropped.
//! 2. A part or range that fails is tried again by itself (`RETRIES`, `RETRY_TIME`), so that a
//!    transfer goes on where it was; only then does the transfer fail.
//! 3. What is on its way is bounded: `QUEUED_PIECES` pieces of the caller, `PARTS_AT_ONCE` parts.
//! 4. No thread is started here. What is called blocks, so never on a worker, nor on the runtime's
//!    own thread.
//!
//! Credentials come from the usual variables of the environment (`AWS_ACCESS_KEY_ID`,
//! `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME` ...) or from what the machine
//! itself is allowed, as the crate `object_store` has it.
//!
//! Not here: what the files hold, when they are written. Tests: at the foot of `place`; against
//! emulators, `compat/clients/objects.py`.

#![forbid(unsafe_code)]

mod bucket;
mod connector;
mod download;
mod place;
mod unfinished;
mod upload;

// Only its version matters, for `url`.
use idna_adapter as _;

use std::fmt;
use std::time::Duration;

pub use bucket::{Bucket, Stored};
pub use download::Download;
pub use place::{Place, Scheme};
pub use unfinished::Owner;
pub use upload::Upload;

/// Pieces of a caller, or ranges for one, that wait.
const QUEUED_PIECES: usize = 4;
/// One request is tried so often again.
const RETRIES: usize = 8;
/// A request that has failed for so long has failed.
const RETRY_TIME: Duration = Duration::from_secs(120);
/// Nothing has come of a request for so long: it is tried again.
const STALL_TIME: Duration = Duration::from_secs(30);

/// What the storage refused or could not do; a text for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl From<object_store::Error> for Fault {
    fn from(error: object_store::Error) -> Self {
        Fault(error.to_string())
    }
}

impl From<Fault> for std::io::Error {
    fn from(fault: Fault) -> Self {
        std::io::Error::other(fault.0)
    }
}
