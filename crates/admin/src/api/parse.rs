//! Parses what browsers send as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A command and its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Its name and arguments.
    pub args: Vec<Vec<u8>>,
    /// The database, if one is named.
    pub db: Option<u32>,
}

/// Parses `{"run":[...],"db":0}`, ignoring other members.
///
/// # Errors
/// A text for the user.
pub(super) fn command(value: &Value) -> Result<Command, String> {
    let args = words(value.get("run").unwrap_or(&Value::Null))?;
    Ok(Command { args, db: database(value)? })
}

/// Parses the name and arguments of a command.
///
/// # Errors
/// A text for the user.
pub(super) fn words(value: &Value) -> Result<Vec<Vec<u8>>, String> {
    let words = value.as_array().ok_or("run is to be a list")?;
    if words.is_empty() {
        return Err("run is empty".into());
    }
    words.iter().map(argument).collect()
}

/// Parses the database beside one or many commands.
///
/// # Errors
/// A text for the user.
pub(super) fn database(value: &Value) -> Result<Option<u32>, String> {
    match value.get("db") {
        None | Some(Value::Null) => Ok(None),
        Some(db) => {
            let number = db.as_u64().and_then(|db| u32::try_from(db).ok());
            Ok(Some(number.ok_or("db is to be the number of a database")?))
        }
    }
}

/// Parses text, a number, or `{"base64":"..."}`.
fn argument(value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        Value::Object(fields) if fields.len() == 1 => {
            let text = fields.get("base64").and_then(Value::as_str);
            let bytes = text.and_then(|text| STANDARD.decode(text).ok());
            bytes.ok_or_else(|| "an object is to be {\"base64\":\"...\"}".into())
        }
        _ => Err("an argument is to be text, a number or {\"base64\":\"...\"}".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_text_numbers_or_bytes() {
        let value = json!({"run": ["SET", "k", 1.5, -2, {"base64": "/wA="}], "db": 3});
        let args = [&b"SET"[..], b"k", b"1.5", b"-2", b"\xff\0"].map(<[u8]>::to_vec).to_vec();
        assert_eq!(command(&value), Ok(Command { args, db: Some(3) }));
        assert_eq!(command(&json!({"run": ["PING"], "db": null})).map(|one| one.db), Ok(None));
    }

    #[test]
    fn anything_else_is_refused() {
        for value in [
            json!({}),
            json!([]),
            json!({"run": []}),
            json!({"run": "PING"}),
            json!({"run": ["SET", null]}),
            json!({"run": ["SET", ["k"]]}),
            json!({"run": ["SET", {"base64": "?"}]}),
            json!({"run": ["SET", {"base64": "", "more": 1}]}),
            json!({"run": ["PING"], "db": -1}),
            json!({"run": ["PING"], "db": "0"}),
        ] {
            assert!(command(&value).is_err(), "{value}");
        }
    }
}
