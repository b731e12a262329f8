//! The client's side: parses a reply into a tree. For tests and tools; the server never uses it on
//! a hot path.
//!
//! 1. Never reads past the first complete reply, never panics, never nests deeper than `DEPTH_MAX`.
//! 2. Memory is bounded by the bytes received: an announced count reserves nothing.

use pantala_base::number::{parse_f64, parse_i64};
use pantala_base::simd::find_byte;

/// The deepest nesting; a deeper reply is malformed.
pub const DEPTH_MAX: usize = 64;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`
    Simple(Vec<u8>),
    /// `-`, and RESP3's `!`
    Error(Vec<u8>),
    /// `:`
    Int(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `$-1` and `_`
    Null,
    /// `*-1`
    NullArray,
    /// `*`
    Array(Vec<Value>),
    /// `%`
    Map(Vec<(Value, Value)>),
    /// `~`
    Set(Vec<Value>),
    /// `,`
    Double(f64),
    /// `#`
    Bool(bool),
    /// `=`: format and text.
    Verbatim([u8; 3], Vec<u8>),
    /// `>`
    Push(Vec<Value>),
    /// `(`: the digits.
    BigNumber(Vec<u8>),
    /// `|`: attributes and the reply to which they belong.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

/// The bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Why there is no value.
enum ValueStop {
    Incomplete,
    Malformed,
}

/// The reply at the start of `bytes` and its length; `None` while it is incomplete.
pub fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(ValueStop::Incomplete) => Ok(None),
        Err(ValueStop::Malformed) => Err(Malformed),
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn value(&mut self, depth: usize) -> Result<Value, ValueStop> {
        if depth > DEPTH_MAX {
            return Err(ValueStop::Malformed);
        }
        let line = self.line()?;
        let [mark, text @ ..] = line else { return Err(ValueStop::Malformed) };
        Ok(match mark {
            b'+' => Value::Simple(text.to_vec()),
            b'-' => Value::Error(text.to_vec()),
            b':' => Value::Int(parse_i64(text).ok_or(ValueStop::Malformed)?),
            b'(' => Value::BigNumber(text.to_vec()),
            b'_' if text.is_empty() => Value::Null,
            b'#' if text == b"t" => Value::Bool(true),
            b'#' if text == b"f" => Value::Bool(false),
            b',' if matches!(text, b"nan" | b"-nan") => Value::Double(f64::NAN),
            b',' => Value::Double(parse_f64(text).ok_or(ValueStop::Malformed)?),
            b'$' if text == b"-1" => Value::Null,
            b'*' if text == b"-1" => Value::NullArray,
            b'$' => Value::Bulk(self.body(text)?.to_vec()),
            b'!' => Value::Error(self.body(text)?.to_vec()),
            b'=' => match self.body(text)? {
                [a, b, c, b':', text @ ..] => Value::Verbatim([*a, *b, *c], text.to_vec()),
                _ => return Err(ValueStop::Malformed),
            },
            b'*' => Value::Array(self.values(text, depth)?),
            b'~' => Value::Set(self.values(text, depth)?),
            b'>' => Value::Push(self.values(text, depth)?),
            b'%' => Value::Map(self.pairs(text, depth)?),
            b'|' => {
                let pairs = self.pairs(text, depth)?;
                Value::Attributed(pairs, Box::new(self.value(depth + 1)?))
            }
            _ => return Err(ValueStop::Malformed),
        })
    }

    fn line(&mut self) -> Result<&'b [u8], ValueStop> {
        let rest = &self.bytes[self.at..];
        let end = find_byte(rest, b'\r').ok_or(ValueStop::Incomplete)?;
        match rest.get(end + 1) {
            Some(b'\n') => {
                self.at += end + 2;
                Ok(&rest[..end])
            }
            Some(_) => Err(ValueStop::Malformed),
            None => Err(ValueStop::Incomplete),
        }
    }

    fn body(&mut self, len: &[u8]) -> Result<&'b [u8], ValueStop> {
        let len = length(len)?;
        let rest = &self.bytes[self.at..];
        match rest.get(len..len.saturating_add(2)) {
            Some(b"\r\n") => {
                self.at += len + 2;
                Ok(&rest[..len])
            }
            Some(_) => Err(ValueStop::Malformed),
            None => Err(ValueStop::Incomplete),
        }
    }

    fn values(&mut self, count: &[u8], depth: usize) -> Result<Vec<Value>, ValueStop> {
        (0..length(count)?).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, count: &[u8], depth: usize) -> Result<Vec<(Value, Value)>, ValueStop> {
        (0..length(count)?).map(|_| Ok((self.value(depth + 1)?, self.value(depth + 1)?))).collect()
    }
}

fn length(text: &[u8]) -> Result<usize, ValueStop> {
    parse_i64(text).and_then(|len| usize::try_from(len).ok()).ok_or(ValueStop::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Value) {
        let rest = [bytes, b"+next".as_slice()].concat();
        assert_eq!(parse(&rest), Ok(Some((expected, bytes.len()))), "{}", bytes.escape_ascii());
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Ok(None), "{}", bytes[..end].escape_ascii());
        }
    }

    #[test]
    fn every_type() {
        check(b"+OK\r\n", Value::Simple(b"OK".to_vec()));
        check(b"-ERR x\r\n", Value::Error(b"ERR x".to_vec()));
        check(b"!3\r\na\nb\r\n", Value::Error(b"a\nb".to_vec()));
        check(b":-5\r\n", Value::Int(-5));
        check(b"$2\r\n\r\n\r\n", Value::Bulk(b"\r\n".to_vec()));
        check(b"$-1\r\n", Value::Null);
        check(b"_\r\n", Value::Null);
        check(b"*-1\r\n", Value::NullArray);
        check(b"*0\r\n", Value::Array(vec![]));
        check(
            b"*2\r\n:1\r\n~1\r\n#t\r\n",
            Value::Array(vec![Value::Int(1), Value::Set(vec![Value::Bool(true)])]),
        );
        check(
            b"%1\r\n+a\r\n#f\r\n",
            Value::Map(vec![(Value::Simple(b"a".to_vec()), Value::Bool(false))]),
        );
        check(b",1.5\r\n", Value::Double(1.5));
        check(b",-inf\r\n", Value::Double(f64::NEG_INFINITY));
        check(b"=5\r\ntxt:x\r\n", Value::Verbatim(*b"txt", b"x".to_vec()));
        check(b">1\r\n:1\r\n", Value::Push(vec![Value::Int(1)]));
        check(b"(12345678901234567890\r\n", Value::BigNumber(b"12345678901234567890".to_vec()));
        let pairs = vec![(Value::Int(1), Value::Int(2))];
        check(b"|1\r\n:1\r\n:2\r\n_\r\n", Value::Attributed(pairs, Box::new(Value::Null)));
    }

    #[test]
    fn malformed() {
        for bytes in [
            b"\r\n".as_slice(),
            b"x\r\n",
            b":\r\n",
            b":1a\r\n",
            b"$-2\r\n",
            b"$1\r\naxx",
            b"+a\rb",
            b"=2\r\nab\r\n",
            b"#x\r\n",
            b",x\r\n",
        ] {
            assert_eq!(parse(bytes), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        assert!(matches!(parse(&nested(DEPTH_MAX)), Ok(Some(_))));
        assert_eq!(parse(&nested(DEPTH_MAX + 1)), Err(Malformed));
        assert_eq!(parse(b"*9223372036854775807\r\n:1\r\n"), Ok(None));
    }
}
