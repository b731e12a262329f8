//! The rows of metrics: a name, and the source of its samples. The names of one kind (ours, those
//! of other servers) are one table.

use std::collections::BTreeMap;

use pantala_engine::Engine;
use pantala_engine::stats::tallies::ThreadTally;

use super::samples::{Kind, Samples, Sink};
use crate::host::{AdminFacts, Figures};

/// A row of a table.
pub(crate) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The description; empty: the field of INFO is named instead.
    pub(super) help: &'static str,
    pub(super) source: Source,
}

/// The source of a metric's samples.
pub(super) enum Source {
    /// A field of INFO: a number, or a status that counts as 1 when it is `ok`.
    Info(&'static str),
    /// A function that adds the samples.
    Each(fn(&Sample<'_>, &mut Samples<'_>)),
}

/// The state of the server at one moment.
pub(super) struct Sample<'s> {
    pub(super) engine: &'s Engine,
    pub(super) figures: Figures,
    pub(super) facts: AdminFacts,
    info: BTreeMap<&'s str, &'s str>,
}

impl<'s> Sample<'s> {
    /// `info` is the text of INFO.
    pub(super) fn new(
        engine: &'s Engine,
        (facts, figures): (AdminFacts, Figures),
        info: &'s str,
    ) -> Sample<'s> {
        let info = info.lines().filter_map(|line| line.split_once(':')).collect();
        Sample { engine, figures, facts, info }
    }

    /// The text of a field of INFO.
    pub(super) fn info(&self, field: &str) -> Option<&'s str> {
        self.info.get(field).copied()
    }

    /// A field of INFO as a number; `ok` and `up` are 1, `err` and `down` 0.
    pub(super) fn number(&self, field: &str) -> Option<f64> {
        match self.info(field)? {
            "ok" | "up" => Some(1.0),
            "err" | "down" => Some(0.0),
            number => number.trim_end_matches('%').parse().ok(),
        }
    }

    /// The fields of INFO with this prefix: the rest of their names, and their texts.
    pub(super) fn info_with(&self, prefix: &str) -> impl Iterator<Item = (&'s str, &'s str)> {
        let fields = self.info.iter();
        fields.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, *value)))
    }

    /// The sum of a count over all threads, since the start.
    pub(super) fn sum(&self, pick: fn(&ThreadTally) -> u64) -> u64 {
        self.engine.stats.tallies.sum_ever(pick)
    }
}

impl Metric {
    /// A row whose samples a function adds.
    pub(super) const fn each(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        each: fn(&Sample<'_>, &mut Samples<'_>),
    ) -> Metric {
        Metric { name, kind, help, source: Source::Each(each) }
    }

    /// A row for a field of INFO under another name.
    pub(super) const fn field(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        field: &'static str,
    ) -> Metric {
        Metric { name, kind, help, source: Source::Info(field) }
    }

    /// Writes the samples of the row.
    pub(super) fn tell(&self, sample: &Sample<'_>, to: &mut dyn Sink) {
        let known_as;
        let help = match self.source {
            Source::Info(field) if self.help.is_empty() => {
                known_as = format!("INFO's {field}.");
                &known_as
            }
            _ => self.help,
        };
        to.begin(self.name, self.kind, help);
        let mut samples = Samples { sink: to };
        match self.source {
            Source::Each(each) => each(sample, &mut samples),
            Source::Info(field) => {
                if let Some(number) = sample.number(field) {
                    samples.value(number);
                }
            }
        }
        to.end(self.name, self.kind, help);
    }
}
