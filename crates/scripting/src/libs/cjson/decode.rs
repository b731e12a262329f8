//! JSON text to values.
//!
//! Tables are filled by mlua from an iterator that parses the text as it goes (`Members`,
//! `Elements`), which is the cheapest way into Lua: no handle, lock or check for each value. That
//! recurses, so values nested deeper than `RECURSION_MAX` are read with an explicit stack
//! (`Parser::deep`). An error is stored in `Parser::stopped`, and ends the iterators from the
//! inside out.
//!
//! 1. Tables start empty and are filled in the text's order, so they iterate in the same order as
//!    the reference's.
//! 2. The text ends at its first zero byte, except that two bytes of which one is zero are refused
//!    as UTF-16.
//! 3. Strings are not checked to be UTF-8. If the whole text is, that only enables a faster path.
//! 4. After an error the token is read a second time, to name it (`token`).
//!
//! Tests: tests/libs_answers.rs.

use std::str;

use mlua::{Either, Error, Lua, Result, Table, Value};

use super::Settings;
use super::number::number;
use crate::libs::NESTING_MAX;
use crate::libs::budget::Budget;

/// The nesting of tables up to which recursion is used, each level some kilobytes of stack.
const RECURSION_MAX: usize = 16;

/// The value that `text` describes.
pub(super) fn decode(lua: &Lua, text: &[u8], settings: &Settings) -> Result<Value> {
    if text.len() >= 2 && text[..2].contains(&0) {
        return Err(Error::runtime("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser {
        lua,
        budget: Budget::open(lua),
        text,
        utf8: str::from_utf8(text).ok(),
        at: 0,
        depth: 0,
        depth_max: NESTING_MAX.min(settings.decode_max_depth as usize),
        lenient: settings.decode_invalid,
        stopped: None,
    };
    let value = parser.whole();
    let stopped = parser.stopped.take();
    drop(parser);
    match (value, stopped) {
        (Some(value), None) => owned(lua, value),
        (_, Some(DecodeStop::Mistake(text))) => Err(Error::runtime(text)),
        (_, Some(DecodeStop::Lua(error))) => Err(error),
        // A parser that yields nothing has stored the reason.
        (None, None) => Err(Error::runtime("no value")),
    }
}

/// A value to be stored into a table: text that is UTF-8 uses mlua's shortest path.
type Piece<'a> = Either<&'a str, Either<String, Value>>;

fn owned(lua: &Lua, piece: Piece) -> Result<Value> {
    Ok(match piece {
        Either::Left(text) => Value::String(lua.create_string(text)?),
        Either::Right(Either::Left(text)) => Value::String(lua.create_string(text)?),
        Either::Right(Either::Right(value)) => value,
    })
}

fn ready<'a>(value: Value) -> Piece<'a> {
    Either::Right(Either::Right(value))
}

/// Why there will be no value.
enum DecodeStop {
    Mistake(String),
    Lua(Error),
}

struct Parser<'a> {
    lua: &'a Lua,
    budget: Budget<'a>,
    text: &'a [u8],
    utf8: Option<&'a str>,
    at: usize,
    depth: usize,
    depth_max: usize,
    /// Whether numbers that JSON lacks are accepted.
    lenient: bool,
    stopped: Option<DecodeStop>,
}

impl<'a> Parser<'a> {
    /// The byte at `at`, zero at the end.
    #[inline]
    fn byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Skips to the next token and returns its first byte.
    #[inline]
    fn next_byte(&mut self) -> u8 {
        loop {
            match self.byte() {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return byte,
            }
        }
    }

    fn whole(&mut self) -> Option<Piece<'a>> {
        let value = self.value()?;
        if self.next_byte() != 0 {
            return self.mistaken("the end");
        }
        Some(value)
    }

    fn value(&mut self) -> Option<Piece<'a>> {
        if let Err(error) = self.budget.step() {
            return self.failed(error);
        }
        match self.next_byte() {
            b'{' if self.depth < RECURSION_MAX => self.object(),
            b'[' if self.depth < RECURSION_MAX => self.array(),
            b'{' | b'[' => self.deep(),
            _ => self.scalar(),
        }
    }

    #[inline]
    fn scalar(&mut self) -> Option<Piece<'a>> {
        match self.byte() {
            b'"' => self.string("value"),
            b'-' | b'0'..=b'9' => self.number(),
            b't' if self.word(b"true") => Some(ready(Value::Boolean(true))),
            b'f' if self.word(b"false") => Some(ready(Value::Boolean(false))),
            b'n' if self.word(b"null") => Some(ready(Value::NULL)),
            b'+' | b'i' | b'I' | b'n' | b'N' if self.lenient && self.is_invalid_number() => {
                self.number()
            }
            _ => self.mistaken("value"),
        }
    }

    #[inline]
    fn word(&mut self, word: &[u8]) -> bool {
        let is_here = self.text[self.at..].starts_with(word);
        if is_here {
            self.at += word.len();
        }
        is_here
    }

    #[inline]
    fn number(&mut self) -> Option<Piece<'a>> {
        if !self.lenient && self.is_invalid_number() {
            return self.mistaken("value");
        }
        let Some((value, len)) = number(&self.text[self.at..]) else {
            return self.mistaken("value");
        };
        self.at += len;
        Some(ready(Value::Number(value)))
    }

    /// Whether a number begins here that `strtod` accepts and JSON does not: a plus, hexadecimal,
    /// leading zeros, names.
    fn is_invalid_number(&self) -> bool {
        let text = &self.text[self.at..];
        let rest = match text {
            [b'+', ..] => return true,
            [b'-', rest @ ..] => rest,
            _ => text,
        };
        match rest {
            [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
            [first, ..] if *first <= b'9' => false,
            [first, second, third, ..] => {
                let name = [*first, *second, *third].map(|byte| byte.to_ascii_lowercase());
                name == *b"inf" || name == *b"nan"
            }
            _ => false,
        }
    }

    fn string(&mut self, wanted: &str) -> Option<Piece<'a>> {
        let start = self.at + 1;
        let len = plain_len(&self.text[start..]);
        if self.text.get(start + len) == Some(&b'"') {
            self.at = start + len + 1;
            if let Some(text) = self.utf8.and_then(|text| text.get(start..start + len)) {
                return Some(Either::Left(text));
            }
            return self.bytes(&self.text[start..start + len]);
        }
        let mut bytes = Vec::with_capacity(len + SPARE_BYTES);
        match self.unescaped(start, &mut bytes) {
            Ok(end) => {
                self.at = end;
                match String::from_utf8(bytes) {
                    Ok(text) => Some(Either::Right(Either::Left(text))),
                    Err(error) => self.bytes(error.as_bytes()),
                }
            }
            Err(_) => self.mistaken(wanted),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Option<Piece<'a>> {
        match self.lua.create_string(bytes) {
            Ok(text) => Some(ready(Value::String(text))),
            Err(error) => self.failed(error),
        }
    }

    /// Appends the string that begins after a quote at `at`; returns the offset after its end.
    /// `Err`: the error and its offset.
    fn unescaped(
        &self,
        mut at: usize,
        out: &mut Vec<u8>,
    ) -> std::result::Result<usize, (&'static str, usize)> {
        // The end of the part that is scanned byte by byte, because it has a special byte.
        let mut single_to = at;
        loop {
            let rest = &self.text[at..];
            if at >= single_to {
                match rest.first_chunk() {
                    Some(chunk) if is_plain(chunk) => {
                        out.extend_from_slice(chunk);
                        at += CHUNK_BYTES;
                        continue;
                    }
                    _ => single_to = at + CHUNK_BYTES,
                }
            }
            match *rest {
                [byte, ..] if !is_special(byte) => {
                    out.push(byte);
                    at += 1;
                }
                [b'"', ..] => return Ok(at + 1),
                [b'\\', b'u', ref digits @ ..] => {
                    let Some((letter, len)) = code_point(digits) else {
                        return Err(("invalid unicode escape code", at));
                    };
                    push_code_point(out, letter);
                    at += 2 + len;
                }
                [b'\\', letter, ..] => {
                    out.push(match letter {
                        b'"' | b'\\' | b'/' => letter,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        _ => return Err(("invalid escape code", at)),
                    });
                    at += 2;
                }
                [b'\\'] => return Err(("invalid escape code", at)),
                _ => return Err(("unexpected end of string", at)),
            }
        }
    }

    fn descend(&mut self) -> Option<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > self.depth_max {
            let text = format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            );
            self.stopped = Some(DecodeStop::Mistake(text));
            return None;
        }
        Some(())
    }

    fn object(&mut self) -> Option<Piece<'a>> {
        self.descend()?;
        let lua = self.lua;
        let table = if self.next_byte() == b'}' {
            self.at += 1;
            lua.create_table()
        } else {
            lua.create_table_from(Members { parser: self, over: false })
        };
        self.ascend(table)
    }

    fn array(&mut self) -> Option<Piece<'a>> {
        self.descend()?;
        let lua = self.lua;
        let table = if self.next_byte() == b']' {
            self.at += 1;
            lua.create_table()
        } else {
            lua.create_sequence_from(Elements { parser: self, over: false })
        };
        self.ascend(table)
    }

    /// Reads a table and everything in it, without recursion.
    fn deep(&mut self) -> Option<Piece<'a>> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let mut value = match self.next_byte() {
                bracket @ (b'{' | b'[') => {
                    self.descend()?;
                    let table = self.made(self.lua.create_table())?;
                    let is_object = bracket == b'{';
                    if self.next_byte() != bracket + 2 {
                        let key = if is_object { self.key()? } else { Value::Integer(1) };
                        open.push(Open { table, key, is_object });
                        continue;
                    }
                    self.at += 1;
                    self.depth -= 1;
                    Value::Table(table)
                }
                _ => {
                    let scalar = self.scalar()?;
                    self.made(owned(self.lua, scalar))?
                }
            };
            // While the value completes a table, that table is the next value.
            loop {
                if let Err(error) = self.budget.step() {
                    return self.failed(error);
                }
                let Some(Open { table, key, is_object }) = open.pop() else {
                    return Some(ready(value));
                };
                self.made(table.raw_set(&key, value))?;
                match self.next_byte() {
                    b',' => {
                        self.at += 1;
                        let key = match key {
                            Value::Integer(place) if !is_object => Value::Integer(place + 1),
                            _ => self.key()?,
                        };
                        open.push(Open { table, key, is_object });
                        break;
                    }
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ if is_object => return self.mistaken("comma or object end"),
                    _ => return self.mistaken("comma or array end"),
                }
                self.at += 1;
                self.depth -= 1;
                value = Value::Table(table);
            }
        }
    }

    /// Reads a member's name and the colon.
    fn key(&mut self) -> Option<Value> {
        let key = self.name()?;
        self.made(owned(self.lua, key))
    }

    #[inline]
    fn name(&mut self) -> Option<Piece<'a>> {
        if self.next_byte() != b'"' {
            return self.mistaken("object key string");
        }
        let key = self.string("object key string")?;
        if self.next_byte() != b':' {
            return self.mistaken("colon");
        }
        self.at += 1;
        Some(key)
    }

    fn made<T>(&mut self, made: Result<T>) -> Option<T> {
        match made {
            Ok(value) => Some(value),
            Err(error) => self.failed(error),
        }
    }

    fn ascend(&mut self, table: Result<Table>) -> Option<Piece<'a>> {
        self.depth -= 1;
        match table {
            _ if self.stopped.is_some() => None,
            Ok(table) => Some(ready(Value::Table(table))),
            Err(error) => self.failed(error),
        }
    }

    fn failed<T>(&mut self, error: Error) -> Option<T> {
        self.stopped = Some(DecodeStop::Lua(error));
        None
    }

    /// Reports a token other than `wanted`.
    #[cold]
    fn mistaken<T>(&mut self, wanted: &str) -> Option<T> {
        self.next_byte();
        let (found, at) = self.token();
        let place = at + 1;
        let text = format!("Expected {wanted} but found {found} at character {place}");
        self.stopped = Some(DecodeStop::Mistake(text));
        None
    }

    /// The reference's name for the token at `at`, or its error; and the offset.
    fn token(&self) -> (&'static str, usize) {
        let rest = &self.text[self.at..];
        let name = match self.byte() {
            b'{' => "T_OBJ_BEGIN",
            b'}' => "T_OBJ_END",
            b'[' => "T_ARR_BEGIN",
            b']' => "T_ARR_END",
            b',' => "T_COMMA",
            b':' => "T_COLON",
            0 => "T_END",
            b'"' => match self.unescaped(self.at + 1, &mut Vec::new()) {
                Ok(_) => "T_STRING",
                Err(mistake) => return mistake,
            },
            b'-' | b'0'..=b'9' if !self.lenient && self.is_invalid_number() => "invalid number",
            b'-' | b'0'..=b'9' => self.number_token(),
            _ if rest.starts_with(b"true") || rest.starts_with(b"false") => "T_BOOLEAN",
            _ if rest.starts_with(b"null") => "T_NULL",
            b'+' | b'i' | b'I' | b'n' | b'N' if self.lenient && self.is_invalid_number() => {
                self.number_token()
            }
            _ => "invalid token",
        };
        (name, self.at)
    }

    fn number_token(&self) -> &'static str {
        if number(&self.text[self.at..]).is_some() { "T_NUMBER" } else { "invalid number" }
    }
}

