//! The command table: one row for each command, one file or directory for each family.
//!
//! ```text
//! name --> Command row --> keys, so locks --> handler(Call) --> reply, or Stop
//! ```
//!
//! A row ([`Command`]) is a constant that states everything about a command: arity, positions of
//! its keys, flags, categories, documentation, handler. The server reads what it needs from the
//! row; no command is told from others by its name. (One name is compared, a parent's: CLIENT
//! CACHING holds until the next command that is not CLIENT's.)
//!
//! A handler gets a [`Call`] and has five beats: parse everything (the first error ends it), open
//! the value, act, reply, publish. It ends with `Ok`, with an error for the client, or with the
//! request to be run again elsewhere or later ([`Stop`]); in the last two cases it has changed
//! nothing.
//!
//! Not here: commands about the server itself (CLIENT, CONFIG, INFO, DEBUG ...), which have the
//! same rows and calls but are in the crates `server` and `engine` (scripts, publishing); sockets,
//! threads, clocks.
//!
//! | folder | what |
//! |---|---|
//! | `rows` | the rows, and how they are found |
//! | `calls` | one command being run |
//! | `clients` | the state of a client between commands |
//! | `families` | the commands |
//! | `long_work` | commands of very many keys or elements, without holding up others |

#![forbid(unsafe_code)]

mod calls;
mod clients;
pub mod error;
pub mod families;
mod long_work;
pub mod options;
mod rows;
#[cfg(test)]
mod test_support;

pub use calls::aside::{for_ours, for_some, meant};
pub use calls::call::{
    Acknowledgements, Call, CommandResult, KeyWait, Lane, Locking, Park, Server, Stop,
    TimeoutReply, WaitedKeys,
};
pub use calls::errand::{AsyncRequest, ResumeGuard};
pub use calls::owned_args::OwnedArgs;
pub use clients::login::{Login, LoginLimits};
pub use clients::queue::{QueuedCommand, TransactionQueue, Watching};
pub use clients::session::{
    Protocol, ReplyMode, ServicePlace, Session, SharedText, Subscriptions, Tracking,
};
pub use clients::{client_line, permission};
pub use error::ClientError;
pub use rows::absent::ABSENT;
pub use rows::command::{
    Category, Command, Flags, FlagsOf, Group, Handler, IsSecret, Program, key_accesses,
    key_positions, slot_positions,
};
pub use rows::help::{help, reply_help};
pub use rows::keys::{
    ChannelSpec, Databases, Find, KeyAccess, KeyAccesses, KeyFlags, KeySpec, KeySpecStart,
};
pub use rows::registry::{CommandRef, Registry};
pub use rows::syntax;

/// The version of Redis that clients are told: they derive from it which commands exist. All of 7.4
/// is here, and redis-py caches nothing with an older one.
pub const REDIS_VERSION: &str = "7.4.0";
