//! A script, as EVAL and SCRIPT LOAD get it: its text, its digest, and the flags of its shebang
//! line.
//!
//! 1. Immutable: one `Arc<Script>` serves all threads, each of which compiles it for itself.
//! 2. The digest covers the whole text, shebang line included.
//!
//! Not here: compiling and running (`vm`). Tests: foot of the file.

use pantala_base::sha1;
use pantala_protocol::{Arena, split_words};

use crate::Flags;

/// A script's text and facts.
#[derive(Debug)]
pub struct Script {
    sha: [u8; SHA_HEX_BYTES],
    body: Vec<u8>,
    flags: Flags,
    code_start: usize,
}

/// Length of a digest as text.
pub const SHA_HEX_BYTES: usize = sha1::HEX_BYTES;

/// An error's text for a client: its code first, without `-`.
pub type ErrorText = Vec<u8>;

impl Script {
    /// The flags that a script's text declares.
    ///
    /// # Errors
    /// Its shebang line is invalid.
    pub fn flags_said(body: &[u8]) -> Result<Flags, ErrorText> {
        shebang(body)?.map_or(Ok(Flags::COMPATIBLE), |(line, _)| flags_of(line))
    }

    /// Reads the shebang line, if there is one.
    pub fn new(body: &[u8]) -> Result<Script, ErrorText> {
        let (flags, code_start) = match shebang(body)? {
            Some((line, end)) => (flags_of(line)?, end),
            None => (Flags::COMPATIBLE, 0),
        };
        Ok(Script { sha: sha1::hex(body), body: body.to_vec(), flags, code_start })
    }

    /// The digest of the body: 40 lower-case hexadecimal digits.
    pub fn sha(&self) -> &[u8; SHA_HEX_BYTES] {
        &self.sha
    }

    /// The text as received, shebang line included.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The text to be compiled: the body from the end of its shebang line on, so that lines keep
    /// their numbers.
    pub fn code(&self) -> &[u8] {
        &self.body[self.code_start..]
    }

    /// The declared flags.
    pub fn flags(&self) -> Flags {
        self.flags
    }
}

/// The line with `#!` and its end. A NUL ends it, as in the reference.
fn shebang(body: &[u8]) -> Result<Option<(&[u8], usize)>, ErrorText> {
    if !body.starts_with(b"#!") {
        return Ok(None);
    }
    match body.iter().position(|byte| matches!(byte, b'\n' | 0)) {
        Some(end) if body[end] == b'\n' => Ok(Some((&body[..end], end))),
        _ => Err(b"ERR Invalid script shebang".to_vec()),
    }
}

/// Parses `#!lua flags=no-writes,allow-oom`: an engine, and options, which are checked first.
fn flags_of(line: &[u8]) -> Result<Flags, ErrorText> {
    let (arena, mut words) = (Arena::new(), Vec::new());
    let split = split_words(line, &arena, &mut words);
    let (Ok(()), Some((engine, options))) = (split, words.split_first()) else {
        return Err(b"ERR Invalid engine in script shebang".to_vec());
    };
    let mut flags = Flags::empty();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err([b"ERR Unknown lua shebang option: ", *option].concat());
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            let unknown = || [b"ERR Unexpected flag in script shebang: ", name].concat();
            flags = flags.with(Flags::named(name).ok_or_else(unknown)?);
        }
    }
    let engine = engine.strip_prefix(b"#!").unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"ERR Could not find scripting engine '", engine, b"'"].concat());
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::Script;

    fn check(body: &str, expected: Result<&str, &str>) {
        let script = Script::new(body.as_bytes());
        let found = script.map(|script| script.flags().names().collect::<Vec<_>>().join(","));
        let expected = expected.map(String::from).map_err(|text| text.as_bytes().to_vec());
        assert_eq!(found, expected, "{body:?}");
    }

    #[test]
    fn shebang_lines() {
        check("return 1", Ok(""));
        check("#!lua\nreturn 1", Ok(""));
        check("#!LUA\r\nreturn 1", Ok(""));
        check("#!lua flags=\nreturn 1", Ok(""));
        check("#!lua  flags=allow-oom,no-writes \nreturn 1", Ok("no-writes,allow-oom"));
        check("#!lua flags=no-writes flags=allow-oom\nreturn 1", Ok("no-writes,allow-oom"));
        check("#!lua", Err("ERR Invalid script shebang"));
        check("#!\nreturn 1", Err("ERR Could not find scripting engine ''"));
        check("#!python\nreturn 1", Err("ERR Could not find scripting engine 'python'"));
        check("#!lua\"\nreturn 1", Err("ERR Invalid engine in script shebang"));
        check("#!\"lua\" 'flags=no-writes'\nreturn 1", Ok("no-writes"));
        check("#! lua\nreturn 1", Err("ERR Unknown lua shebang option: lua"));
        check("#!lua\0\nreturn 1", Err("ERR Invalid script shebang"));
        check("#!lua foo=1\nreturn 1", Err("ERR Unknown lua shebang option: foo=1"));
        check("#!lua flags=x\nreturn 1", Err("ERR Unexpected flag in script shebang: x"));
        check("#!lua flags=no-writes,\nreturn 1", Err("ERR Unexpected flag in script shebang: "));
    }
}
