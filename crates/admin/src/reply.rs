//! Converts RESP replies to JSON, as in docs/http.md: types that JSON lacks become objects.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::scan::MalformedReply;

/// The largest integer that a browser's numbers hold exactly.
const EXACT_MOST: i64 = 1 << 53;
/// The deepest nesting.
const MOST_DEPTH: usize = 512;

/// Appends one whole reply as JSON; returns whether it is unsolicited.
///
/// # Errors
/// It is not a reply.
pub(crate) fn to_json(reply: &[u8], out: &mut String) -> Result<bool, MalformedReply> {
    let mut writer = Writer { rest: reply, out };
    writer.element(0)?;
    Ok(reply.first() == Some(&b'>'))
}

/// Appends text as a JSON string.
pub(crate) fn push_text(text: &str, out: &mut String) {
    out.push('"');
    for piece in text.split_inclusive(|c: char| c < ' ' || matches!(c, '"' | '\\' | '\u{7f}')) {
        let Some(last) = piece.chars().next_back() else { continue };
        let plain = &piece[..piece.len() - last.len_utf8()];
        out.push_str(plain);
        match last {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' || c == '\u{7f}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends bytes as JSON: a string if they are UTF-8.
pub(crate) fn push_bytes(bytes: &[u8], out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => push_text(text, out),
        Err(_) => {
            out.push_str("{\"base64\":\"");
            STANDARD.encode_string(bytes, out);
            out.push_str("\"}");
        }
    }
}

struct Writer<'a> {
    rest: &'a [u8],
    out: &'a mut String,
}

impl<'a> Writer<'a> {
    fn element(&mut self, depth: usize) -> Result<(), MalformedReply> {
        if depth > MOST_DEPTH {
            return Err(MalformedReply);
        }
        let (kind, line) = self.line()?;
        match kind {
            b'+' => self.named("status", line),
            b'-' => self.named("error", line),
            b'!' => {
                let text = self.string(line)?;
                self.named("error", text);
            }
            b':' => self.integer(line)?,
            b'(' => self.named("integer", line),
            b',' => self.double(line)?,
            b'#' => self.out.push_str(if line == b"t" { "true" } else { "false" }),
            b'_' => self.out.push_str("null"),
            b'$' | b'*' if line == b"-1" => self.out.push_str("null"),
            b'$' => {
                let text = self.string(line)?;
                push_bytes(text, self.out);
            }
            b'=' => self.verbatim(line)?,
            b'*' | b'>' => self.list(("[", "]"), number(line)?, depth)?,
            b'~' => self.list(("{\"set\":[", "]}"), number(line)?, depth)?,
            b'%' => self.pairs(number(line)?, depth)?,
            _ => return Err(MalformedReply),
        }
        Ok(())
    }

    /// The type byte of the next element and the rest of its line.
    fn line(&mut self) -> Result<(u8, &'a [u8]), MalformedReply> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or(MalformedReply)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        line.split_first().map(|(kind, rest)| (*kind, rest)).ok_or(MalformedReply)
    }

    fn string(&mut self, length: &[u8]) -> Result<&'a [u8], MalformedReply> {
        let length = usize::try_from(number(length)?).map_err(|_| MalformedReply)?;
        let end =
            length.checked_add(2).filter(|end| *end <= self.rest.len()).ok_or(MalformedReply)?;
        let text = &self.rest[..length];
        self.rest = &self.rest[end..];
        Ok(text)
    }

    /// Appends `{"name":"text"}`, with a mark if the text is not UTF-8.
    fn named(&mut self, name: &str, text: &[u8]) {
        self.out.push_str("{\"");
        self.out.push_str(name);
        self.out.push_str("\":");
        push_text(&String::from_utf8_lossy(text), self.out);
        self.out.push('}');
    }

    fn integer(&mut self, line: &[u8]) -> Result<(), MalformedReply> {
        let value = number(line)?;
        if (-EXACT_MOST..=EXACT_MOST).contains(&value) {
            // Writing to a string cannot fail.
            let _ = write!(self.out, "{value}");
        } else {
            self.named("integer", line);
        }
        Ok(())
    }

    fn double(&mut self, line: &[u8]) -> Result<(), MalformedReply> {
        let text = std::str::from_utf8(line).map_err(|_| MalformedReply)?;
        let value: f64 = text.parse().map_err(|_| MalformedReply)?;
        if value.is_finite() {
            let _ = write!(self.out, "{value}");
        } else {
            self.named("double", line);
        }
        Ok(())
    }

    fn verbatim(&mut self, line: &[u8]) -> Result<(), MalformedReply> {
        let text = self.string(line)?;
        let (format, text) = text.split_at_checked(4).ok_or(MalformedReply)?;
        self.out.push_str("{\"text\":");
        push_text(&String::from_utf8_lossy(text), self.out);
        self.out.push_str(",\"format\":");
        push_text(&String::from_utf8_lossy(&format[..3]), self.out);
        self.out.push('}');
        Ok(())
    }

    fn list(
        &mut self,
        (open, close): (&str, &str),
        count: i64,
        depth: usize,
    ) -> Result<(), MalformedReply> {
        self.out.push_str(open);
        for position in 0..count {
            if position > 0 {
                self.out.push(',');
            }
            self.element(depth + 1)?;
        }
        self.out.push_str(close);
        Ok(())
    }

    fn pairs(&mut self, count: i64, depth: usize) -> Result<(), MalformedReply> {
        self.out.push_str("{\"map\":[");
        for position in 0..count {
            self.out.push_str(if position > 0 { ",[" } else { "[" });
            self.element(depth + 1)?;
            self.out.push(',');
            self.element(depth + 1)?;
            self.out.push(']');
        }
        self.out.push_str("]}");
        Ok(())
    }
}

