//! The first line of a library: `#!lua name=mylib`.
//!
//! Words are quoted as in redis-cli. The library's code follows the line end; the line counts as
//! its first, so that errors have the right line numbers.

use pantala_protocol::{Arena, split_words};

use super::{ENGINE, text};
use crate::ErrorText;

/// The rule for names, to follow the word for whose name it is.
pub(super) const NAME_RULE: &[u8] = b" names can only contain letters, numbers, or underscores(_) \
    and must be at least one character long";

/// The content of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name of the library.
    pub name: Vec<u8>,
}

impl Header {
    /// Reads the first line of a library's text.
    ///
    /// # Errors
    /// The text of an error reply.
    pub fn parse(code: &[u8]) -> Result<Header, ErrorText> {
        if !code.starts_with(b"#!") {
            return Err(text(&[b"Missing library metadata"]));
        }
        let (arena, mut words) = (Arena::new(), Vec::new());
        // A NUL ends the text as far as the reference looks for the line's end.
        let end = code.iter().position(|byte| matches!(byte, b'\n' | 0));
        let line = end.filter(|end| code[*end] == b'\n').map(|end| &code[..end]);
        let split = line.and_then(|line| split_words(line, &arena, &mut words).ok());
        let (Some(()), Some((engine, rest))) = (split, words.split_first()) else {
            return Err(text(&[b"Invalid library metadata"]));
        };
        let name = name_of(rest)?;
        if !is_name(name) {
            return Err(text(&[b"Library", NAME_RULE]));
        }
        let engine = engine.strip_prefix(b"#!").unwrap_or_default();
        if !engine.eq_ignore_ascii_case(ENGINE.as_bytes()) {
            return Err(text(&[b"Engine '", engine, b"' not found"]));
        }
        Ok(Header { name: name.to_vec() })
    }
}

fn name_of<'a>(words: &[&'a [u8]]) -> Result<&'a [u8], ErrorText> {
    const KEY: &[u8] = b"name=";
    let mut found = None;
    for word in words {
        let (key, value) = word.split_at(word.len().min(KEY.len()));
        if !key.eq_ignore_ascii_case(KEY) {
            return Err(text(&[b"Invalid metadata value given: ", word]));
        }
        if found.replace(value).is_some() {
            return Err(text(&[b"Invalid metadata value, name argument was given multiple times"]));
        }
    }
    found.ok_or_else(|| text(&[b"Library name was not given"]))
}

/// Whether this is a valid name for a library or a function.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<&str, &str>) {
        let code = format!("{line}\nreturn 1");
        let found = Header::parse(code.as_bytes()).map(|header| header.name);
        let expected = expected.map(|name| name.as_bytes().to_vec());
        assert_eq!(found, expected.map_err(|error| error.as_bytes().to_vec()), "{line}");
    }

    #[test]
    fn a_name_is_read_whatever_its_form() {
        for line in [
            "#!lua name=mylib",
            "#!LUA NAME=mylib",
            "#!lua  name=\"mylib\" \r",
            "#!lua\tname='mylib'",
            "#!\"lua\" name=mylib",
        ] {
            check(line, Ok("mylib"));
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_the_references_words() {
        let rule = "ERR Library names can only contain letters, numbers, or underscores(_) and \
            must be at least one character long";
        let twice = "ERR Invalid metadata value, name argument was given multiple times";
        for (line, error) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua name=\"a", "ERR Invalid library metadata"),
            ("#!lua name=a\0", "ERR Invalid library metadata"),
            ("#!lua", "ERR Library name was not given"),
            ("#!foo", "ERR Library name was not given"),
            ("#!foo name=a-b", rule),
            ("#!lua name=", rule),
            ("#!foo name=a", "ERR Engine 'foo' not found"),
            ("#! name=a", "ERR Engine '' not found"),
            ("#! lua name=a", "ERR Invalid metadata value given: lua"),
            ("#!lua name=a name=b", twice),
            ("#!lua name=a x=y", "ERR Invalid metadata value given: x=y"),
            ("#!lua name", "ERR Invalid metadata value given: name"),
        ] {
            check(line, Err(error));
        }
        assert_eq!(Header::parse(b"#!lua name=a"), Err(b"ERR Invalid library metadata".to_vec()));
        assert_eq!(Header::parse(b""), Err(b"ERR Missing library metadata".to_vec()));
    }
}
