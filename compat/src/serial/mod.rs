//! Is the server strictly serialisable? Random commands from several clients at once, few keys,
//! every written value unlike any other; then a proof, or that there is none, for what came back.
//!
//! ```text
//! model    what each command does to a few keys, and answers, when alone
//! kinds    lists, sorted sets, streams        programs   transactions and scripts
//! large    sets of thousands of members, which are read in steps
//! maker    what clients send, drawn at random
//! play     rounds: clients that send at the same time, and when they sent and heard
//! check    is there an order of the round's commands that explains every answer?
//! shrink   what matters of a history without one
//! ```
//!
//! A round is short, so that the search for an order is, and begins with known contents: those the
//! round before was seen to end with.

pub mod check;
pub mod kinds;
pub mod large;
pub mod maker;
pub mod model;
pub mod play;
pub mod programs;
pub mod shrink;