fn number(line: &[u8]) -> Result<i64, MalformedReply> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(MalformedReply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reply: impl AsRef<[u8]>, expected: &str) {
        let mut json = String::new();
        to_json(reply.as_ref(), &mut json).expect("a reply");
        assert_eq!(json, expected);
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&json);
        assert!(parsed.is_ok(), "{json}");
    }

    #[test]
    fn each_kind_has_its_form() {
        check("+OK\r\n", r#"{"status":"OK"}"#);
        check("-ERR no\r\n", r#"{"error":"ERR no"}"#);
        check("!6\r\nERR no\r\n", r#"{"error":"ERR no"}"#);
        check(":-42\r\n", "-42");
        check(":9007199254740992\r\n", "9007199254740992");
        check(":9007199254740993\r\n", r#"{"integer":"9007199254740993"}"#);
        check(":-9223372036854775808\r\n", r#"{"integer":"-9223372036854775808"}"#);
        check("(123456789012345678901\r\n", r#"{"integer":"123456789012345678901"}"#);
        check(",1.5\r\n", "1.5");
        check(",1e300\r\n", &1e300f64.to_string());
        check(",inf\r\n", r#"{"double":"inf"}"#);
        check(",-inf\r\n", r#"{"double":"-inf"}"#);
        check(",nan\r\n", r#"{"double":"nan"}"#);
        check("#t\r\n", "true");
        check("#f\r\n", "false");
        check("_\r\n", "null");
        check("$-1\r\n", "null");
        check("*-1\r\n", "null");
        check("=7\r\ntxt:a\"b\r\n", r#"{"text":"a\"b","format":"txt"}"#);
        check("*2\r\n:1\r\n*0\r\n", "[1,[]]");
        check("~2\r\n:1\r\n:2\r\n", r#"{"set":[1,2]}"#);
        check("%2\r\n+a\r\n:1\r\n$1\r\nb\r\n_\r\n", r#"{"map":[[{"status":"a"},1],["b",null]]}"#);
        check(">2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", r#"["message","c"]"#);
    }

    #[test]
    fn bytes_are_text_where_they_can_be() {
        check("$0\r\n\r\n", r#""""#);
        check("$7\r\nq\"\\\n\r\t\u{1}\r\n", r#""q\"\\\n\r\t\u0001""#);
        check("$4\r\n\u{1F600}\r\n", "\"\u{1F600}\"");
        check(b"$2\r\n\xff\x00\r\n", r#"{"base64":"/wA="}"#);
        check("$5\r\n</scr\r\n", r#""</scr""#);
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        let deep = "*1\r\n".repeat(MOST_DEPTH + 2);
        for reply in ["", "+OK", "$5\r\nab\r\n", "=2\r\nab\r\n", ":x\r\n", "?\r\n", &deep] {
            assert_eq!(
                to_json(reply.as_bytes(), &mut String::new()),
                Err(MalformedReply),
                "{reply:.20}"
            );
        }
    }

    #[test]
    fn what_was_not_asked_for_is_told_apart() {
        assert_eq!(to_json(b">1\r\n:1\r\n", &mut String::new()), Ok(true));
        assert_eq!(to_json(b"*1\r\n:1\r\n", &mut String::new()), Ok(false));
    }
}
