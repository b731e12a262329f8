//! Many new values at a time: Lua's own limit of memory is off while our functions run, so they
//! look themselves.
//!
//! 1. What is made between two looks is at most `LOOK_EVERY` values, strings no longer than the
//!    argument they were read from.
//! 2. Garbage is collected before a refusal. What is refused then is what leaves less than
//!    1/`FREE_PART` free, so that collections are as rare as they are useful.
//!
//! Tests: tests/libs_limits.rs.

use mlua::{Error, Lua, Result};

use crate::vm::MemoryLimit;

const LOOK_EVERY: u32 = 256;
const FREE_PART: usize = 8;

/// A stretch of work during which memory is watched.
pub(super) struct Budget<'a> {
    lua: &'a Lua,
    limit_bytes: usize,
    until_look: u32,
}

impl<'a> Budget<'a> {
    pub fn open(lua: &'a Lua) -> Budget<'a> {
        let limit_bytes = lua.app_data_ref::<MemoryLimit>().map_or(0, |limit| limit.0);
        Budget { lua, limit_bytes, until_look: LOOK_EVERY }
    }

    /// Called for each value. `Err`: "not enough memory".
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = LOOK_EVERY;
            return self.fits(0);
        }
        Ok(())
    }

    /// Whether so many bytes more would be within the limit.
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

/// What Lua says when there is none left.
pub(super) fn no_memory() -> Error {
    Error::runtime("not enough memory")
}
