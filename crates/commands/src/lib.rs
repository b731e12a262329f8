//! The command table: one row for each command, one file or directory for each family.
//!
//! ```text
//! name --> Command row --> keys, so locks --> handler(Call) --> reply, or Stop
//! ```
//!
//! A row ([`Command`]) is a constant that says everything about a command: arity, where its keys
//! are, flags, categories, documentation, handler. What the server needs to know it reads from the
//! row; no command is told from others by its name. (One name is compared, a parent's: what CLIENT
//! CACHING says holds until the next command that is not CLIENT's.)
//!
//! A handler gets a [`Call`] and has five beats: parse everything (the first error ends it), open
//! the value, act, reply, publish. It ends with `Ok`, with an error for the client, or with the
//! request to be run again elsewhere or later ([`Stop`]); in the last two cases it has changed
//! nothing.
//!
//! Not here: commands about the server itself (CLIENT, CONFIG, INFO, DEBUG ...): same rows, same
//! calls, but they are in the crates `server` and `engine` (scripts, publishing), which know those
//! things. Sockets, threads, clocks.

#![forbid(unsafe_code)]

mod absent;
mod by_partition;
mod call;
pub mod client_line;
mod command;
mod copy_and_swap;
mod draws;
mod errand;
pub mod error;
pub mod families;
mod help;
mod incremental;
mod keys;
mod login;
pub mod options;
mod owned_args;
pub mod permission;
mod queue;
mod record;
mod registry;
mod session;
pub mod syntax;
#[cfg(test)]
mod test_support;

pub use absent::ABSENT;
pub use call::{
    Acknowledged, AtTimeout, Call, Done, KeyWait, Lane, Locking, Park, Server, Stop, WaitedKeys,
};
pub use command::{Category, Command, Flags, FlagsOf, Group, Handler, IsSecret, Program};
pub use errand::{Errand, WayBack};
pub use error::ClientError;
pub use help::{help, reply_help};
pub use keys::{
    Begin, ChannelSpec, Databases, Find, KeyAccess, KeyAccesses, KeyFlags, KeySpec, key_accesses,
    key_positions,
};
pub use login::{Limits, Login};
pub use owned_args::OwnedArgs;

pub use queue::{Queue, Queued, Watching};
pub use registry::{CommandRef, Registry};
pub use session::{Place, Protocol, ReplyMode, Session, SharedText, Subscriptions, Tracking};
