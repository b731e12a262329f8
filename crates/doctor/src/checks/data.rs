//! Data: types and modules, memory and eviction, files.

use std::collections::BTreeMap;

use pantala_base::size::human;

use super::commands::OF_MODULES;
use crate::estimate::Estimate;
use crate::facts::ServerFacts;
use crate::finding::Finding;
use crate::print::counted;
use crate::product::Product;

/// The types that are supported here.
const TYPES: [&str; 6] = ["string", "list", "hash", "set", "zset", "stream"];
/// The name under which Valkey lists its Lua engine as a module.
const NO_MODULE: &str = "lua";

pub fn check(facts: &ServerFacts, product: Product, estimate: Option<Estimate>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(modules(facts));
    findings.extend(types(facts));
    findings.extend(memory(facts, estimate));
    findings.extend(eviction(facts, product));
    findings.extend(libraries(facts));
    findings.extend(append_only(facts, product));
    findings
}

/// A module prevents the move if its commands are called, or its commands are unknown.
fn modules(facts: &ServerFacts) -> Option<Finding> {
    let modules = facts.modules.as_ref().ok()?;
    let modules: Vec<&String> = modules.iter().filter(|name| *name != NO_MODULE).collect();
    if modules.is_empty() {
        return None;
    }
    let is_called = |begin: &str| {
        facts.calls.iter().any(|(name, calls)| name.starts_with(begin) && calls.all > calls.failed)
    };
    let is_idle = |module: &&&String| {
        let mut begins = OF_MODULES.iter().filter(|(_, of)| of.eq_ignore_ascii_case(module));
        let is_known = OF_MODULES.iter().any(|(_, of)| of.eq_ignore_ascii_case(module));
        is_known && !facts.calls.is_empty() && begins.all(|(begin, _)| !is_called(begin))
    };
    let (idle, busy): (Vec<&&String>, Vec<&&String>) = modules.iter().partition(is_idle);
    let items = |names: Vec<&&String>| names.into_iter().map(|name| name.to_string()).collect();
    if busy.is_empty() {
        let says = "modules are loaded, and none of their commands was called";
        return Some(Finding::note("modules", says).items(items(idle)));
    }
    let advice = "There are no modules here.";
    Some(Finding::stops("modules", "modules are loaded").items(items(busy)).advice(advice))
}

/// Types in the sample that no file of ours could hold.
fn types(facts: &ServerFacts) -> Option<Finding> {
    let mut strange: BTreeMap<&str, u64> = BTreeMap::new();
    for key in facts.keys.as_ref().ok()?.iter().filter(|key| !TYPES.contains(&&*key.kind)) {
        *strange.entry(&key.kind).or_default() += 1;
    }
    let items: Vec<String> = strange
        .into_iter()
        .map(|(kind, count)| format!("{kind}: {}", counted(count, "key")))
        .collect();
    let says = "keys of the sample have types that are not here";
    (!items.is_empty()).then(|| Finding::stops("data", says).items(items))
}

fn memory(facts: &ServerFacts, estimate: Option<Estimate>) -> Option<Finding> {
    let (keys, _) = facts.key_counts();
    let Some(estimate) = estimate else {
        let why = facts.keys.as_ref().err()?;
        let says = format!("no key could be looked at, so there is no estimate: {why}");
        return Some(Finding::note("memory", says));
    };
    let about = if estimate.is_bound { "at most some" } else { "some" };
    let there = human(facts.number("used_memory"));
    let here = human(estimate.here_bytes);
    let says = format!(
        "{} would take {about} {here} here; all that is used there: {there}",
        counted(keys, "key")
    );
    let bound = "collections are counted as large as there, and are smaller here";
    let advice = format!(
        "From {}{}. What else a server needs: pantala sizing --help.",
        counted(estimate.sampled as u64, "key"),
        if estimate.is_bound { format!("; {bound}") } else { String::new() }
    );
    Some(match limit_below(facts, estimate) {
        Some(says) => Finding::differs("memory", says).advice(advice),
        None => Finding::note("memory", says).advice(advice),
    })
}

/// Whether the memory limit there is too low here.
fn limit_below(facts: &ServerFacts, estimate: Estimate) -> Option<String> {
    let limit = facts.number("maxmemory");
    (limit != 0 && !estimate.is_bound && estimate.here_bytes > limit).then(|| {
        let (limit, here) = (human(limit), human(estimate.here_bytes));
        format!("maxmemory is {limit} there, and the keys take some {here} here")
    })
}

fn eviction(facts: &ServerFacts, product: Product) -> Option<Finding> {
    let policy = match facts.text("maxmemory_policy") {
        "" => facts.setting("maxmemory-policy"),
        policy => policy,
    };
    if product == Product::Pantala || facts.number("maxmemory") == 0 || !policy.contains("-l") {
        return None;
    }
    let says = format!("maxmemory-policy {policy} evicts other keys than there");
    let advice = "Which, and what was measured: docs/differences.md, under Keys. \
                  maxmemory-samples, lfu-log-factor and lfu-decay-time do nothing.";
    Some(Finding::note("memory", says).advice(advice))
}

fn libraries(facts: &ServerFacts) -> Option<Finding> {
    let count = facts.number("number_of_libraries");
    let says = format!("libraries of functions come with a snapshot file: {count}");
    (count > 0).then(|| Finding::note("scripts", says))
}

/// An append-only file from before Redis 7 is one file without a manifest.
fn append_only(facts: &ServerFacts, product: Product) -> Option<Finding> {
    let is_on = facts.number("aof_enabled") == 1 || facts.setting("appendonly") == "yes";
    let is_old = match product {
        Product::Redis => product.major(facts).is_some_and(|major| major < 7),
        Product::KeyDb | Product::Garnet => true,
        _ => false,
    };
    if !is_on || !is_old {
        return None;
    }
    let says = "its append-only file is of an old form, without a manifest, and is not read";
    let advice = "Take a snapshot there (BGSAVE), load that, and turn appendonly on here.";
    Some(Finding::differs("data", says).advice(advice))
}
