//! The store of scripts: those of SCRIPT LOAD until SCRIPT FLUSH, and of EVAL the [`EVALS_KEPT`]
//! called most recently.
//!
//! The time of a call is the count of scripts that the store was given by then. So calls write
//! nothing as long as there is no new script, and the script that was called longest ago is dropped
//! for a new one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pantala_scripting::{ErrorText, SHA_HEX_BYTES, Script};
use parking_lot::{Mutex, RwLock};

use super::known::{CachedScripts, Program};
use super::running::{BusyScripts, RunningNow};

/// Scripts of EVAL that are remembered; one more drops one that was not called for long.
const EVALS_KEPT: usize = 500;

/// A digest in hexadecimal.
pub type Sha = [u8; SHA_HEX_BYTES];

/// A map by digest. Some bytes of a digest serve as its hash.
pub type ShaMap<T> = HashMap<Sha, T, BuildHasherDefault<FirstBytes>>;

/// A hasher that takes the first bytes.
#[derive(Default)]
pub struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            // Hexadecimal digits differ only in their lower halves: these are spread, and brought
            // to both ends.
            self.0 = u64::from_le_bytes(*first).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Default)]
struct Store {
    by_sha: ShaMap<Arc<CachedScripts>>,
    /// Those that only EVAL has shown, in the order in which they came.
    evals: Vec<Arc<CachedScripts>>,
    bytes: usize,
    evicted: u64,
}

/// The scripts that EVALSHA finds, the memory limit of the interpreters, and their memory counters.
#[derive(Default)]
pub struct Scripts {
    store: RwLock<Store>,
    /// How many scripts of EVAL there were so far.
    given: AtomicU64,
    /// Changes when compiled scripts are to be dropped.
    flushes: AtomicU64,
    /// The memory limit of each interpreter, in bytes.
    memory_limit_bytes: AtomicUsize,
    vms: Mutex<Vec<Weak<VmBytes>>>,
    /// Scripts that have been running for a while.
    pub running: RunningNow,
    /// What scripts hold that have run for too long.
    pub busy: BusyScripts,
}

/// The memory of one thread's interpreter. Only that thread writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct VmBytes {
    /// The total, in bytes.
    pub all: AtomicUsize,
    /// Of it, that of libraries.
    pub libraries: AtomicUsize,
}

fn bytes_of(known: &CachedScripts) -> usize {
    match &known.program {
        Program::Script(script) => size_of::<CachedScripts>() + SHA_HEX_BYTES + script.body().len(),
        Program::Function { .. } => 0,
    }
}

impl Scripts {
    /// The script with this digest, in lower case.
    pub fn find(&self, sha: &[u8]) -> Option<Arc<CachedScripts>> {
        let sha: &Sha = sha.try_into().ok()?;
        let store = self.store.read();
        store.by_sha.get(sha).cloned()
    }

    /// The script with this digest, in any case; does not count as a call.
    pub fn find_any_case(&self, sha: &[u8]) -> Option<Arc<CachedScripts>> {
        let mut sha: Sha = sha.try_into().ok()?;
        sha.make_ascii_lowercase();
        self.find(&sha)
    }

    /// The script with this text; it is stored if it is new.
    ///
    /// # Errors
    /// The text of an error reply: its first line is malformed.
    pub fn remember(&self, body: &[u8]) -> Result<Arc<CachedScripts>, ErrorText> {
        let script = Script::new(body)?;
        if let Some(known) = self.find(script.sha()) {
            return Ok(known);
        }
        let sha = *script.sha();
        let known = Arc::new(CachedScripts::script(Arc::new(script)));
        let mut store = self.store.write();
        if let Some(earlier) = store.by_sha.get(&sha) {
            return Ok(Arc::clone(earlier));
        }
        store.bytes += bytes_of(&known);
        store.by_sha.insert(sha, Arc::clone(&known));
        known.called_at.store(self.given(), Ordering::Relaxed);
        self.given.fetch_add(1, Ordering::Relaxed);
        store.evals.push(Arc::clone(&known));
        while store.evals.len() > EVALS_KEPT {
            store.drop_one();
        }
        Ok(known)
    }

    /// How many scripts of EVAL there were so far.
    #[inline]
    pub fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// Keeps a script until SCRIPT FLUSH (SCRIPT LOAD).
    pub fn keep(&self, known: &Arc<CachedScripts>) {
        let mut store = self.store.write();
        if known.is_loaded.swap(true, Ordering::Relaxed) {
            return;
        }
        store.evals.retain(|other| !Arc::ptr_eq(other, known));
        // It may have been dropped a moment ago.
        let Program::Script(script) = &known.program else { return };
        if !store.by_sha.contains_key(script.sha()) {
            store.bytes += bytes_of(known);
            store.by_sha.insert(*script.sha(), Arc::clone(known));
            known.is_gone.store(false, Ordering::Release);
        }
    }

    /// Drops all scripts.
    pub fn flush(&self) {
        let mut store = self.store.write();
        for known in store.by_sha.values() {
            known.is_gone.store(true, Ordering::Release);
        }
        *store = Store { evicted: store.evicted, ..Store::default() };
        drop(store);
        self.forget_compiled();
    }

