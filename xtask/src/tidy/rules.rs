//! The tidy rules that look at one file. Each is a row of `RULES`: a name, the requirement, a
//! function from a file to its findings.
//!
//! Not here: rules about crates (`floors`), exceptions (`ratchet`). Tests: at the foot.

use super::source::{Source, words};

/// A file of the repository.
pub struct File {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// The analysed text of a Rust file.
    pub source: Option<Source>,
}

impl File {
    /// A file with this text.
    pub fn new(path: &str, text: String) -> Self {
        let source = path.ends_with(".rs").then(|| Source::new(path, &text));
        Self { path: path.into(), text, source }
    }

    /// Whether its text is lines of code.
    fn is_code(&self) -> bool {
        let ending = self.path.rsplit('/').next().unwrap_or("").rsplit_once('.');
        match ending {
            Some((_, ending)) => matches!(ending, "rs" | "py" | "sh" | "toml"),
            None => self.text.starts_with("#!"),
        }
    }
}

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line, counted from 1.
    pub line: usize,
    /// The offending text.
    pub what: String,
}

/// One rule.
pub struct Rule {
    /// Its name in tidy.toml.
    pub name: &'static str,
    /// The requirement, for messages.
    pub says: &'static str,
    /// Finds the violations in a file.
    pub check: fn(&File) -> Vec<Finding>,
}

const MAX_FILE_LINES: usize = 1_000;
const MAX_FUNCTION_LINES: usize = 70;
/// Docs that say nothing.
const EMPTY_DOCS: [&str; 4] =
    ["/// See the module.", "/// The same.", "/// See there.", "/// As above."];
/// How docs begin that only send the reader to the item above, and the words behind that.
const SENT_ABOVE: (&str, [&str; 6]) =
    ("/// The same ", ["as", "at", "for", "while", "with", "without"]);
/// Columns of a line.
pub const MAX_COLUMNS: usize = 100;

/// Path prefixes that may hold unsafe code; `floors` exempts their crates from `forbid`.
pub const UNSAFE_HOMES: [&str; 8] = [
    "crates/memory/",
    "crates/sync/",
    "crates/table/",
    "crates/reactor/",
    "crates/base/src/simd/",
    "crates/base/src/os",
    "crates/values/src/packed",
    "crates/scripting/src/raw.rs",
];

/// All rules about files.
pub const RULES: [Rule; 12] = [
    Rule { name: "story", says: "a module opens with //! and says what it is", check: story },
    Rule { name: "file-lines", says: "at most 1,000 lines outside tests", check: file_lines },
    Rule { name: "function-lines", says: "at most 70 lines in a function", check: function_lines },
    Rule { name: "columns", says: "at most 100 columns in a line", check: columns },
    Rule { name: "unsafe-home", says: "unsafe code only in its homes", check: unsafe_home },
    Rule { name: "unwrap", says: "no unwrap() outside tests", check: unwrap },
    Rule {
        name: "names",
        says: "no Manager, Util, Helper, and no shard outside cluster",
        check: names,
    },
    Rule { name: "test-sleep", says: "no test waits by the clock", check: test_sleep },
    Rule { name: "test-ignore", says: "no test is ignored", check: test_ignore },
    Rule { name: "machine", says: "no path or host of one machine", check: machine },
    Rule { name: "hover", says: "a doc line says what the item is", check: hover },
    Rule { name: "unfinished", says: "no mark of unfinished work", check: unfinished },
];

fn finding(index: usize, what: impl Into<String>) -> Finding {
    Finding { line: index + 1, what: what.into() }
}

fn story(file: &File) -> Vec<Finding> {
    let opens = file.text.lines().find(|line| !line.is_empty() && !line.starts_with("#!"));
    match (&file.source, opens) {
        (Some(_), Some(line)) if line.starts_with("//!") => Vec::new(),
        (Some(_), _) => vec![finding(0, "the first line is no //!")],
        (None, _) => Vec::new(),
    }
}

/// Doc lines that send the reader elsewhere instead of saying what stands there.
fn hover(file: &File) -> Vec<Finding> {
    if file.source.is_none() {
        return Vec::new();
    }
    let says_nothing = |line: &str| {
        let text = line.trim_start();
        let (opening, words) = SENT_ABOVE;
        let next = text.strip_prefix(opening).and_then(|rest| rest.split(' ').next());
        EMPTY_DOCS.contains(&text) || next.is_some_and(|word| words.contains(&word))
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| says_nothing(line));
    lines.map(|(index, line)| finding(index, line.trim())).collect()
}

