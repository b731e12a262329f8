//! Who may do what: users, their passwords and rules, as valkey-server 9.1.2 has them.
//!
//! ```text
//! Users --(name, password)--> User --> selectors --> commands, keys, channels, databases
//!                               ^ check(Request)
//! ```
//!
//! A [`User`] never changes: SETUSER makes another one, and a next [`Users`] that has it. Who holds
//! an `Arc<User>` goes on with what it says until it looks at the version again ([`Acl`]).
//!
//! 1. A user is a root selector and any number of further ones; a request is allowed when one of
//!    them allows all of it. What a selector says of commands is worked out when it is made: a bit
//!    for each command.
//! 2. [`User::is_unrestricted`] is worked out once, so who may do everything is not checked at all.
//! 3. A change of users is made as a whole or not at all.
//! 4. [`User::describe`] is Valkey's own text, word for word; what reads it makes the same user.
//!
//! Commands are numbers of a [`Catalogue`], which the command table supplies.
//!
//! Not here: connections, what arguments are keys, replies, reading and writing files.
//!
//! Tests: foot of the files.

#![forbid(unsafe_code)]

mod acl;
mod by_name;
mod error;
mod file;
mod log;
mod password;
mod rules;
mod user;
mod users;

pub use acl::{Acl, InForce};
pub use error::{RuleError, SetUserError};
pub use log::{Context, Log, LogEntry, Reason, Refusal, TEXT_BYTES};
pub use rules::catalogue::{Catalogue, CommandId, Entry};
pub use rules::category::{Categories, Category};
pub use rules::patterns::DefaultChannels;
pub use rules::request::{Access, ChannelKind, Database, Denied, Request};
pub use rules::selector::Selector;
pub use user::{User, UserId};
pub use users::{DEFAULT_NAME, Users};
