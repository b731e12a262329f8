//! Detects the kind of server.

use crate::facts::ServerFacts;

/// The servers that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Redis, or a server that reports no more than its version.
    Redis,
    /// Valkey.
    Valkey,
    /// KeyDB.
    KeyDb,
    /// Dragonfly.
    Dragonfly,
    /// Garnet.
    Garnet,
    /// Pantala itself.
    Pantala,
}

impl Product {
    /// The kind of server with these facts.
    pub fn of(facts: &ServerFacts) -> Product {
        let says = |name: &str| facts.info.contains_key(name);
        let has =
            |name: &str| facts.settings.as_ref().is_ok_and(|settings| settings.contains_key(name));
        if says("pantala_version") {
            Product::Pantala
        } else if says("dragonfly_version") {
            Product::Dragonfly
        } else if says("garnet_version") {
            Product::Garnet
        } else if says("valkey_version") {
            Product::Valkey
        } else if says("mvcc_depth") || has("active-replica") && has("server-threads") {
            Product::KeyDb
        } else {
            Product::Redis
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Product::Redis => "Redis",
            Product::Valkey => "Valkey",
            Product::KeyDb => "KeyDB",
            Product::Dragonfly => "Dragonfly",
            Product::Garnet => "Garnet",
            Product::Pantala => "Pantala",
        }
    }

    /// Its version, as it reports it.
    pub fn version(self, facts: &ServerFacts) -> &str {
        let field = match self {
            Product::Redis | Product::KeyDb => "redis_version",
            Product::Valkey => "valkey_version",
            Product::Dragonfly => "dragonfly_version",
            Product::Garnet => "garnet_version",
            Product::Pantala => "pantala_version",
        };
        facts.text(field)
    }

    /// The first number of its version.
    pub fn major(self, facts: &ServerFacts) -> Option<u64> {
        let version = self.version(facts).trim_start_matches("df-").trim_start_matches('v');
        version.split('.').next().and_then(|text| text.parse().ok())
    }
}
