//! What a user may do, rule by rule.
//!
//! ```text
//! catalogue   the commands and their categories, by number
//! commands, patterns, databases     what rules of one kind allow
//! selector    one of each kind: what all of a request has to be allowed by
//! request     what is asked, and how it is refused
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
