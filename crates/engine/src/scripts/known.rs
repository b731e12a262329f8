//! Known scripts and functions: what each is, and how its runs went so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use pantala_scripting::{Flags, Library, Script};

use super::store::Scripts;

/// The code to run.
#[derive(Clone, Debug)]
pub enum Program {
    /// A script, by EVAL or EVALSHA.
    Script(Arc<Script>),
    /// A function of a library, by FCALL.
    Function {
        /// The library.
        library: Arc<Library>,
        /// The function's name.
        name: Box<[u8]>,
    },
}

/// A run up to this long is quick, in microseconds.
pub const QUICK_US: u64 = 300;
/// This many quick runs on the lane let a script that was slow run on workers;
const QUICK_RUNS: u32 = 16;
/// for a new script a single one suffices.
const NEW: u8 = 0;
const QUICK: u8 = 1;
const SLOW: u8 = 2;
/// After this many runs in vain, because of busy partitions, a script is sent to the lane.
const VAIN_RUNS: u32 = 3;
/// A longer text may take seconds to compile, on each thread that runs it: so it never runs on a
/// worker, however quick it is once compiled.
pub const MOST_WORKER_TEXT_BYTES: usize = 64 << 10;

/// A script or function that the server knows. Its history is written only when it changes, so that
/// workers share the cache line.
#[derive(Debug)]
pub struct CachedScripts {
    /// What it is.
    pub program: Program,
    /// The flags that it declares.
    pub flags: Flags,
    /// It was loaded by SCRIPT LOAD, and stays until SCRIPT FLUSH.
    pub is_loaded: AtomicBool,
    /// How many scripts the store had been given when it was last called.
    pub called_at: AtomicU64,
    /// The store has dropped it; threads that still have it look it up again.
    pub is_gone: AtomicBool,
    /// Its text is too long for a worker.
    pub is_long: bool,
    pace: AtomicU8,
    quick_runs: AtomicU32,
    vain_runs: AtomicU32,
    needs_everything: AtomicBool,
}

impl CachedScripts {
    /// A script that never ran.
    pub fn script(script: Arc<Script>) -> CachedScripts {
        let flags = script.flags();
        CachedScripts::new(Program::Script(script), flags)
    }

    /// A function that never ran.
    pub fn function(library: Arc<Library>, name: &[u8], flags: Flags) -> CachedScripts {
        CachedScripts::new(Program::Function { library, name: name.into() }, flags)
    }

    fn new(program: Program, flags: Flags) -> CachedScripts {
        let text_bytes = match &program {
            Program::Script(script) => script.body().len(),
            Program::Function { library, .. } => library.code.len(),
        };
        CachedScripts {
            program,
            flags,
            is_loaded: AtomicBool::new(false),
            called_at: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            is_long: text_bytes > MOST_WORKER_TEXT_BYTES,
            pace: AtomicU8::new(NEW),
            quick_runs: AtomicU32::new(0),
            vain_runs: AtomicU32::new(0),
            needs_everything: AtomicBool::new(false),
        }
    }

    /// Notes a call.
    #[inline]
    pub fn is_called(&self, scripts: &Scripts) {
        let now = scripts.given();
        if self.called_at.load(Ordering::Relaxed) != now {
            self.called_at.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a worker may run it.
    pub fn is_quick(&self) -> bool {
        !self.is_long && self.pace.load(Ordering::Relaxed) == QUICK
    }

    /// Notes a run on the lane.
    pub fn ran_on_lane(&self, took_us: u64) {
        if took_us > QUICK_US {
            return self.was_slow();
        }
        match self.pace.load(Ordering::Relaxed) {
            NEW => self.pace.store(QUICK, Ordering::Relaxed),
            SLOW if self.quick_runs.fetch_add(1, Ordering::Relaxed) + 1 >= QUICK_RUNS => {
                self.pace.store(QUICK, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Notes that it took, or may take, longer than a worker can wait.
    pub fn was_slow(&self) {
        self.quick_runs.store(0, Ordering::Relaxed);
        self.pace.store(SLOW, Ordering::Relaxed);
    }

    /// Notes a run that was undone on a worker because of a busy partition; whether it is now to go
    /// to the lane.
    pub fn ran_in_vain(&self) -> bool {
        (self.vain_runs.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(VAIN_RUNS)
    }

    /// Whether it has gone through the whole keyspace before.
    pub fn needs_everything(&self) -> bool {
        self.needs_everything.load(Ordering::Relaxed)
    }

    /// Notes that it goes through the whole keyspace.
    pub fn wants_everything(&self) {
        self.needs_everything.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_slow_must_prove_itself() {
        let known = CachedScripts::script(Arc::new(Script::new(b"return 1").expect("no shebang")));
        assert!(!known.is_quick());
        known.ran_on_lane(QUICK_US);
        assert!(known.is_quick());
        known.was_slow();
        assert!(!known.is_quick());
        for _ in 0..QUICK_RUNS - 1 {
            known.ran_on_lane(QUICK_US);
        }
        assert!(!known.is_quick());
        known.ran_on_lane(QUICK_US);
        assert!(known.is_quick());
        known.ran_on_lane(QUICK_US + 1);
        assert!(!known.is_quick());
    }
}
