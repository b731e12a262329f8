//! Accounts for long work of our functions: asks the host whether to continue, and checks the
//! memory limit where many values are made. Lua does neither while our functions run.
//!
//! 1. Between two checks at most `LOOK_EVERY` values are made, strings no longer than the argument
//!    they were read from. A table counts as `TABLE_WORK`: its slots may be many, and empty.
//! 2. Garbage is collected before anything is refused. A step that would then leave less than
//!    1/`FREE_PART` free is refused, so that collections are rare.
//! 3. The error of a script that must end cannot be caught (lpantala.c, `abortscript`); it need not
//!    be distinguished here.
//!
//! Tests: tests/libs_limits.rs, tests/endless.rs.

use mlua::{Error, Lua, Result};

use crate::bridge::Charge;

/// Work between two checks, in values.
const LOOK_EVERY: usize = 256;
/// The cost of a table's own slots.
pub(crate) const TABLE_WORK: usize = 32;
/// How many bytes cost as much as a value.
const BYTES_A_VALUE: usize = 256;
/// The instructions that a value counts as: mlua takes long for each.
const VALUE_INSTRUCTIONS: usize = 8;
const FREE_PART: usize = 8;

/// The memory limit of this VM in bytes, for functions that make many values at a time: Lua's own
/// limit is off while they run.
pub struct MemoryLimit(pub usize);

/// A stretch of work.
pub(crate) struct Budget<'a> {
    lua: &'a Lua,
    limit_bytes: usize,
    /// Work since the last check.
    done: usize,
}

impl<'a> Budget<'a> {
    pub fn open(lua: &'a Lua) -> Budget<'a> {
        let limit_bytes = lua.app_data_ref::<MemoryLimit>().map_or(0, |limit| limit.0);
        Budget { lua, limit_bytes, done: 0 }
    }

    /// Accounts for a value. `Err`: "not enough memory", or the script must end.
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        self.work(1)
    }

    /// Accounts for the bytes of a long value.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<()> {
        self.work(count / BYTES_A_VALUE)
    }

    /// Accounts for work of this many values.
    #[inline]
    pub fn work(&mut self, values: usize) -> Result<()> {
        self.done += values;
        if self.done >= LOOK_EVERY {
            return self.look();
        }
        Ok(())
    }

    /// Checks now.
    #[cold]
    pub fn look(&mut self) -> Result<()> {
        let instructions = self.done.saturating_mul(VALUE_INSTRUCTIONS);
        self.done = 0;
        let charge = self.lua.app_data_ref::<Charge>().map(|charge| charge.0.clone());
        if let Some(charge) = charge {
            charge.call::<()>(instructions)?;
        }
        self.fits(0)
    }

    /// Checks whether this many bytes more would be within the limit.
    pub fn fits(&self, more_bytes: usize) -> Result<()> {
        let used_bytes = || self.lua.used_memory().saturating_add(more_bytes);
        if self.limit_bytes == 0 || used_bytes() <= self.limit_bytes {
            return Ok(());
        }
        self.lua.gc_collect()?;
        if used_bytes() > self.limit_bytes - self.limit_bytes / FREE_PART {
            return Err(no_memory());
        }
        Ok(())
    }
}

/// Lua's error when memory is exhausted.
pub(super) fn no_memory() -> Error {
    Error::runtime("not enough memory")
}
