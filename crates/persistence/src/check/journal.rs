//! Prints the steps of an append-only file as lines of JSON: change capture from files.
//!
//! ```text
//! {"file":"a.1.incr.aof","offset":23,"bytes":31,"time":1700000000,
//!  "commands":[{"db":0,"args":["SET","k","v"]}]}
//! ```
//!
//! A line is a step: several commands are one transaction. `offset` is its start in the file. An
//! argument that is not UTF-8 is `{"hex":"ff00"}`. `time`, in seconds since 1970, is the last time
//! stamp before it, where the file has any. SELECT is not shown: `db` has the database.
//!
//! Invariants
//! 1. A step is printed once it is whole, exactly once, in order.
//!
//! Not here: snapshots, which hold no steps; they are skipped. Tests: at the foot.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pantala_base::number::parse_i64;
use serde_json::{Value, json};

use super::inspect::{find_manifest, read_manifest};
use super::{Status, Surroundings, snapshot};
use crate::aof::files::{PartFile, part_files};
use crate::aof::load::{begins_with_snapshot, skip_to};
use crate::aof::reader::{ReadError, StepRead, StepReader};
use crate::disk::Disk;

/// Prints the steps of a file, or of all files of a manifest.
pub fn print(path: &Path, follows: bool, around: &mut Surroundings<'_>) -> io::Result<Status> {
    let manifest = match find_manifest(around.disk, path) {
        Ok(manifest) => manifest,
        Err(what) => return broken(path, &what, around),
    };
    let mut done: Vec<PathBuf> = Vec::new();
    loop {
        let files = match &manifest {
            Some(manifest) => files_of(around.disk, manifest),
            None => around.disk.size(path).map_err(|error| error.to_string()).map(|bytes| {
                vec![PartFile { path: path.to_owned(), bytes, is_last: true, is_base: false }]
            }),
        };
        let files = match files {
            Ok(files) => files,
            Err(what) => return broken(path, &what, around),
        };
        let new = files.into_iter().filter(|file| !done.contains(&file.path));
        for file in new.collect::<Vec<_>>() {
            let follows = follows && file.is_last;
            let mut printer = Printer::new(&file, manifest.as_deref(), follows);
            match printer.print(around) {
                Ok(()) => done.push(file.path),
                Err(PrintStop::Write(error)) => return Err(error),
                Err(PrintStop::Broken(what)) => return broken(&file.path, &what, around),
                Err(PrintStop::Over) => return Ok(Status::Whole),
            }
        }
        if !follows {
            return Ok(Status::Whole);
        }
    }
}

fn broken(path: &Path, what: &str, around: &mut Surroundings<'_>) -> io::Result<Status> {
    let fault = json!({ "file": path.display().to_string(), "error": what });
    writeln!(around.output, "{fault}")?;
    Ok(Status::Broken)
}

fn files_of(disk: &dyn Disk, manifest: &Path) -> Result<Vec<PartFile>, String> {
    let (layout, manifest) = read_manifest(disk, manifest)?;
    part_files(disk, &layout, &manifest).map_err(|error| error.to_string())
}

/// Why printing ended early.
enum PrintStop {
    Write(io::Error),
    Broken(String),
    /// Following was ended.
    Over,
}

impl From<io::Error> for PrintStop {
    fn from(error: io::Error) -> Self {
        PrintStop::Broken(error.to_string())
    }
}

struct Printer<'p> {
    file: &'p PartFile,
    manifest: Option<&'p Path>,
    follows: bool,
    db: u64,
    time: Option<i64>,
}

impl<'p> Printer<'p> {
    fn new(file: &'p PartFile, manifest: Option<&'p Path>, follows: bool) -> Self {
        Printer { file, manifest, follows, db: 0, time: None }
    }

    /// Prints one file, up to where another follows it.
    fn print(&mut self, around: &mut Surroundings<'_>) -> Result<(), PrintStop> {
        let mut offset = self.begin(around.disk)?;
        loop {
            let bytes = around.disk.size(&self.file.path)?;
            // Checked before the end is read: what is there then is everything.
            let is_over = self.has_follower(around.disk);
            let input = skip_to(around.disk, &self.file.path, offset)?;
            let mut reader = StepReader::new(input, Vec::new(), offset, bytes);
            let end = self.print_steps(&mut reader, around)?;
            offset = reader.begin_offset();
            match end {
                StepRead::Torn(torn) if !self.follows || is_over => {
                    return Err(PrintStop::Broken(torn.to_string()));
                }
                _ if !self.follows || is_over => return Ok(()),
                _ => {}
            }
            around.output.flush().map_err(PrintStop::Write)?;
            if !(around.pause)() {
                return Err(PrintStop::Over);
            }
        }
    }

    /// The offset of the first step, after a snapshot if there is one.
    fn begin(&self, disk: &dyn Disk) -> Result<u64, PrintStop> {
        let mut input = disk.open_to_read(&self.file.path)?;
        let (ahead, is_snapshot) = begins_with_snapshot(&mut input)?;
        if !is_snapshot {
            return Ok(0);
        }
        let counted = snapshot::count(&mut ahead.as_slice().chain(input), self.file.bytes);
        counted.map(|counted| counted.bytes).map_err(PrintStop::Broken)
    }

    /// Whether the manifest names a file after this one.
    fn has_follower(&self, disk: &dyn Disk) -> bool {
        let Some(manifest) = self.manifest else { return false };
        let Ok((_, manifest)) = read_manifest(disk, manifest) else { return false };
        let name = self.file.path.file_name().and_then(|name| name.to_str());
        manifest.parts().last().map(|part| part.name.as_str()) != name
    }

