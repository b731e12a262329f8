//! Patterns: `weight_*`, `user:*->age`, `#`.
//!
//! The first star stands for the element. After an arrow behind the star comes a field of a hash.
//! `#` is the element itself. A pattern without a star names nothing. As in the reference, star and
//! arrow are searched up to the first zero byte.

use pantala_base::crc::{hash_tag, slot_of};

/// A pattern of SORT's BY or GET, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern<'a> {
    before: &'a [u8],
    behind: &'a [u8],
    field: Option<&'a [u8]>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Element,
    Nothing,
    Key,
}

impl<'a> Pattern<'a> {
    pub fn parse(text: &'a [u8]) -> Pattern<'a> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let plain = |kind| Pattern { before: text, behind: &[], field: None, kind };
        if &text[..end] == b"#" {
            return plain(Kind::Element);
        }
        let Some(star) = text[..end].iter().position(|byte| *byte == b'*') else {
            return plain(Kind::Nothing);
        };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        let arrow = text[star + 1..end].windows(2).position(|pair| pair == b"->");
        // An arrow with nothing after it is part of the key.
        let arrow = arrow.filter(|at| star + at + 3 < end);
        let (behind, field) = match arrow {
            Some(at) => (&behind[..at], Some(&behind[at + 2..])),
            None => (behind, None),
        };
        Pattern { before, behind, field, kind: Kind::Key }
    }

    /// Whether it is `#`.
    pub fn is_element(&self) -> bool {
        self.kind == Kind::Element
    }

    /// Whether all keys that it names are in this slot of a cluster, whatever the element: they
    /// have the same hash tag. As in the reference, wildcards of other commands end the search for
    /// it.
    pub fn is_in_slot(&self, slot: u16) -> bool {
        let text = self.before;
        let end = text.iter().position(|byte| b"?[\\".contains(byte)).unwrap_or(text.len());
        let is_whole = |tag: &[u8]| self.kind == Kind::Nothing || tag.len() < text[..end].len();
        match self.kind {
            Kind::Element => true,
            Kind::Nothing | Kind::Key => {
                is_whole(hash_tag(&text[..end])) && slot_of(&text[..end]) == slot
            }
        }
    }

    /// Whether it names a key for each element.
    pub fn names_key(&self) -> bool {
        self.kind == Kind::Key
    }

    /// Whether there is a star: without one, BY means no order.
    pub fn has_star(&self) -> bool {
        self.kind == Kind::Key
    }

    /// The field, if values are hashes.
    pub fn field(&self) -> Option<&'a [u8]> {
        self.field
    }

    /// Writes the name of the key for an element.
    pub fn write_key(&self, element: &[u8], name: &mut Vec<u8>) {
        name.clear();
        name.extend_from_slice(self.before);
        name.extend_from_slice(element);
        name.extend_from_slice(self.behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_pattern_are_in_the_slot_of_its_tag() {
        let slot = slot_of(b"t");
        let is_in = |text: &str| Pattern::parse(text.as_bytes()).is_in_slot(slot);
        for text in ["{t}*", "w{t}*", "{t}w*->f", "#", "{t}", "t"] {
            assert!(is_in(text), "{text}");
        }
        // A star or another wildcard before the tag, or no tag: keys may be in any slot.
        for text in ["*", "w*{t}", "x?{t}*", "t*", "{t*}", "{}t*", "{u}*", "x"] {
            assert!(!is_in(text), "{text}");
        }
    }

    #[test]
    fn keys_and_fields() {
        let check = |text: &str, expected: &str, field: Option<&str>| {
            let pattern = Pattern::parse(text.as_bytes());
            let mut name = Vec::new();
            pattern.write_key(b"7", &mut name);
            assert!(pattern.names_key());
            assert_eq!(String::from_utf8_lossy(&name), expected, "{text}");
            assert_eq!(pattern.field(), field.map(str::as_bytes), "{text}");
        };
        check("w_*", "w_7", None);
        check("*", "7", None);
        check("a*b*c", "a7b*c", None);
        check("h*->f", "h7", Some("f"));
        check("h*x->f->g", "h7x", Some("f->g"));
        check("h*->", "h7->", None);
        check("h->*", "h->7", None);
        check("h->*->f", "h->7", Some("f"));
        check("#*", "#7", None);
        assert!(Pattern::parse(b"#").is_element());
        assert!(!Pattern::parse(b"nosort").names_key());
        assert!(!Pattern::parse(b"a\0*").names_key());
        assert_eq!(Pattern::parse(b"*-\0>f").field(), None);
    }
}
