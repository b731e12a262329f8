//! Checks the layers of ARCHITECTURE.md: which crate may depend on which, and which may hold unsafe
//! code.
//!
//! A crate that is not in `FLOORS` is an error: its layer is decided before it is written.
//!
//! Tests: at the foot, and `tidy`, which runs this on the tree.

use super::rules::{File, Finding, UNSAFE_HOMES};

/// A crate's directory, and our crates that it may depend on.
const FLOORS: [(&str, &[&str]); 37] = [
    ("crates/base", &[]),
    ("crates/acl", &["base"]),
    ("crates/sync", &["base"]),
    ("crates/journal", &["base", "sync"]),
    ("crates/memory", &["base"]),
    ("crates/http", &[]),
    ("crates/objects", &["http"]),
    ("crates/settings", &["base"]),
    ("crates/protocol", &["base"]),
    ("crates/memcached", &["base"]),
    ("crates/reactor", &["base"]),
    ("crates/tls", &["base", "settings"]),
    ("crates/table", &["base", "memory"]),
    ("crates/values", &["base", "memory", "table"]),
    ("crates/rdb", &["base", "memory", "table", "values"]),
    ("crates/keyspace", &["base", "journal", "memory", "sync", "table", "values"]),
    (
        "crates/commands",
        &[
            "acl",
            "base",
            "journal",
            "psync",
            "memory",
            "settings",
            "protocol",
            "memcached",
            "sync",
            "table",
            "values",
            "rdb",
            "keyspace",
        ],
    ),
    ("crates/psync", &["base", "journal", "sync"]),
    ("crates/scripting", &["base", "protocol"]),
    (
        "crates/engine",
        &[
            "acl",
            "base",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
        ],
    ),
    (
        "crates/persistence",
        &[
            "acl",
            "base",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
        ],
    ),
    (
        "crates/durability",
        &[
            "acl",
            "base",
            "http",
            "objects",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
            "persistence",
        ],
    ),
    (
        "crates/replication",
        &[
            "acl",
            "base",
            "http",
            "objects",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
            "persistence",
            "durability",
            "tls",
        ],
    ),
    (
        "crates/workers",
        &[
            "acl",
            "base",
            "http",
            "objects",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
            "persistence",
            "durability",
            "replication",
            "reactor",
            "tls",
        ],
    ),
    (
        "crates/operator",
        &[
            "acl",
            "base",
            "http",
            "objects",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
            "persistence",
            "durability",
            "replication",
            "workers",
            "reactor",
            "tls",
        ],
    ),
    (
        "crates/migrate",
        &[
            "acl",
            "base",
            "http",
            "objects",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
            "persistence",
        ],
    ),
    ("crates/client", &["base", "protocol"]),
    ("crates/top", &["base", "protocol", "client"]),
    ("crates/import", &["base", "protocol", "client"]),
    ("crates/doctor", &["base", "memory", "protocol", "settings", "table", "client"]),
    (
        "crates/admin",
        &[
            "acl",
            "base",
            "http",
            "journal",
            "psync",
            "memory",
            "sync",
            "settings",
            "protocol",
            "memcached",
            "table",
            "values",
            "rdb",
            "keyspace",
            "commands",
            "scripting",
            "engine",
        ],
    ),
    ("crates/server", ANY),
    ("bench/load", &["base"]),
    ("bench/traces", &["base", "load"]),
    ("compat", ANY),
    ("fuzz", ANY),
    ("xtask", ANY),
];

const ANY: &[&str] = &[
    "acl",
    "base",
    "journal",
    "http",
    "objects",
    "memory",
    "sync",
    "settings",
    "protocol",
    "reactor",
    "table",
    "tls",
    "values",
    "rdb",
    "psync",
    "keyspace",
    "commands",
    "scripting",
    "engine",
    "memcached",
    "persistence",
    "durability",
    "replication",
    "workers",
    "operator",
    "migrate",
    "client",
    "top",
    "doctor",
    "import",
    "admin",
    "server",
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
            Some((_, allowed)) => reaches_up(&manifest.text, allowed),
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
fn reaches_up(manifest: &str, allowed: &[&str]) -> Vec<Finding> {
    let mut section = "";
    let mut wrong = Vec::new();
    for (index, line) in manifest.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.strip_prefix("pantala-").filter(|_| section.contains("dependencies"));
        let Some(name) = name.and_then(|name| name.split(['.', ' ', '=']).next()) else { continue };
        if !allowed.contains(&name) {
            let what = format!("must not know pantala-{name}, which is not below it");
            wrong.push(Finding { line: index + 1, what });
        }
    }
    wrong
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
        // A crate that may be depended on must be in the table itself.
        for (directory, allowed) in FLOORS {
            for name in allowed {
                let below = FLOORS.iter().find(|(d, _)| d.rsplit('/').next() == Some(name));
                let (_, theirs) = below.expect("a crate of that name");
                assert!(
                    allowed == ANY || theirs.iter().all(|theirs| allowed.contains(theirs)),
                    "{directory} may know {name}, but not all that {name} knows"
                );
            }
        }
    }
}