/// A table being filled without recursion, with its next key.
struct Open {
    table: Table,
    key: Value,
    is_object: bool,
}

/// How much is reserved after the first escape of a string.
const SPARE_BYTES: usize = 32;

/// How many bytes are scanned together.
const CHUNK_BYTES: usize = 16;

#[inline]
fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte == 0
}

/// Whether no byte is special. Without branches, so that the compiler compares all bytes at once.
#[inline]
fn is_plain(chunk: &[u8; CHUNK_BYTES]) -> bool {
    let special = chunk.iter().fold(0, |any, byte| {
        any | u8::from(*byte == b'"') | u8::from(*byte == b'\\') | u8::from(*byte == 0)
    });
    special == 0
}

/// Bytes before the first quote, backslash or zero.
#[inline]
fn plain_len(text: &[u8]) -> usize {
    let mut len = 0;
    while let Some(chunk) = text[len..].first_chunk()
        && is_plain(chunk)
    {
        len += CHUNK_BYTES;
    }
    let rest = &text[len..];
    len + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

/// The code point that follows "\u", two escapes for a pair of surrogates; and how many bytes.
fn code_point(text: &[u8]) -> Option<(u32, usize)> {
    let first = hex4(text)?;
    if first & 0xf800 != 0xd800 {
        return Some((first, 4));
    }
    if first & 0x400 != 0 || text.get(4..6) != Some(b"\\u") {
        return None;
    }
    let second = hex4(&text[6..])?;
    if second & 0xfc00 != 0xdc00 {
        return None;
    }
    Some((0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff), 10))
}

