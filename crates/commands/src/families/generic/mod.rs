//! Keys, whatever their values.
//!
//! | file | commands |
//! |---|---|
//! | `presence` | DEL, UNLINK, EXISTS, TOUCH, TYPE |
//! | `expire` | EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST |
//! | `ttl` | TTL, PTTL, EXPIRETIME, PEXPIRETIME |
//! | `rename` | RENAME, RENAMENX |
//! | `copy` | COPY, MOVE |
//! | `scan` | KEYS, SCAN, RANDOMKEY |
//! | `dump` | DUMP, RESTORE |
//! | `transfer` | MIGRATE's work on the keys |
//! | `object` | OBJECT |
//! | `stick` | STICK, UNSTICK |
//!
//! Tests: compat/transcripts/generic.

mod copy;
mod dump;
mod expire;
mod object;
mod presence;
mod rename;
mod scan;
mod stick;
pub mod transfer;
mod ttl;

pub use dump::rdb_limits;

use crate::rows::command::Command;

pub(in crate::families) use expire::{give_deadline, record_deadline};

/// The rows of this family.
pub const ROWS: &[Command] = &[
    presence::DEL,
    presence::UNLINK,
    presence::EXISTS,
    presence::TOUCH,
    presence::TYPE,
    expire::EXPIRE,
    expire::PEXPIRE,
    expire::EXPIREAT,
    expire::PEXPIREAT,
    expire::PERSIST,
    ttl::TTL,
    ttl::PTTL,
    ttl::EXPIRETIME,
    ttl::PEXPIRETIME,
    rename::RENAME,
    rename::RENAMENX,
    copy::COPY,
    copy::MOVE,
    dump::DUMP,
    dump::RESTORE,
    dump::RESTORE_ASKING,
    scan::KEYS,
    scan::SCAN,
    scan::RANDOMKEY,
    object::OBJECT,
    stick::STICK,
    stick::UNSTICK,
];