fn file_lines(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else { return Vec::new() };
    let count = source.live_lines().count();
    if count <= MAX_FILE_LINES {
        return Vec::new();
    }
    // One finding for each line too many, so that the ratchet counts them down.
    (MAX_FILE_LINES..count).map(|_| finding(MAX_FILE_LINES, format!("{count} lines"))).collect()
}

fn function_lines(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else { return Vec::new() };
    source
        .functions
        .iter()
        .filter(|function| function.line_count > MAX_FUNCTION_LINES)
        .map(|f| finding(f.line, format!("fn {} has {} lines", f.name, f.line_count)))
        .collect()
}

fn columns(file: &File) -> Vec<Finding> {
    if !file.is_code() {
        return Vec::new();
    }
    let lines = file.text.lines().map(|line| line.chars().count()).enumerate();
    lines
        .filter(|(_, count)| *count > MAX_COLUMNS)
        .map(|(index, count)| finding(index, format!("{count} columns")))
        .collect()
}

/// Findings for the lines that a closure rejects.
fn where_lines<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    objects: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    lines.filter_map(|(index, line)| Some(finding(index, objects(line)?))).collect()
}

fn unsafe_home(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else { return Vec::new() };
    if UNSAFE_HOMES.iter().any(|home| file.path.starts_with(home)) {
        return Vec::new();
    }
    let all = source.code.iter().map(String::as_str).enumerate();
    where_lines(all, |line| words(line).any(|word| word == "unsafe").then(|| line.trim().into()))
}

fn unwrap(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else { return Vec::new() };
    where_lines(source.live_lines(), |line| {
        let calls = line.contains(".unwrap()") || line.contains(".unwrap_err()");
        calls.then(|| line.trim().into())
    })
}

/// Parts of a name that say nothing, or have another meaning in this project.
const EMPTY_PARTS: [&str; 8] =
    ["manager", "util", "utils", "helper", "helpers", "shard", "shards", "sharded"];

/// Names that others have given their crates.
const CRATES_OF_OTHERS: [&str; 3] = ["futures_util", "http_body_util", "hyper_util"];

fn names(file: &File) -> Vec<Finding> {
    // The nodes of a cluster that have the same slots are a shard, by everybody's name for them.
    let homes = ["cluster", "coordination"];
    let is_of_cluster = file.path.split('/').any(|folder| homes.contains(&folder));
    let may_be = |part: &str| is_of_cluster && part.starts_with("shard");
    let is_empty_part = |part: &str| EMPTY_PARTS.contains(&part) && !may_be(part);
    let is_empty = |name: &str| parts(name).iter().any(|part| is_empty_part(part));
    let mut found = Vec::new();
    if file.path.split(['/', '.']).any(is_empty) {
        found.push(finding(0, format!("the path {}", file.path)));
    }
    if let Some(source) = &file.source {
        let all = source.code.iter().map(String::as_str).enumerate();
        found.extend(where_lines(all, |line| {
            let is_ours = |word: &&str| !CRATES_OF_OTHERS.contains(word);
            words(line).filter(is_ours).find(|word| is_empty(word)).map(String::from)
        }));
    }
    found
}

/// `KeyManager_util` to key, manager, util.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in name.chars() {
        let ends = c == '_' || c == '-' || c.is_uppercase();
        if ends && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.extend(c.to_lowercase());
        }
    }
    parts
}

fn test_sleep(file: &File) -> Vec<Finding> {
    let sleeps = |line: &str| words(line).any(|word| word == "sleep" || word == "sleep_ms");
    if let Some(source) = &file.source {
        return where_lines(source.test_lines(), |line| sleeps(line).then(|| line.trim().into()));
    }
    if !file.path.ends_with(".py") || !file.path.contains("test") {
        return Vec::new();
    }
    let code = file.text.lines().map(|line| line.split('#').next().unwrap_or("")).enumerate();
    where_lines(code, |line| {
        let calls = sleeps(line) && line.contains('(') && !line.trim_start().starts_with("def ");
        calls.then(|| line.trim().into())
    })
}

fn test_ignore(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else { return Vec::new() };
    where_lines(source.test_lines(), |line| {
        let line = line.trim();
        (line.starts_with("#[ignore") || line.starts_with("#[should_panic]")).then(|| line.into())
    })
}