    fn print_steps(
        &mut self,
        reader: &mut StepReader,
        around: &mut Surroundings<'_>,
    ) -> Result<StepRead, PrintStop> {
        loop {
            match reader.next() {
                Ok(StepRead::Step) => {
                    if let Some(line) = self.line(reader) {
                        writeln!(around.output, "{line}").map_err(PrintStop::Write)?;
                    }
                }
                Ok(StepRead::Annotation) => {
                    let time = reader.annotation().strip_prefix(b"TS:").and_then(parse_i64);
                    self.time = time.or(self.time);
                }
                Ok(end) => return Ok(end),
                Err(ReadError::Damage(damage)) => {
                    return Err(PrintStop::Broken(damage.to_string()));
                }
                Err(ReadError::Disk(error)) => return Err(error.into()),
            }
        }
    }

    /// The step as JSON; nothing for a step that only selects a database.
    fn line(&mut self, reader: &StepReader) -> Option<Value> {
        let mut commands = Vec::new();
        for command in reader.step().commands(reader.window()) {
            let args: Vec<&[u8]> = command.collect();
            if let [name, db] = args[..]
                && name.eq_ignore_ascii_case(b"SELECT")
            {
                self.db = parse_i64(db).and_then(|db| u64::try_from(db).ok()).unwrap_or(self.db);
                continue;
            }
            let args: Vec<Value> = args.into_iter().map(text).collect();
            commands.push(json!({ "db": self.db, "args": args }));
        }
        if commands.is_empty() {
            return None;
        }
        let name = self.file.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut line = json!({
            "file": name,
            "offset": reader.begin_offset(),
            "bytes": reader.offset() - reader.begin_offset(),
            "commands": commands,
        });
        if let Some(time) = self.time {
            line["time"] = json!(time);
        }
        Some(line)
    }
}

fn text(arg: &[u8]) -> Value {
    match std::str::from_utf8(arg) {
        Ok(text) => json!(text),
        Err(_) => {
            let hex: String = arg.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "hex": hex })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use super::super::run;
    use super::super::tests::{call, disk, put};
    use super::*;
    use crate::aof::{AofLayout, AofWriter, BaseKind};

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    const SELECT: &str = "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";

    #[test]
    fn steps_are_lines_of_json() {
        let disk = disk();
        let odd = "*2\r\n$3\r\nDEL\r\n$2\r\n";
        let multi = format!("*1\r\n$5\r\nMULTI\r\n{SET}{SELECT}{SET}*1\r\n$4\r\nEXEC\r\n");
        let bytes =
            [SET.as_bytes(), b"#TS:70\r\n", multi.as_bytes(), odd.as_bytes(), b"\xff\n\r\n"];
        put(&disk, "/d/a", &bytes.concat());
        let (status, text) = call(&disk, "journal /d/a", "");
        let expected = "\
{\"bytes\":27,\"commands\":[{\"args\":[\"SET\",\"k\",\"v\"],\"db\":0}],\"file\":\"a\",\"offset\":0}
{\"bytes\":106,\"commands\":[{\"args\":[\"SET\",\"k\",\"v\"],\"db\":0},\
{\"args\":[\"SET\",\"k\",\"v\"],\"db\":3}],\"file\":\"a\",\"offset\":35,\"time\":70}
{\"bytes\":21,\"commands\":[{\"args\":[\"DEL\",{\"hex\":\"ff0a\"}],\"db\":3}],\"file\":\"a\",\
\"offset\":141,\"time\":70}
";
        assert_eq!((status, text.as_str()), (Status::Whole, expected));
    }

    #[test]
    fn what_is_broken_is_the_last_line() {
        let disk = disk();
        put(&disk, "/d/a", format!("{SET}x").as_bytes());
        let (status, text) = call(&disk, "journal /d/a", "");
        assert_eq!(status, Status::Broken);
        let last = text.lines().last().expect("there is one");
        assert!(last.starts_with("{\"error\":\"offset 27: expected a command"), "{last}");
    }

    #[test]
    fn a_journal_is_followed_across_files_and_half_steps() {
        let disk = disk();
        let layout = AofLayout::new(Path::new("/d"), "aof", "a");
        let mut writer = AofWriter::new(Arc::new(disk.clone()), layout, None, 0);
        writer.resume().expect("it begins");
        writer.append(SET.as_bytes(), None).expect("appended");
        let mut moment = 0;
        let mut pause = || {
            moment += 1;
            match moment {
                1 => writer.append(&SET.as_bytes()[..9], None).expect("appended"),
                2 => writer.append(&SET.as_bytes()[9..], None).expect("appended"),
                3 => {
                    writer.append(SELECT.as_bytes(), None).expect("appended");
                    drop(writer.begin_rewrite(BaseKind::Rdb).expect("it begins"));
                    writer.append(SET.as_bytes(), None).expect("appended");
                }
                4 => {}
                _ => return false,
            }
            true
        };
        let (mut input, mut output) = (Cursor::new(Vec::new()), Vec::new());
        let mut around =
            Surroundings { disk: &disk, input: &mut input, output: &mut output, pause: &mut pause };
        let args = ["journal", "--follow", "/d/aof"].map(str::to_owned);
        let status = run(&args, &mut around).expect("known").expect("written");
        assert_eq!(status, Status::Whole);
        let text = String::from_utf8(output).expect("it is text");
        let steps: Vec<(String, u64)> = text
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).expect("it is JSON");
                (line["file"].to_string(), line["offset"].as_u64().expect("a number"))
            })
            .collect();
        let (first, second) = ("\"a.1.incr.aof\"".to_owned(), "\"a.2.incr.aof\"".to_owned());
        assert_eq!(steps, [(first.clone(), 0), (first, 27), (second, 0)]);
    }
}
