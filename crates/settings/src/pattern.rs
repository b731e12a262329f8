//! Glob patterns over the names of settings: `*`, `?` and `[...]`.
//!
//! Time is at most pattern length x name length. Tests: at the foot.

/// Whether the whole of `name` matches `pattern`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match step(&pattern[p..], name[n]) {
            Some(Step::Star) => {
                p += 1;
                star = Some((p, n));
            }
            Some(Step::One(length)) => {
                p += length;
                n += 1;
            }
            None => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

enum Step {
    Star,
    /// The byte matches a piece of the pattern of this length.
    One(usize),
}

fn step(pattern: &[u8], byte: u8) -> Option<Step> {
    match pattern {
        [] => None,
        [b'*', ..] => Some(Step::Star),
        [b'?', ..] => Some(Step::One(1)),
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|&b| b == b']').unwrap_or(rest.len());
            let (negated, set) = match &rest[..end] {
                [b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            let inside = set.contains(&byte)
                || set.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(&byte));
            (inside != negated).then_some(Step::One((end + 2).min(pattern.len())))
        }
        [literal, ..] => (*literal == byte).then_some(Step::One(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_marks_and_sets() {
        for (pattern, name, want) in [
            ("*", "port", true),
            ("p*t", "port", true),
            ("p*x", "port", false),
            ("*o*", "port", true),
            ("[np]ort", "port", true),
            ("[^p]ort", "port", false),
            ("[a-q]ort", "port", true),
            ("[p", "p", true),
            ("po?t", "port", true),
            ("port", "ports", false),
            ("port*", "port", true),
            ("", "port", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(2_000), &"a".repeat(1_999)));
    }
}
