//! Figures for the console's charts: counts since the start, from which the console computes rates.
//! Unknown figures are absent.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pantala_base::clock::unix_ms;
use pantala_engine::Engine;
use pantala_engine::stats::families::Family;
use pantala_engine::stats::info_table::InfoValue;
use pantala_engine::stats::tallies::ThreadTally;
use pantala_keyspace::DbIndex;
use serde_json::{Map, Value, json};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_answer};
use crate::host::{AdminHost, Figures};

/// The upper bound written for the last bucket of a histogram, which is unbounded.
const LONGEST_US: f64 = 1e9;

/// `GET /api/figures`.
pub(super) async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    asker.must_run(admin.host.engine(), "info")?;
    Ok(json_answer(&figures(&*admin.host)))
}

/// The current figures.
pub(super) fn figures(host: &dyn AdminHost) -> Value {
    let (engine, now) = (host.engine(), host.figures());
    let sum = |pick: fn(&ThreadTally) -> u64| engine.stats.tallies.sum_ever(pick);
    let Figures { memory, lane, clients, cpu_s: [user_s, system_s], .. } = now;
    let persistence: Map<String, Value> = now
        .persistence
        .fields()
        .map(|(name, value)| (name.to_owned(), json_value(value)))
        .collect();
    let workers: Vec<Value> = now.workers.iter().map(worker).collect();
    json!({
        "atMs": unix_ms().0,
        "uptimeS": host.facts().uptime_s,
        "memory": {
            "used": memory.used,
            "rss": memory.rss,
            "max": memory.most,
            "peak": memory.peak,
            "notCounted": memory.not_counted,
            "byDb": databases(engine),
        },
        "keys": {
            "hits": sum(|tally| tally.keys.hits.get()),
            "misses": sum(|tally| tally.keys.misses.get()),
            "expired": sum(|tally| tally.keys.expired.get()),
            "evicted": sum(|tally| tally.keys.evicted.get()),
        },
        "net": {
            "in": sum(|tally| tally.received_bytes.get()),
            "out": sum(|tally| tally.sent_bytes.get()),
            "connections": sum(|tally| tally.accepted.get()),
            "rejected": sum(|tally| tally.refused.get()),
            "clients": clients,
            "blocked": engine.blocked.get(),
        },
        "cpu": { "userS": user_s, "sysS": system_s },
        "workers": workers,
        "lane": { "threads": lane.threads, "waiting": lane.waiting, "jobs": lane.jobs },
        "families": families(engine),
        "persistence": persistence,
        "replication": replication(now.link_is_up, now.replicas),
    })
}

fn replication(link_is_up: Option<bool>, replicas: u64) -> Value {
    match link_is_up {
        None => json!({ "role": "master", "replicas": replicas }),
        Some(is_up) => {
            let link = if is_up { "up" } else { "down" };
            json!({ "role": "slave", "link": link, "replicas": replicas })
        }
    }
}

fn worker(worker: &crate::host::WorkerFigures) -> Value {
    let mut shown = json!({
        "id": worker.id,
        "connections": worker.connections,
        "commands": worker.commands,
        "lockParks": worker.lock_parks,
    });
    if let Some(busy_us) = worker.busy_us {
        shown["busyUs"] = json!(busy_us);
    }
    shown
}

/// The databases with keys.
fn databases(engine: &Engine) -> Vec<Value> {
    let all = (0..engine.space.database_count()).map(DbIndex);
    let used = all.filter_map(|db| Some((db, engine.space.sizes(db)?)));
    let filled = used.map(|(db, sizes)| (db.0, sizes.keys(), sizes.with_deadline()));
    filled
        .filter(|(_, keys, _)| *keys > 0)
        .map(|(db, keys, expires)| json!({ "db": db, "keys": keys, "expires": expires }))
        .collect()
}

/// The command families that were used.
fn families(engine: &Engine) -> Vec<Value> {
    let families = engine.stats.tallies.families(&engine.registry);
    families.iter().filter(|family| family.calls > 0).map(family).collect()
}

fn family(family: &Family) -> Value {
    let filled = family.histogram_us().into_iter().filter(|(_, count)| *count > 0);
    let histogram: Vec<Value> =
        filled.map(|(upper_us, count)| json!([upper_us.min(LONGEST_US), count])).collect();
    json!({
        "name": family.group.name(),
        "calls": family.calls,
        "usec": family.nanoseconds / 1000,
        "histogram": histogram,
    })
}

/// A whole number as such, anything else as INFO prints it.
fn json_value(value: &InfoValue) -> Value {
    match value {
        InfoValue::Whole(number) => json!(number),
        InfoValue::Signed(number) => json!(number),
        other => json!(other.to_string()),
    }
}
