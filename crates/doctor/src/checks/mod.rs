//! Derives findings from the facts.

mod commands;
mod configuration;
mod data;
mod surroundings;

use crate::CommandLookup;
use crate::estimate::Estimate;
use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity};
use crate::product::Product;

/// The result of an examination.
#[derive(Debug)]
pub struct DoctorReport {
    /// The kind of server.
    pub product: Product,
    /// The estimated size of its keys here.
    pub estimate: Option<Estimate>,
    /// The findings, worst first.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    /// Whether something prevents the move.
    pub fn stops(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Stops)
    }
}

/// Runs all checks.
pub fn examine(facts: &ServerFacts, has: CommandLookup<'_>) -> DoctorReport {
    let product = Product::of(facts);
    let estimate = Estimate::of(facts);
    let mut findings = commands::check(facts, product, has);
    findings.extend(data::check(facts, product, estimate));
    findings.extend(surroundings::check(facts, product, has));
    findings.extend(configuration::check(facts, product));
    findings.sort_by_key(|finding| finding.severity);
    DoctorReport { product, estimate, findings }
}
