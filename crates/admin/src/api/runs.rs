//! `GET /api/persistence/runs`: the last snapshots and rewrites of the append-only file, the newest
//! first.
//!
//! Tests: the server's `tests/http`.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_answer};
use crate::host::PastRun;

/// `GET /api/persistence/runs`.
pub(super) async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    asker.must_run(admin.host.engine(), "info")?;
    let runs: Vec<Value> = admin.host.past_runs().iter().map(run).collect();
    Ok(json_answer(&Value::Array(runs)))
}

fn run(run: &PastRun) -> Value {
    let PastRun { kind, why, began_ms, took_ms, keys, bytes, file, error } = run;
    json!({
        "kind": kind,
        "why": why,
        "beganMs": began_ms,
        "tookMs": took_ms,
        "keys": keys,
        "bytes": bytes,
        "file": file,
        "error": error,
    })
}
