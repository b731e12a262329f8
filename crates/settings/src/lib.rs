//! Every setting of the server, declared once.
//!
//! A row (`row::Row`) holds a setting's name, kind, bounds, default and doc line. Flags,
//! redis.conf, environment, CONFIG GET, SET and REWRITE, `--help`, `docs/settings.md`, the manual
//! page and the completions of shells derive from the rows; no other place names a setting.
//!
//! ```text
//!   argv  flag file  environment  redis.conf        CONFIG SET       CONFIG GET, REWRITE
//!        \      |        |        /                     |                   ^
//!         `---- sources (precedence) ----> kind --> Settings (snapshot) ----'
//! ```
//!
//! Invariants
//! 1. A `Settings` is never changed in place once workers can see it: `set` makes a new one.
//! 2. A value that a setting does not allow never enters a `Settings`.
//!
//! Not here: any clock or socket; files, but for `sources::disk` (the rest gets them as `Sources`);
//! acting on a setting.
//! Tests: at the foot of each file; `tests/reference.rs` compares with Valkey's CONFIG GET.

#![forbid(unsafe_code)]

mod active;
mod dragonfly;
pub mod field;
mod help;
mod inert;
pub mod kind;
mod pages;
mod rewrite;
mod row;
mod shapes;
mod snapshot;
mod sources;

pub use active::Settings;
pub use pages::{Page, pages};
pub use row::{
    CarryRule, ChangeTime, OnChange, Row, RowFlags, SettingEffect, SettingGroup, find, rows,
};
pub use snapshot::{Caller, SetError};
pub use sources::disk::Disk;
pub use sources::start::{Launch, Rename, Sources, Start, UsageError};
pub use sources::users::{SavedUser, UserLine};
