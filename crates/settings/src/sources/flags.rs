//! Parses flags of the command line and of flag files, and environment variables: each becomes the
//! row it names and the values it gives.
//!
//! Forms: `--name=value`, `--name value` as two arguments or as one, one dash instead of two,
//! `--name` and `--noname` for switches, several values up to the next flag for settings that take
//! many.
//!
//! Not here: validating values, precedence (`start`). Tests: in `start`.

use crate::help;
use crate::kind::{BoolStyle, Kind, yes_or_no};
use crate::row::{self, Row, SWITCHES};
use crate::sources::conf;
use crate::sources::start::{RENAME, Rename, Sources, UsageError};
use crate::sources::users::{USER, UserLine};

const MAX_FLAG_FILE_DEPTH: u32 = 8;

/// A value given to a setting, and where.
pub(crate) struct Assignment {
    pub origin: String,
    pub row: &'static Row,
    pub values: Vec<String>,
}

/// What the command line asks for beside settings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Run,
    Help,
    HelpFull,
    Version,
}

pub(crate) struct CommandLine {
    pub action: Action,
    pub config_file: Option<String>,
    pub stdin: bool,
    pub flag_file: Vec<Assignment>,
    pub flags: Vec<Assignment>,
    pub renames: Vec<Rename>,
    pub users: Vec<UserLine>,
}

/// Cuts the command line, and the flag files it names, into assignments.
pub(crate) fn command_line(
    args: &[String],
    sources: &mut dyn Sources,
) -> Result<CommandLine, UsageError> {
    let mut line = CommandLine {
        action: asked_for(args),
        config_file: None,
        stdin: false,
        flag_file: Vec::new(),
        flags: Vec::new(),
        renames: Vec::new(),
        users: Vec::new(),
    };
    if line.action != Action::Run {
        return Ok(line);
    }
    let mut rest = args;
    if let [path, after @ ..] = rest
        && !path.starts_with('-')
    {
        line.config_file = Some(path.clone());
        rest = after;
        // As in Redis, words behind the file are one more line of it: `r.conf loglevel verbose`.
        if let [first, after @ ..] = rest
            && !first.starts_with('-')
            && named(first.split(' ').next().unwrap_or(first)).is_some()
        {
            let (flag, after) = one_flag("argument", &format!("--{first}"), after)?;
            line.take(flag, sources)?;
            rest = after;
        }
    }
    while let [arg, after @ ..] = rest {
        if arg == "-" {
            line.stdin = true;
            rest = after;
            continue;
        }
        let (flag, after) = one_flag("argument", arg, after)?;
        line.take(flag, sources)?;
        rest = after;
    }
    Ok(line)
}

impl CommandLine {
    /// Keeps what a flag says.
    fn take(&mut self, flag: Flag, sources: &mut dyn Sources) -> Result<(), UsageError> {
        match flag {
            Flag::Sets(assignment) => self.flags.push(assignment),
            Flag::File(path) => flag_file(&path, sources, &mut self.flag_file, 0)?,
            Flag::Renames(rename) => self.renames.push(rename),
            Flag::User(user) => self.users.push(user),
        }
        Ok(())
    }
}

fn asked_for(args: &[String]) -> Action {
    let action = |arg: &String| match arg.as_str() {
        "--help" | "-h" | "-help" => Some(Action::Help),
        "--helpfull" | "-helpfull" => Some(Action::HelpFull),
        "--version" | "-v" | "-version" => Some(Action::Version),
        _ => None,
    };
    args.iter().find_map(action).unwrap_or(Action::Run)
}

enum Flag {
    Sets(Assignment),
    File(String),
    Renames(Rename),
    User(UserLine),
}

