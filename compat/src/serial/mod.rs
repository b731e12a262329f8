//! Is the server strictly serialisable? Several clients send random commands at the same time, to
//! few keys, with every written value different from all others. Then the answers are checked:
//! either a valid order of the commands is found, or it is shown that there is none.
//!
//! ```text
//! model    the effect of each command on a few keys, and its answer, when executed alone
//! kinds    lists, sorted sets, streams        programs   transactions and scripts
//! large    sets of thousands of members, which are read in steps
//! maker    the commands of the clients, drawn at random
//! play     rounds: clients that send at the same time, and when they sent and received
//! check    is there an order of the round's commands that explains every answer?
//! shrink   the relevant part of a history that has no such order
//! ```
//!
//! A round is short, so that the search for an order is short too. It begins with known contents:
//! those that were read at the end of the round before.

pub mod check;
pub mod kinds;
pub mod large;
pub mod maker;
pub mod model;
pub mod play;
pub mod programs;
pub mod shrink;
