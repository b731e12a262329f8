//! The texts of scripts' errors, in the reference's words.
//!
//! An uncaught error is a table by now (lpantala.c): `err`, and where it was raised.
//!
//! Tests: crates/scripting/tests/errors.rs.

use mlua::{Table, Value};

use crate::ErrorText;

/// The text of an error that ended a run: `... script: on @user_script:1.`
pub fn uncaught(error: &Value) -> ErrorText {
    let Value::Table(table) = error else { return [b"ERR ", &plain(error)[..]].concat() };
    let mut message = text_of(table);
    let (source, line) = (table.raw_get::<Value>("source"), table.raw_get::<Value>("line"));
    if let (Ok(Value::String(source)), Ok(Value::Integer(line))) = (source, line) {
        message.extend_from_slice(b" script: on ");
        message.extend_from_slice(&source.as_bytes());
        message.extend_from_slice(format!(":{line}.").as_bytes());
    }
    message
}

/// The text of an error without its place, for errors while a library loads.
pub fn bare(error: &Value) -> ErrorText {
    match error {
        Value::Table(table) => text_of(table),
        other => [b"ERR ", &plain(other)[..]].concat(),
    }
}

fn text_of(table: &Table) -> Vec<u8> {
    match table.raw_get::<Value>("err") {
        Ok(Value::String(text)) => text.as_bytes().to_vec(),
        _ => b"ERR unknown error".to_vec(),
    }
}

/// The text of an error without a table: there was no memory for one, or no stack.
pub fn plain(error: &Value) -> Vec<u8> {
    match error {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Error(error) => error.to_string().into_bytes(),
        other => other.type_name().as_bytes().to_vec(),
    }
}
