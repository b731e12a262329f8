//! Prometheus' text format and OpenMetrics, as far as the metrics need them.
//!
//! ```text
//! # HELP pantala_keys Keys of a database.
//! # TYPE pantala_keys gauge
//! pantala_keys{db="0"} 12
//! ```
//!
//! OpenMetrics names a counter's family without `_total`, and ends with `# EOF`.

use std::fmt::{Display, Write};

use super::samples::{Kind, Number, Sink};

/// The text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Form {
    /// The format for a client that sent this `Accept`.
    pub(super) fn wanted(accept: &str) -> Form {
        match accept.contains("application/openmetrics-text") {
            true => Form::OpenMetrics,
            false => Form::Prometheus,
        }
    }

    /// The answer's `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page being written.
pub(super) struct Page {
    text: String,
    form: Form,
    metric: OpenMetric,
}

/// The metric being written.
#[derive(Default)]
struct OpenMetric {
    name: String,
    /// The suffix of a sample's name.
    suffix: &'static str,
    /// The range of its header, which is removed if there are no samples.
    header: std::ops::Range<usize>,
}

impl Page {
    pub(super) fn new(form: Form) -> Page {
        Page { text: String::with_capacity(32 << 10), form, metric: OpenMetric::default() }
    }

    pub(super) fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.metric.name);
        self.text.push_str(suffix);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escaped(text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn escaped(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }
}

impl Sink for Page {
    fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let start = self.text.len();
        let family = match self.form {
            Form::OpenMetrics if kind == Kind::Counter => name.trim_end_matches("_total"),
            _ => name,
        };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {family} {help}\n# TYPE {family} {}\n", kind.name());
        // In OpenMetrics a counter's sample has the suffix, whatever the name.
        let suffix = match self.form {
            Form::OpenMetrics if kind == Kind::Counter && family == name => "_total",
            _ => "",
        };
        self.metric = OpenMetric { name: name.into(), suffix, header: start..self.text.len() };
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: Number) {
        let suffix = self.metric.suffix;
        self.line(suffix, labels, value);
    }

    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: &mut dyn Iterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        let mut all = 0;
        for (bound, count) in buckets {
            all += count;
            if bound.is_infinite() {
                break;
            }
            let bound = bound.to_string();
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), all);
        }
        self.line("_bucket", &[labels, &[("le", "+Inf")]].concat(), all);
        self.line("_sum", labels, sum);
        self.line("_count", labels, all);
    }

    fn end(&mut self, _: &str, _: Kind, _: &str) {
        let header = &self.metric.header;
        if self.text.len() == header.end {
            self.text.truncate(header.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(form: Form) -> String {
        let mut page = Page::new(form);
        page.begin("p_calls_total", Kind::Counter, "Calls.");
        page.sample(&[("cmd", "a\"b\\c\nd")], Number::Whole(3));
        page.end("p_calls_total", Kind::Counter, "Calls.");
        page.begin("p_nothing", Kind::Gauge, "Nothing.");
        page.end("p_nothing", Kind::Gauge, "Nothing.");
        page.begin("p_seconds", Kind::Histogram, "Time.");
        page.histogram(&[("f", "x")], &mut [(0.5, 1), (1.0, 2)].into_iter(), 1.75);
        page.end("p_seconds", Kind::Histogram, "Time.");
        page.finish()
    }

    #[test]
    fn prometheus_text_has_names_types_and_escaped_labels() {
        let wanted = "# HELP p_calls_total Calls.\n# TYPE p_calls_total counter\n\
            p_calls_total{cmd=\"a\\\"b\\\\c\\nd\"} 3\n\
            # HELP p_seconds Time.\n# TYPE p_seconds histogram\n\
            p_seconds_bucket{f=\"x\",le=\"0.5\"} 1\np_seconds_bucket{f=\"x\",le=\"1\"} 3\n\
            p_seconds_bucket{f=\"x\",le=\"+Inf\"} 3\np_seconds_sum{f=\"x\"} 1.75\n\
            p_seconds_count{f=\"x\"} 3\n";
        assert_eq!(page(Form::Prometheus), wanted);
    }

    #[test]
    fn openmetrics_names_counters_without_their_suffix_and_has_an_end() {
        let text = page(Form::OpenMetrics);
        assert!(text.starts_with("# HELP p_calls Calls.\n# TYPE p_calls counter\np_calls_total{"));
        assert!(text.ends_with("p_seconds_count{f=\"x\"} 3\n# EOF\n"));
        assert_eq!(Form::wanted("application/openmetrics-text;version=1.0.0"), Form::OpenMetrics);
        assert_eq!(Form::wanted("text/plain;q=0.5,*/*;q=0.1"), Form::Prometheus);
    }
}
