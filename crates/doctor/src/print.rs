//! A report as text and as JSON.

use std::fmt::Write;

use pantala_base::size::human;
use serde_json::{Value, json};

use crate::checks::DoctorReport;
use crate::facts::ServerFacts;
use crate::finding::{Finding, Severity};

/// The most items of a finding in the text; JSON has all.
const ITEMS_MOST: usize = 20;

/// The report as text.
pub fn text(facts: &ServerFacts, report: &DoctorReport) -> String {
    let (keys, _) = facts.key_counts();
    let mut text = format!(
        "{} {} at {}: {}, {}\n",
        report.product.name(),
        report.product.version(facts),
        facts.place,
        counted(keys, "key"),
        human(facts.number("used_memory")),
    );
    for severity in Severity::ALL {
        let mut findings = report.findings.iter().filter(|it| it.severity == severity).peekable();
        if findings.peek().is_none() {
            continue;
        }
        let heading = match severity {
            Severity::Stops => "STOPS THE MOVE",
            Severity::Differs => "DIFFERS",
            Severity::Note => "GOOD TO KNOW",
        };
        let _ = writeln!(text, "\n{heading}");
        findings.for_each(|finding| add(&mut text, finding));
    }
    let verdict =
        if report.stops() { "It can not move as it is." } else { "Nothing stops the move." };
    let _ = writeln!(text, "\n{verdict}");
    text
}

fn add(text: &mut String, finding: &Finding) {
    let _ = writeln!(text, "  {}: {}", finding.about, finding.says);
    for item in finding.items.iter().take(ITEMS_MOST) {
        let _ = writeln!(text, "      {item}");
    }
    if let Some(more) = finding.items.len().checked_sub(ITEMS_MOST).filter(|more| *more > 0) {
        let _ = writeln!(text, "      and {more} more (--json has them)");
    }
    if !finding.advice.is_empty() {
        let _ = writeln!(text, "    {}", finding.advice);
    }
}

/// The report as JSON.
pub fn json(facts: &ServerFacts, report: &DoctorReport) -> String {
    let (keys, expires) = facts.key_counts();
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "severity": finding.severity.name(),
                "about": finding.about,
                "says": finding.says,
                "items": finding.items,
                "advice": finding.advice,
            })
        })
        .collect();
    let here = report.estimate.map(|estimate| {
        json!({
            "bytes": estimate.here_bytes,
            "at_most": estimate.is_bound,
            "sampled": estimate.sampled,
        })
    });
    let report = json!({
        "server": {
            "name": report.product.name(),
            "version": report.product.version(facts),
            "place": facts.place,
            "keys": keys,
            "expires": expires,
            "used_memory": facts.number("used_memory"),
        },
        "estimate": here,
        "stops": report.stops(),
        "findings": findings,
    });
    format!("{report:#}\n")
}

/// A number with separators: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun.
pub fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {what}{ending}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((counted(1, "key"), counted(2, "key")), ("1 key".into(), "2 keys".into()));
    }
}
