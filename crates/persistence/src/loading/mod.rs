//! Loads a snapshot file: one thread finds the ends of entries, others decode and insert them.
//!
//! ```text
//! file --> read: windows, sections --> batches of whole entries --> insert, on many threads
//!                      |--> functions, sizes, what modules left
//! ```
//!
//! Invariants
//! 1. Unreadable data is reported with its offset in the file and with what was expected; nothing
//!    is skipped silently.
//! 2. Memory beside the data is bounded by some batches and the largest entry: the claimed size of
//!    an entry is bounded by the file.
//!
//! Not here: threads, and access to the data meanwhile (`pantala-server`); the append-only file
//! (`aof`). Tests: at the foot of the files; compat/bad_days.

mod insert;
mod read;

use std::fmt;
use std::io;

use pantala_rdb::file::RdbDamage;

pub use insert::{InsertOutcome, Inserter};
pub use read::{Batch, Part, read_file};

/// Why a file cannot be loaded.
#[derive(Debug)]
pub enum Fault {
    /// The file cannot be read.
    Disk(io::Error),
    /// The file is damaged.
    Damage(RdbDamage),
    /// A key occurs twice; the second is at this offset.
    Twice(u64, Vec<u8>),
    /// A value of an unknown module, at this offset.
    Module(u64, String),
    /// Entries of a database that does not exist, at this offset.
    Database(u64, u32),
    /// A library of functions is refused, with this message.
    Library(Vec<u8>),
    /// Loading was cancelled.
    CalledOff,
}

