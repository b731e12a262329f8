//! The records of a server: its append-only files, read while it runs.
//!
//! 1. Of each file only the new part is read, and only complete records are taken.
//! 2. A record is taken once. Records of the base are never taken: only increments grow.

use crate::client::{Connection, Fault};
use crate::pattern::Resp;
use crate::value::{self, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a record may take to reach the file.
const WRITTEN_LIMIT: Duration = Duration::from_secs(20);
/// The time between two reads of the file.
const WRITTEN_POLL: Duration = Duration::from_millis(2);
/// Two databases that no case uses. When the SWAPDB of them has been recorded, everything before it
/// has been written: it touches every key there could be, so no server may record it earlier.
const UNUSED: [&str; 2] = ["14", "15"];

/// One recorded command, in its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The database.
    pub db: usize,
    /// The command's words.
    pub args: Vec<Vec<u8>>,
}

impl Record {
    /// Whether it is the command of this name.
    pub fn is(&self, name: &str) -> bool {
        self.args.first().is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The increments of one server, and how far they have been read.
pub struct Log {
    folder: PathBuf,
    file: PathBuf,
    offset: usize,
    db: usize,
}

impl Log {
    /// The log of a server that writes to the folder `appendonlydir` in this one.
    pub fn of(folder: &Path) -> Log {
        let folder = folder.join("appendonlydir");
        Log { folder, file: PathBuf::new(), offset: 0, db: 0 }
    }

    /// The records that the server at this address has written since the last call.
    pub fn take(&mut self, address: &str) -> Result<Vec<Record>, String> {
        let fault = |fault: Fault| format!("{address}: {fault:?}");
        let mut connection = Connection::open(address, Resp::Two).map_err(fault)?;
        connection.command(&["SWAPDB", UNUSED[0], UNUSED[1]]).map_err(fault)?;
        let mut records = Vec::new();
        let limit = Instant::now() + WRITTEN_LIMIT;
        while !records.iter().any(is_end) {
            if Instant::now() > limit {
                return Err(format!("{address}: a record did not reach {:?}", self.file));
            }
            if !self.read(&mut records)? {
                std::thread::sleep(WRITTEN_POLL);
            }
        }
        records.retain(|record| !is_end(record));
        Ok(records)
    }

    /// Reads the new records. Returns whether there were any.
    fn read(&mut self, records: &mut Vec<Record>) -> Result<bool, String> {
        let newest = self.newest()?;
        if newest != self.file && !self.file.as_os_str().is_empty() {
            let rest = std::mem::replace(&mut self.file, newest);
            let had = read_from(&rest, &mut self.offset, &mut self.db, records)?;
            self.offset = 0;
            return Ok(had);
        }
        self.file = newest;
        read_from(&self.file, &mut self.offset, &mut self.db, records)
    }

    /// The last increment that the manifest names.
    fn newest(&self) -> Result<PathBuf, String> {
        let trouble = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        for entry in std::fs::read_dir(&self.folder).map_err(trouble)? {
            let path = entry.map_err(trouble)?.path();
            if path.extension().is_some_and(|extension| extension == "manifest") {
                let text = std::fs::read_to_string(&path).map_err(trouble)?;
                let last = text.lines().rfind(|line| line.contains(" type i"));
                let name = last.and_then(|line| line.split(' ').nth(1));
                return match name {
                    Some(name) => Ok(self.folder.join(name)),
                    None => Err(format!("{}: it names no increment", path.display())),
                };
            }
        }
        Err(format!("{}: there is no manifest", self.folder.display()))
    }
}

fn is_end(record: &Record) -> bool {
    record.is("swapdb")
        && record.args[1..].iter().zip(UNUSED).all(|(word, db)| word == db.as_bytes())
}

/// Reads the complete records of a file from `offset` on. Returns whether there were any.
fn read_from(
    path: &Path,
    offset: &mut usize,
    db: &mut usize,
    records: &mut Vec<Record>,
) -> Result<bool, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let before = *offset;
    while let Some(rest) = bytes.get(*offset..).filter(|rest| !rest.is_empty()) {
        if rest[0] == b'#' {
            let Some(end) = rest.iter().position(|&byte| byte == b'\n') else { break };
            *offset += end + 1;
            continue;
        }
        let wrong = |what: &str| format!("{} at {offset}: {what}", path.display());
        let Some((value, used)) = value::read(rest).map_err(|bad| wrong(bad.0))? else { break };
        let args = words(value).ok_or_else(|| wrong("not an array of texts"))?;
        let args = meant(args);
        *offset += used;
        match args.as_slice() {
            [name, number] if name.eq_ignore_ascii_case(b"SELECT") => {
                let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
                *db = number.ok_or_else(|| format!("{}: SELECT of what?", path.display()))?;
            }
            _ => records.push(Record { db: *db, args }),
        }
    }
    Ok(*offset > before)
}

/// The command itself, without the words around it by which Pantala records commands that other
/// servers are to skip.
fn meant(mut args: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let texts: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let before = match texts[..] {
        [b"REPLCONF", b"ACK", b"PANTALA", b"", ..] => 4,
        [b"REPLCONF", b"ACK", b"PANTALA", ..] => 3,
        [b"EVAL", b"redis.pcall(unpack(ARGV))", ..] => 4,
        _ => 0,
    };
    args.drain(..before);
    args
}

fn words(value: Value) -> Option<Vec<Vec<u8>>> {
    let Value::Array(items) = value else { return None };
    let text = |item| match item {
        Value::Bulk(text) => Some(text),
        _ => None,
    };
    items.into_iter().map(text).collect::<Option<_>>().filter(|words: &Vec<_>| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn whole_records_are_taken_once_each_in_its_database() {
        let folder = std::env::temp_dir().join(format!("compat-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.1.incr.aof");
        let mut file = std::fs::File::create(&path).unwrap();
        let (mut offset, mut db, mut records) = (0, 0, Vec::new());
        let mut write = |text: &str| file.write_all(text.as_bytes()).unwrap();
        write("*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n#TS:17\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nEX");
        assert!(read_from(&path, &mut offset, &mut db, &mut records).unwrap());
        assert_eq!(records, [Record { db: 3, args: vec![b"PING".to_vec()] }]);
        write("EC\r\n*1\r\n:1\r\n");
        let error = read_from(&path, &mut offset, &mut db, &mut records).unwrap_err();
        assert!(error.contains("not an array of texts"), "{error}");
        assert!(records[1].is("exec"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
