//! `GET /api/hotkeys`: the keys that are called most, from the sample that is always taken.
//!
//! Not here: the sample (`pantala_engine::stats::hot_keys::sample`). Tests: the server's
//! `tests/http`.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pantala_base::clock::monotonic_us;
use pantala_engine::stats::hot_keys::sample::{SampleReport, SampledKey};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_text};
use crate::reply::push_bytes;

/// The most keys of an answer.
const MOST_KEYS: usize = 100;

/// `GET /api/hotkeys`.
pub(super) async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    let engine = admin.host.engine();
    asker.must_run(engine, "hotkeys|get")?;
    let one_in = engine.settings.current().hot_keys_sample;
    let report = SampleReport::of(&engine.stats.tallies, monotonic_us(), MOST_KEYS);
    Ok(json_text(json(one_in, &report)))
}

fn json(one_in: u32, report: &SampleReport) -> String {
    // The first moments of a server would make rates of nothing.
    let covers_s = (report.covers_us as f64 / 1e6).max(1.0);
    let mut out = format!(
        "{{\"oneIn\":{one_in},\"coversS\":{covers_s:.1},\"noted\":{},\"callsPerS\":{:.1},\
         \"keys\":[",
        report.noted,
        report.calls as f64 / covers_s
    );
    for (number, key) in report.keys.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        push_key(key, (report.calls, covers_s), &mut out);
    }
    out.push_str("]}");
    out
}

fn push_key(key: &SampledKey, (all_calls, covers_s): (u64, f64), out: &mut String) {
    let SampledKey { key, calls, noted, us, bytes } = key;
    out.push_str("{\"key\":");
    push_bytes(key, out);
    let share = *calls as f64 / all_calls.max(1) as f64;
    let mean = |sum: u64| sum as f64 / (*noted).max(1) as f64;
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        ",\"callsPerS\":{:.1},\"share\":{share:.4},\"noted\":{noted},\"meanUs\":{:.1},\
         \"meanBytes\":{:.0}}}",
        *calls as f64 / covers_s,
        mean(*us),
        mean(*bytes)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_with_rates_and_shares() {
        let key = |key: &[u8], noted| SampledKey {
            key: key.into(),
            calls: noted * 256,
            noted,
            us: noted * 3,
            bytes: noted * 40,
        };
        let keys = vec![key(b"a\"", 6), key(b"\xff", 2)];
        let report = SampleReport { covers_us: 64_000_000, calls: 10 * 256, noted: 10, keys };
        let expected = "{\"oneIn\":256,\"coversS\":64.0,\"noted\":10,\"callsPerS\":40.0,\"keys\":[\
            {\"key\":\"a\\\"\",\"callsPerS\":24.0,\"share\":0.6000,\"noted\":6,\"meanUs\":3.0,\
            \"meanBytes\":40},\
            {\"key\":{\"base64\":\"/w==\"},\"callsPerS\":8.0,\"share\":0.2000,\"noted\":2,\
            \"meanUs\":3.0,\"meanBytes\":40}]}";
        assert_eq!(json(256, &report), expected);
        let none = SampleReport { covers_us: 10, calls: 0, noted: 0, keys: Vec::new() };
        let expected = "{\"oneIn\":0,\"coversS\":1.0,\"noted\":0,\"callsPerS\":0.0,\"keys\":[]}";
        assert_eq!(json(0, &none), expected);
    }
}
