//! Who may connect, log in and stay.
//!
//! | file | what |
//! |---|---|
//! | `accept` | new connections, and lost ones |
//! | `client_memory` | the memory limit of all clients |
//! | `limits` | how much output a connection may have |
//! | `logins` | the time that a login may take, and wrong passwords |
//! | `users` | the users in force |

pub mod accept;
mod client_memory;
pub mod limits;
pub mod logins;
pub mod users;
