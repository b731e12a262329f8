//! `cargo xtask tidy`: the house rules, checked over the whole tree. Also a test.
//!
//! Not here: the rules of one file (`rules`), those of crates and folders (`floors`, `folders`,
//! `circles`), the tolerated exceptions (`ratchet`).

mod acting;
mod circles;
mod floors;
mod folders;
mod holes;
mod ratchet;
mod rules;
mod source;
mod wrap;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use crate::root;
use ratchet::Ratchet;
use rules::{File, Finding, RULES};
use wrap::wrapped;

const EXCEPTIONS: &str = "xtask/tidy.toml";
/// Directories without our source; those that begin with `target` are skipped, too.
const PASSED_OVER: [&str; 5] = [".git", ".venv", "__pycache__", "node_modules", ".pytest_cache"];
/// Larger files are data.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// Prints all violations.
pub fn run() -> ExitCode {
    let report = Report::of(&root());
    for line in report.wrong.iter().chain(&report.loose) {
        eprintln!("{line}");
    }
    match report.wrong.len() {
        0 => ExitCode::SUCCESS,
        count => {
            eprintln!("tidy: {count} to mend");
            ExitCode::FAILURE
        }
    }
}

/// Lowers the tolerated numbers to what is found now.
pub fn tighten() -> ExitCode {
    let report = Report::of(&root());
    let text = report.ratchet.tightened(&report.counts).text();
    match std::fs::write(root().join(EXCEPTIONS), text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{EXCEPTIONS}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Wraps long comment lines of every Rust file.
pub fn wrap() -> ExitCode {
    let mut files = Vec::new();
    collect(&root(), "", &mut files);
    for file in files.iter().filter(|file| file.source.is_some()) {
        let text = wrapped(&file.text);
        if text == file.text {
            continue;
        }
        if let Err(error) = std::fs::write(root().join(&file.path), text) {
            eprintln!("{}: {error}", file.path);
            return ExitCode::FAILURE;
        }
        println!("wrapped {}", file.path);
    }
    ExitCode::SUCCESS
}

/// The findings in a tree.
#[derive(Default)]
struct Report {
    ratchet: Ratchet,
    /// Findings by rule and path.
    counts: BTreeMap<(String, String), usize>,
    wrong: Vec<String>,
    /// Exceptions that could be smaller: not a violation, but to be lowered.
    loose: Vec<String>,
}

impl Report {
    fn of(root: &Path) -> Self {
        let mut files = Vec::new();
        collect(root, "", &mut files);
        let mut report = Self::default();
        let text = std::fs::read_to_string(root.join(EXCEPTIONS)).unwrap_or_default();
        match Ratchet::parse(&text) {
            Ok(ratchet) => report.ratchet = ratchet,
            Err(why) => report.wrong.push(format!("{EXCEPTIONS}: {why}")),
        }
        for file in &files {
            for rule in &RULES {
                let findings = (rule.check)(file);
                report.judge(rule.name, rule.says, &file.path, &findings);
            }
        }
        let mut by_path: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        for (path, finding) in floors::check(&files) {
            by_path.entry(path).or_default().push(finding);
        }
        for (path, findings) in &by_path {
            report.judge(floors::RULE, floors::SAYS, path, findings);
        }
        for (folder, findings) in folders::check(&files) {
            report.judge(folders::RULE, folders::SAYS, &folder, &findings);
        }
        for (folder, findings) in circles::check(&files) {
            report.judge(circles::RULE, circles::SAYS, &folder, &findings);
        }
        report.judge(acting::RULE, acting::SAYS, acting::TABLE, &acting::check(&files));
        report.judge(holes::RULE, holes::SAYS, holes::TABLE, &holes::check(&files));
        report.loose_ends();
        report
    }

    fn judge(&mut self, rule: &str, says: &str, path: &str, findings: &[Finding]) {
        let tolerated = self.ratchet.tolerated(rule, path);
        if !findings.is_empty() {
            self.counts.insert((rule.into(), path.into()), findings.len());
        }
        if findings.len() <= tolerated {
            return;
        }
        for finding in findings {
            let Finding { line, what } = finding;
            self.wrong.push(format!("{path}:{line}: {rule}: {what} ({says})"));
        }
    }

    /// Collects exceptions that are larger than what is found.
    fn loose_ends(&mut self) {
        for ((rule, path), tolerated) in &self.ratchet.0 {
            let found = self.counts.get(&(rule.clone(), path.clone())).copied().unwrap_or(0);
            if found < *tolerated {
                self.loose.push(format!(
                    "note: {rule} in {path} is down to {found}: cargo xtask tidy --tighten"
                ));
            }
        }
    }
}

/// Every text file below a directory, in order.
fn collect(root: &Path, below: &str, files: &mut Vec<File>) {
    let Ok(listing) = std::fs::read_dir(root.join(below)) else { return };
    let mut names: Vec<String> =
        listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    for name in names {
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let Ok(about) = std::fs::symlink_metadata(root.join(&path)) else { continue };
        if about.is_dir() {
            if !PASSED_OVER.contains(&name.as_str()) && !name.starts_with("target") {
                collect(root, &path, files);
            }
        } else if about.is_file()
            && about.len() <= MAX_TEXT_BYTES
            && name != "Cargo.lock"
            && name != ".git"
            && let Ok(text) = std::fs::read_to_string(root.join(&path))
        {
            files.push(File::new(&path, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let report = Report::of(&root());
        assert!(report.wrong.is_empty(), "\n{}", report.wrong.join("\n"));
    }

    #[test]
    fn a_number_does_not_rise_and_is_noted_when_it_could_fall() {
        let mut report = Report {
            ratchet: Ratchet::parse("[r]\n\"a\" = 1\n\"gone\" = 2\n").unwrap(),
            ..Report::default()
        };
        let finding = |line| Finding { line, what: "x".into() };
        report.judge("r", "says", "a", &[finding(1)]);
        assert_eq!(report.wrong, [""; 0]);
        report.judge("r", "says", "a", &[finding(1), finding(2)]);
        assert_eq!(report.wrong.len(), 2);
        report.loose_ends();
        assert_eq!((report.wrong.len(), report.loose.len()), (2, 1));
    }
}
