//! The command line of `cargo xtask test`.
//!
//! Tests: at the foot.

use super::run::Reach;
use super::steps::{STEPS, Step};

/// Steps at a time, when nobody says how many: one for each core, but no more.
const MOST_JOBS: usize = 4;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// These steps, by name, in the order in which they begin.
    Steps {
        /// Their names.
        names: Vec<&'static str>,
        /// How much they do.
        reach: Reach,
        /// How many run at a time.
        jobs: usize,
    },
    /// What steps there are.
    List,
}

impl Choice {
    /// Reads the words behind `test`; the error is for who wrote them.
    pub fn parse(words: &[&str], cores: usize) -> Result<Self, String> {
        let (mut is_quick, mut is_long, mut jobs) = (false, false, cores.clamp(1, MOST_JOBS));
        let mut names: Vec<&'static str> = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--list" => return Ok(Self::List),
                "--long" => is_long = true,
                "--jobs" => {
                    let number = words.next().and_then(|word| word.parse().ok());
                    jobs = number.filter(|jobs| *jobs > 0).ok_or("--jobs needs a number")?;
                }
                "quick" => {
                    is_quick = true;
                    names.extend(STEPS.iter().filter(|step| step.is_quick).map(|step| step.name));
                }
                name => names.push(named(name)?.name),
            }
        }
        if names.is_empty() {
            let chosen = STEPS.iter().filter(|step| is_long || !step.is_long);
            names = chosen.map(|step| step.name).collect();
        }
        let mut known = Vec::new();
        names.retain(|name| !known.contains(name) && (known.push(*name), true).1);
        let reach = match (is_quick, is_long) {
            (true, _) => Reach::Quick,
            (false, true) => Reach::Long,
            (false, false) => Reach::Usual,
        };
        Ok(Self::Steps { names, reach, jobs })
    }
}

fn named(name: &str) -> Result<&'static Step, String> {
    Step::named(name).ok_or_else(|| format!("no step '{name}'; ./test --list shows them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Choice, String> {
        Choice::parse(&line.split_whitespace().collect::<Vec<_>>(), 16)
    }

    fn check(line: &str, want: &[&str], want_reach: Reach, want_jobs: usize) {
        let Ok(Choice::Steps { names, reach, jobs }) = parse(line) else { panic!("{line}") };
        assert_eq!((names.as_slice(), reach, jobs), (want, want_reach, want_jobs), "{line}");
    }

    #[test]
    fn steps_are_chosen_by_name_once_and_in_the_order_told() {
        check("unit tidy", &["unit", "tidy"], Reach::Usual, 4);
        check("tidy unit tidy --jobs 2", &["tidy", "unit"], Reach::Usual, 2);
        check("--long suites", &["suites"], Reach::Long, 4);
        check("asan", &["asan"], Reach::Usual, 4);
    }

    #[test]
    fn quick_has_its_steps_and_others_that_are_named() {
        let quick = ["build", "format", "lint", "tidy", "pages", "unit", "transcripts"];
        check("quick", &quick, Reach::Quick, 4);
        let with_tls = [&quick[..], &["tls"]].concat();
        check("quick tls unit", &with_tls, Reach::Quick, 4);
    }

    #[test]
    fn without_names_all_run_and_the_long_ones_with_long() {
        let count = |line: &str| match parse(line) {
            Ok(Choice::Steps { names, .. }) => names.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(count("--long"), STEPS.len());
        assert_eq!(count(""), STEPS.iter().filter(|step| !step.is_long).count());
    }

    #[test]
    fn the_list_is_asked_for_and_mistakes_are_told() {
        assert_eq!(parse("--list"), Ok(Choice::List));
        assert_eq!(parse("units"), Err("no step 'units'; ./test --list shows them".into()));
        for line in ["--jobs", "--jobs 0", "--jobs many", "--jobs -1"] {
            assert_eq!(parse(line), Err("--jobs needs a number".into()), "{line}");
        }
    }

    #[test]
    fn a_machine_of_one_core_runs_one_step_at_a_time() {
        let choice = Choice::parse(&["tidy"], 1);
        let names = vec!["tidy"];
        assert_eq!(choice, Ok(Choice::Steps { names, reach: Reach::Usual, jobs: 1 }));
    }
}
