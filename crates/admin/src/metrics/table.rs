//! The rows of metrics: a name, and the source of its samples. The names of one kind (ours, those
//! of other servers) are one table.

use pantala_engine::Engine;
use pantala_engine::stats::info_table::{InfoTable, InfoValue};
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
    pub(super) info: &'s InfoTable,
}

impl<'s> Sample<'s> {
    pub(super) fn new(
        engine: &'s Engine,
        (facts, figures): (AdminFacts, Figures),
        info: &'s InfoTable,
    ) -> Sample<'s> {
        Sample { engine, figures, facts, info }
    }

    /// A field of INFO as text; empty if there is none.
    pub(super) fn text(&self, field: &str) -> String {
        self.info.get(field).map(ToString::to_string).unwrap_or_default()
    }

    /// A field of INFO as a number; see [`InfoValue::number`].
    pub(super) fn number(&self, field: &str) -> Option<f64> {
        self.info.get(field).and_then(InfoValue::number)
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
