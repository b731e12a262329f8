//! Computes the settings of a start from arguments, files and environment.
//!
//! Precedence, strongest first: command line, flag file, environment (`PANTALA_x`, then `DFLY_x`),
//! configuration file. Within one source a later mention wins over an earlier one, except for
//! settings that accumulate, such as `save`. Flags of the command line add to what the file says of
//! these, as in Redis, where they are further lines of it.
//!
//! Invariants
//! 1. Nothing here reads a file, a clock or the environment: `Sources` and `env` are arguments.
//! 2. Includes and flag files nest at most `MAX_DEPTH` deep, and all of them together hold at most
//!    `MAX_LINES` lines: a file that includes itself is an error, not a hang.
//!
//! Not here: splitting a flag into name and values (`flags`). Tests: at the foot.

use crate::Settings;
use crate::help;
use crate::kind::BoolStyle;
use crate::pages;
use crate::row::{self, Row, RowFlags, SettingEffect};
use crate::snapshot::UNKEPT;
use crate::sources::conf;
use crate::sources::flags::{self, Action, Assignment};
use crate::sources::users::UserLine;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem::take;

const MAX_DEPTH: u32 = 16;
const MAX_LINES: u32 = 1_000_000;

/// Where files come from.
pub trait Sources {
    /// The text of a file, or why it cannot be read.
    fn read(&mut self, path: &str) -> Result<String, String>;
    /// All of standard input.
    fn read_stdin(&mut self) -> Result<String, String>;
    /// The files that a pattern names, sorted; a pattern without wildcards names itself.
    fn list(&mut self, pattern: &str) -> Vec<String>;
}

/// What the arguments ask for.
#[derive(Debug)]
pub enum Start {
    /// Run with these settings.
    Run(Box<Launch>),
    /// Print this and exit with 0.
    Print(String),
}

/// All that a run needs to know.
#[derive(Debug)]
pub struct Launch {
    /// The settings.
    pub settings: Settings,
    /// The file that CONFIG REWRITE writes, as it was given.
    pub config_file: Option<String>,
    /// What the operator should read in the log.
    pub warnings: Vec<String>,
    /// Commands that have other names, in the order that was given.
    pub renames: Vec<Rename>,
}

/// `rename-command`: no setting, as CONFIG GET must not tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// What the command is called.
    pub from: String,
    /// What it is to be called; empty takes it away.
    pub to: String,
}

/// How lines and flags say it.
pub(crate) const RENAME: &str = "rename-command";

impl Rename {
    /// From the two words that follow.
    pub(crate) fn new(origin: &str, words: &[String]) -> Result<Rename, UsageError> {
        match words {
            [from, to] => Ok(Rename { from: from.clone(), to: to.clone() }),
            _ => Err(UsageError::new(
                origin,
                format!("'{RENAME}' needs a command and its new name, which may be \"\""),
            )),
        }
    }
}

/// Why the arguments make no start. The process prints it and exits with 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// The argument, file and line, or variable at fault.
    pub origin: String,
    /// What is wrong and what would be right.
    pub what: String,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.what)
    }
}

impl std::error::Error for UsageError {}

impl UsageError {
    pub(crate) fn new(origin: &str, what: impl Into<String>) -> Self {
        Self { origin: origin.into(), what: what.into() }
    }
}

/// Lines of redis.conf that are no settings, and which it would be wrong to pass over.
const UNSERVED: [(&str, &str); 1] =
    [("loadmodule", "there are no loadable modules; take this line out")];