/// Takes one flag and its values off the arguments; returns what is left.
fn one_flag<'a>(
    origin: &str,
    arg: &str,
    rest: &'a [String],
) -> Result<(Flag, &'a [String]), UsageError> {
    let (name, given) = cut(origin, arg)?;
    let origin = format!("{origin} {name}");
    let Some(name) = undashed(&name) else {
        return Err(UsageError::new(&origin, "no flag, and not the first argument"));
    };
    if row::plain(name) == "flagfile" {
        return match (given.as_slice(), rest) {
            ([path], _) => Ok((Flag::File(path.clone()), rest)),
            ([], [path, after @ ..]) => Ok((Flag::File(path.clone()), after)),
            _ => Err(UsageError::new(&origin, "'flagfile' needs one path")),
        };
    }
    if row::plain(name) == RENAME {
        let (words, after) = match (given.as_slice(), rest) {
            ([], [from, to, after @ ..]) => (vec![from.clone(), to.clone()], after),
            _ => (given, rest),
        };
        return Ok((Flag::Renames(Rename::new(&origin, &words)?), after));
    }
    if row::plain(name) == USER {
        // A rule may begin with one dash: `-save` takes a command away.
        let count = rest.iter().take_while(|arg| !arg.starts_with("--")).count();
        let words: Vec<&String> = given.iter().chain(&rest[..count]).collect();
        let words = words.iter().map(|word| word.as_bytes().to_vec());
        let user = UserLine::new(&origin, words).map_err(|why| UsageError::new(&origin, why))?;
        return Ok((Flag::User(user), &rest[count..]));
    }
    let Named { row, words } =
        named(name).ok_or_else(|| UsageError::new(&origin, help::unknown("setting", name)))?;
    let (values, after) = match (given.as_slice(), words) {
        ([value], words) => (vec![translated(&origin, row, words, value)?], rest),
        ([_, _, ..], _) => (given, rest),
        ([], Some(words)) => match rest {
            [value, after @ ..]
                if !words.fixed && yes_or_no(value, BoolStyle::Lenient).is_some() =>
            {
                (vec![translated(&origin, row, Some(words), value)?], after)
            }
            _ => (vec![words.on.into()], rest),
        },
        ([], None) => values_ahead(&origin, row, rest)?,
    };
    Ok((Flag::Sets(Assignment { origin, row, values }), after))
}

/// A flag's name with its dashes, and the values that stand in the same argument: one after `=`, or
/// words after a blank, as in a line of redis.conf.
fn cut(origin: &str, arg: &str) -> Result<(String, Vec<String>), UsageError> {
    let end = arg.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(arg.len());
    let (name, values) = arg.split_at(end);
    if let Some(value) = values.strip_prefix('=') {
        return Ok((name.into(), vec![value.into()]));
    }
    let values = conf::words(values).ok_or_else(|| {
        UsageError::new(&format!("{origin} {arg}"), "unbalanced quotes, or no UTF-8 text")
    })?;
    Ok((name.into(), values))
}

/// What a flag without value means, for settings that can have one.
#[derive(Clone, Copy)]
struct FlagValues {
    on: &'static str,
    off: &'static str,
    /// The flag says all (`--noname`): no value follows.
    fixed: bool,
}

struct Named {
    row: &'static Row,
    words: Option<FlagValues>,
}

/// The setting a flag names: itself, a switch for it, or `no` before either.
fn named(name: &str) -> Option<Named> {
    let plain = row::plain(name);
    if let Some(found) = switch_or_row(&plain) {
        return Some(found);
    }
    let negated = plain.strip_prefix("no")?;
    let Named { row, words } = switch_or_row(negated.strip_prefix('-').unwrap_or(negated))?;
    let FlagValues { on, off, .. } = words?;
    Some(Named { row, words: Some(FlagValues { on: off, off: on, fixed: true }) })
}

fn switch_or_row(plain: &str) -> Option<Named> {
    if let Some(switch) = SWITCHES.iter().find(|switch| row::plain(switch.name) == plain) {
        let words = FlagValues { on: switch.on, off: switch.off, fixed: false };
        return Some(Named { row: row::find(switch.target)?, words: Some(words) });
    }
    let row = row::find(plain)?;
    let words =
        matches!(row.kind, Kind::Bool).then_some(FlagValues { on: "yes", off: "no", fixed: false });
    Some(Named { row, words })
}

/// The value in the words of the setting: a switch's yes is `epoll` for io_engine.
fn translated(
    origin: &str,
    row: &Row,
    words: Option<FlagValues>,
    value: &str,
) -> Result<String, UsageError> {
    let Some(words) = words else { return Ok(value.into()) };
    match yes_or_no(value, BoolStyle::Lenient) {
        Some(true) => Ok(words.on.into()),
        Some(false) => Ok(words.off.into()),
        None if words.fixed || !matches!(row.kind, Kind::Bool) => {
            Err(UsageError::new(origin, format!("'{value}' is neither yes nor no")))
        }
        None => Ok(value.into()),
    }
}

