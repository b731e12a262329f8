//! The state of a client between two commands.
//!
//! | file | what |
//! |---|---|
//! | `session` | all of it |
//! | `login` | its user, and its restrictions |
//! | `permission` | what a command needs of its user's rules |
//! | `queue` | its transaction |
//! | `client_line` | a line of CLIENT LIST |
//! | `meters` | what its worker knows of it |
//!
//! Not here: the commands about clients (CLIENT, AUTH ...: the server); connections.

pub mod client_line;
pub(crate) mod login;
mod meters;
pub mod permission;
pub(crate) mod queue;
pub(crate) mod session;
