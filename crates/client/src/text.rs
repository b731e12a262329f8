//! Replies as text and pairs, in readable form.

use std::collections::BTreeMap;

use pantala_protocol::value::Value;

/// A text that cannot control a terminal: control characters except line ends become `?`. Empty for
/// a reply that is not text.
pub fn text_of(value: &Value) -> String {
    let bytes = match value {
        Value::Simple(bytes) | Value::Error(bytes) | Value::Bulk(bytes) => bytes,
        Value::Verbatim(_, bytes) => bytes,
        _ => return String::new(),
    };
    let shown = |char: char| if char.is_control() && !"\r\n".contains(char) { '?' } else { char };
    String::from_utf8_lossy(bytes).chars().map(shown).collect()
}

/// Names and values of a map, in either version of the protocol.
pub fn pairs_of(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(both) => both.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}

/// Parses a line of CLIENT LIST: `a=1 b=2`.
pub fn fields_of(line: &str) -> BTreeMap<String, String> {
    let fields = line.split(' ').filter_map(|field| field.split_once('='));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_moves_the_terminal() {
        let value = Value::Bulk(b"a\x1b[2Jb\xff\r\nc\xc2\x9b".to_vec());
        assert_eq!(text_of(&value), "a?[2Jb\u{fffd}\r\nc?");
        assert_eq!(text_of(&Value::Int(5)), "");
    }

    #[test]
    fn a_map_is_one_in_both_versions() {
        let (name, value) = (Value::Bulk(b"a".to_vec()), Value::Int(1));
        let flat = Value::Array(vec![name.clone(), value.clone(), name.clone()]);
        let map = Value::Map(vec![(name, value)]);
        assert_eq!(pairs_of(&flat), pairs_of(&map));
        assert!(pairs_of(&Value::Null).is_empty());
    }
}
