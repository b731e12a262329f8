//! The receivers of samples: a page of text, or an export.

use std::fmt;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows, until the server restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Kind {
    /// The name of the kind in text formats.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// A count or a size.
    Whole(u64),
    /// A time or a share.
    Real(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Real(number) => number.fmt(f),
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Number::Whole(number)
    }
}

impl From<&u64> for Number {
    fn from(number: &u64) -> Self {
        Number::Whole(*number)
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Number::Whole(number.max(0).cast_unsigned())
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Number::Whole(number.into())
    }
}

impl From<u8> for Number {
    fn from(number: u8) -> Self {
        Number::Whole(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Number::Whole(number as u64)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Number::Real(number)
    }
}

/// Receives samples: those of one metric come between its beginning and its end.
pub(crate) trait Sink {
    /// Begins a metric with this name, kind and description.
    fn begin(&mut self, name: &str, kind: Kind, help: &str);

    /// Adds a sample, with labels that distinguish it from the others.
    fn sample(&mut self, labels: &[(&str, &str)], value: Number);

    /// Adds a histogram: counts by ascending upper bounds, each without the counts below, the last
    /// bound possibly infinite; and the sum of all observations.
    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: &mut dyn Iterator<Item = (f64, u64)>,
        sum: f64,
    );

    /// Ends the metric, which may have had no sample.
    fn end(&mut self, name: &str, kind: Kind, help: &str);
}

/// Collects the samples of one metric.
pub(super) struct Samples<'s> {
    pub(super) sink: &'s mut dyn Sink,
}

impl Samples<'_> {
    /// Adds the only sample.
    pub(super) fn value(&mut self, value: impl Into<Number>) {
        self.labelled(&[], value);
    }

    /// Adds one of several samples, which differ by labels.
    pub(super) fn labelled(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) {
        self.sink.sample(labels, value.into());
    }

    /// Hands a histogram to the sink; see [`Sink::histogram`].
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        mut buckets: impl Iterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        self.sink.histogram(labels, &mut buckets, sum);
    }
}