    /// Makes every thread compile its scripts again.
    pub fn forget_compiled(&self) {
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// Changes with every flush.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Sets the memory limit of each interpreter, from its next run on; 0: no limit.
    pub fn limit_memory(&self, bytes: usize) {
        self.memory_limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The memory limit of each interpreter, in bytes; 0: none.
    pub fn memory_limit_bytes(&self) -> usize {
        self.memory_limit_bytes.load(Ordering::Relaxed)
    }

    /// The counter of a new interpreter, summed while it lives.
    pub fn join(&self) -> Arc<VmBytes> {
        let bytes = Arc::new(VmBytes::default());
        self.vms.lock().push(Arc::downgrade(&bytes));
        bytes
    }

    /// The memory of all interpreters, and of it that of libraries, in bytes.
    pub fn vm_bytes(&self) -> (usize, usize) {
        let mut vms = self.vms.lock();
        vms.retain(|bytes| bytes.strong_count() > 0);
        vms.iter().filter_map(Weak::upgrade).fold((0, 0), |(all, libraries), bytes| {
            let of_libraries = bytes.libraries.load(Ordering::Relaxed);
            (all + bytes.all.load(Ordering::Relaxed), libraries + of_libraries)
        })
    }

    /// Counts those that are dropped from now on (CONFIG RESETSTAT).
    pub fn reset_evicted(&self) {
        self.store.write().evicted = 0;
    }

    /// The number of stored scripts, their bytes, and how many were dropped for newer ones.
    pub fn counts(&self) -> (usize, usize, u64) {
        let store = self.store.read();
        (store.by_sha.len(), store.bytes, store.evicted)
    }
}

impl Store {
    /// Drops the script of EVAL that was called longest ago; of several, the first that came.
    fn drop_one(&mut self) {
        let called_at = |at: &usize| self.evals[*at].called_at.load(Ordering::Relaxed);
        let Some(at) = (0..self.evals.len()).min_by_key(called_at) else { return };
        let oldest = self.evals.remove(at);
        oldest.is_gone.store(true, Ordering::Release);
        self.bytes -= bytes_of(&oldest);
        self.evicted += 1;
        if let Program::Script(script) = &oldest.program {
            self.by_sha.remove(script.sha());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha_of(known: &CachedScripts) -> Sha {
        match &known.program {
            Program::Script(script) => *script.sha(),
            Program::Function { .. } => panic!("a script"),
        }
    }

    #[test]
    fn who_is_called_stays() {
        let scripts = Scripts::default();
        let remember = |number: usize| {
            scripts.remember(format!("return {number}").as_bytes()).expect("no shebang")
        };
        let first: Vec<_> = (0..EVALS_KEPT).map(remember).collect();
        for known in [&first[0], &first[2], &first[499]] {
            known.is_called(&scripts);
        }
        remember(500);
        remember(501);
        let gone = |number: usize| first[number].is_gone.load(Ordering::Relaxed);
        assert_eq!([0, 1, 2, 3, 4, 499].map(gone), [false, true, false, true, false, false]);
        // If all of them were called, one is dropped nevertheless.
        for known in &first {
            known.is_called(&scripts);
        }
        let before = scripts.counts();
        remember(502);
        assert_eq!(scripts.counts().0, before.0);
        assert_eq!(scripts.counts().2, before.2 + 1);
        scripts.reset_evicted();
        assert_eq!(scripts.counts(), (before.0, before.1, 0));
    }

    #[test]
    fn who_is_loaded_when_it_has_just_been_dropped_is_there_again() {
        let scripts = Scripts::default();
        let first = scripts.remember(b"return 'first'").expect("no shebang");
        for number in 0..EVALS_KEPT {
            scripts.remember(format!("return {number}").as_bytes()).expect("no shebang");
        }
        let bytes = scripts.counts().1;
        scripts.keep(&first);
        assert!(scripts.find(&sha_of(&first)).is_some_and(|found| Arc::ptr_eq(&found, &first)));
        assert!(!first.is_gone.load(Ordering::Relaxed));
        assert_eq!(scripts.counts().1, bytes + bytes_of(&first));
    }

    #[test]
    fn the_oldest_of_eval_goes_and_what_was_loaded_stays() {
        let scripts = Scripts::default();
        let loaded = scripts.remember(b"return 'loaded'").expect("no shebang");
        scripts.keep(&loaded);
        let first = scripts.remember(b"return 'first'").expect("no shebang");
        for number in 0..EVALS_KEPT {
            scripts.remember(format!("return {number}").as_bytes()).expect("no shebang");
        }
        assert!(scripts.find(&sha_of(&first)).is_none());
        assert!(first.is_gone.load(Ordering::Relaxed));
        assert!(scripts.find(&sha_of(&loaded)).is_some());
        assert_eq!((scripts.counts().0, scripts.counts().2), (EVALS_KEPT + 1, 1));
        let before = scripts.flushes();
        scripts.flush();
        assert_eq!(scripts.counts().0, 0);
        assert!(scripts.flushes() > before && loaded.is_gone.load(Ordering::Relaxed));
    }

    #[test]
    fn interpreters_are_counted_while_they_live() {
        let scripts = Scripts::default();
        let (one, two) = (scripts.join(), scripts.join());
        one.all.store(3, Ordering::Relaxed);
        one.libraries.store(1, Ordering::Relaxed);
        two.all.store(4, Ordering::Relaxed);
        assert_eq!(scripts.vm_bytes(), (7, 1));
        drop(one);
        assert_eq!(scripts.vm_bytes(), (4, 0));
    }

    #[test]
    fn the_same_text_is_the_same_script() {
        let scripts = Scripts::default();
        let one = scripts.remember(b"return 1").expect("no shebang");
        let again = scripts.remember(b"return 1").expect("no shebang");
        assert!(Arc::ptr_eq(&one, &again));
    }
}
