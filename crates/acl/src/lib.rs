//! Access control: users, their passwords and rules, as in valkey-server 9.1.2.
//!
//! ```text
//! Users --(name, password)--> User --> selectors --> commands, keys, channels, databases
//!                               ^ check(Request)
//! ```
//!
//! A [`User`] never changes: SETUSER makes another one, and a new [`Users`] that has it. The holder
//! of an `Arc<User>` uses it until it checks the version again ([`Acl`]).
//!
//! 1. A user has a root selector and any number of further ones; a request is allowed when one of
//!    them allows all of it. A selector's rules for commands are compiled when it is made: one bit
//!    per command.
//! 2. [`User::is_unrestricted`] is computed once, so unrestricted users are not checked at all.
//! 3. A change of users takes effect as a whole or not at all.
//! 4. [`User::describe`] is Valkey's own text, word for word; parsing it makes the same user.
//!
//! Commands are numbers of a [`Catalogue`], which the command table supplies.
//!
//! Not here: connections, which arguments are keys, replies, reading and writing files.
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

pub use acl::{Acl, VersionedUsers};
pub use error::{RuleError, SetUserError};
pub use log::{AclLog, AclRefusal, Context, LogEntry, Reason, TEXT_BYTES};
pub use rules::catalogue::{Catalogue, CatalogueEntry, CommandId};
pub use rules::category::{Categories, Category};
pub use rules::patterns::DefaultChannels;
pub use rules::request::{Access, AccessRequest, ChannelKind, Database, Denial};
pub use rules::selector::Selector;
pub use user::{User, UserId};
pub use users::{DEFAULT_NAME, Users};
