//! What follows from the facts.

mod commands;
mod configuration;
mod data;
mod surroundings;

use pantala_settings::{Effect, find};

use crate::Has;
use crate::estimate::Estimate;
use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use crate::product::Product;

/// All that was found.
#[derive(Debug)]
pub struct Report {
    /// Which server it is.
    pub product: Product,
    /// What its keys would take here.
    pub estimate: Option<Estimate>,
    /// From the worst.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether something stops the move.
    pub fn stops(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Stops)
    }
}

/// Looks at everything.
pub fn examine(facts: &Facts, has: Has<'_>) -> Report {
    let product = Product::of(facts);
    let estimate = Estimate::of(facts);
    let mut findings = commands::check(facts, product, has);
    findings.extend(data::check(facts, product, estimate));
    findings.extend(surroundings::check(facts, product, has));
    findings.extend(configuration::check(facts, product));
    findings.sort_by_key(|finding| finding.severity);
    Report { product, estimate, findings }
}

/// Whether something acts on a setting here.
fn acts(setting: &str) -> bool {
    find(setting).is_some_and(|row| row.effect == Effect::Active)
}