impl Settings {
    /// Reads a start's arguments (without the program's name) and environment.
    pub fn from_args(
        args: &[String],
        env: impl IntoIterator<Item = (String, String)>,
        sources: &mut dyn Sources,
    ) -> Result<Start, UsageError> {
        let line = flags::command_line(args, sources)?;
        match line.action {
            Action::Help => return Ok(Start::Print(help::short())),
            Action::HelpFull => return Ok(Start::Print(help::full())),
            Action::Version => return Ok(Start::Print(help::version())),
            Action::Run => {}
        }
        let mut draft = Draft::new(sources);
        if let Some(path) = &line.config_file {
            let text = draft.sources.read(path).map_err(|why| unread(path, &why))?;
            draft.file(path, &text, 0)?;
        }
        if line.stdin {
            let text = draft.sources.read_stdin();
            let text = text.map_err(|why| UsageError::new("standard input", why))?;
            draft.file("standard input", &text, 0)?;
        }
        let of_file = take(&mut draft.mentioned);
        let mut between = draft.environment(env)?;
        for assignment in &line.flag_file {
            draft.assign(assignment)?;
        }
        between.append(&mut draft.mentioned);
        draft.mentioned = of_file.difference(&between).copied().collect();
        for assignment in &line.flags {
            draft.assign(assignment)?;
        }
        draft.check_promises()?;
        let Draft { mut settings, mut warnings, mut renames, .. } = draft;
        renames.extend(line.renames);
        settings.user_lines.extend(line.users);
        warnings.extend(without_effect(&settings));
        let config_file = line.config_file;
        Ok(Start::Run(Box::new(Launch { settings, config_file, warnings, renames })))
    }
}

/// Who types a word means a command that there may be, rather than a file.
fn unread(path: &str, why: &str) -> UsageError {
    if path.contains(['/', '.']) {
        return UsageError::new(path, why);
    }
    let tools = pages::TOOLS.map(|(name, ..)| name).join(", ");
    UsageError::new(path, format!("neither a configuration file ({why}) nor one of {tools}"))
}

fn without_effect(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for row in row::rows().iter().filter(|row| row.effect == SettingEffect::Inert) {
        let value = settings.value(row);
        if value != row.default {
            let name = row.name;
            warnings.push(format!("setting '{name}' is known but nothing acts on it yet"));
        }
    }
    warnings
}

/// Settings while their sources are read.
struct Draft<'a> {
    settings: Settings,
    warnings: Vec<String>,
    renames: Vec<Rename>,
    /// Accumulating settings that the present source has already mentioned.
    mentioned: BTreeSet<&'static str>,
    /// Where the last mention was of each setting whose value promises safety that nothing keeps.
    unkept: BTreeMap<&'static str, String>,
    lines_left: u32,
    sources: &'a mut dyn Sources,
}

impl<'a> Draft<'a> {
    fn new(sources: &'a mut dyn Sources) -> Self {
        Self {
            settings: Settings::defaults(),
            warnings: Vec::new(),
            renames: Vec::new(),
            mentioned: BTreeSet::new(),
            unkept: BTreeMap::new(),
            lines_left: MAX_LINES,
            sources,
        }
    }

