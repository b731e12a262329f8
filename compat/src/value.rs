//! A reply, and its reader.
//!
//! This is deliberately not the parser of the protocol crate: a tool that tests the server must not
//! share the server's mistakes. It keeps the exact type of the wire.
//!
//! 1. `read` never looks past the first complete reply and never panics on any bytes.
//! 2. Texts of doubles and big numbers are kept as they were sent.
//! 3. Nesting is limited by `DEPTH_LIMIT`.
//!
//! Not here: how a reply is written in a transcript (`pattern`, `render`).

/// Replies nested deeper than this are malformed; real ones stay below ten.
const DEPTH_LIMIT: usize = 64;

/// One reply with its wire type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+text`
    Simple(Vec<u8>),
    /// `-text`, also RESP3's `!`
    Error(Vec<u8>),
    /// `:n`
    Int(i64),
    /// `$n`
    Bulk(Vec<u8>),
    /// RESP2 `$-1`, RESP3 `_`
    Nil,
    /// RESP2 `*-1`
    NilArray,
    /// `*n`
    Array(Vec<Value>),
    /// `%n`
    Map(Vec<(Value, Value)>),
    /// `~n`
    Set(Vec<Value>),
    /// `,text`
    Double(Vec<u8>),
    /// `#t` or `#f`
    Bool(bool),
    /// `=n`: three letters of format, then the text
    Verbatim(Vec<u8>, Vec<u8>),
    /// `>n`
    Push(Vec<Value>),
    /// `(text`
    BigNumber(Vec<u8>),
}

/// Why bytes cannot be a reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

type Read<T> = Result<Option<(T, usize)>, Malformed>;

/// Reads the first reply: the value and the number of bytes it took, or `None` while it is
/// incomplete.
pub fn read(bytes: &[u8]) -> Read<Value> {
    if end_of(bytes, 0).is_none() {
        return Ok(None);
    }
    read_nested(bytes, 0)
}

/// The end of the first reply, if it is complete; any position if it is malformed. It copies
/// nothing, because it runs after each piece of a long reply.
fn end_of(bytes: &[u8], depth: usize) -> Option<usize> {
    let (line, mut end) = read_line(bytes)?;
    let head = line.split_first().filter(|_| depth <= DEPTH_LIMIT);
    let mut items = 0;
    match head.map(|(kind, text)| (kind, length(text))) {
        Some((b'$' | b'=' | b'!', Ok(count))) => end = end.saturating_add(count).saturating_add(2),
        Some((b'*' | b'~' | b'>', Ok(count))) => items = count,
        Some((b'%', Ok(count))) => items = count.saturating_mul(2),
        _ => {}
    }
    for _ in 0..items {
        end += end_of(&bytes[end..], depth + 1)?;
    }
    (end <= bytes.len()).then_some(end)
}

fn read_nested(bytes: &[u8], depth: usize) -> Read<Value> {
    if depth > DEPTH_LIMIT {
        return Err(Malformed("nested too deep"));
    }
    let Some((line, head)) = read_line(bytes) else { return Ok(None) };
    let Some((&kind, text)) = line.split_first() else { return Err(Malformed("empty line")) };
    let whole = |value| Ok(Some((value, head)));
    match kind {
        b'+' => whole(Value::Simple(text.to_vec())),
        b'-' => whole(Value::Error(text.to_vec())),
        b':' => whole(Value::Int(number(text)?)),
        b',' => whole(Value::Double(text.to_vec())),
        b'(' => whole(Value::BigNumber(text.to_vec())),
        b'_' => whole(Value::Nil),
        b'#' if text == b"t" => whole(Value::Bool(true)),
        b'#' if text == b"f" => whole(Value::Bool(false)),
        b'$' if text == b"-1" => whole(Value::Nil),
        b'*' if text == b"-1" => whole(Value::NilArray),
        b'$' | b'=' | b'!' => read_blob(bytes, head, kind, length(text)?),
        b'*' | b'%' | b'~' | b'>' => read_many(bytes, head, kind, length(text)?, depth),
        _ => Err(Malformed("unknown type byte")),
    }
}

fn read_blob(bytes: &[u8], head: usize, kind: u8, length: usize) -> Read<Value> {
    let Some(body) = bytes.get(head..head.saturating_add(length).saturating_add(2)) else {
        return Ok(None);
    };
    let (text, end) = body.split_at(length);
    if end != b"\r\n" {
        return Err(Malformed("a bulk's length does not match its text"));
    }
    let value = match kind {
        b'$' => Value::Bulk(text.to_vec()),
        b'!' => Value::Error(text.to_vec()),
        _ if text.get(3) == Some(&b':') => Value::Verbatim(text[..3].to_vec(), text[4..].to_vec()),
        _ => return Err(Malformed("a verbatim text without its format")),
    };
    Ok(Some((value, head + length + 2)))
}

fn read_many(bytes: &[u8], head: usize, kind: u8, count: usize, depth: usize) -> Read<Value> {
    let mut at = head;
    let mut items = Vec::new();
    let total = if kind == b'%' { count.saturating_mul(2) } else { count };
    for _ in 0..total {
        match read_nested(&bytes[at..], depth + 1)? {
            Some((item, used)) => {
                items.push(item);
                at += used;
            }
            None => return Ok(None),
        }
    }
    let value = match kind {
        b'*' => Value::Array(items),
        b'~' => Value::Set(items),
        b'>' => Value::Push(items),
        _ => Value::Map(pairs(items)),
    };
    Ok(Some((value, at)))
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn read_line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[..end], end + 2))
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed("not a number"))?;
    text.parse().map_err(|_| Malformed("not a number"))
}

fn length(text: &[u8]) -> Result<usize, Malformed> {
    usize::try_from(number(text)?).map_err(|_| Malformed("negative length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wire: &str, expected: Value) {
        let bytes = wire.as_bytes();
        assert_eq!(read(bytes), Ok(Some((expected, bytes.len()))), "{wire:?}");
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Ok(None), "{wire:?} cut at {cut}");
        }
    }

    #[test]
    fn every_type() {
        check("+OK\r\n", Value::Simple(b"OK".to_vec()));
        check("-ERR x\r\n", Value::Error(b"ERR x".to_vec()));
        check(":-5\r\n", Value::Int(-5));
        check("$-1\r\n", Value::Nil);
        check("_\r\n", Value::Nil);
        check("*-1\r\n", Value::NilArray);
        check("$4\r\na\r\nb\r\n", Value::Bulk(b"a\r\nb".to_vec()));
        check(",1.50\r\n", Value::Double(b"1.50".to_vec()));
        check("#f\r\n", Value::Bool(false));
        check("(12\r\n", Value::BigNumber(b"12".to_vec()));
        check("=5\r\ntxt:a\r\n", Value::Verbatim(b"txt".to_vec(), b"a".to_vec()));
        check("*2\r\n:1\r\n*0\r\n", Value::Array(vec![Value::Int(1), Value::Array(vec![])]));
        check("~1\r\n:1\r\n", Value::Set(vec![Value::Int(1)]));
        check(">1\r\n:1\r\n", Value::Push(vec![Value::Int(1)]));
        check("%1\r\n:1\r\n:2\r\n", Value::Map(vec![(Value::Int(1), Value::Int(2))]));
    }

    #[test]
    fn nonsense_is_malformed() {
        for wire in ["?\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$1\r\nabc", "=2\r\nab\r\n", "#x\r\n"] {
            assert!(read(wire.as_bytes()).is_err(), "{wire:?}");
        }
        assert!(read("*1\r\n".repeat(100).as_bytes()).is_err());
    }
}
