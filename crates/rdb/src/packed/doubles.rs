//! Checks that packed elements from elsewhere are distinct.

use std::collections::HashSet;

use pantala_values::dense;
use pantala_values::packed::View;

/// Whether every `stride`-th element, from the first on, occurs once. Equal elements are equal
/// bytes.
pub fn are_different(view: View<'_>, stride: usize) -> bool {
    let count = view.len().div_ceil(stride);
    let entries = || view.iter().step_by(stride).map(|(at, _)| &view.bytes()[at..view.next(at)]);
    have_different_hashes(entries(), count) || {
        let mut seen = HashSet::with_capacity(count);
        entries().all(|entry| seen.insert(entry))
    }
}

/// Whether texts are distinct.
pub fn are_texts_different<'t, T>(texts: T) -> bool
where
    T: ExactSizeIterator<Item = &'t [u8]> + Clone,
{
    have_different_hashes(texts.clone(), texts.len()) || {
        let mut seen = HashSet::with_capacity(texts.len());
        texts.clone().all(|text| seen.insert(text))
    }
}

/// Whether all hashes are distinct, and so the texts: mostly so, and quickly checked.
fn have_different_hashes<'t>(texts: impl Iterator<Item = &'t [u8]>, count: usize) -> bool {
    let mask = (2 * count).next_power_of_two().max(2) - 1;
    let mut slots = vec![0_u64; mask + 1];
    for text in texts {
        // Zero marks an empty slot.
        let hash = dense::hash(text) | 1;
        let mut at = (hash >> 1) as usize & mask;
        while slots[at] != 0 {
            if slots[at] == hash {
                return false;
            }
            at = (at + 1) & mask;
        }
        slots[at] = hash;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantala_values::packed::{Element, Packed};

    fn check(texts: &[&str], stride: usize, expected: bool) {
        let mut packed = Packed::new();
        texts.iter().for_each(|text| packed.push(Element::of(text.as_bytes())));
        assert_eq!(are_different(packed.view(), stride), expected, "{texts:?}");
        if stride == 1 {
            let texts = texts.iter().map(|text| text.as_bytes());
            assert_eq!(are_texts_different(texts), expected);
        }
    }

    #[test]
    fn doubles_are_found() {
        check(&[], 1, true);
        check(&["a"], 1, true);
        check(&["a", "1", "b", ""], 1, true);
        check(&["a", "1", "a"], 1, false);
        check(&["a", "1", "b", "1"], 2, true);
        check(&["a", "1", "b", "2", "a", "3"], 2, false);
        let many: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(&many, 1, true);
        many.push("1234");
        check(&many, 1, false);
    }
}
