//! Calls and times by family of commands, for pages where a line for each command would be too
//! much.

use pantala_commands::{Group, Registry};

use super::histogram::Octaves;
use super::tallies::Tallies;

/// The counts of one family since the last CONFIG RESETSTAT.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Which family.
    pub group: Group,
    /// Commands executed, including failed ones.
    pub calls: u64,
    /// Commands refused before execution.
    pub rejected: u64,
    /// Commands that ended with an error.
    pub failed: u64,
    /// Time in execution, in nanoseconds.
    pub nanoseconds: u64,
    /// Executions by their duration.
    pub times: Octaves,
}

impl Family {
    fn new(group: Group) -> Self {
        let times = Octaves::default();
        Family { group, calls: 0, rejected: 0, failed: 0, nanoseconds: 0, times }
    }

    /// Executions by duration: upper bounds in microseconds (the last: infinity), each with the
    /// number of executions between it and the bound before.
    pub fn histogram_us(&self) -> Vec<(f64, u64)> {
        self.times.counts().collect()
    }
}

impl Tallies {
    /// Every family with a command that was called or refused.
    pub fn families(&self, registry: &Registry) -> Vec<Family> {
        let mut families: Vec<Family> = Vec::new();
        for (number, row) in registry.rows().iter().enumerate() {
            let counts = self.row(number);
            if counts.calls.get() + counts.rejected.get() == 0 {
                continue;
            }
            let at = families.iter().position(|family| family.group == row.group);
            let at = at.unwrap_or_else(|| {
                families.push(Family::new(row.group));
                families.len() - 1
            });
            let family = &mut families[at];
            family.calls += counts.calls.get();
            family.rejected += counts.rejected.get();
            family.failed += counts.failed.get();
            family.nanoseconds += counts.nanoseconds.get();
            counts.times.add_to(&mut family.times);
        }
        families
    }
}

#[cfg(test)]
mod tests {
    use pantala_commands::families;

    use super::*;

    #[test]
    fn commands_of_a_family_are_one() {
        let registry = Registry::new(&[families::string::ROWS, families::hash::ROWS]);
        let tallies = Tallies::new(registry.rows().len());
        let tally = tallies.join();
        for (name, nanoseconds) in [("get", 300), ("set", 500), ("hget", 700), ("get", 800)] {
            let found = registry.find_own(name.as_bytes()).expect("it is there");
            let row = &tally.commands[usize::from(found.number)];
            row.calls.add(1);
            row.took(nanoseconds, true);
        }
        let mut families = tallies.families(&registry);
        families.sort_unstable_by_key(|family| family.group.name());
        let seen: Vec<_> =
            families.iter().map(|one| (one.group, one.calls, one.nanoseconds)).collect();
        assert_eq!(seen, [(Group::Hash, 1, 700), (Group::String, 3, 1_600)]);
        assert_eq!(families[1].histogram_us()[..3], [(0.256, 0), (0.512, 2), (1.024, 1)]);
    }
}
