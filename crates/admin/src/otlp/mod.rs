//! Telemetry for a collector of OpenTelemetry: OTLP over HTTP, in its JSON encoding.
//!
//! ```text
//! every otlp_interval:  the table of /metrics     --> POST otlp_endpoint/v1/metrics
//!                       slow log, traced commands --> POST otlp_endpoint/v1/traces
//! ```
//!
//! | file | what |
//! |---|---|
//! | `metrics` | the table's samples in OTLP's form |
//! | `spans` | commands as spans |
//! | `words` | attributes, numbers, the lists of names and values in settings |
//!
//! Invariants
//! 1. Everything is one task of the control plane; no worker waits for it or sends anything.
//! 2. There is one request at a time, and each has a time limit (`pantala_http`).
//! 3. Nothing is retried: metrics are sums since the start, so the next export has everything;
//!    spans that were not accepted are dropped and counted.
//!
//! It is written by hand and not with OpenTelemetry's own crates: measurements are in a table
//! already and spans have ended when they are seen, so only the encoding of those crates would be
//! used.
//!
//! Not here: which commands are traced (`pantala_engine::stats::telemetry`). Tests: at the foot of
//! each file; `compat/metrics/otlp.py`.

mod metrics;
mod spans;
mod words;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::{Request, Uri};
use pantala_engine::Engine;
use pantala_engine::stats::logs::{Entry, Kind};
use pantala_http::{Client, HttpLimits};
use pantala_settings::Settings;
use serde_json::Value;
use tokio::sync::watch;

use crate::host::AdminHost;

/// The time limit of a request.
const REQUEST_MOST: Duration = Duration::from_secs(10);

/// Exports until `stops` says so, if the settings name a collector. Within a Tokio runtime.
pub async fn export(host: Arc<dyn AdminHost>, mut stops: watch::Receiver<bool>) {
    let settings = host.engine().settings.current();
    if settings.otlp_endpoint.is_empty() {
        return;
    }
    let mut exporter = match Exporter::new(&*host, &settings) {
        Ok(exporter) => exporter,
        Err(why) => return tracing::error!("no telemetry is exported: {why}"),
    };
    loop {
        let every = Duration::from_secs(host.engine().settings.current().otlp_interval_s.into());
        let is_over = tokio::select! {
            () = tokio::time::sleep(every) => false,
            _ = stops.wait_for(|stops| *stops) => true,
        };
        if is_over {
            return;
        }
        exporter.round(&*host).await;
    }
}

/// Sends metrics and spans to the collector, one round per `otlp_interval`.
struct Exporter {
    client: Client,
    endpoint: String,
    headers: Vec<(String, String)>,
    /// The attributes of this server, sent with each export.
    resource: Value,
    /// The number of the next new entry of the slow log.
    next_slow: u64,
    /// Whether the last request was accepted; only changes are logged.
    works: Option<bool>,
}

impl Exporter {
    fn new(host: &dyn AdminHost, settings: &Settings) -> Result<Exporter, String> {
        let limits = HttpLimits { may_be_plain: true, connect: REQUEST_MOST, stall: REQUEST_MOST };
        let (_, next_slow) = host.engine().stats.logs.of(Kind::Slow).since(u64::MAX);
        Ok(Exporter {
            client: Client::new(limits).map_err(|fault| fault.to_string())?,
            endpoint: settings.otlp_endpoint.trim_end_matches('/').to_owned(),
            headers: words::pairs(&settings.otlp_headers),
            resource: words::resource(&settings.otlp_attributes, host),
            next_slow,
            works: None,
        })
    }

    /// Exports the current state.
    async fn round(&mut self, host: &dyn AdminHost) {
        let engine = host.engine();
        let entries = self.new_entries(engine);
        let metrics = metrics::request(host, &self.resource);
        self.post(engine, "v1/metrics", &metrics).await;
        if entries.is_empty() {
            return;
        }
        let count = entries.len() as u64;
        let spans = spans::request(&engine.registry, entries, &self.resource);
        if !self.post(engine, "v1/traces", &spans).await {
            engine.stats.telemetry.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The commands that were slow or traced since the last round; counts those that the slow log
    /// has dropped meanwhile.
    fn new_entries(&mut self, engine: &Engine) -> Vec<Entry> {
        let telemetry = &engine.stats.telemetry;
        let (mut entries, next) = engine.stats.logs.of(Kind::Slow).since(self.next_slow);
        let lost = next.saturating_sub(self.next_slow).saturating_sub(entries.len() as u64);
        self.next_slow = next;
        entries.append(&mut telemetry.take());
        if engine.settings.current().otlp_sample < 0 {
            return Vec::new();
        }
        telemetry.dropped.fetch_add(lost, Ordering::Relaxed);
        entries
    }

    /// Sends a request; returns whether it was accepted.
    async fn post(&mut self, engine: &Engine, path: &str, what: &Value) -> bool {
        let outcome = self.try_post(path, what).await;
        let telemetry = &engine.stats.telemetry;
        let (count, works) = match &outcome {
            Ok(()) => (&telemetry.exported, true),
            Err(_) => (&telemetry.failed, false),
        };
        count.fetch_add(1, Ordering::Relaxed);
        if self.works != Some(works) {
            let to = &self.endpoint;
            match &outcome {
                Ok(()) => tracing::info!("telemetry is exported to {to}"),
                Err(why) => tracing::warn!("telemetry is not taken by {to}: {why}"),
            }
        }
        self.works = Some(works);
        works
    }

    async fn try_post(&self, path: &str, what: &Value) -> Result<(), String> {
        let uri: Uri = format!("{}/{path}", self.endpoint)
            .parse()
            .map_err(|error| format!("it is no address: {error}"))?;
        let mut request = Request::post(uri).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(what.to_string().into_bytes()).map_err(|why| why.to_string())?;
        let status = self.client.post(request).await.map_err(|fault| fault.to_string())?;
        if status.is_success() { Ok(()) } else { Err(format!("its answer is {status}")) }
    }
}
