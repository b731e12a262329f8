//! Counts the content of a snapshot: every entry is read.
//!
//! Tests: at the foot.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use pantala_commands::families::generic::rdb_limits;
use pantala_rdb::RdbLimits;
use pantala_rdb::file::{Content, RdbEntries, ReadOptions};
use pantala_rdb::payload::Versions;
use pantala_settings::Settings;

use crate::loading::{Batch, Part, read_file};

/// The counts.
#[derive(Debug, Default)]
pub struct Counted {
    /// Bytes of the snapshot; the file may have more.
    pub bytes: u64,
    /// The version in its head.
    version: u16,
    /// Keys by database.
    databases: BTreeMap<u32, u64>,
    /// Keys by type.
    types: BTreeMap<&'static str, u64>,
    with_deadline: u64,
    functions: u64,
    /// The server and version named in the file.
    written_by: Option<String>,
}

/// Reads a snapshot to its end.
///
/// # Errors
/// Where it is damaged, and what was expected there.
pub fn count(file: &mut dyn Read, file_bytes: u64) -> Result<Counted, String> {
    let limits = rdb_limits(&Settings::defaults());
    let options =
        ReadOptions { versions: Versions::All, checks: true, file_bytes: Some(file_bytes) };
    let mut counted = Counted::default();
    let mut damage = None;
    let read = read_file(file, options, &mut |part| {
        match part {
            Part::Batch(batch) => damage = counted.add(&batch, &limits).err(),
            Part::Function(_) => counted.functions += 1,
            Part::Aux(name, value) => counted.note(&name, &value),
            Part::Module(..) => *counted.types.entry("module").or_default() += 1,
        }
        damage.is_none()
    });
    match (damage, read) {
        (Some(damage), _) => Err(damage),
        (None, Err(fault)) => Err(fault.to_string()),
        (None, Ok(bytes)) => {
            counted.bytes = bytes;
            Ok(counted)
        }
    }
}

impl Counted {
    fn add(&mut self, batch: &Batch, limits: &RdbLimits) -> Result<(), String> {
        self.version = batch.version.number;
        for entry in RdbEntries::new(&batch.bytes, batch.offset, batch.version, limits) {
            let entry = entry.map_err(|damage| damage.to_string())?;
            *self.databases.entry(batch.db.0).or_default() += 1;
            let name = match entry.content {
                Content::Value(_) | Content::Nothing => entry.kind.type_name(),
                Content::Module(_) => "module",
            };
            *self.types.entry(name).or_default() += 1;
            self.with_deadline += u64::from(entry.deadline.is_some());
        }
        Ok(())
    }

    fn note(&mut self, name: &[u8], value: &[u8]) {
        if let b"redis-ver" | b"valkey-ver" | b"pantala-ver" = name {
            let (name, value) = (name.escape_ascii(), value.escape_ascii());
            self.written_by = Some(format!("{name} {value}"));
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: u64 = self.databases.values().sum();
        let databases = self.databases.len();
        write!(out, "snapshot, {} bytes", self.bytes)?;
        if self.version > 0 {
            write!(out, ", version {}", self.version)?;
        }
        if let Some(written_by) = &self.written_by {
            write!(out, ", {written_by}")?;
        }
        write!(
            out,
            ": {keys} keys in {databases} databases, {} with a deadline",
            self.with_deadline
        )?;
        for (name, count) in &self.types {
            write!(out, ", {count} {name}")?;
        }
        if self.functions > 0 {
            write!(out, ", {} libraries", self.functions)?;
        }
        out.write_str(": whole")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::tests::{call, disk, put};

    /// The bytes that redis-server 7.0.15 writes for an empty dataset, up to the checksum.
    fn empty() -> Vec<u8> {
        let mut bytes = b"REDIS0010\xfa\x09redis-ver\x067.0.15\xff".to_vec();
        let checksum = pantala_base::crc::crc64(0, &bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_snapshot_is_counted_and_steps_behind_it_too() {
        let disk = disk();
        put(&disk, "/d/a.rdb", &empty());
        let bytes = empty().len();
        let counted = format!(
            "/d/a.rdb: snapshot, {bytes} bytes, redis-ver 7.0.15: \
             0 keys in 0 databases, 0 with a deadline: whole\n"
        );
        assert_eq!(call(&disk, "check /d/a.rdb", ""), (Status::Whole, counted.clone()));
        put(&disk, "/d/a.rdb", &[&empty()[..], b"*1\r\n$4\r\nPING\r\n"].concat());
        let steps = format!("{counted}/d/a.rdb: 1 steps, 1 commands, 14 bytes: whole\n");
        assert_eq!(call(&disk, "check /d/a.rdb", ""), (Status::Whole, steps));
    }

    #[test]
    fn a_damaged_snapshot_is_told() {
        let disk = disk();
        let mut bytes = empty();
        bytes[20] ^= 1;
        put(&disk, "/d/a.rdb", &bytes);
        let (status, told) = call(&disk, "check --fix --yes /d/a.rdb", "");
        assert_eq!(status, Status::Broken);
        let words = "/d/a.rdb: Internal error in RDB reading offset ";
        assert!(told.starts_with(words), "{told}");
        put(&disk, "/d/a.rdb", &empty()[..12]);
        assert_eq!(call(&disk, "check /d/a.rdb", "").0, Status::Broken);
    }
}
