//! What the engine knows of clients, and how it reaches the threads that own their connections.
//!
//! | file | what |
//! |---|---|
//! | `directory` | at which worker each client is, or that it is in transit |
//! | `filter` | the filters of CLIENT LIST and CLIENT KILL |
//! | `mailbox` | messages to the threads that own connections |
//! | `presence` | whether the client of a waiting command is still there |
//! | `permission` | whether a client's user may run a command |
//! | `monitors` | MONITOR |
//!
//! Not here: connections (the server); sessions (`pantala_commands`); blocked clients (`waiting`),
//! subscribers (`pubsub`) and tracking (`tracking`).

pub mod directory;
pub mod filter;
pub mod mailbox;
pub mod monitors;
pub mod permission;
pub mod presence;
