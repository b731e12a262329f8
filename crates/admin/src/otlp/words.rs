//! Attributes and numbers in OTLP's JSON, and parsing of name-value lists in settings.

use serde_json::{Value, json};

use crate::host::AdminHost;

/// Parses `a=1,b=2`: names and values, trimmed.
pub(super) fn pairs(list: &str) -> Vec<(String, String)> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    list.split(',').filter_map(pair).collect()
}

/// One attribute.
pub(super) fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

/// An attribute with a number. This encoding writes 64-bit integers as text.
pub(super) fn number_attribute(name: &str, value: i64) -> Value {
    json!({"key": name, "value": {"intValue": value.to_string()}})
}

/// The attributes of this server: known ones, and those of the operator, which take precedence.
pub(super) fn resource(said: &str, host: &dyn AdminHost) -> Value {
    let info = host.info();
    let run_id = info.get("run_id").map(ToString::to_string).unwrap_or_default();
    let mut attributes = vec![
        ("service.name".to_owned(), "pantala".to_owned()),
        ("service.version".to_owned(), host.facts().version.to_owned()),
        ("service.instance.id".to_owned(), run_id),
    ];
    for (name, value) in pairs(said) {
        attributes.retain(|(known, _)| *known != name);
        attributes.push((name, value));
    }
    let attributes: Vec<Value> =
        attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    json!({ "attributes": attributes })
}

/// The instrumentation scope.
pub(super) fn scope() -> Value {
    json!({"name": "pantala", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_names_and_values() {
        let wanted = [("a", "1"), ("b", "x=y")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(pairs("a=1, b = x=y,nothing"), wanted);
        assert_eq!(pairs(""), []);
    }
}
