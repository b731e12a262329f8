//! The course of a change of data, and what it publishes.
//!
//! ```text
//! undo <--before-- change --after--> effects, in the words of `event`
//! ```
//!
//! | file | what |
//! |---|---|
//! | `databases`, `change` | the tables; the one way in which they change, with before and after |
//! | `undo` | keys as they were, for a command that may have to run again |
//! | `key_change`, `event` | a change as observers hear of it, and the events' names |
//! | `listeners`, `effects`, `follow_ups` | what others are told of it, and when |
//!
//! Not here: operations on an opened key (`access/opened`); what a snapshot keeps (`snapshot`).

pub(crate) mod change;
pub(crate) mod databases;
pub(crate) mod effects;
pub mod event;
pub(crate) mod follow_ups;
pub(crate) mod key_change;
pub(crate) mod listeners;
pub(crate) mod undo;
