//! The rules of a user.
//!
//! ```text
//! catalogue   the commands and their categories, by number
//! commands, patterns, databases     what rules of one kind allow
//! selector    one of each kind, all of which must allow a request
//! request     the input of a check, and its refusal
//! words       rules as text
//! ```
//!
//! Not here: users, their names and passwords.

pub(crate) mod catalogue;
pub(crate) mod category;
pub(crate) mod commands;
pub(crate) mod databases;
pub(crate) mod patterns;
pub(crate) mod request;
pub(crate) mod selector;
pub(crate) mod words;
