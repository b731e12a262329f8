//! Settings: the effect of each on a server here.

use std::collections::BTreeSet;

use pantala_settings::{CarryRule, Row, RowFlags, find};

use crate::facts::ServerFacts;
use crate::finding::Finding;
use crate::product::Product;

/// Settings that differ by machine.
const OF_THE_MACHINE: [&str; 2] = ["dir", "pidfile"];
/// Settings that `surroundings` checks.
const ELSEWHERE: [&str; 2] = ["cluster-enabled", "replicaof"];
/// Values that are the default in Valkey or some version of Redis, though not here: nobody has
/// chosen them.
const DEFAULTS_OF_OTHERS: [(&str, &str); 14] = [
    ("active-defrag-ignore-bytes", "104857600"),
    ("activedefrag", "no"),
    ("enable-debug-command", "no"),
    ("enable-module-command", "no"),
    ("io-threads", "1"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-user-flush", "no"),
    ("repl-backlog-size", "1048576"),
    ("replica-lazy-flush", "no"),
    ("syslog-ident", "redis"),
    ("syslog-ident", "valkey"),
];

/// Settings by their effect here.
#[derive(Default)]
struct Sorted {
    unknown: Vec<String>,
    refused: Vec<String>,
    invalid: Vec<String>,
    idle: Vec<String>,
    acts: Vec<String>,
}

pub fn check(facts: &ServerFacts, product: Product) -> Vec<Finding> {
    let settings = match &facts.settings {
        Ok(settings) => settings,
        Err(why) => {
            let says = format!("CONFIG GET is refused: {why}");
            let advice = "Hold its configuration against docs/settings.md yourself.";
            return vec![Finding::differs("settings", says).advice(advice)];
        }
    };
    let mut sorted = Sorted::default();
    let mut seen = BTreeSet::new();
    for (name, value) in settings {
        match find(name) {
            None => sorted.unknown.push(line(None, name, value)),
            // Old names of the same setting are listed, too.
            Some(row) if seen.insert(row.name) => sorted.add(row, name, value),
            Some(_) => {}
        }
    }
    sorted.findings(product)
}

impl Sorted {
    fn add(&mut self, row: &Row, name: &str, value: &str) {
        let is_unchosen = DEFAULTS_OF_OTHERS.contains(&(row.name, value));
        if OF_THE_MACHINE.contains(&row.name) || ELSEWHERE.contains(&row.name) || is_unchosen {
            return;
        }
        let shown = line(Some(row), name, value);
        match row.carried(value) {
            CarryRule::Default => {}
            CarryRule::Acts(_) => self.acts.push(shown),
            CarryRule::Idle => self.idle.push(format!("{shown}: {}", row.doc)),
            CarryRule::Refused => self.refused.push(format!("{shown}: {}", row.doc)),
            CarryRule::Invalid(why) => self.invalid.push(format!("{shown}: {why}")),
        }
    }

    fn findings(self, product: Product) -> Vec<Finding> {
        let about = "settings";
        let mut findings = Vec::new();
        let mut add = |items: Vec<String>, finding: Finding| {
            if !items.is_empty() {
                findings.push(finding.items(items));
            }
        };
        let says = "promise what nothing here keeps yet: a start with them is refused";
        add(
            self.refused,
            Finding::stops(about, says).advice("Take them out if you can do without."),
        );
        let says = "have values that are not allowed here: a start with them is refused";
        add(self.invalid, Finding::differs(about, says));
        let says = match product {
            Product::Redis | Product::Valkey => "are not known here: a file may not have them",
            _ => "are not known here",
        };
        add(self.unknown, Finding::note(about, says));
        let says = "are set there and do nothing here";
        add(self.idle, Finding::note(about, says));
        let says = "differ from the default and act here, too: carry them over";
        add(self.acts, Finding::note(about, says).advice("All settings: docs/settings.md."));
        findings
    }
}

/// The setting and its value, unless that is secret.
fn line(row: Option<&Row>, name: &str, value: &str) -> String {
    let is_secret = row.map_or_else(
        || ["pass", "auth", "secret", "key"].iter().any(|word| name.contains(word)),
        |row| row.has(RowFlags::SECRET),
    );
    match value {
        "" => format!("{name} \"\""),
        _ if is_secret => format!("{name} (not shown)"),
        value => format!("{name} {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        assert_eq!(line(find("requirepass"), "requirepass", "x"), "requirepass (not shown)");
        assert_eq!(line(None, "license_key", "x"), "license_key (not shown)");
        assert_eq!(line(find("port"), "port", "7"), "port 7");
    }
}
