//! What a change of data passes on its way, and what it tells.
//!
//! ```text
//! undo <--before-- change --after--> effects, in the words of `event`
//! ```
//!
//! | file | what |
//! |---|---|
//! | `change` | the one way in which data changes, with what is told before and after |
//! | `undo` | keys as they were, for a command that may have to run again |
//! | `effects`, `event` | what others hear of it, and its words |
//!
//! Not here: what a key that is opened can do (`access/opened`); what a snapshot keeps
//! (`snapshot`).

pub(crate) mod change;
pub(crate) mod effects;
pub mod event;
pub(crate) mod undo;
