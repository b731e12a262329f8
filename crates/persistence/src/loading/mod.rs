//! Loading a snapshot file: one thread finds where entries end, others read and insert them.
//!
//! ```text
//! file --> read: windows, sections --> batches of whole entries --> insert, on many threads
//!                      |--> functions, sizes, what modules left
//! ```
//!
//! Invariants
//! 1. What cannot be read is told with its place in the file and what had to be there; nothing is
//!    passed over in silence.
//! 2. Memory beside the data is that of some batches and of the largest entry: what an entry claims
//!    to be is bounded by the file.
//!
//! Not here: threads, and who may look at data meanwhile (`pantala-server`); the append-only file
//! (`aof`). Tests: at the foot of the files; compat/persistence.

mod insert;
mod read;

use std::fmt;
use std::io;

use pantala_rdb::file::Damage;

pub use insert::{Inserted, Inserter};
pub use read::{Batch, Part, read_file};

/// Why a file is not loaded.
#[derive(Debug)]
pub enum Fault {
    /// It cannot be read.
    Disk(io::Error),
    /// Something in it cannot be.
    Damage(Damage),
    /// A key is in it twice, for the second time here.
    Twice(u64, Vec<u8>),
    /// A value of a module, which is not here.
    Module(u64, String),
    /// Entries of a database that there is not.
    Database(u64, u32),
    /// A library of functions is refused, with these words.
    Library(Vec<u8>),
    /// It is not wanted any more.
    CalledOff,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Disk(error) => write!(f, "{error}"),
            Fault::Damage(damage) => write!(f, "{damage}"),
            Fault::Twice(offset, key) => {
                let key = key.escape_ascii();
                write!(f, "byte {offset}: expected another key, found {key} again")
            }
            Fault::Module(offset, name) => write!(
                f,
                "byte {offset}: expected a value of a known type, found one of the module {name}; \
                 --skip_module_values yes leaves such keys out"
            ),
            Fault::Database(offset, db) => {
                write!(f, "byte {offset}: expected a database below --databases, found {db}")
            }
            Fault::Library(words) => {
                write!(f, "a library of functions is refused: {}", words.escape_ascii())
            }
            Fault::CalledOff => f.write_str("it is not wanted any more"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Fault {
        Fault::Damage(damage)
    }
}
