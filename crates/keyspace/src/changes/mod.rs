//! The course of a change of data, and what it publishes.
//!
//! ```text
//! undo <--before-- change --after--> effects, in the words of `event`
//! ```
//!
//! | file | what |
//! |---|---|
//! | `change` | the one way in which data changes, with what is done before and after |
//! | `undo` | keys as they were, for a command that may have to run again |
//! | `effects`, `event` | what others are told of it, and the events' names |
//!
//! Not here: operations on an opened key (`access/opened`); what a snapshot keeps (`snapshot`).

pub(crate) mod change;
pub(crate) mod effects;
pub mod event;
pub(crate) mod undo;