/// In the words of Redis and Valkey, by which operators and tools look for it, and then in ours.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Disk(error) => write!(f, "{error}"),
            Fault::Damage(damage) => {
                let (offset, words) = (damage.offset, damage.words());
                write!(f, "Internal error in RDB reading offset {offset} -> {words}. {damage}")
            }
            Fault::Twice(offset, key) => {
                let key = key.escape_ascii();
                write!(
                    f,
                    "Duplicated key found in RDB file: byte {offset}: expected another key, found \
                     {key} again"
                )
            }
            Fault::Module(offset, name) => write!(
                f,
                "The RDB file contains module data I can't load: no matching module type '{name}' \
                 (byte {offset}); --skip_module_values yes leaves such keys out"
            ),
            Fault::Database(offset, db) => write!(
                f,
                "FATAL: Data file was created with a server configured to handle more than \
                 --databases says: byte {offset}: found database {db}"
            ),
            Fault::Library(words) => {
                write!(f, "Failed loading library, {}", words.escape_ascii())
            }
            Fault::CalledOff => f.write_str("it is not wanted any more"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<RdbDamage> for Fault {
    fn from(damage: RdbDamage) -> Fault {
        Fault::Damage(damage)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pantala_base::{HashSeed, UnixMs};
    use pantala_keyspace::{DbIndex, Keyspace, KeyspaceConfig, Tally};
    use pantala_rdb::file::{RdbWriter, ReadOptions, write_entry};
    use pantala_rdb::payload::Versions;
    use pantala_rdb::{RdbLimits, Strings};
    use pantala_settings::Settings;
    use pantala_table::{StrRef, ValueRef};

    pub(crate) fn limits() -> RdbLimits {
        pantala_commands::families::generic::rdb_limits(&Settings::defaults())
    }

    /// A file with these keys, each in a database and optionally with a deadline.
    fn file(keys: &[(u32, &str, Option<i64>)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = RdbWriter::begin(10, true, &mut out);
        writer.aux(b"used-mem", b"7", &mut out);
        writer.function(b"code", Strings::Plain, &mut out);
        for (db, key, deadline) in keys {
            writer.database(*db, &mut out);
            let (before, value) = (out.len(), ValueRef::Str(StrRef::Bytes(key.as_bytes())));
            let deadline = deadline.map(UnixMs);
            write_entry(key.as_bytes(), deadline, &value, UnixMs(0), Strings::Plain, &mut out);
            let entry = out[before..].to_vec();
            writer.entries(&entry, 10);
        }
        writer.end(&mut out);
        out
    }

    fn space() -> Keyspace {
        let seed = HashSeed::from_words(1, 2);
        Keyspace::new(KeyspaceConfig { seed, databases: 4, worker_slots: 1, lane_slots: 1 })
    }

    /// Loads a file; returns the counts, and how many keys each database has.
    fn load(bytes: &[u8], replaces: bool) -> Result<(InsertOutcome, Vec<u64>), String> {
        let (space, limits) = (space(), limits());
        let now = UnixMs(1000);
        let inserter = Inserter {
            space: &space,
            limits: &limits,
            now,
            skips_modules: false,
            replaces,
            on_expired: &|_, _| {},
            on_empty: &|_| {},
        };
        let options = ReadOptions { versions: Versions::Known, checks: true, file_bytes: None };
        let (mut sum, mut fault, tally) = (InsertOutcome::default(), None, Tally::default());
        let read = read_file(&mut &*bytes, options, &mut |part| {
            if let Part::Batch(batch) = part {
                match inserter.insert(&batch, &tally) {
                    Ok(inserted) => sum.add(inserted),
                    Err(error) => fault = Some(error),
                }
            }
            fault.is_none()
        });
        if let Some(fault) = fault {
            return Err(fault.to_string());
        }
        read.map_err(|fault| fault.to_string())?;
        let sizes = (0..4).map(|db| space.sizes(DbIndex(db)).map_or(0, |sizes| sizes.keys()));
        Ok((sum, sizes.collect()))
    }

    #[test]
    fn keys_come_back_but_for_those_whose_time_is_over() {
        let bytes = file(&[
            (0, "a", None),
            (0, "b", Some(999)),
            (2, "a", Some(1001)),
            (0, "c", None),
            (3, "d", Some(999)),
        ]);
        let (inserted, sizes) = load(&bytes, false).expect("it is sound");
        assert_eq!((inserted.loaded, inserted.expired), (3, 2));
        assert_eq!(sizes, [2, 0, 1, 0]);
    }

    #[test]
    fn many_keys_come_in_several_batches() {
        let names: Vec<String> = (0..20_000).map(|number| format!("a key {number}")).collect();
        let keys: Vec<_> = names.iter().map(|name| (0, &**name, None)).collect();
        let bytes = file(&keys);
        let options = ReadOptions { versions: Versions::Known, checks: true, file_bytes: None };
        let (mut batches, mut others) = (0, Vec::new());
        let mut take = |part: Part| {
            match part {
                Part::Batch(_) => batches += 1,
                other => others.push(other),
            }
            true
        };
        read_file(&mut &*bytes, options, &mut take).expect("it is sound");
        assert!(batches > 2, "{batches}");
        let [Part::Aux(name, value), Part::Function(code)] = &others[..] else {
            panic!("{others:?}")
        };
        assert_eq!((&name[..], &value[..], &code[..]), (&b"used-mem"[..], &b"7"[..], &b"code"[..]));
        assert_eq!(load(&bytes, false).expect("it is sound").1, [20_000, 0, 0, 0]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let twice = file(&[(0, "a", None), (0, "b", None), (0, "a", None)]);
        let told = load(&twice, false).expect_err("one key is there twice");
        assert!(told.starts_with("Duplicated key found in RDB file: byte "), "{told}");
        assert!(told.ends_with("another key, found a again"), "{told}");
        assert_eq!(load(&twice, true).expect("the last one counts").1, [2, 0, 0, 0]);
        let told = load(&file(&[(4, "a", None)]), false).expect_err("there are four databases");
        let words = "FATAL: Data file was created with a server configured to handle more than";
        assert!(told.starts_with(words) && told.ends_with("found database 4"), "{told}");
        let sound = file(&[(0, "a", None), (0, "b", None)]);
        for cut in 0..sound.len() {
            let told = load(&sound[..cut], false).expect_err("it is cut");
            assert!(told.starts_with("Internal error in RDB reading offset "), "{told}");
            let words = "-> Short read or OOM loading DB. Unrecoverable error, aborting now. byte ";
            assert!(told.contains(words), "{told}");
        }
        let wrong = |at: usize, byte: u8| {
            let mut wrong = sound.clone();
            wrong[at] = byte;
            load(&wrong, false).expect_err("it is damaged")
        };
        for (at, byte, words) in [
            (0, b'X', "-> Wrong signature trying to load DB from file. byte 0: expected REDIS"),
            (5, b'9', "-> Can't handle RDB format version 9010. byte 0: expected a version"),
            (sound.len() - 1, 0, "-> RDB CRC error. byte "),
        ] {
            let told = wrong(at, byte);
            assert!(told.contains(words), "{told}");
        }
        for at in 0..sound.len() {
            let mut wrong = sound.clone();
            wrong[at] ^= 0x10;
            assert!(load(&wrong, false).is_err(), "byte {at}");
        }
    }
}
