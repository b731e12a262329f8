//! The current state of all libraries, and each thread's copy of it.
//!
//! FCALL uses its thread's copy, which is exchanged when the version has changed: so calls share
//! only a cache line that is read.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pantala_commands::ClientError;
use pantala_scripting::{Libraries, Library, LibraryFunction};
use parking_lot::Mutex;

use crate::scripts::known::CachedScripts;

/// A function with the history of its runs.
pub type Kept = Arc<CachedScripts>;

/// The libraries of functions in force, and their version. Threads keep a copy and exchange it when
/// the version changes.
#[derive(Default)]
pub struct Functions {
    current: Mutex<Arc<Libraries<Kept>>>,
    version: AtomicU64,
}

const NOT_FOUND: ClientError = ClientError::text("ERR Function not found");

/// A thread's copy.
#[derive(Default)]
struct ThreadLibraries {
    /// The address of the server's store: tests have several in one thread.
    server: usize,
    version: u64,
    libraries: Arc<Libraries<Kept>>,
}

thread_local! {
    static HERE: RefCell<ThreadLibraries> = RefCell::new(ThreadLibraries::default());
}

impl Functions {
    /// The present state. It never changes; loading makes another one.
    pub fn current(&self) -> Arc<Libraries<Kept>> {
        Arc::clone(&self.current.lock())
    }

    /// A function, by its name in any case.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn find(&self, name: &[u8]) -> Result<Kept, ClientError> {
        let (server, version) = (std::ptr::from_ref(self).addr(), self.version());
        HERE.with_borrow_mut(|here| {
            if here.version != version || here.server != server {
                *here = ThreadLibraries { server, version, libraries: self.current() };
            }
            here.libraries.function(name).cloned().ok_or(NOT_FOUND)
        })
    }

    /// The version, which changes with every change of a library.
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces the state by what `change` makes of it. Nothing changes on an error.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change<E>(
        &self,
        change: impl FnOnce(&Libraries<Kept>) -> Result<Libraries<Kept>, E>,
    ) -> Result<(), E> {
        let mut current = self.current.lock();
        let next = Arc::new(change(&current)?);
        let before = std::mem::replace(&mut *current, next);
        // After the change: a thread that sees the new version finds the new state, or a later one.
        self.version.fetch_add(1, Ordering::Release);
        drop(current);
        drop(before);
        Ok(())
    }
}

/// A function of a library, without a history.
pub fn keep(library: &Arc<Library>, function: &LibraryFunction) -> Kept {
    Arc::new(CachedScripts::function(Arc::clone(library), &function.name, function.flags))
}
