//! Snapshot files: what stands around values in the files that Redis and Valkey write.
//!
//! ```text
//! file:      head | section ... | 255 | checksum
//! head:      "REDIS" and four digits, or "VALKEY" and three: the version
//! section:   250 name value            something about the file or the server
//!            245 code                  a library of functions
//!            254 number                entries of this database follow
//!            251 keys, with deadline   how many there are in it, roughly
//!            entry
//! entry:     252 deadline, if there is one | 220 flags, if not 0 | kind | key | value
//! checksum:  CRC-64 of all before it, or eight zeros: none
//! ```
//!
//! **Which version stands in the head** is decided by what is in the file: the oldest that has all
//! its kinds, so the widest circle of servers reads it. Tried with Redis 7.0.15 and Valkey 9.1.2:
//!
//! | head | Redis 7.0.15 | Valkey 9.1.2 |
//! |---|---|---|
//! | `REDIS0010` | reads it; ends at a kind above 19 (1) | reads it; ends at one above 21 (2) |
//! | `REDIS0011` | ends (3) | reads it |
//! | `REDIS0012` | ends (3) | ends (3) |
//! | `VALKEY080` | ends, without a reason | reads it, kind 22 too; ends at 112 and 113 (1) |
//!
//! What they say: (1) "Unknown RDB encoding type 20", (2) "Can't handle foreign type or opcode 22
//! in RDB with version 10", (3) "Can't handle RDB format version 11".
//!
//! So nothing is ever misread: a server that lacks a kind does not start. As the head comes first
//! and is known last, it is written as version 10 and, where that was too old, written over in the
//! end ([`Writer::end`]); all heads are nine bytes.
//!
//! | file | what |
//! |---|---|
//! | `opcode` | the marks before sections |
//! | `write` | the writer |
//! | `read` | the reader: finds sections, passes over entries |
//! | `inspect` | tells what is in a file |
//! | `entry` | reads entries that were found |
//! | `shape`, `skim` | what things are made of, and walking over them |
//! | `version` | whose kinds are in a file |
//! | `module` | names of modules |
//! | `dragonfly` | what Dragonfly compresses |
//! | `damage` | what is wrong with a file |
//!
//! Files of Dragonfly are read, too: one `.rdb`, or each of the parts and the summary of a `.dfs`.
//! Not known are its JSON, filters, sketches and search indexes, kinds 26 and above of Redis 8.6,
//! and functions of release candidates: a file with them is refused.
//!
//! Not here: files, threads, the order of entries. Bytes are appended to what the caller writes.
//! Tests: at the foot of the files, `tests/file.rs`, `tests/golden.rs` (other servers' files),
//! `compat/clients/rdb_files.py` (to other servers and back).

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

pub use damage::{Damage, Found};
pub use entry::{Content, Entries, Entry};
pub use inspect::{DatabaseSummary, Inspection, Summary};
pub use module::ModuleType;
pub use read::{FoundSection, Next, ReadOptions, Reader, Section};
pub use version::{Dialect, Version};
pub use write::{EntryWriting, HEAD_BYTES, Head, Sizes, Writer, write_database, write_entry};

/// The version in a head that everything is written as, unless something newer is in the file.
pub const OLDEST_WRITTEN: u16 = 10;
/// The first version of Valkey's own, whose head has Valkey's name.
pub const FIRST_OF_VALKEY: u16 = 80;
