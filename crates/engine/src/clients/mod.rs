//! What is known of clients wherever a command runs, and how those are told that own them.
//!
//! | file | what |
//! |---|---|
//! | `directory` | where each client is, on a worker or between two |
//! | `mailbox` | what the threads that own connections are told |
//! | `presence` | whether the client of a command is still there |
//! | `permission` | whether its user may do what it asks for |
//! | `monitors` | MONITOR: every command, shown to those who watch |
//!
//! Not here: connections (the server); sessions (`pantala_commands`); who waits for a key
//! (`waiting`), and who hears of one (`pubsub`, `tracking`).

pub mod directory;
pub mod mailbox;
pub mod monitors;
pub mod permission;
pub mod presence;
