//! `xtask/tidy.toml`: the tolerated exceptions, each with its number. A number may only fall.
//!
//! ```text
//! [rule]
//! "path/of/file.rs" = 3
//! ```
//!
//! Tests: at the foot.

use std::collections::BTreeMap;
use std::fmt::Write;

/// How many findings each rule still tolerates in each file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ratchet(pub BTreeMap<(String, String), usize>);

const HEAD: &str = "\
# Exceptions to the tidy rules, by rule and file. A number may only fall, and what has become better
# is written down by `cargo xtask tidy --tighten`. New exceptions are not made.
";

impl Ratchet {
    /// Parses the file's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tolerated = BTreeMap::new();
        let mut rule = String::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                rule = name.into();
                continue;
            }
            let entry = line.split_once('=').and_then(|(path, count)| {
                Some((path.trim().trim_matches('"'), count.trim().parse::<usize>().ok()?))
            });
            let (path, count) =
                entry.ok_or_else(|| format!("line {}: not \"path\" = number", index + 1))?;
            tolerated.insert((rule.clone(), path.into()), count);
        }
        Ok(Self(tolerated))
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut text = String::from(HEAD);
        let mut last = "";
        for ((rule, path), count) in &self.0 {
            if rule != last {
                let _ = write!(text, "\n[{rule}]\n");
                last = rule;
            }
            let _ = writeln!(text, "\"{path}\" = {count}");
        }
        text
    }

    /// How many findings are tolerated.
    pub fn tolerated(&self, rule: &str, path: &str) -> usize {
        self.0.get(&(rule.into(), path.into())).copied().unwrap_or(0)
    }

    /// This ratchet with every number lowered to what was found; entries without findings are
    /// removed.
    pub fn tightened(&self, found: &BTreeMap<(String, String), usize>) -> Self {
        let lowered = self.0.iter().map(|(place, &count)| {
            (place.clone(), count.min(found.get(place).copied().unwrap_or(0)))
        });
        Self(lowered.filter(|(_, count)| *count > 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text =
            format!("{HEAD}\n[columns]\n\"a.rs\" = 2\n\"b.rs\" = 1\n\n[story]\n\"a.rs\" = 1\n");
        let ratchet = Ratchet::parse(&text).unwrap();
        assert_eq!(ratchet.text(), text);
        assert_eq!(ratchet.tolerated("columns", "a.rs"), 2);
        assert_eq!(ratchet.tolerated("unwrap", "a.rs"), 0);
        assert!(Ratchet::parse("[x]\nnonsense\n").is_err());
    }

    #[test]
    fn numbers_only_fall() {
        let ratchet = Ratchet::parse("[r]\n\"a\" = 2\n\"b\" = 2\n\"c\" = 2\n").unwrap();
        let place = |path: &str| (String::from("r"), String::from(path));
        let found = BTreeMap::from([(place("a"), 1), (place("b"), 9)]);
        let tight = ratchet.tightened(&found);
        assert_eq!(tight.0, BTreeMap::from([(place("a"), 1), (place("b"), 2)]));
    }
}