fn values_ahead<'a>(
    origin: &str,
    row: &Row,
    rest: &'a [String],
) -> Result<(Vec<String>, &'a [String]), UsageError> {
    if row.kind.takes_many() {
        let count = rest.iter().take_while(|arg| !is_flag(arg)).count();
        return Ok((rest[..count].to_vec(), &rest[count..]));
    }
    match rest {
        // As in Redis, a value may begin with dashes. If it names a setting, it is a value only for
        // a text, and only if what follows is no value: `--logfile --port 1` lacks one.
        [value, after @ ..] if !names_flag(value) || is_text_alone(row, after) => {
            Ok((vec![value.clone()], after))
        }
        _ => Err(UsageError::new(origin, format!("'{}' needs a value", row.name))),
    }
}

fn is_text_alone(row: &Row, after: &[String]) -> bool {
    matches!(row.kind, Kind::Text | Kind::Checked(..))
        && after.first().is_some_and(|next| next.starts_with("--"))
}

/// Whether an argument with two dashes names something that a command line may set.
fn names_flag(arg: &str) -> bool {
    let name = arg.strip_prefix("--").map(|name| name.split(['=', ' ']).next().unwrap_or(name));
    name.is_some_and(|name| {
        ["flagfile", RENAME, USER].contains(&row::plain(name).as_str()) || named(name).is_some()
    })
}

/// Two dashes always begin a flag; one does before a known name: `-port`, but not `-::1`.
fn is_flag(arg: &str) -> bool {
    arg.starts_with("--")
        || undashed(arg.split('=').next().unwrap_or(arg)).is_some_and(|name| named(name).is_some())
}

fn undashed(name: &str) -> Option<&str> {
    name.strip_prefix("--").or_else(|| name.strip_prefix('-')).filter(|name| !name.is_empty())
}

/// Reads a file of flags: one a line, dashes optional, `#` begins a comment line.
fn flag_file(
    path: &str,
    sources: &mut dyn Sources,
    found: &mut Vec<Assignment>,
    depth: u32,
) -> Result<(), UsageError> {
    if depth == MAX_FLAG_FILE_DEPTH {
        return Err(UsageError::new(path, "flag files are nested too deep"));
    }
    let text = sources.read(path).map_err(|why| UsageError::new(path, why))?;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let origin = format!("{path}, line {}:", index + 1);
        let words = flag_words(line)
            .ok_or_else(|| UsageError::new(&origin, "unbalanced quotes, or no UTF-8 text"))?;
        let (first, rest) = words.split_first().map_or(("", &[][..]), |(f, r)| (f.as_str(), r));
        let dashed = if first.starts_with('-') { first.into() } else { format!("--{first}") };
        match one_flag(&origin, &dashed, rest)? {
            (Flag::Sets(assignment), []) => found.push(assignment),
            (Flag::File(path), []) => flag_file(&path, sources, found, depth + 1)?,
            (Flag::Renames(_), []) => return Err(not_here(&origin, RENAME)),
            (Flag::User(_), []) => return Err(not_here(&origin, USER)),
            (_, [extra, ..]) => {
                return Err(UsageError::new(&origin, format!("'{extra}' is too much")));
            }
        }
    }
    Ok(())
}

fn not_here(origin: &str, name: &str) -> UsageError {
    let what = format!("'{name}' belongs on the command line or into a redis.conf");
    UsageError::new(&format!("{origin} --{name}"), what)
}

/// `name=anything at all`, or words as in redis.conf.
fn flag_words(line: &str) -> Option<Vec<String>> {
    let name = line.split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or("");
    match line[name.len()..].starts_with('=') {
        true => Some(vec![line.into()]),
        false => conf::words(line),
    }
}

/// The setting that a variable names (its prefix taken off), with the variable's value.
/// `None` when there is no such setting.
pub(crate) fn environment(
    origin: &str,
    name: &str,
    value: &str,
) -> Result<Option<Assignment>, UsageError> {
    let Some(Named { row, words }) = named(name) else { return Ok(None) };
    let values = vec![translated(origin, row, words, value)?];
    Ok(Some(Assignment { origin: origin.into(), row, values }))
}
