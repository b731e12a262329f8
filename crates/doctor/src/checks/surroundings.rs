//! The server and its surroundings: moving the data, cluster, replicas, TLS, clients.

use std::collections::{BTreeMap, BTreeSet};

use crate::CommandLookup;
use crate::facts::ServerFacts;
use crate::finding::Finding;
use crate::print::counted;
use crate::product::Product;

/// The latest major version of Redis whose files were tested.
const REDIS_TRIED: u64 = 8;
const VALKEY_TRIED: u64 = 9;
/// The most client libraries that are named.
const LIBRARIES_MOST: usize = 10;

pub fn check(facts: &ServerFacts, product: Product, has: CommandLookup<'_>) -> Vec<Finding> {
    let mut findings = vec![moving(facts, product, has)];
    findings.extend(cluster(facts));
    findings.extend(replicas(facts, has));
    findings.extend(tls(facts));
    findings.extend(clients(facts));
    findings
}

/// How to move the data here.
fn moving(facts: &ServerFacts, product: Product, has: CommandLookup<'_>) -> Finding {
    let (name, version) = (product.name(), product.version(facts));
    let major = product.major(facts);
    let is_newer = match product {
        Product::Redis => major.is_some_and(|major| major > REDIS_TRIED),
        Product::Valkey => major.is_some_and(|major| major > VALKEY_TRIED),
        _ => false,
    };
    let following =
        if has("replicaof") { " Or while it is written to: pantala import --help." } else { "" };
    let file = match facts.setting("dbfilename") {
        "" => "dump.rdb",
        file => file,
    };
    match product {
        Product::Pantala => Finding::note("data", "this is Pantala itself"),
        Product::Garnet => {
            let advice = "Read its keys and write them here with a client of your own.";
            Finding::differs("data", "the files of Garnet are not read").advice(advice)
        }
        Product::Dragonfly => {
            let advice = "SAVE there, copy the files, start here with --load NAME-summary.dfs.";
            let says = format!("the snapshots of Dragonfly {version} are read");
            Finding::note("data", says).advice(advice)
        }
        Product::KeyDb => {
            let says = format!("a snapshot of KeyDB {version} has the form of Redis 6; not tried");
            Finding::differs("data", says).advice("Try it: pantala check dump.rdb.")
        }
        Product::Redis | Product::Valkey if is_newer => {
            let says = format!("{name} {version} is newer than what its files were tried with");
            Finding::differs("data", says).advice(format!("Try it: pantala check {file}."))
        }
        Product::Redis | Product::Valkey => {
            let says = format!("the snapshots of {name} {version} are read");
            let advice = format!("BGSAVE there, copy {file} into --dir, start here.{following}");
            Finding::note("data", says).advice(advice)
        }
    }
}

fn cluster(facts: &ServerFacts) -> Option<Finding> {
    if facts.number("cluster_enabled") != 1 {
        return None;
    }
    let says = "it is a node of a cluster, and nodes do not talk to each other here yet";
    let advice = "One Pantala with the keys of all nodes, if one machine holds them: ask each \
                  primary, and point the clients at it (cluster_mode emulated).";
    Some(Finding::stops("cluster", says).advice(advice))
}

fn replicas(facts: &ServerFacts, has: CommandLookup<'_>) -> Option<Finding> {
    let count = facts.number("connected_slaves");
    let is_replica = facts.text("role") == "slave";
    let clients = facts.clients.as_deref().unwrap_or_default();
    let is_sentinel = |client: &BTreeMap<String, String>| {
        client.get("name").is_some_and(|name| name.starts_with("sentinel-"))
    };
    let is_watched = clients.iter().any(is_sentinel);
    if has("replicaof") || (count == 0 && !is_replica && !is_watched) {
        return None;
    }
    let mut items = Vec::new();
    if count > 0 {
        items.push(format!("it has {}", counted(count, "replica")));
    }
    if is_replica {
        items.push("it is a replica itself; ask its primary as well".into());
    }
    if is_watched {
        items.push("Sentinels watch it".into());
    }
    let says = "others copy its data, and there is no replication here yet";
    let advice = "Who does without: snapshots and the append-only file keep the data of one.";
    Some(Finding::stops("replicas", says).items(items).advice(advice))
}

fn tls(facts: &ServerFacts) -> Option<Finding> {
    let port = facts.setting("tls-port");
    if !facts.is_over_tls && matches!(port, "" | "0") {
        return None;
    }
    let says = "it speaks TLS; here that is rustls's, not OpenSSL's: 1.2 and 1.3";
    Some(Finding::note("tls", says).advice("Certificates, ciphers, clients: docs/tls.md."))
}

fn clients(facts: &ServerFacts) -> Option<Finding> {
    let clients = match &facts.clients {
        Ok(clients) => clients,
        Err(why) => return Some(Finding::note("clients", format!("they are not known: {why}"))),
    };
    let field = |client: &BTreeMap<String, String>, name: &str| {
        client.get(name).cloned().unwrap_or_default()
    };
    let mut libraries: BTreeMap<String, u64> = BTreeMap::new();
    for client in clients {
        let name = format!("{} {}", field(client, "lib-name"), field(client, "lib-ver"));
        if !name.trim().is_empty() {
            *libraries.entry(name.trim().into()).or_default() += 1;
        }
    }
    let users: BTreeSet<String> = clients.iter().map(|client| field(client, "user")).collect();
    let mut items: Vec<String> = libraries
        .into_iter()
        .take(LIBRARIES_MOST)
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    if users.iter().any(|user| !matches!(&**user, "" | "default")) {
        items.push("users other than default: copy the ACL file, or its user lines".into());
    }
    let says = format!("{} at this moment", counted(clients.len() as u64, "client"));
    (!clients.is_empty()).then(|| Finding::note("clients", says).items(items))
}