    fn file(&mut self, path: &str, text: &str, depth: u32) -> Result<(), UsageError> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let origin = format!("{path}, line {}", index + 1);
            self.lines_left = self
                .lines_left
                .checked_sub(1)
                .ok_or_else(|| UsageError::new(&origin, "too many lines in all files together"))?;
            if let Some(user) = UserLine::parse(&origin, line) {
                self.settings.user_lines.push(user.map_err(|why| UsageError::new(&origin, why))?);
                continue;
            }
            let words = conf::words(line)
                .ok_or_else(|| UsageError::new(&origin, "unbalanced quotes, or no UTF-8 text"))?;
            self.line(&origin, words, depth)?;
        }
        Ok(())
    }

    fn line(&mut self, origin: &str, mut words: Vec<String>, depth: u32) -> Result<(), UsageError> {
        let name = words.remove(0);
        if name.eq_ignore_ascii_case("include") {
            return self.include(origin, &words, depth);
        }
        if name.eq_ignore_ascii_case(RENAME) {
            self.renames.push(Rename::new(origin, &words)?);
            return Ok(());
        }
        if let Some((_, why)) = UNSERVED.iter().find(|(word, _)| name.eq_ignore_ascii_case(word)) {
            return Err(UsageError::new(origin, format!("'{name}': {why}")));
        }
        let row = row::find(&name)
            .ok_or_else(|| UsageError::new(origin, help::unknown("setting", &name)))?;
        self.assign(&Assignment { origin: origin.into(), row, values: words })
    }

    fn include(&mut self, origin: &str, words: &[String], depth: u32) -> Result<(), UsageError> {
        let [pattern] = words else {
            return Err(UsageError::new(origin, "include names one file or pattern"));
        };
        if depth == MAX_DEPTH {
            return Err(UsageError::new(origin, "includes are nested too deep"));
        }
        for path in self.sources.list(pattern) {
            let text = self.sources.read(&path).map_err(|why| {
                UsageError::new(origin, format!("cannot include '{path}': {why}"))
            })?;
            self.file(&path, &text, depth + 1)?;
        }
        Ok(())
    }

    /// Takes the environment's settings; those that accumulate and were mentioned there.
    fn environment(
        &mut self,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<BTreeSet<&'static str>, UsageError> {
        let env: Vec<(String, String)> = env.into_iter().collect();
        let mut mentioned = BTreeSet::new();
        for prefix in ["DFLY_", "PANTALA_"] {
            for (variable, value) in &env {
                let Some(name) = variable.strip_prefix(prefix) else { continue };
                let origin = format!("environment variable {variable}");
                // Kubernetes sets NAME_PORT=tcp://... for a service that is called pantala.
                if name.eq_ignore_ascii_case("port") && value.starts_with("tcp://") {
                    self.warnings.push(format!("{origin}: an address, not a port; ignored"));
                    continue;
                }
                match flags::environment(&origin, name, value)? {
                    Some(assignment) => self.assign(&assignment)?,
                    None => self.warnings.push(format!(
                        "{origin}: {}; ignored",
                        help::unknown("setting", &name.to_ascii_lowercase())
                    )),
                }
            }
            mentioned.append(&mut self.mentioned);
        }
        Ok(mentioned)
    }

    fn assign(&mut self, assignment: &Assignment) -> Result<(), UsageError> {
        let Assignment { origin, row, values } = assignment;
        let text = match values.as_slice() {
            [text] => text.clone(),
            [] if !row.kind.takes_many() => {
                return Err(UsageError::new(origin, format!("'{}' needs a value", row.name)));
            }
            [_, _, ..] if !row.kind.takes_many() => {
                return Err(UsageError::new(origin, format!("'{}' takes one value", row.name)));
            }
            many => many.join(" "),
        };
        let present = self.settings.value(row);
        let canonical = row.kind.canonical(&text, &present, BoolStyle::Lenient).map_err(|why| {
            UsageError::new(
                origin,
                format!(
                    "'{}' cannot be '{text}': {}; allowed is: {}",
                    row.name,
                    why.0,
                    row.kind.allowed()
                ),
            )
        })?;
        let canonical = self.joined(row, canonical, &present);
        match row.refuses(&canonical) {
            true => self.unkept.insert(row.name, origin.clone()),
            false => self.unkept.remove(row.name),
        };
        self.settings.put(row, canonical);
        Ok(())
    }

    /// Refuses what would look safe and is not. A stronger source may have taken it back: then a
    /// file that says `tls-cluster yes` loads.
    fn check_promises(&self) -> Result<(), UsageError> {
        match self.unkept.first_key_value() {
            Some((name, origin)) => Err(UsageError::new(origin, format!("'{name}' {UNKEPT}"))),
            None => Ok(()),
        }
    }

    /// Adds to what the same source said before, where the setting accumulates.
    fn joined(&mut self, row: &Row, canonical: String, present: &str) -> String {
        let again = row.has(RowFlags::ACCUMULATES) && !self.mentioned.insert(row.name);
        match again && !canonical.is_empty() && !present.is_empty() {
            true => format!("{present} {canonical}"),
            false => canonical,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Fake(BTreeMap<&'static str, &'static str>);

    impl Sources for Fake {
        fn read(&mut self, path: &str) -> Result<String, String> {
            self.0.get(path).map(|text| (*text).into()).ok_or("no such file".into())
        }
        fn read_stdin(&mut self) -> Result<String, String> {
            self.read("-")
        }
        fn list(&mut self, pattern: &str) -> Vec<String> {
            let fits =
                |path: &&&str| pantala_base::glob::matches(pattern.as_bytes(), path.as_bytes());
            let listed: Vec<String> = self.0.keys().filter(fits).map(|p| (*p).into()).collect();
            if pattern.contains('*') { listed } else { vec![pattern.into()] }
        }
    }

    fn start(
        args: &[&str],
        env: &[(&str, &str)],
        files: &[(&'static str, &'static str)],
    ) -> Result<Start, UsageError> {
        let args: Vec<String> = args.iter().map(|arg| String::from(*arg)).collect();
        let env = env.iter().map(|(name, value)| (String::from(*name), String::from(*value)));
        Settings::from_args(&args, env, &mut Fake(files.iter().copied().collect()))
    }

    fn launch(
        args: &[&str],
        env: &[(&str, &str)],
        files: &[(&'static str, &'static str)],
    ) -> Launch {
        match start(args, env, files) {
            Ok(Start::Run(launch)) => *launch,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    /// Arguments to `name=value` of every setting that is not at its default.
    fn check(args: &[&str], want: &str) {
        assert_eq!(beside_defaults(&launch(args, &[], &[])), want, "{args:?}");
    }

    fn beside_defaults(launch: &Launch) -> String {
        let changed = launch.settings.changed(&Settings::defaults());
        let shown: Vec<String> = changed
            .iter()
            .map(|row| format!("{}={}", row.name, launch.settings.value(row)))
            .collect();
        shown.join("; ")
    }

    fn check_refused(args: &[&str], files: &[(&'static str, &'static str)], want: &str) {
        match start(args, &[], files) {
            Err(error) => assert_eq!(error.to_string(), want, "{args:?}"),
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn a_word_that_is_no_file_is_told_what_could_stand_there() {
        check_refused(&["a.conf"], &[], "a.conf: no such file");
        check_refused(
            &["help"],
            &[],
            "help: neither a configuration file (no such file) nor one of check, journal, top, \
             doctor, sizing, import, ping",
        );
    }

    #[test]
    fn a_flag_has_many_forms() {
        for args in [
            &["--port=7000"][..],
            &["--port", "7000"],
            &["-port", "7000"],
            &["-port=7000"],
            &["--PORT", "7000"],
        ] {
            check(args, "port=7000");
        }
        check(&["--tcp_keepalive=5", "--tcp-backlog", "6"], "tcp-backlog=6; tcp-keepalive=5");
        check(&["--slowlog-log-slower-than", "-1"], "commandlog-execution-slower-than=-1");
        check(&["--requirepass="], "");
        check(&["--requirepass=a b"], "requirepass=a b");
        check(&["--requirepass", ""], "");
    }

    #[test]
    fn name_and_value_may_be_one_argument() {
        check(&["--maxmemory 700mb"], "maxmemory=734003200");
        check(
            &["--maxmemory 700mb", "--port 7", "--timeout", "3"],
            "maxmemory=734003200; port=7; timeout=3",
        );
        check(&["-port  7000 "], "port=7000");
        check(&["--port ", "7000"], "port=7000");
        check(&["--protected-mode no"], "protected-mode=no");
        check(&["--save 60 1", "--save ''"], "save=");
        check(&["--save 60 1"], "save=60 1");
        check(&["--requirepass \"a b=c\""], "requirepass=a b=c");
        check(&["--force_epoll yes"], "io_engine=epoll");
        check_refused(&["--port 1 2"], &[], "argument --port: 'port' takes one value");
        check_refused(
            &["--protected-mode yes no"],
            &[],
            "argument --protected-mode: 'protected-mode' takes one value",
        );
        check_refused(
            &["--port \"1"],
            &[],
            "argument --port \"1: unbalanced quotes, or no UTF-8 text",
        );
    }

    #[test]
    fn a_switch_needs_no_value() {
        for args in [
            &["--cache_mode"][..],
            &["--cache_mode=true"],
            &["--cache_mode", "yes"],
            &["--cache-mode=1"],
        ] {
            check(args, "cache_mode=yes");
        }
        for args in [
            &["--noprotected_mode"][..],
            &["--no-protected-mode"],
            &["--protected-mode", "no"],
            &["--protected_mode=false"],
            &["--protected_mode=0"],
        ] {
            check(args, "protected-mode=no");
        }
        check(&["--no-appendfsync-on-rewrite"], "no-appendfsync-on-rewrite=yes");
        check(&["--import-mode", "--port", "1"], "import-mode=yes; port=1");
    }

    #[test]
    fn a_flag_of_dragonfly_may_mean_a_setting_of_ours() {
        check(&["--dbnum=3", "--proactor_threads=2"], "databases=3; threads=2");
        check(&["--force_epoll"], "io_engine=epoll");
        check(&["--force_epoll=false"], "");
        check(&["--noforce_epoll"], "");
        check(&["--logtostderr", "--threads=auto"], "logtostderr=yes");
    }

    #[test]
    fn some_settings_take_many_arguments() {
        check(&["--save", "60", "1", "--port", "1"], "port=1; save=60 1");
        check(&["--save", "60", "1", "--save", "300", "10"], "save=60 1 300 10");
        check(&["--save", ""], "save=");
        check(&["--save", "--port", "1"], "port=1; save=");
        check(&["--bind", "127.0.0.1", "::1", "-port", "1"], "bind=127.0.0.1 ::1; port=1");
        check(&["--bind", "127.0.0.1", "-::1"], "bind=127.0.0.1 -::1");
        check(
            &["--client-output-buffer-limit", "normal", "1mb", "0", "0"],
            "client-output-buffer-limit=normal 1048576 0 0 slave 268435456 67108864 60 \
             pubsub 33554432 8388608 60",
        );
        check(&["--replicaof", "no", "one", "--port", "1"], "port=1");
    }

    #[test]
    fn flags_add_to_what_the_file_says() {
        let files =
            [("r.conf", "save 900 1\nsave 60 9\n"), ("f", "--save=7 7"), ("empty.conf", "port 1")];
        let check = |args: &[&str], env: &[(&str, &str)], want: &str| {
            let launch = launch(args, env, &files);
            assert_eq!(launch.settings.value(row::find("save").unwrap()), want, "{args:?}");
        };
        check(&["r.conf"], &[], "900 1 60 9");
        check(&["r.conf", "--save", "100", "100"], &[], "900 1 60 9 100 100");
        check(&["r.conf", "--save", ""], &[], "");
        check(&["r.conf", "--save", "", "--save", "1", "2"], &[], "1 2");
        check(&["empty.conf", "--save", "100", "100"], &[], "100 100");
        check(&["r.conf"], &[("PANTALA_SAVE", "5 5")], "5 5");
        check(&["r.conf", "--save", "1", "2"], &[("PANTALA_SAVE", "5 5")], "1 2");
        check(&["r.conf", "--flagfile=f"], &[], "7 7");
        check(&["r.conf", "--flagfile=f", "--save", "1", "2"], &[], "1 2");
    }

    #[test]
    fn stronger_sources_win() {
        let files = [
            ("r.conf", "port 1\ntimeout 1\nmaxclients 11\ndatabases 2\n"),
            ("f", "--port=3\ndbnum 4"),
        ];
        let env = [
            ("DFLY_port", "2"),
            ("PANTALA_MAXCLIENTS", "12"),
            ("DFLY_maxclients", "13"),
            ("HOME", "/"),
        ];
        let launch = launch(&["r.conf", "--flagfile=f", "--port", "5"], &env, &files);
        assert_eq!(beside_defaults(&launch), "databases=4; maxclients=12; port=5; timeout=1");
        assert_eq!(launch.config_file.as_deref(), Some("r.conf"));
        assert_eq!(launch.warnings, [""; 0]);
    }

    #[test]
    fn a_file_has_comments_quotes_and_includes() {
        let text = "# head\n\n  save 60 1\nsave 300 10\nrequirepass \"a b\"\n\
                    bind 127.0.0.1\nbind ::1\ninclude /etc/*.inc\nTimeout 4\n";
        let files =
            [("r.conf", text), ("/etc/a.inc", "maxclients 20\n"), ("/etc/b.inc", "timeout 3")];
        let launch = launch(&["r.conf"], &[], &files);
        assert_eq!(
            beside_defaults(&launch),
            "bind=::1; maxclients=20; requirepass=a b; save=60 1 300 10; timeout=4"
        );
        assert_eq!(launch.warnings, [""; 0]);
    }

    #[test]
    fn standard_input_is_a_file() {
        let launch = launch(&["-", "--port", "2"], &[], &[("-", "port 1\nhz 20")]);
        assert_eq!(beside_defaults(&launch), "hz=20; port=2");
    }

    #[test]
    fn words_behind_the_file_are_a_line_of_it_and_values_may_have_dashes() {
        let args = ["r.conf", "port", "3", "--maxmemory '700mb'"];
        let launch = launch(&args, &[], &[("r.conf", "port 1\nhz 20")]);
        assert_eq!(beside_defaults(&launch), "hz=20; maxmemory=734003200; port=3");
        let launch = self::launch(&["--logfile", "--my--log", "--port", "3"], &[], &[]);
        assert_eq!(beside_defaults(&launch), "logfile=--my--log; port=3");
        let args = ["--proc-title-template", "--save", "--port", "3"];
        let launch = self::launch(&args, &[], &[]);
        assert_eq!(beside_defaults(&launch), "port=3; proc-title-template=--save");
        const LACKS: &str = "argument --logfile: 'logfile' needs a value";
        check_refused(&["--logfile", "--port", "3"], &[], LACKS);
        const WHY: &str = "argument prot: no flag, and not the first argument";
        check_refused(&["r.conf", "prot", "3"], &[("r.conf", "")], WHY);
    }

    #[test]
    fn trouble_names_its_place_and_the_way_out() {
        check_refused(
            &["--prot", "1"],
            &[],
            "argument --prot: unknown setting 'prot'; did you mean 'port'?",
        );
        check_refused(
            &["--port=70000"],
            &[],
            "argument --port: 'port' cannot be '70000': argument must be between 0 and 65535 \
             inclusive; allowed is: 0 to 65535",
        );
        check_refused(&["--port"], &[], "argument --port: 'port' needs a value");
        check_refused(&["--port", "--hz"], &[], "argument --port: 'port' needs a value");
        check_refused(&["--hz", "1", "x"], &[], "argument x: no flag, and not the first argument");
        check_refused(&["r.conf"], &[], "r.conf: no such file");
        check_refused(
            &["r.conf"],
            &[("r.conf", "\nmaxmemroy 1gb")],
            "r.conf, line 2: unknown setting 'maxmemroy'; did you mean 'maxmemory'?",
        );
        check_refused(
            &["r.conf"],
            &[("r.conf", "timeout 1 2")],
            "r.conf, line 1: 'timeout' takes one value",
        );
        check_refused(
            &["r.conf"],
            &[("r.conf", "requirepass \"x")],
            "r.conf, line 1: unbalanced quotes, or no UTF-8 text",
        );
        check_refused(
            &["r.conf"],
            &[("r.conf", "user")],
            "r.conf, line 1: a user has a name, and rules after it",
        );
    }

    #[test]
    fn what_promises_safety_and_does_nothing_ends_the_start() {
        const WHY: &str = "does nothing yet, and what this value promises would not hold; \
                           leave it at its default";
        for (args, origin, name) in [
            (&["--tls-cluster", "yes"][..], "argument --tls-cluster", "tls-cluster"),
            (
                &["--restricted_commands=KEYS"],
                "argument --restricted_commands",
                "restricted_commands",
            ),
        ] {
            check_refused(args, &[], &format!("{origin}: '{name}' {WHY}"));
        }
        let files = [("r.conf", "hz 10\ntls-cluster yes\n")];
        check_refused(&["r.conf"], &files, &format!("r.conf, line 2: 'tls-cluster' {WHY}"));
        let launch = launch(&["r.conf", "--tls-cluster", "no", "--tls-port", "0"], &[], &files);
        assert_eq!(beside_defaults(&launch), "");
    }

    #[test]
    fn a_file_that_includes_itself_ends() {
        check_refused(
            &["r.conf"],
            &[("r.conf", "include r.conf")],
            "r.conf, line 1: includes are nested too deep",
        );
        // Each level includes itself twice: the depth alone would allow 2^16 readings.
        let twice = [("r.conf", "hz 1\ninclude r.conf\ninclude r.conf")];
        assert!(start(&["r.conf"], &[], &twice).is_err());
        assert!(start(&["--flagfile=f"], &[], &[("f", "--flagfile=f")]).is_err());
    }

    #[test]
    fn foreign_variables_are_passed_over_with_a_word() {
        let env = [
            ("PANTALA_PORT", "tcp://10.0.0.1:6379"),
            ("PANTALA_SERVICE_HOST", "10.0.0.1"),
            ("PANTALA_bind", "127.0.0.1 ::1"),
        ];
        let launch = launch(&[], &env, &[]);
        assert_eq!(beside_defaults(&launch), "bind=127.0.0.1 ::1");
        assert_eq!(launch.warnings.len(), 2, "{:?}", launch.warnings);
    }

    #[test]
    fn help_and_version_come_before_trouble() {
        for word in ["--help", "-h", "--version", "-v", "--helpfull"] {
            assert!(matches!(start(&["no.conf", word], &[], &[]), Ok(Start::Print(_))), "{word}");
        }
    }

    #[test]
    fn users_may_stand_on_the_command_line() {
        let files = [("r.conf", "user bert on\n")];
        let flags =
            ["r.conf", "--user", "anna", "on", ">p w", "~a*", "-save", "--user zoe off", "--port"];
        let launch = launch(&[&flags[..], &["1", "-USER", "eve"]].concat(), &[], &files);
        let shown = |user: &UserLine| {
            let words: Vec<_> =
                user.rules.iter().map(|rule| String::from_utf8_lossy(rule)).collect();
            format!("{}: {} {}", user.origin, user.name.escape_ascii(), words.join(","))
        };
        let users: Vec<String> = launch.settings.user_lines.iter().map(shown).collect();
        let expected = [
            "r.conf, line 1: bert on",
            "argument --user: anna on,>p w,~a*,-save",
            "argument --user: zoe off",
            "argument -USER: eve ",
        ];
        assert_eq!(users, expected);
        assert_eq!(beside_defaults(&launch), "port=1");
        check_refused(&["--user"], &[], "argument --user: a user has a name, and rules after it");
        check_refused(
            &["--flagfile=f"],
            &[("f", "user anna on")],
            "f, line 1: --user: 'user' belongs on the command line or into a redis.conf",
        );
    }

    #[test]
    fn renames_come_in_the_order_of_the_file_and_then_of_the_line() {
        let files = [("r.conf", "rename-command FLUSHALL \"\"\nRENAME-COMMAND GET fetch\n")];
        let flags = ["r.conf", "--rename-command", "SET", "put", "--rename-command DEL ''"];
        let launch = launch(&flags, &[], &files);
        let shown: Vec<String> =
            launch.renames.iter().map(|one| format!("{}>{}", one.from, one.to)).collect();
        assert_eq!(shown, ["FLUSHALL>", "GET>fetch", "SET>put", "DEL>"]);
        assert!(launch.settings.get(&["*rename*"]).is_empty());
        let why = "'rename-command' needs a command and its new name, which may be \"\"";
        check_refused(
            &["--rename-command", "GET"],
            &[],
            &format!("argument --rename-command: {why}"),
        );
        check_refused(
            &["r.conf"],
            &[("r.conf", "rename-command GET")],
            &format!("r.conf, line 1: {why}"),
        );
    }
}
