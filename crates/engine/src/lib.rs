//! From a request to its reply, with no socket and no thread of its own.
//!
//! ```text
//! admit    known? allowed? memory? too long for a worker?        execute, lane
//! lock     all partitions of its keys, or parked                 execute, scripts
//! handler  finds nothing: waits in the queues of its keys        waiting
//! effects  become messages to other clients                      events, pubsub, tracking
//! ```
//!
//! Whoever has bytes of a client drives it: a worker of the server, a job of the slow lane, and
//! later what replays a journal or follows a primary. It speaks to the threads that own connections
//! through [`WorkerSet`] and [`Mailbox`], and never calls up.
//!
//! Invariants
//! 1. No system call on the way of a command, except to wake a thread that sleeps, with no
//!    partition held.
//! 2. It starts no thread: who drives it does, and gives it a way to ask for one more
//!    (`lane::Lane::set_thread_starter`).
//! 3. One place for each answer: whether a command may run (`execute`), whether the server is full
//!    (`condition::memory`), who is told of a change (`tracking::notifier`).
//!
//! Not here: connections, listeners, the process (`pantala-server`); what a command does
//! (`pantala-commands`); the interpreter (`pantala-scripting`).

#![forbid(unsafe_code)]

pub mod clients;
pub mod condition;
pub mod engine;
pub mod execute;
pub mod functions;
pub mod lane;
pub mod pubsub;
pub mod scripts;
pub mod stats;
pub mod tracking;
pub mod waiting;

pub use clients::mailbox::{Mailbox, Message, NoMailbox, WorkerSet};
pub use engine::Engine;
pub use engine::settings_cell::SettingsCell;