/// Path prefixes that exist on one machine only. Written in pieces, so that this file passes.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Words in a URL's host by which mirrors and registries are recognised.
const HOST_WORDS: [&str; 6] = ["registry", "mirror", "proxy", "artifact", "nexus", "pypi"];

fn machine(file: &File) -> Vec<Finding> {
    where_lines(file.text.lines().enumerate(), |line| {
        let path = MACHINE_PATHS.iter().find(|path| line.contains(**path));
        path.map(|path| String::from(*path)).or_else(|| foreign_host(line))
    })
}

fn foreign_host(line: &str) -> Option<String> {
    let hosts = line.split("://").skip(1).map(|rest| rest.split(['/', ':', '"']).next());
    hosts
        .flatten()
        .find(|host| HOST_WORDS.iter().any(|word| host.to_ascii_lowercase().contains(word)))
        .map(String::from)
}

/// Written in pieces, so that this file passes.
const MARKS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK"), concat!("TO", "DO")];

fn unfinished(file: &File) -> Vec<Finding> {
    if !file.is_code() {
        return Vec::new();
    }
    where_lines(file.text.lines().enumerate(), |line| {
        words(line).find(|word| MARKS.contains(word)).map(String::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which lines of a text a rule finds.
    fn check(rule: &str, path: &str, text: &str, want: &[usize]) {
        let rule = RULES.iter().find(|r| r.name == rule).expect("a rule of that name");
        let lines: Vec<usize> =
            (rule.check)(&File::new(path, text.into())).iter().map(|f| f.line).collect();
        assert_eq!(lines, want, "{} on {path}", rule.name);
    }

    #[test]
    fn each_rule_finds_what_it_forbids_and_nothing_else() {
        check("story", "a.rs", "use x;\n", &[1]);
        check("story", "a.rs", "//! It is.\n", &[]);
        check("story", "a.md", "text\n", &[]);
        check("columns", "a.rs", &format!("{}\n{}\n", "é".repeat(100), "x".repeat(101)), &[2]);
        check("columns", "a.md", &"x".repeat(200), &[]);
        check("unsafe-home", "crates/server/src/a.rs", "// unsafe\nunsafe { x() }\n", &[2]);
        check("unsafe-home", "crates/table/src/a.rs", "unsafe { x() }\n", &[]);
        check("unwrap", "a.rs", "a.unwrap();\n#[test]\nfn t() { b.unwrap(); }\n", &[1]);
        check("unwrap", "a.rs", "a.unwrap_or(1); // .unwrap()\n", &[]);
        check("names", "a.rs", "struct KeyManager;\nlet shard_count = \"shard\";\n", &[1, 2]);
        check("names", "crates/cluster/a.rs", "struct KeyManager;\nlet shards = 1;\n", &[1]);
        check("names", "a.rs", "fn sharpen(utility: u8) {}\n", &[]);
        check("names", "src/utils/a.rs", "", &[1]);
        check("test-sleep", "a.rs", "sleep(1);\n#[test]\nfn t() { sleep(1); }\n", &[3]);
        check(
            "test-sleep",
            "compat/test_x.py",
            "time.sleep(1)  # x\n# sleep(1)\ndef sleep(s):\n",
            &[1],
        );
        check("test-ignore", "tests/a.rs", "#[ignore]\n#[test]\nfn t() {}\n", &[1]);
        check("hover", "a.rs", "    /// See the module.\n/// See [`X`] for more.\n", &[1]);
        check("hover", "a.rs", "/// The same with words.\n/// The same key may come.\n", &[1]);
        check("unfinished", "a.rs", concat!("// TO", "DO: x\n// todo\n"), &[1]);
    }

    #[test]
    fn machines_are_not_named() {
        check("machine", "a.md", concat!("see /wo", "rk/x\nsee /var/x\n"), &[1]);
        check("machine", "a.md", concat!("http", "s://my.mir", "ror.org/x\n"), &[1]);
        check("machine", "a.md", "https://example.org/registry\n", &[]);
    }

    #[test]
    fn sizes_count_what_is_outside_tests() {
        let body = "let x = 1;\n".repeat(80);
        check("function-lines", "a.rs", &format!("fn long() {{\n{body}}}\n"), &[1]);
        check("function-lines", "a.rs", &format!("#[test]\nfn long() {{\n{body}}}\n"), &[]);
        check("file-lines", "a.rs", &"x\n".repeat(1_001), &[1_001, 1_001]);
        check("file-lines", "tests/a.rs", &"x\n".repeat(2_000), &[]);
    }
}
