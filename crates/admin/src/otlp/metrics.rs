//! The table of metrics in OTLP's form: counters are sums since the start.

use pantala_base::clock::unix_us;
use serde_json::{Value, json};

use super::words::{attribute, scope};
use crate::host::AdminHost;
use crate::metrics::{Kind, Number, Sink, tell, usual};

/// OTLP's number for cumulative sums.
const CUMULATIVE: u32 = 2;

/// The request: metrics under the names of the setting `metrics_names`.
pub(super) fn request(host: &dyn AdminHost, resource: &Value) -> Value {
    let start_ns = host.facts().started_unix_ms.saturating_mul(1_000_000);
    let mut export = Export {
        metrics: Vec::new(),
        points: Vec::new(),
        start: start_ns.to_string(),
        now: unix_us().saturating_mul(1_000).to_string(),
    };
    tell(host, &usual(host), &mut export);
    json!({"resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{"scope": scope(), "metrics": export.metrics}],
    }]})
}

struct Export {
    metrics: Vec<Value>,
    /// The data points of the current metric.
    points: Vec<Value>,
    start: String,
    now: String,
}

impl Export {
    fn point(&self, labels: &[(&str, &str)]) -> Value {
        let attributes: Vec<Value> =
            labels.iter().map(|(name, value)| attribute(name, value)).collect();
        json!({
            "startTimeUnixNano": self.start,
            "timeUnixNano": self.now,
            "attributes": attributes,
        })
    }
}

impl Sink for Export {
    fn begin(&mut self, _: &str, _: Kind, _: &str) {
        self.points.clear();
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: Number) {
        let mut point = self.point(labels);
        match value {
            Number::Whole(value) => {
                // OTLP has a signed number there.
                point["asInt"] = value.min(i64::MAX as u64).to_string().into();
            }
            // Not representable in JSON.
            Number::Real(value) if !value.is_finite() => return,
            Number::Real(value) => point["asDouble"] = value.into(),
        }
        self.points.push(point);
    }

    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: &mut dyn Iterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        let (mut bounds, mut counts): (Vec<f64>, Vec<u64>) = buckets.unzip();
        match bounds.last() {
            // The total count covers everything above the last bound.
            Some(bound) if bound.is_infinite() => bounds.truncate(bounds.len() - 1),
            _ => counts.push(0),
        }
        let mut point = self.point(labels);
        point["count"] = counts.iter().sum::<u64>().to_string().into();
        point["sum"] = sum.into();
        point["bucketCounts"] = counts.iter().map(u64::to_string).collect();
        point["explicitBounds"] = bounds.into();
        self.points.push(point);
    }

    fn end(&mut self, name: &str, kind: Kind, help: &str) {
        if self.points.is_empty() {
            return;
        }
        let points = std::mem::take(&mut self.points);
        let (what, data) = match kind {
            Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
            Kind::Counter => (
                "sum",
                json!({
                    "dataPoints": points,
                    "aggregationTemporality": CUMULATIVE,
                    "isMonotonic": true,
                }),
            ),
            Kind::Histogram => {
                ("histogram", json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE}))
            }
        };
        self.metrics.push(json!({"name": name, "description": help, what: data}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_points() {
        let mut export =
            Export { metrics: Vec::new(), points: Vec::new(), start: "1".into(), now: "2".into() };
        export.begin("calls", Kind::Counter, "Calls.");
        export.sample(&[("command", "GET")], Number::Whole(u64::MAX));
        export.end("calls", Kind::Counter, "Calls.");
        export.begin("nothing", Kind::Gauge, "Nothing.");
        export.end("nothing", Kind::Gauge, "Nothing.");
        export.begin("times", Kind::Histogram, "Times.");
        let counts = [(0.5, 1), (1.0, 2), (f64::INFINITY, 4)];
        export.histogram(&[], &mut counts.into_iter(), 9.5);
        export.end("times", Kind::Histogram, "Times.");
        let [calls, times] = &*export.metrics else { panic!("{:?}", export.metrics) };
        let point = &calls["sum"]["dataPoints"][0];
        assert_eq!(point["asInt"], "9223372036854775807");
        assert_eq!(point["attributes"][0], attribute("command", "GET"));
        assert_eq!(calls["sum"]["isMonotonic"], true);
        let point = &times["histogram"]["dataPoints"][0];
        assert_eq!(point["explicitBounds"], json!([0.5, 1.0]));
        assert_eq!(point["bucketCounts"], json!(["1", "2", "4"]));
        assert_eq!((&point["count"], &point["sum"]), (&json!("7"), &json!(9.5)));
    }
}
