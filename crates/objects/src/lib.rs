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
//! | `place` | parsing `s3://bucket/prefix` and its kin |
//! | `bucket` | an open location: listing, removing |
//! | `connector` | HTTP for the crate `object_store` |
//! | `upload`, `download` | writing and reading one file, for threads that may block |
//! | `unfinished` | uploads whose server was killed |
//!
//! Invariants
//! 1. A file is whole or absent: an unfinished upload leaves nothing under its name, and is aborted
//!    when dropped.
//! 2. A part or range that fails is retried by itself (`RETRIES`, `RETRY_TIME`), so a transfer
//!    continues where it was; only after that does the transfer fail.
//! 3. The amount in transit is bounded: `QUEUED_PIECES` pieces of the caller, `PARTS_AT_ONCE`
//!    parts.
//! 4. No thread is started here. Calls block, so they must not come from a worker, or from the
//!    runtime's own threads.
//!
//! Credentials come from the usual environment variables (`AWS_ACCESS_KEY_ID`,
//! `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME` ...) or from the machine's
//! identity, as in the crate `object_store`.
//!
//! Not here: the content of files, and when they are written. Tests: at the foot of `place`;
//! against emulators, `compat/clients/objects.py`.

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

pub use bucket::{ObjectBucket, StoredFile};
pub use download::Download;
pub use place::{BucketPlace, Scheme};
pub use unfinished::Owner;
pub use upload::Upload;

/// The most queued pieces of a caller, or ranges for one.
const QUEUED_PIECES: usize = 4;
/// How often one request is retried.
const RETRIES: usize = 8;
/// The time after which a failing request is not retried any more.
const RETRY_TIME: Duration = Duration::from_secs(120);
/// The time without progress after which a request is retried.
const STALL_TIME: Duration = Duration::from_secs(30);

/// An error of the storage; a text for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFault(pub String);

impl fmt::Display for ObjectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ObjectFault {}

impl From<object_store::Error> for ObjectFault {
    fn from(error: object_store::Error) -> Self {
        ObjectFault(error.to_string())
    }
}

impl From<ObjectFault> for std::io::Error {
    fn from(fault: ObjectFault) -> Self {
        std::io::Error::other(fault.0)
    }
}
