//! The command lines in the rows of `steps`. A line is words, some of them quoted with `'`;
//! variables (`NAME=word`) may come first. These marks are replaced:
//!
//! | mark | by |
//! |---|---|
//! | `{xtask}` | this program |
//! | `{compat}`, `{serial}`, `{differ}` | the tool of that name in `compat`, which cargo builds |
//! | `{server}` | the binary under test |
//! | `{spawn}`, `{local}` | `Run::spawn`, `Run::local` |
//! | `{memory}` | a folder in memory, where there is one |
//! | `{long}` | `--long` in a long run, else no word |
//! | `{resp}` | `both` protocols in a long run, else `2` |
//!
//! Not here: patterns and redirections; a step that needs more is a function. Tests: at the foot.

use std::process::Command;

use super::run::{Reach, Run};

/// How a part of a step ended.
pub type Ending = Result<(), Fault>;

/// What a step did not do well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It failed; its log says why.
    Failed,
    /// It cannot be done here; the last line of its log says why.
    Skipped,
}

/// The exit code of what cannot be done here.
pub const SKIPPED: u8 = 75;

/// Tools that stand for several words. `differ` leaves out what docs/differences.md says of OBJECT
/// ENCODING after INCRBYFLOAT, and of MSETEX with a deadline in the past; COMMAND lists the
/// commands there are, and so unknown ones differ.
const TOOLS: [(&str, &str); 3] = [
    ("{differ}", "{compat} differ --skip OBJECT,MSETEX,COMMAND,NOSUCHCOMMAND"),
    ("{compat}", "cargo run --quiet --package pantala-compat --bin compat --"),
    ("{serial}", "cargo run --quiet --package pantala-compat --bin serial --"),
];

/// Runs a line.
pub fn run_line(run: &Run, line: &str) -> Ending {
    let mut words = expand(run, line).into_iter().peekable();
    let mut variables = Vec::new();
    while let Some((name, value)) = words.peek().and_then(|word| variable(word)) {
        variables.push((name.to_string(), value.to_string()));
        words.next();
    }
    let program = words.next().unwrap_or_default();
    finish(Command::new(program).args(words).envs(variables))
}

/// Runs a program with what it was given, and without anything to read.
pub fn finish(command: &mut Command) -> Ending {
    match command.stdin(std::process::Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if status.code() == Some(SKIPPED.into()) => Err(Fault::Skipped),
        Ok(_) => Err(Fault::Failed),
        Err(error) => Err(refuse(&format!("{}: {error}", command.get_program().display()))),
    }
}

/// What a program prints.
pub fn output_of(command: &mut Command) -> Result<String, Fault> {
    let command = command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::inherit());
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().into())
        }
        Ok(_) => Err(Fault::Failed),
        Err(error) => Err(refuse(&format!("{}: {error}", command.get_program().display()))),
    }
}

/// Says why a step fails.
pub fn refuse(why: &str) -> Fault {
    eprintln!("{why}");
    Fault::Failed
}

/// Runs all parts, and then fails if one has failed; skipped are they only together.
pub fn all(parts: impl IntoIterator<Item = Ending>) -> Ending {
    let endings: Vec<Ending> = parts.into_iter().collect();
    let has = |ending: Ending| endings.contains(&ending);
    match (has(Err(Fault::Failed)), has(Err(Fault::Skipped)), has(Ok(()))) {
        (true, _, _) => Err(Fault::Failed),
        (false, true, false) => Err(Fault::Skipped),
        _ => Ok(()),
    }
}

/// The words of a line, with what stands for others replaced.
fn expand(run: &Run, line: &str) -> Vec<String> {
    let with_tools =
        TOOLS.iter().fold(String::from(line), |line, (mark, words)| line.replace(mark, words));
    let is_long = run.reach == Reach::Long;
    let marks = [
        ("{xtask}", "/proc/self/exe".into()),
        ("{server}", run.server.clone()),
        ("{spawn}", run.spawn()),
        ("{local}", run.local()),
        ("{memory}", folder_in_memory()),
        ("{resp}", if is_long { "both".into() } else { "2".into() }),
    ];
    let split = words(&with_tools);
    let kept = split.into_iter().filter(|word| is_long || word != "{long}");
    let replace = |word: String| {
        let word = if word == "{long}" { "--long".into() } else { word };
        marks.iter().fold(word, |word, (mark, text)| word.replace(mark, text))
    };
    kept.map(replace).collect()
}

/// The name and value of `NAME=value`.
fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

/// Splits at blanks outside quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Memory for the files of servers that save after each command, where there is such a place.
fn folder_in_memory() -> String {
    const SHARED: &str = "/dev/shm";
    let may_write = std::fs::metadata(SHARED).is_ok_and(|about| !about.permissions().readonly());
    if may_write { SHARED.into() } else { std::env::temp_dir().to_string_lossy().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(reach: Reach) -> Run {
        Run { reach, server: "/a b/pantala".into() }
    }

    #[test]
    fn a_line_is_split_before_its_marks_are_replaced() {
        let words = expand(&run(Reach::Usual), "X='1 2' a  --spawn '{spawn} -t' {server} {long}");
        let spawn = "/a b/pantala --port {port} --dir {dir} --save '' -t";
        assert_eq!(words, ["X=1 2", "a", "--spawn", spawn, "/a b/pantala"]);
        assert_eq!(expand(&run(Reach::Long), "a {long} {resp}"), ["a", "--long", "both"]);
        let differ = expand(&run(Reach::Quick), "{differ} --seconds 1");
        assert_eq!(differ[..3], ["cargo", "run", "--quiet"]);
        assert_eq!(differ[differ.len() - 2..], ["--seconds", "1"]);
    }

    #[test]
    fn variables_stand_before_the_program_only() {
        assert_eq!(variable("A_B=c=d"), Some(("A_B", "c=d")));
        for word in ["--a=b", "a=b", "=b", "A"] {
            assert_eq!(variable(word), None, "{word}");
        }
        let line = "X=1 Y='2 3' sh -c 'test \"$X$Y\" = \"12 3\"'";
        assert_eq!(run_line(&run(Reach::Quick), line), Ok(()));
    }

    #[test]
    fn an_ending_is_told_by_the_exit_code() {
        let end = |line| run_line(&run(Reach::Quick), line);
        assert_eq!(end("sh -c 'exit 0'"), Ok(()));
        assert_eq!(end("sh -c 'exit 75'"), Err(Fault::Skipped));
        assert_eq!(end("sh -c 'exit 1'"), Err(Fault::Failed));
        assert_eq!(end("sh -c 'kill $$'"), Err(Fault::Failed));
        assert_eq!(end("no-such-program"), Err(Fault::Failed));
    }

    #[test]
    fn of_several_parts_one_failure_is_a_failure_and_skipped_are_they_together() {
        let (failed, skipped) = (Err(Fault::Failed), Err(Fault::Skipped));
        assert_eq!(all([Ok(()), failed, skipped]), failed);
        assert_eq!(all([Ok(()), skipped]), Ok(()));
        assert_eq!(all([skipped, skipped]), skipped);
        assert_eq!(all([]), Ok(()));
    }
}
