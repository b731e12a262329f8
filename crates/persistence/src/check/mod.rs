//! Inspecting files: `pantala check` and `pantala journal`.
//!
//! ```text
//! pantala check FILE...           snapshot, increment, base, manifest, or their directory
//! pantala check --fix FILE        cuts off a torn end, after asking
//! pantala journal FILE            steps as lines of JSON
//! pantala journal --follow DIR    and those to come
//! ```
//!
//! | file | what |
//! |---|---|
//! | here | arguments, exit status |
//! | `inspect` | one file or manifest: content, damage |
//! | `snapshot` | counting the entries of a snapshot |
//! | `journal` | lines of JSON |
//!
//! Invariants
//! 1. Nothing on disk changes without `--fix`, and with it only a torn end is cut, of the last file
//!    that holds anything: damage before the end is reported, never cut.
//!
//! Not here: the process (`pantala-server`'s `main`). Tests: at the foot of the files.

mod inspect;
mod journal;
mod snapshot;

use std::io::{BufRead, Write};
use std::path::Path;

use crate::disk::Disk;
use inspect::Inspection;

/// The result as an exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Everything is whole.
    Whole = 0,
    /// Something is broken, and was not repaired.
    Broken = 1,
    /// The arguments are invalid.
    Usage = 2,
}

/// The environment of a command.
pub struct Surroundings<'s> {
    /// The files.
    pub disk: &'s dyn Disk,
    /// Answers to questions.
    pub input: &'s mut dyn BufRead,
    /// The report.
    pub output: &'s mut dyn Write,
    /// Waits a moment when following a file; returns false to end.
    pub pause: &'s mut dyn FnMut() -> bool,
}

const USAGE: &str = "\
usage: pantala check [--fix [--yes]] FILE...
       pantala journal [--follow] FILE

FILE is a snapshot (RDB), a file or the manifest of an append-only file, or the directory of one.
check says what is in it, and where it breaks. It ends with 0 if all is whole, with 1 if not.
  --fix     cut off a torn end, after asking
  --yes     do not ask
journal writes the steps of an append-only file, one line of JSON each.
  --follow  go on with those that come
";

/// Runs `check` or `journal`, if the first argument is one of them.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &[String], around: &mut Surroundings<'_>) -> Option<std::io::Result<Status>> {
    let (name, rest) = args.split_first()?;
    match name.as_str() {
        "check" => Some(check(rest, around)),
        "journal" => Some(print_journal(rest, around)),
        _ => None,
    }
}

/// Splits off the flags with these names, each at most once; `None`: an unknown flag.
fn split_flags<'a, const N: usize>(
    args: &'a [String],
    names: [&str; N],
) -> Option<([bool; N], Vec<&'a Path>)> {
    let (mut flags, mut paths) = ([false; N], Vec::new());
    for arg in args {
        match names.iter().position(|name| name == arg) {
            Some(at) => flags[at] = true,
            None if arg.starts_with("--") => return None,
            None => paths.push(Path::new(arg)),
        }
    }
    Some((flags, paths))
}

fn check(args: &[String], around: &mut Surroundings<'_>) -> std::io::Result<Status> {
    let split = split_flags(args, ["--fix", "--yes"]);
    let Some(([fixes, is_sure], paths)) = split.filter(|(_, paths)| !paths.is_empty()) else {
        around.output.write_all(USAGE.as_bytes())?;
        return Ok(Status::Usage);
    };
    let mut status = Status::Whole;
    for path in paths {
        let found = inspect::inspect(around.disk, path);
        for line in &found.lines {
            writeln!(around.output, "{line}")?;
        }
        if found.is_whole {
            continue;
        }
        let is_mended = fixes && mend(&found, is_sure, around)?;
        if !is_mended {
            status = Status::Broken;
        }
    }
    Ok(status)
}

/// Cuts off a torn end, if nothing else is wrong; returns whether everything is whole now.
fn mend(found: &Inspection, is_sure: bool, around: &mut Surroundings<'_>) -> std::io::Result<bool> {
    let Some((path, torn)) = &found.torn else {
        writeln!(around.output, "nothing is cut: what follows the damage would be lost")?;
        return Ok(false);
    };
    let shown = path.display();
    let bytes = torn.offset + torn.bytes;
    write!(around.output, "{shown}: cut from {bytes} to {} bytes", torn.offset)?;
    if !is_sure {
        write!(around.output, "? [y/N] ")?;
        around.output.flush()?;
        let mut answer = String::new();
        around.input.read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            writeln!(around.output, "not cut")?;
            return Ok(false);
        }
        write!(around.output, "{shown}")?;
    }
    match around.disk.truncate(path, torn.offset) {
        Ok(()) => writeln!(around.output, ": done").map(|()| true),
        Err(error) => writeln!(around.output, ": {error}").map(|()| false),
    }
}

