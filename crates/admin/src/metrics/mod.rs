//! `/metrics`: figures in Prometheus' formats, under our names and under those of other servers'
//! dashboards.
//!
//! | file | what |
//! |---|---|
//! | `table` | the type of a metric, and the source of its samples |
//! | `ours`, `dragonfly`, `exporter` | the names of each kind |
//! | `samples` | the receivers of samples |
//! | `text` | the two formats |

mod dragonfly;
mod exporter;
mod ours;
mod samples;
mod table;
mod text;

use std::sync::Arc;

use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::access::Requester;
use crate::admin::{Admin, Peer};
use crate::answer::{Refusal, plain};
use crate::api::Basic;
use crate::host::AdminHost;
pub(crate) use samples::{Kind, Number, Sink};
use table::{Metric, Sample};
use text::{Form, Page};

/// Tells a caller without credentials how to authenticate.
const CHALLENGE: &str = "Basic realm=\"pantala\"";

/// The kinds of names, as in `names=` and the setting `metrics_names`.
const KINDS: [(&str, &[Metric]); 3] = [
    ("pantala", ours::METRICS),
    ("dragonfly", dragonfly::METRICS),
    ("redis_exporter", exporter::METRICS),
];

/// `GET /metrics`: `names`, which may be repeated, chooses kinds of names.
pub(crate) async fn page(
    State(admin): State<Arc<Admin>>,
    Extension(peer): Extension<Arc<Peer>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let asker = Basic::asker(&admin, &peer, &headers).await;
    match asker.and_then(|asker| answer(&admin, &asker, query.as_deref(), &headers)) {
        Ok(response) => response,
        Err(refusal) => {
            let is_unknown = refusal.status == StatusCode::UNAUTHORIZED;
            let mut response = refusal.into_response();
            if is_unknown {
                let challenge = HeaderValue::from_static(CHALLENGE);
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

fn answer(
    admin: &Admin,
    asker: &Requester,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let engine = admin.host.engine();
    asker.must_run(engine, "info")?;
    let settings = engine.settings.current();
    let asked = asked(query.unwrap_or_default());
    let usual = || settings.metrics_names.split(' ').collect();
    let kinds = kinds(if asked.is_empty() { usual() } else { asked })?;
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let form = Form::wanted(accept.unwrap_or_default());
    let mut response = plain(StatusCode::OK, text(&*admin.host, &kinds, form));
    let content_type = HeaderValue::from_static(form.content_type());
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}

/// The kinds requested by a query: `names=a,b&names=c`.
fn asked(query: &str) -> Vec<&str> {
    let lists = query.split('&').filter_map(|part| part.strip_prefix("names="));
    let comma = |list: &'_ str| if list.contains("%2C") { "%2C" } else { "," };
    lists.flat_map(|list| list.split(comma(list))).collect()
}

/// The tables of these kinds, each once.
fn kinds(names: Vec<&str>) -> Result<Vec<&'static [Metric]>, Refusal> {
    let known = |name: &&str| KINDS.iter().any(|(kind, _)| kind == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all = KINDS.map(|(kind, _)| kind).join(", ");
        return Err(Refusal::wrong(format!("there are no names '{unknown}'; there are {all}")));
    }
    let chosen = KINDS.iter().filter(|(kind, _)| names.contains(kind));
    Ok(chosen.map(|(_, metrics)| *metrics).collect())
}

fn text(host: &dyn AdminHost, kinds: &[&[Metric]], form: Form) -> String {
    let mut page = Page::new(form);
    tell(host, kinds, &mut page);
    page.finish()
}

/// The tables chosen by the settings.
pub(crate) fn usual(host: &dyn AdminHost) -> Vec<&'static [Metric]> {
    let settings = host.engine().settings.current();
    kinds(settings.metrics_names.split(' ').collect()).unwrap_or_default()
}

/// Writes the current values of these metrics.
pub(crate) fn tell(host: &dyn AdminHost, kinds: &[&[Metric]], to: &mut dyn Sink) {
    let info = host.info();
    let sample = Sample::new(host.engine(), (host.facts(), host.figures()), &info);
    for metric in kinds.iter().copied().flatten() {
        metric.tell(&sample, to);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;

    use super::*;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

    #[test]
    fn names_are_chosen_by_kind() {
        let counts = |names: &[&str]| kinds(names.to_vec()).map(|kinds| kinds.len());
        assert_eq!(counts(&["dragonfly", "pantala", "dragonfly"]), Ok(2));
        assert_eq!(asked("x=y&names=a%2Cb&names=c,d"), ["a", "b", "c", "d"]);
        assert!(counts(&["other"]).is_err_and(|refusal| refusal.why.contains("redis_exporter")));
    }

    #[test]
    fn no_name_stands_for_two_things() {
        let mut seen = HashSet::new();
        for metric in KINDS.iter().flat_map(|(_, metrics)| *metrics) {
            assert!(seen.insert(metric.name), "{}", metric.name);
        }
    }

    /// `PANTALA_WRITE_DOCS=1 cargo test -p pantala-admin` writes the page.
    #[test]
    fn the_page_of_metrics_is_current() {
        let mut page = String::from(
            "# Metrics\n\n\
            What `GET /metrics` tells (docs/http.md says who may ask). Made from the table of\n\
            `crates/admin/src/metrics/ours.rs`. With `metrics_names`, or `?names=` in the\n\
            request, it tells the same by the names of Dragonfly and of redis_exporter.\n\n\
            | name | kind | what it is |\n|---|---|---|\n",
        );
        for Metric { name, kind, help, .. } in ours::METRICS {
            writeln!(page, "| `{name}` | {} | {help} |", kind.name()).expect("it is a string");
        }
        if std::env::var_os("PANTALA_WRITE_DOCS").is_some() {
            std::fs::write(DOCS, &page).expect("docs/ can be written");
        }
        let written = std::fs::read_to_string(DOCS).unwrap_or_default();
        assert!(page == written, "docs/metrics.md is not current");
    }
}