fn hex4(text: &[u8]) -> Option<u32> {
    let digits = text.get(..4)?;
    digits.iter().try_fold(0, |sum, digit| Some(sum << 4 | char::from(*digit).to_digit(16)?))
}

fn push_code_point(out: &mut Vec<u8>, code_point: u32) {
    // Surrogates come in pairs here, so every number is a character.
    let letter = char::from_u32(code_point).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Iterates over the elements of an array after its bracket, until the closing one.
struct Elements<'p, 'a> {
    parser: &'p mut Parser<'a>,
    over: bool,
}

impl<'a> Iterator for Elements<'_, 'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.over {
            return None;
        }
        let value = self.parser.value()?;
        match self.parser.next_byte() {
            b',' => self.parser.at += 1,
            b']' => {
                self.parser.at += 1;
                self.over = true;
            }
            _ => return self.parser.mistaken("comma or array end"),
        }
        Some(value)
    }
}

/// Iterates over the members of an object after its brace, until the closing one.
struct Members<'p, 'a> {
    parser: &'p mut Parser<'a>,
    over: bool,
}

impl<'a> Iterator for Members<'_, 'a> {
    type Item = (Piece<'a>, Piece<'a>);

    fn next(&mut self) -> Option<(Piece<'a>, Piece<'a>)> {
        if self.over {
            return None;
        }
        let key = self.parser.name()?;
        let value = self.parser.value()?;
        match self.parser.next_byte() {
            b',' => self.parser.at += 1,
            b'}' => {
                self.parser.at += 1;
                self.over = true;
            }
            _ => return self.parser.mistaken("comma or object end"),
        }
        Some((key, value))
    }
}
