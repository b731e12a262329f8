//! Which step may begin when: no process, no clock.
//!
//! A step waits for the nearest one of this run that stands before it: of `transcripts`, `build`
//! and `needs`, the first one that was chosen. Tests: at the foot.

use std::collections::BTreeMap;

use super::steps::Step;

/// The steps of a run, and how those went that have ended.
pub struct Order {
    chosen: Vec<&'static Step>,
    ended: BTreeMap<&'static str, bool>,
}

/// Whether a step may begin.
#[derive(Debug, PartialEq, Eq)]
pub enum Begin {
    /// It may.
    Now,
    /// What it waits for has not ended.
    Later,
    /// This one, which it waits for, has failed.
    Never(&'static str),
}

impl Order {
    /// Of steps with these names.
    pub fn new(names: &[&str]) -> Self {
        let chosen = names.iter().filter_map(|name| Step::named(name)).collect();
        Self { chosen, ended: BTreeMap::new() }
    }

    /// The steps, in the order in which they should begin.
    pub fn steps(&self) -> Vec<&'static Step> {
        self.chosen.clone()
    }

    /// A step has ended, well or not, or cannot begin at all.
    pub fn end(&mut self, step: &Step, is_well: bool) {
        self.ended.insert(step.name, is_well);
    }

    /// Whether a step may begin.
    pub fn may_begin(&self, step: &Step) -> Begin {
        let Some(before) = self.before(step) else { return Begin::Now };
        match self.ended.get(before.name) {
            Some(true) => Begin::Now,
            Some(false) => Begin::Never(before.name),
            None => Begin::Later,
        }
    }

    /// The step of this run that another waits for.
    fn before(&self, step: &Step) -> Option<&'static Step> {
        let mut before = step.after.and_then(Step::named);
        while let Some(step) = before {
            if self.chosen.iter().any(|chosen| chosen.name == step.name) {
                return Some(step);
            }
            before = step.after.and_then(Step::named);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> &'static Step {
        Step::named(name).expect("a step")
    }

    #[test]
    fn a_step_waits_for_the_nearest_one_that_was_chosen() {
        let mut order = Order::new(&["needs", "build", "unit", "tls"]);
        assert_eq!(order.may_begin(step("needs")), Begin::Now);
        for name in ["build", "unit", "tls"] {
            assert_eq!(order.may_begin(step(name)), Begin::Later, "{name}");
        }
        order.end(step("needs"), true);
        assert_eq!(order.may_begin(step("unit")), Begin::Now);
        assert_eq!(order.may_begin(step("tls")), Begin::Later);
        order.end(step("build"), true);
        assert_eq!(order.may_begin(step("tls")), Begin::Now);
    }

    #[test]
    fn what_was_not_chosen_is_passed_over() {
        assert_eq!(Order::new(&["tls", "unit"]).may_begin(step("tls")), Begin::Now);
        let order = Order::new(&["needs", "tls"]);
        assert_eq!(order.may_begin(step("tls")), Begin::Later);
    }

    #[test]
    fn after_a_failure_nothing_begins_that_waits_for_it() {
        let mut order = Order::new(&["needs", "build", "tls", "unit"]);
        order.end(step("needs"), false);
        assert_eq!(order.may_begin(step("build")), Begin::Never("needs"));
        order.end(step("build"), false);
        assert_eq!(order.may_begin(step("tls")), Begin::Never("build"));
        assert_eq!(order.may_begin(step("unit")), Begin::Never("needs"));
    }
}
