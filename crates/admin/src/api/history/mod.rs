//! `GET /api/history`: what the figures were, for charts that show more than a page has seen.
//!
//! ```text
//! each second: host --count--> Counters --Point::between(before, now)--> hour: 3,600 points
//!                                       each tenth                   --> day:  8,640 points
//! ```
//!
//! The server keeps the history whether or not a page is open, from the start on. A point holds
//! rates and levels of the time since the point before it. While the server is idle the clock
//! stands still, and the next point covers that whole time.
//!
//! Invariants
//! 1. Both series together take less than 2 MB (`MOST_BYTES`), allocated a block at a time.
//! 2. A figure that is not known is absent from its point (`null`), not zero.
//! 3. An idle server is not woken (`Activity`).
//!
//! Not here: the figures of the moment (`figures`). Tests: at the foot; the server's `tests/http`.

mod point;
mod series;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, json_text};
use crate::host::AdminHost;
use point::Counters;
use series::Series;

/// The most memory that the history takes, in bytes.
#[cfg(test)]
const MOST_BYTES: usize = 2_000_000;
const HOUR_STEP_S: u32 = 1;
const HOUR_POINTS: usize = 3_600;
const DAY_STEP_S: u32 = 10;
const DAY_POINTS: usize = 8_640;
/// CPU time in a step, in seconds, from which on some thread is at work although no worker took a
/// turn: a snapshot, a long script.
const BUSY_CPU_S: f64 = 0.02;

/// The history of a server's figures.
pub(crate) struct History {
    recent: Mutex<Recent>,
}

struct Recent {
    hour: Series,
    day: Series,
}

impl Default for History {
    fn default() -> Self {
        let hour = Series::new(HOUR_STEP_S, HOUR_POINTS);
        let day = Series::new(DAY_STEP_S, DAY_POINTS);
        History { recent: Mutex::new(Recent { hour, day }) }
    }
}

impl History {
    /// Adds what has happened until `now`.
    fn note(&self, now: &Counters) {
        let mut recent = self.recent.lock();
        recent.hour.note(now);
        recent.day.note(now);
    }

    fn json(&self, span: Span) -> String {
        let recent = self.recent.lock();
        match span {
            Span::Hour => recent.hour.json(),
            Span::Day => recent.day.json(),
        }
    }
}

impl Admin {
    /// Keeps the history of the figures until `stops` says so. Within a Tokio runtime.
    pub async fn keep_history(self: Arc<Self>, mut stops: watch::Receiver<bool>) {
        let activity = &self.host.engine().condition.activity;
        let mut clock = interval(Duration::from_secs(u64::from(HOUR_STEP_S)));
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last_cpu_s = 0.0;
        loop {
            tokio::select! {
                _ = clock.tick() => {}
                _ = stops.wait_for(|stops| *stops) => return,
            }
            let now = Counters::of(&*self.host);
            self.history.note(&now);
            let used_s = now.cpu_s() - last_cpu_s;
            last_cpu_s = now.cpu_s();
            if !activity.is_quiet() || used_s > BUSY_CPU_S {
                // A turn that began before this step's end shows in the next step.
                activity.arm();
                continue;
            }
            tokio::select! {
                () = activity.next_activity() => {}
                _ = stops.wait_for(|stops| *stops) => return,
            }
            self.history.note(&Counters::of(&*self.host));
            clock.reset();
        }
    }
}

/// Which part of the history a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// The last hour, by seconds.
    Hour,
    /// The last day, by tens of seconds.
    Day,
}

impl Span {
    /// The span of a request with this query.
    fn of_query(query: Option<&str>) -> Result<Span, Refusal> {
        match query {
            None | Some("" | "span=hour") => Ok(Span::Hour),
            Some("span=day") => Ok(Span::Day),
            Some(_) => Err(Refusal::wrong("span is hour or day")),
        }
    }
}

/// `GET /api/history?span=hour` or `day`.
pub(super) async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Refusal> {
    let asker = Requester::needed(&admin, &peer, &headers)?;
    asker.must_run(admin.host.engine(), "info")?;
    Ok(json_text(admin.history.json(Span::of_query(uri.query())?)))
}

impl Counters {
    /// The counters of a server now.
    fn of(host: &dyn AdminHost) -> Counters {
        let mut counters = Counters::default();
        counters.read(host);
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_span() {
        let span = |query| Span::of_query(query).ok();
        assert_eq!(span(None), Some(Span::Hour));
        assert_eq!(span(Some("span=day")), Some(Span::Day));
        assert_eq!(span(Some("span=week")), None);
    }

    #[test]
    fn both_series_are_small() {
        assert!(Series::most_bytes(HOUR_POINTS) + Series::most_bytes(DAY_POINTS) < MOST_BYTES);
    }

    #[test]
    fn the_day_has_every_tenth_second_of_the_hour() {
        let history = History::default();
        for second in 0..=40 {
            let at_ms = 1_000_000 + second * 1_000;
            history.note(&Counters {
                at_ms,
                rates: [second as f64 * 5.0; 11],
                ..Counters::default()
            });
        }
        let parse = |span| serde_json::from_str::<serde_json::Value>(&history.json(span)).unwrap();
        let (hour, day) = (parse(Span::Hour), parse(Span::Day));
        assert_eq!(hour["stepS"], 1);
        assert_eq!(hour["atMs"].as_array().unwrap().len(), 40);
        assert_eq!(day["atMs"], serde_json::json!([1_010_000, 1_020_000, 1_030_000, 1_040_000]));
        assert_eq!(day["hits"], serde_json::json!([5, 5, 5, 5]), "by second");
    }
}
