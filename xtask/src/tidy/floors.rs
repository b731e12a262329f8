//! Checks the layers of ARCHITECTURE.md: which crate may depend on which, and which may hold unsafe
//! code.
//!
//! A crate that is not in `FLOORS` is an error: its layer is decided before it is written.
//!
//! Tests: at the foot, and `tidy`, which runs this on the tree.

use super::rules::{File, Finding, UNSAFE_HOMES};

/// A crate's directory, and the nearest of our crates below it: it may depend on these, and on
/// everything below them.
const FLOORS: [(&str, &[&str]); 41] = [
    ("crates/base", &[]),
    ("crates/http", &[]),
    ("crates/acl", &["base"]),
    ("crates/cluster", &["base"]),
    ("crates/sync", &["base"]),
    ("crates/memory", &["base"]),
    ("crates/settings", &["base"]),
    ("crates/protocol", &["base"]),
    ("crates/memcached", &["base"]),
    ("crates/reactor", &["base"]),
    ("crates/tls", &["settings"]),
    ("crates/objects", &["http"]),
    ("crates/etcd", &["http"]),
    ("crates/coordination", &["cluster", "etcd"]),
    ("crates/journal", &["sync"]),
    ("crates/psync", &["journal"]),
    ("crates/table", &["memory"]),
    ("crates/values", &["table"]),
    ("crates/rdb", &["values"]),
    ("crates/keyspace", &["journal", "values"]),
    ("crates/commands", &["acl", "keyspace", "memcached", "protocol", "psync", "rdb", "settings"]),
    ("crates/scripting", &["protocol"]),
    ("crates/engine", &["cluster", "commands", "scripting"]),
    ("crates/persistence", &["engine"]),
    ("crates/admin", &["engine", "http"]),
    ("crates/durability", &["objects", "persistence"]),
    ("crates/migrate", &["engine", "http"]),
    ("crates/replication", &["durability", "tls"]),
    ("crates/workers", &["reactor", "replication"]),
    ("crates/operator", &["coordination", "workers"]),
    ("crates/client", &["protocol"]),
    ("crates/top", &["client"]),
    ("crates/import", &["client"]),
    ("crates/doctor", &["client", "settings", "table"]),
    ("crates/server", &["admin", "doctor", "import", "migrate", "operator", "top"]),
    ("crates/simulator", &["server"]),
    ("bench/load", &["base"]),
    ("bench/traces", &["load"]),
    ("compat", &["server"]),
    ("fuzz", &["server"]),
    ("xtask", &[]),
];

/// Third-party code with our changes, built for a dependency; no crate depends on it.
const OTHERS: &str = "third_party/";

/// The name of this rule in tidy.toml.
pub const RULE: &str = "floors";
/// The requirement, for messages.
pub const SAYS: &str = "ARCHITECTURE.md, floors";

/// The violations in the crates, by the path of the file at fault.
pub fn check(files: &[File]) -> Vec<(String, Finding)> {
    let mut wrong = Vec::new();
    let manifests = files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    for manifest in manifests.filter(|file| !file.path.starts_with(OTHERS)) {
        let directory = manifest.path.trim_end_matches("/Cargo.toml");
        let reaches = match FLOORS.iter().find(|(known, _)| *known == directory) {
            Some((_, nearest)) => reaches_up(&manifest.text, nearest),
            None => {
                vec![Finding { line: 1, what: "has no floor in xtask/src/tidy/floors.rs".into() }]
            }
        };
        wrong.extend(reaches.into_iter().map(|finding| (manifest.path.clone(), finding)));
        wrong.extend(unforbidden(directory, files));
    }
    wrong
}

/// Dependencies of any kind, including tests', on a crate that is not below.
fn reaches_up(manifest: &str, nearest: &[&str]) -> Vec<Finding> {
    let mut section = "";
    let mut wrong = Vec::new();
    for (index, line) in manifest.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.strip_prefix("pantala-").filter(|_| section.contains("dependencies"));
        let Some(name) = name.and_then(|name| name.split(['.', ' ', '=']).next()) else { continue };
        if !nearest.iter().any(|below| *below == name || is_below(name, below)) {
            let what = format!("must not know pantala-{name}, which is not below it");
            wrong.push(Finding { line: index + 1, what });
        }
    }
    wrong
}

/// The nearest crates below the crate of this name.
fn nearest_below(name: &str) -> &'static [&'static str] {
    let row = FLOORS.iter().find(|(directory, _)| directory.rsplit('/').next() == Some(name));
    row.map_or(&[], |(_, nearest)| nearest)
}

/// Whether the crate `name` is somewhere below the crate `above`.
fn is_below(name: &str, above: &str) -> bool {
    nearest_below(above).iter().any(|below| *below == name || is_below(name, below))
}

/// The root of a crate that may not hold unsafe code and does not forbid it.
fn unforbidden(directory: &str, files: &[File]) -> Option<(String, Finding)> {
    if UNSAFE_HOMES.iter().any(|home| home.starts_with(&format!("{directory}/"))) {
        return None;
    }
    let is_root = |file: &&File| {
        ["lib.rs", "main.rs"].iter().any(|root| file.path == format!("{directory}/src/{root}"))
    };
    let lax = files.iter().filter(is_root).find(|file| !file.text.contains("forbid(unsafe_code)"));
    let what = "lacks #![forbid(unsafe_code)]";
    lax.map(|file| (file.path.clone(), Finding { line: 1, what: what.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many violations a crate with this manifest and root has.
    fn wrong(path: &str, manifest: &str, root: &str) -> usize {
        let manifest = File::new(&format!("{path}/Cargo.toml"), manifest.into());
        check(&[manifest, File::new(&format!("{path}/src/lib.rs"), root.into())]).len()
    }

    #[test]
    fn an_arrow_goes_only_down() {
        const FORBID: &str = "#![forbid(unsafe_code)]";
        let down = "[dependencies]\npantala-base.workspace = true\n";
        let up = "[dev-dependencies]\npantala-server = { path = \"x\" }\n";
        assert_eq!(wrong("crates/protocol", down, FORBID), 0);
        assert_eq!(wrong("crates/protocol", up, FORBID), 1);
        assert_eq!(wrong("crates/unheard-of", "", FORBID), 1);
    }

    #[test]
    fn unsafe_is_forbidden_outside_its_homes() {
        assert_eq!(wrong("crates/protocol", "", ""), 1);
        assert_eq!(wrong("crates/table", "", ""), 0);
        assert_eq!(wrong("crates/base", "", ""), 0);
    }

    #[test]
    fn floors_are_a_staircase() {
        // Each row names rows before it, so nothing is below itself.
        for (number, (directory, nearest)) in FLOORS.iter().enumerate() {
            for name in *nearest {
                let before = FLOORS[..number].iter();
                let is_known = before.clone().any(|(one, _)| one.rsplit('/').next() == Some(name));
                assert!(is_known, "{directory} names {name}, which no row before it describes");
            }
        }
        assert!(is_below("base", "server") && !is_below("server", "base"));
        assert!(!is_below("reactor", "engine"), "the engine knows no socket");
    }
}
