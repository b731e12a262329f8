//! Snapshot files: the framing around values in the files of Redis and Valkey.
//!
//! ```text
//! file:      head | section ... | 255 | checksum
//! head:      "REDIS" and four digits, or "VALKEY" and three: the version
//! section:   250 name value            something about the file or the server
//!            245 code                  a library of functions
//!            254 number                entries of this database follow
//!            251 keys, with deadline   about how many there are in it
//!            entry
//! entry:     252 deadline, if there is one | 220 flags, if not 0 | kind | key | value
//! checksum:  CRC-64 of everything before it, or eight zeros: none
//! ```
//!
//! **The version in the head** is the oldest that has all kinds in the file, so that the most
//! servers can read it. Tested with Redis 7.0.15 and Valkey 9.1.2:
//!
//! | head | Redis 7.0.15 | Valkey 9.1.2 |
//! |---|---|---|
//! | `REDIS0010` | reads it; ends at a kind above 19 (1) | reads it; ends at one above 21 (2) |
//! | `REDIS0011` | ends (3) | reads it |
//! | `REDIS0012` | ends (3) | ends (3) |
//! | `VALKEY080` | ends, without a reason | reads it, kind 22 too; ends at 112 and 113 (1) |
//!
//! Their messages: (1) "Unknown RDB encoding type 20", (2) "Can't handle foreign type or opcode 22
//! in RDB with version 10", (3) "Can't handle RDB format version 11".
//!
//! So nothing is ever misread: a server that lacks a kind does not start. As the head comes first
//! and its version is known last, it is written as version 10 and, if that was too old, overwritten
//! in the end ([`RdbWriter::end`]); all heads have nine bytes.
//!
//! | file | what |
//! |---|---|
//! | `opcode` | the opcodes before sections |
//! | `write` | the writer |
//! | `read` | the reader: finds sections, skips entries |
//! | `inspect` | reports the content of a file |
//! | `entry` | decodes entries that were found |
//! | `shape`, `skim` | the shape of sections and values, and skipping over it |
//! | `version` | versions and dialects |
//! | `module` | names of module types |
//! | `dragonfly` | Dragonfly's compressed sections |
//! | `damage` | the damage in a file |
//!
//! Files of Dragonfly are read, too: one `.rdb`, or each of the parts and the summary of a `.dfs`.
//! Its JSON, filters, sketches and search indexes are unknown, as are kinds 26 and above of Redis
//! 8.6 and functions of release candidates: a file with them is refused.
//!
//! Not here: file access, threads, the order of entries. Bytes are appended to what the caller
//! writes. Tests: at the foot of the files, `tests/file.rs`, `tests/golden.rs` (other servers'
//! files), `compat/clients/rdb_files.py` (to other servers and back).

mod damage;
mod dragonfly;
mod entry;
mod inspect;
mod module;
pub mod opcode;
mod read;
mod shape;
mod skim;
mod version;
mod write;

pub use damage::{DamageFinding, RdbDamage};
pub use entry::{Content, RdbEntries, RdbEntry};
pub use inspect::{DatabaseSummary, Inspection, Summary};
pub use module::ModuleType;
pub use read::{FileItem, FoundSection, RdbReader, ReadOptions, Section};
pub use version::{Dialect, RdbVersion};
pub use write::{
    EntryWriting, HEAD_BYTES, Head, RdbWriter, SizeHints, write_database, write_entry,
};

/// The version that is written unless the file holds something newer.
pub const OLDEST_WRITTEN: u16 = 10;
/// Valkey's first own version, whose head has Valkey's name.
pub const FIRST_OF_VALKEY: u16 = 80;
