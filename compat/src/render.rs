//! Renders a reply as the text that a transcript has for it (the grammar is in `pattern`).
//!
//! 1. `Pattern::parse` reads the text that `line` and `lines` write as a pattern that matches the
//!    reply.

use crate::pattern::{Pattern, Resp};
use crate::quoting::quote;
use crate::value::Value;

/// Replies longer than this are broken over several lines.
const WIDTH: usize = 96;

/// The reply on one line.
pub fn line(value: &Value) -> String {
    scalar(value, true).unwrap_or_else(|| nested(value))
}

/// The reply, on several lines if it is long.
pub fn lines(value: &Value) -> Vec<String> {
    let mut out = vec![String::new()];
    broken(value, true, 0, &mut out);
    out
}

/// One text for the answers of RESP2 and RESP3, or `None` if two are needed.
pub fn unified(two: &Value, three: &Value) -> Option<Value> {
    let value = with_nil_arrays(two, three);
    let pattern = Pattern::parse(&line(&value)).ok()?;
    let both = pattern.matches(two, Resp::Two, false) && pattern.matches(three, Resp::Three, false);
    both.then_some(value)
}

/// RESP3's reply, but with RESP2's distinction of the two nils.
fn with_nil_arrays(two: &Value, three: &Value) -> Value {
    match (two, three) {
        (Value::NilArray, Value::Nil) => Value::NilArray,
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            Value::Array(a.iter().zip(b).map(|(a, b)| with_nil_arrays(a, b)).collect())
        }
        (_, three) => three.clone(),
    }
}

/// A scalar's text; `top` if nothing follows it on the line.
fn scalar(value: &Value, top: bool) -> Option<String> {
    Some(match value {
        Value::Simple(text) if text == b"OK" => "OK".into(),
        Value::Simple(text) => format!("+{}", status(text, top)),
        Value::Error(text) => format!("-{}", status(text, top)),
        Value::Int(number) => format!(":{number}"),
        Value::Bulk(text) => quote(text),
        Value::Nil => "nil".into(),
        Value::NilArray => "nil-array".into(),
        Value::Double(text) => format!(",{}", String::from_utf8_lossy(text)),
        Value::BigNumber(text) => format!("({}", String::from_utf8_lossy(text)),
        Value::Bool(flag) => if *flag { "#t" } else { "#f" }.into(),
        Value::Verbatim(format, text) => {
            format!("={}:{}", String::from_utf8_lossy(format), quote(text))
        }
        Value::Array(items) if items.is_empty() => "[]".into(),
        Value::Set(items) if items.is_empty() => "~[]".into(),
        Value::Push(items) if items.is_empty() => ">[]".into(),
        Value::Map(pairs) if pairs.is_empty() => "{}".into(),
        _ => return None,
    })
}

/// The text of a simple string or an error, quoted if it could not be read back otherwise.
fn status(text: &[u8], top: bool) -> String {
    let plain = |&byte: &u8| match byte {
        b' ' => top,
        b',' | b']' | b'}' | b'&' => top,
        _ => byte.is_ascii_graphic(),
    };
    let edges = text.first() == Some(&b'"') || text.last() == Some(&b' ') || text.is_empty();
    if text.iter().all(plain) && !edges && text.len() < 400 {
        String::from_utf8_lossy(text).into_owned()
    } else {
        quote(text)
    }
}

fn brackets(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Map(_) => ("{", "}"),
        Value::Set(_) => ("~[", "]"),
        Value::Push(_) => (">[", "]"),
        _ => ("[", "]"),
    }
}

/// The members of an aggregate; a map's as (key, value), the others' alone.
fn members(value: &Value) -> Vec<(Option<&Value>, &Value)> {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().map(|item| (None, item)).collect()
        }
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (Some(key), value)).collect(),
        _ => Vec::new(),
    }
}

fn nested(value: &Value) -> String {
    if let Some(text) = scalar(value, false) {
        return text;
    }
    let (open, close) = brackets(value);
    let member = |(key, value): &(Option<&Value>, &Value)| match key {
        Some(key) => format!("{} => {}", nested(key), nested(value)),
        None => nested(value),
    };
    let members: Vec<String> = members(value).iter().map(member).collect();
    format!("{open} {} {close}", members.join(", "))
}

fn broken(value: &Value, top: bool, indent: usize, out: &mut Vec<String>) {
    let text = scalar(value, top).unwrap_or_else(|| nested(value));
    let at = out.last().map_or(0, String::len);
    let members = members(value);
    if at + text.len() <= WIDTH || members.is_empty() {
        return append(out, &text);
    }
    let (open, close) = brackets(value);
    append(out, open);
    for (at, (key, value)) in members.iter().enumerate() {
        out.push(" ".repeat(indent + 2));
        if let Some(key) = key {
            append(out, &format!("{} => ", nested(key)));
        }
        broken(value, false, indent + 2, out);
        if at + 1 < members.len() {
            append(out, ",");
        }
    }
    out.push(" ".repeat(indent));
    append(out, close);
}

fn append(out: &mut [String], text: &str) {
    if let Some(last) = out.last_mut() {
        last.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wire: &str, text: &str) {
        let (value, _) = crate::value::read(wire.as_bytes()).unwrap().unwrap();
        assert_eq!(line(&value), text);
        let pattern = Pattern::parse(text).unwrap();
        assert!(pattern.matches(&value, Resp::Three, false), "{text}");
    }

    #[test]
    fn every_type_is_read_back() {
        check("+OK\r\n", "OK");
        check("+PONG it, is\r\n", "+PONG it, is");
        check("-ERR a 'b'\r\n", "-ERR a 'b'");
        check("-ERR a \r\n", "-\"ERR a \"");
        check("*3\r\n+a b\r\n-E x\r\n+w\r\n", "[ +\"a b\", -\"E x\", +w ]");
        check("*2\r\n$-1\r\n*0\r\n", "[ nil, [] ]");
        check("%1\r\n$1\r\nk\r\n,1.5\r\n", "{ \"k\" => ,1.5 }");
        check("~1\r\n#t\r\n", "~[ #t ]");
        check(">1\r\n(12\r\n", ">[ (12 ]");
        check("=5\r\ntxt:a\r\n", "=txt:\"a\"");
    }

    #[test]
    fn long_replies_are_broken_and_read_back() {
        let item = Value::Bulk(vec![b'a'; 60]);
        let deep = Value::Map(vec![(item.clone(), Value::Array(vec![item.clone(), item]))]);
        let text = lines(&deep);
        assert!(text.len() > 3, "{text:?}");
        let pattern = Pattern::parse(&text.join("\n")).unwrap();
        assert!(pattern.matches(&deep, Resp::Three, false));
    }

    #[test]
    fn one_text_for_both_versions_where_it_can_be() {
        let nils = unified(&Value::NilArray, &Value::Nil).unwrap();
        assert_eq!(nils, Value::NilArray);
        let double = unified(&Value::Bulk(b"1".to_vec()), &Value::Double(b"1".to_vec())).unwrap();
        assert_eq!(double, Value::Double(b"1".to_vec()));
        assert!(unified(&Value::Int(1), &Value::Int(2)).is_none());
    }
}
