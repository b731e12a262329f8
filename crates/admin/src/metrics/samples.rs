//! What takes the samples of a table of metrics: a page of text, or an export.

use std::fmt;

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows, until the server starts anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    /// Its name in text formats.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// A count, or a size.
    Whole(u64),
    /// A time, a share.
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

/// Where samples go: those of one metric between its beginning and its end.
pub(crate) trait Sink {
    /// A metric of this name and kind, with what it is, begins.
    fn begin(&mut self, name: &str, kind: Kind, help: &str);

    /// One sample, with labels that tell it from the others.
    fn sample(&mut self, labels: &[(&str, &str)], value: Number);

    /// Counts by their upper bounds, ascending and without those below, the last of which may be
    /// infinite; the sum of all that was counted.
    fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: &mut dyn Iterator<Item = (f64, u64)>,
        sum: f64,
    );

    /// It ends; it may have had no sample.
    fn end(&mut self, name: &str, kind: Kind, help: &str);
}

/// The samples of one metric, for who tells them.
pub(super) struct Samples<'s> {
    pub(super) sink: &'s mut dyn Sink,
}

impl Samples<'_> {
    /// The only one.
    pub(super) fn value(&mut self, value: impl Into<Number>) {
        self.labelled(&[], value);
    }

    /// One of several, which differ by labels.
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
