//! What the log of a step tells: how many checks passed and failed, and where it went wrong.
//!
//! | line | counts |
//! |---|---|
//! | `test result: ok. 3 passed; 1 failed; ...` | of Rust's tests |
//! | `... 3 passed, 1 failed` | of our runners |
//! | `Ran 3 tests in ...` | of Python's unittest |
//! | `# pass 3`, `# fail 1` | of Node's tests |
//!
//! A log that counts nothing is one check. One that counts none at all has tested nothing, which is
//! a failure. Tests: at the foot.

/// Checks of a step, or of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many were well.
    pub passed: u64,
    /// How many were not.
    pub failed: u64,
}

impl Counts {
    /// Adds those of another step.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Those that a log tells of.
    pub fn of_log(log: &str) -> Self {
        let lines: Vec<Self> = log.lines().flat_map(of_line).collect();
        if lines.is_empty() {
            return Self { passed: 1, failed: 0 };
        }
        let mut counts = Self::default();
        lines.into_iter().for_each(|line| counts.add(line));
        if counts == Self::default() { Self { passed: 0, failed: 1 } } else { counts }
    }
}

fn of_line(line: &str) -> Option<Counts> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    if line.starts_with("test result: ") {
        return Some(Counts { passed: number(3)?, failed: number(5)? });
    }
    match words.as_slice() {
        ["Ran", count, "test" | "tests", ..] => {
            Some(Counts { passed: count.parse().ok()?, failed: 0 })
        }
        ["#", "pass", count] => Some(Counts { passed: count.parse().ok()?, failed: 0 }),
        ["#", "fail", count] => Some(Counts { passed: 0, failed: count.parse().ok()? }),
        _ => of_ours(line),
    }
}

/// `3 passed, 1 failed` anywhere in a line.
fn of_ours(line: &str) -> Option<Counts> {
    const BETWEEN: &str = " passed, ";
    line.match_indices(BETWEEN).find_map(|(at, _)| {
        let before = &line[..at];
        let begin = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = line[at + BETWEEN.len()..].split_once(' ')?;
        let is_ours = rest.starts_with("failed");
        let counts = Counts { passed: before[begin..].parse().ok()?, failed: number.parse().ok()? };
        is_ours.then_some(counts)
    })
}

/// Lines that tell where a step went wrong.
const SIGNS: [&str; 2] = ["panicked at", "anomaly"];
/// Words at the begin of such a line.
const OPENINGS: [&str; 3] = ["error", "Traceback", "FAIL"];
/// How many such places are shown, with how many lines behind each.
const MOST_PLACES: usize = 8;
const LINES_BEHIND: usize = 8;
/// How many lines of the end, and how much of each line.
const LAST_LINES: usize = 25;
const MOST_COLUMNS: usize = 300;

/// What tells most of a failed step: where it went wrong (under it the runners may have printed
/// much that is right), then how it ended.
pub fn failure_in(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log.lines().collect();
    let is_sign = |line: &str| {
        SIGNS.iter().any(|sign| line.contains(sign))
            || OPENINGS.iter().any(|opening| line.starts_with(opening))
    };
    let signs = (0..lines.len()).filter(|at| is_sign(lines[*at])).take(MOST_PLACES);
    let mut shown: Vec<String> = Vec::new();
    let mut next = 0;
    for at in signs {
        if at > next && !shown.is_empty() {
            shown.push("--".into());
        }
        let (from, to) = (at.max(next), (at + LINES_BEHIND + 1).min(lines.len()));
        let place = lines.iter().enumerate().take(to).skip(from);
        shown.extend(place.map(|(at, line)| cut(&format!("{}: {line}", at + 1))));
        next = to;
    }
    shown.push("    ...".into());
    let last = lines.iter().skip(lines.len().saturating_sub(LAST_LINES));
    shown.extend(last.map(|line| cut(line)));
    shown
}

fn cut(line: &str) -> String {
    line.chars().take(MOST_COLUMNS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &str, passed: u64, failed: u64) {
        assert_eq!(Counts::of_log(log), Counts { passed, failed }, "{log}");
    }

    #[test]
    fn each_runner_is_counted_by_its_own_words() {
        check("test result: ok. 12 passed; 0 failed; 0 ignored; finished in 0.1s", 12, 0);
        check("test result: FAILED. 2 passed; 1 failed; 0 ignored", 2, 1);
        check("transcripts: 310 passed, 2 failed", 310, 2);
        check("3 passed, 0 failed in 2 s", 3, 0);
        check("......\nRan 6 tests in 0.2s\n\nOK", 6, 0);
        check("Ran 1 test in 0.2s", 1, 0);
        check("# pass 7\n# fail 1", 7, 1);
        check("test result: ok. 1 passed; 0 failed\nx: 2 passed, 3 failed\n# pass 4", 7, 3);
    }

    #[test]
    fn a_log_that_counts_nothing_is_one_check() {
        check("", 1, 0);
        check(
            "all is well\n2 passed; 1 failed\n# pass it on\nRan away\nsome passed, 1 failed",
            1,
            0,
        );
    }

    #[test]
    fn a_log_that_counts_none_is_a_failure() {
        check("test result: ok. 0 passed; 0 failed; 0 ignored", 0, 1);
        check("0 passed, 0 failed", 0, 1);
        check("test result: ok. 0 passed; 0 failed\ntest result: ok. 1 passed; 0 failed", 1, 0);
    }

    #[test]
    fn a_failure_is_shown_with_what_follows_it_and_the_end() {
        let log: String = (1..=60).map(|n| format!("line {n}\n")).collect();
        let log =
            log.replace("line 7\n", "thread 'x' panicked at y\n").replace("line 9\n", "error\n");
        let shown = failure_in(&log);
        assert_eq!(shown[0], "7: thread 'x' panicked at y");
        assert_eq!(shown[2], "9: error");
        assert_eq!(shown[10], "17: line 17");
        assert_eq!(shown[11], "    ...");
        assert_eq!(shown.len(), 12 + LAST_LINES);
        assert_eq!(shown.last().map(String::as_str), Some("line 60"));
    }

    #[test]
    fn places_apart_are_divided_and_long_lines_cut() {
        let log = format!("FAIL {}\n{}anomaly\n", "x".repeat(400), "fine\n".repeat(20));
        let shown = failure_in(&log);
        assert_eq!(shown[0].len(), MOST_COLUMNS);
        assert_eq!(shown[9..11], ["--", "22: anomaly"]);
    }
}
