//! Commands: those called there and missing here, and those that behave differently.

use std::collections::BTreeMap;

use crate::CommandLookup;
use crate::differences;
use crate::facts::{Calls, ServerFacts};
use crate::finding::Finding;
use crate::print::counted;
use crate::product::Product;

/// Commands that servers send to each other; `surroundings` checks replicas.
const OF_REPLICATION: [&str; 6] = ["failover", "psync", "replconf", "replicaof", "slaveof", "sync"];
/// Commands of a cluster node; `surroundings` checks the cluster.
const OF_CLUSTER: [&str; 3] = ["asking", "cluster", "clusterscan"];

/// Prefixes of modules' commands, and the modules' names.
pub const OF_MODULES: [(&str, &str); 9] = [
    ("bf.", "bf"),
    ("cf.", "bf"),
    ("cms.", "bf"),
    ("ft.", "search"),
    ("_ft.", "search"),
    ("json.", "ReJSON"),
    ("tdigest.", "bf"),
    ("topk.", "bf"),
    ("ts.", "timeseries"),
];

pub fn check(facts: &ServerFacts, product: Product, has: CommandLookup<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.calls.is_empty() {
        let says = "INFO commandstats tells of no command: what is used is not known";
        let advice = "Where it can be switched on (Garnet), ask again after a day.";
        findings.push(Finding::differs("commands", says).advice(advice));
    } else {
        findings.push(used(facts, has));
    }
    findings.extend(unused(facts, has));
    if product != Product::Pantala {
        findings.extend(otherwise(facts, product, has));
    }
    findings
}

/// Whether these calls mean that the command is needed: one that has always failed does no work
/// there either.
fn counts(calls: Calls) -> bool {
    calls.all > calls.failed
}

fn is_of_servers(name: &str) -> bool {
    let first = name.split('|').next().unwrap_or_default();
    OF_REPLICATION.contains(&first) || OF_CLUSTER.contains(&first)
}

/// Commands that are called there and missing here.
fn used(facts: &ServerFacts, has: CommandLookup<'_>) -> Finding {
    let called = facts.calls.iter().filter(|(_, calls)| counts(**calls));
    let (here, absent): (Vec<_>, Vec<_>) = called.partition(|(name, _)| has(name));
    let mut absent: Vec<_> = absent.into_iter().filter(|(name, _)| !is_of_servers(name)).collect();
    if absent.is_empty() {
        let says =
            format!("the {} that were called are here", counted(here.len() as u64, "command"));
        return Finding::note("commands", says).advice(since(facts));
    }
    absent.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.all));
    let says = format!("called and not here: {}", counted(absent.len() as u64, "command"));
    let items = absent.iter().map(|(name, calls)| item(name, **calls)).collect();
    Finding::stops("commands", says).items(items).advice(since(facts))
}

/// Since when calls are counted.
fn since(facts: &ServerFacts) -> String {
    let days = facts.number("uptime_in_seconds") / 86_400;
    let since = match days {
        0 => "less than a day".into(),
        days => format!("{days} days"),
    };
    format!("It has run for {since}: rare jobs may not have been seen.")
}

fn item(name: &str, calls: Calls) -> String {
    let of_module = match module_of(name) {
        Some(module) => format!(", of the module {module}"),
        None => String::new(),
    };
    format!("{}: {}{of_module}", shown(name), counted(calls.all, "call"))
}

/// A command's name in its usual form.
fn shown(name: &str) -> String {
    name.to_uppercase().replace('|', " ")
}

/// The module of a command.
fn module_of(name: &str) -> Option<&'static str> {
    let found = OF_MODULES.iter().find(|(begin, _)| name.starts_with(begin));
    found.map(|(_, module)| *module)
}

/// Commands that exist there, are missing here, and were not called.
fn unused(facts: &ServerFacts, has: CommandLookup<'_>) -> Option<Finding> {
    let commands = match &facts.commands {
        Ok(commands) => commands,
        Err(why) => {
            let says = format!("which commands it has is not known: {why}");
            return Some(Finding::note("commands", says));
        }
    };
    let was_called = |name: &str| facts.calls.get(name).copied().is_some_and(counts);
    let absent = commands.iter().filter(|name| !has(name) && !was_called(name));
    let names: Vec<String> =
        absent.filter(|name| !is_of_servers(name)).map(|name| shown(name)).collect();
    if names.is_empty() {
        return None;
    }
    let says =
        format!("there, not here, and not called: {}", counted(names.len() as u64, "command"));
    let advice = "A name that is unknown everywhere may be one that rename-command has given.";
    Some(Finding::note("commands", says).items(vec![names.join(", ")]).advice(advice))
}

/// Lines of docs/differences.md about the called commands.
fn otherwise(facts: &ServerFacts, product: Product, has: CommandLookup<'_>) -> Option<Finding> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in differences::all() {
        let is_of_it = match product {
            Product::Dragonfly => line.whose.starts_with("Dragonfly"),
            _ => line.whose.starts_with("Valkey"),
        };
        let commands = line.commands(has);
        let called =
            commands.iter().find(|name| facts.calls.get(*name).copied().is_some_and(counts));
        if let Some(name) = called.filter(|_| is_of_it) {
            let theirs = if line.theirs.is_empty() { "-" } else { line.theirs };
            let text = format!("{}: there {theirs}; here {}", line.what, line.ours);
            lines.entry(name.clone()).or_default().push(text.replace('`', ""));
        }
    }
    if lines.is_empty() {
        return None;
    }
    let says = format!(
        "called, and answered otherwise in some case: {}",
        counted(lines.len() as u64, "command")
    );
    let items = lines.into_values().flatten().collect();
    Some(Finding::note("commands", says).items(items).advice("All of them: docs/differences.md."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_always_fails_is_not_needed() {
        assert!(!counts(Calls { all: 3, failed: 3 }));
        assert!(counts(Calls { all: 3, failed: 2 }));
        assert!(!counts(Calls::default()));
    }

    #[test]
    fn modules_are_known_by_how_their_commands_begin() {
        assert_eq!(module_of("ft.search"), Some("search"));
        assert_eq!(module_of("get"), None);
        assert!(is_of_servers("cluster|slots") && !is_of_servers("client|list"));
    }
}
