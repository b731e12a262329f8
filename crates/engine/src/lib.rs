//! From a request to its reply, without a socket or thread of its own.
//!
//! ```text
//! admit    known? allowed? memory? too long for a worker?        execute, lane
//! lock     all partitions of its keys, or parked                 execute, scripts
//! handler  finds nothing: blocks in the queues of its keys       waiting
//! effects  become messages to other clients                      events, pubsub, tracking
//! ```
//!
//! It is driven by the threads that have a client's bytes: workers of the server, threads of the
//! slow lane, a replica that follows a primary, and the replay of a journal. It talks to the
//! threads that own connections through [`WorkerSet`] and [`Mailbox`], and calls no code of a
//! higher floor.
//!
//! Invariants
//! 1. No system call in the execution of a command, except to wake a sleeping thread while no
//!    partition is held.
//! 2. The engine starts no thread. Its driver does, and gives the engine a way to ask for one more
//!    (`lane::Lane::set_thread_starter`).
//! 3. Each decision is made in one place: whether a command may run (`execute`), whether the server
//!    is full (`condition::memory`), which clients are told of a change (`tracking::notifier`).
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
