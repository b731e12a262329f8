//! What a turn does beside serving commands.
//!
//! | file | what |
//! |---|---|
//! | `messages` | the inbox |
//! | `waiting` | blocked commands and their timeouts |
//! | `balance` | moving connections to workers that are less busy |
//! | `load` | how busy workers are |
//! | `spare` | spare buffers |

pub mod balance;
pub mod load;
pub mod messages;
pub mod spare;
pub mod waiting;