fn print_journal(args: &[String], around: &mut Surroundings<'_>) -> std::io::Result<Status> {
    let split = split_flags(args, ["--follow"]);
    match split.as_ref().map(|([follows], paths)| (*follows, paths.as_slice())) {
        Some((follows, [path])) => journal::print(path, follows, around),
        _ => {
            around.output.write_all(USAGE.as_bytes())?;
            Ok(Status::Usage)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use crate::aof::{AofLayout, AofWriter, BaseKind};
    use crate::disk::simulated::SimulatedDisk;

    use super::*;

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

    pub(super) fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        disk.create_directory(Path::new("/d")).expect("made");
        disk
    }

    pub(super) fn put(disk: &SimulatedDisk, path: &str, bytes: &[u8]) {
        let file = disk.create(Path::new(path)).expect("created");
        file.append(bytes).expect("appended");
    }

    pub(super) fn call(disk: &SimulatedDisk, line: &str, answer: &str) -> (Status, String) {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (mut input, mut output) = (Cursor::new(answer.as_bytes().to_vec()), Vec::new());
        let mut around =
            Surroundings { disk, input: &mut input, output: &mut output, pause: &mut || false };
        let status = run(&args, &mut around).expect("it is known").expect("it can be written");
        (status, String::from_utf8(output).expect("it is text"))
    }

    #[track_caller]
    fn check(disk: &SimulatedDisk, line: &str, answer: &str, status: Status, expected: &str) {
        assert_eq!(call(disk, line, answer), (status, expected.to_owned()), "{line}");
    }

    #[test]
    fn other_arguments_are_the_servers() {
        let (mut input, mut output) = (Cursor::new(Vec::new()), Vec::new());
        let disk = disk();
        let mut around = Surroundings {
            disk: &disk,
            input: &mut input,
            output: &mut output,
            pause: &mut || false,
        };
        assert!(run(&[], &mut around).is_none());
        assert!(run(&["--port".into()], &mut around).is_none());
    }

    #[test]
    fn a_file_of_steps_is_counted() {
        let disk = disk();
        let multi = format!("*1\r\n$5\r\nMULTI\r\n{SET}{SET}*1\r\n$4\r\nEXEC\r\n");
        put(&disk, "/d/a", format!("#TS:7\r\n{SET}{multi}").as_bytes());
        check(
            &disk,
            "check /d/a",
            "",
            Status::Whole,
            "/d/a: 2 steps, 3 commands, 117 bytes: whole\n",
        );
        put(&disk, "/d/b", b"");
        check(
            &disk,
            "check /d/b",
            "",
            Status::Whole,
            "/d/b: 0 steps, 0 commands, 0 bytes: whole\n",
        );
    }

    #[test]
    fn a_torn_end_is_told_and_cut_after_asking() {
        let disk = disk();
        put(&disk, "/d/a", format!("{SET}*3\r\n$3\r\nSE").as_bytes());
        let told = "/d/a: 1 steps, 1 commands, 27 bytes, then torn at offset 27: \
                    the file ends inside a command (10 bytes)\n";
        check(&disk, "check /d/a", "", Status::Broken, told);
        let asked = format!("{told}/d/a: cut from 37 to 27 bytes? [y/N] ");
        check(&disk, "check --fix /d/a", "n\n", Status::Broken, &format!("{asked}not cut\n"));
        check(&disk, "check --fix /d/a", "", Status::Broken, &format!("{asked}not cut\n"));
        check(&disk, "check --fix /d/a", "y\n", Status::Whole, &format!("{asked}/d/a: done\n"));
        let whole = "/d/a: 1 steps, 1 commands, 27 bytes: whole\n";
        check(&disk, "check --fix --yes /d/a", "", Status::Whole, whole);
    }

    #[test]
    fn damage_is_told_and_never_cut() {
        let disk = disk();
        put(&disk, "/d/a", format!("{SET}x{SET}").as_bytes());
        let (status, told) = call(&disk, "check --fix --yes /d/a", "");
        assert_eq!(status, Status::Broken);
        assert!(told.starts_with("/d/a: 1 steps, 1 commands, 27 bytes, then damaged: offset 27"));
        assert!(
            told.ends_with("nothing is cut: what follows the damage would be lost\n"),
            "{told}"
        );
        assert_eq!(disk.size(Path::new("/d/a")).expect("there"), 55);
    }

    #[test]
    fn a_manifest_is_checked_with_its_files() {
        let disk = disk();
        let layout = AofLayout::new(Path::new("/d"), "aof", "a");
        let mut writer = AofWriter::new(Arc::new(disk.clone()), layout.clone(), None, 0);
        writer.resume().expect("it begins");
        writer.append(SET.as_bytes(), None).expect("appended");
        let rewrite = writer.begin_rewrite(BaseKind::Commands).expect("it begins");
        put(&disk, &rewrite.base_path.display().to_string(), SET.as_bytes());
        writer.finish_rewrite(rewrite).expect("finished");
        writer.append(&SET.as_bytes()[..5], None).expect("appended");
        let told = "/d/aof/a.manifest: a base, 1 increments, 1 files of history\n\
                    /d/aof/a.1.base.aof: 1 steps, 1 commands, 27 bytes: whole\n\
                    /d/aof/a.2.incr.aof: 0 steps, 0 commands, 0 bytes, then torn at offset 0: \
                    the file ends inside a command (5 bytes)\n";
        check(&disk, "check /d/aof", "", Status::Broken, told);
        check(&disk, "check /d/aof/a.manifest", "", Status::Broken, told);
        let cut = format!("{told}/d/aof/a.2.incr.aof: cut from 5 to 0 bytes: done\n");
        check(&disk, "check --fix --yes /d/aof", "", Status::Whole, &cut);
        disk.remove(&layout.path("a.1.base.aof")).expect("removed");
        let (status, told) = call(&disk, "check --fix --yes /d/aof", "");
        assert_eq!(status, Status::Broken);
        assert!(told.contains("No such file or directory: the manifest names it"), "{told}");
    }

    #[test]
    fn what_can_not_be_read_is_broken() {
        let disk = disk();
        check(&disk, "check /d/x", "", Status::Broken, "/d/x: entity not found\n");
        put(&disk, "/d/x.manifest", b"what\n");
        let told = "/d/x.manifest: Reading the manifest file, at line 1 (offset 0): Invalid AOF \
                    manifest file format: expected 'file NAME seq NUMBER type b|h|i'\n";
        check(&disk, "check /d/x.manifest", "", Status::Broken, told);
        let (status, told) = call(&disk, "check --what", "");
        assert!(status == Status::Usage && told.starts_with("usage: pantala check"), "{told}");
    }
}
