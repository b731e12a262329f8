//! What one thread keeps for scripts: its interpreter, and the scripts it has met, so that the
//! shared store is asked once for each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pantala_base::hash::HashSeed;
use pantala_commands::{ClientError, Lane, Stop};
use pantala_scripting::{Script, Vm, VmLimits};

use super::known::{CachedScripts, MOST_WORKER_TEXT_BYTES, Program};
use super::store::{FirstBytes, Scripts, Sha, ShaMap, VmBytes};

/// The most scripts that a thread remembers.
const MOST_MET: usize = 1024;

thread_local! {
    static HERE: RefCell<ThreadScripts> = RefCell::new(ThreadScripts::default());
}

/// Scripts with their texts, by a hash of the text.
type BodyMap = HashMap<u64, (Box<[u8]>, Arc<CachedScripts>), BuildHasherDefault<FirstBytes>>;

struct ThreadScripts {
    vm: Option<Box<Vm>>,
    by_sha: ShaMap<Arc<CachedScripts>>,
    by_body: BodyMap,
    seed: HashSeed,
    flushes: u64,
    /// The memory of the interpreter, visible to other threads.
    bytes: Option<Arc<VmBytes>>,
}

impl Default for ThreadScripts {
    fn default() -> Self {
        ThreadScripts {
            vm: None,
            by_sha: ShaMap::default(),
            by_body: BodyMap::default(),
            seed: HashSeed::random(),
            flushes: 0,
            bytes: None,
        }
    }
}

impl ThreadScripts {
    fn notice_flush(&mut self, scripts: &Scripts) {
        let flushes = scripts.flushes();
        if self.flushes != flushes {
            self.flushes = flushes;
            self.by_sha.clear();
            self.by_body.clear();
            if let Some(vm) = &mut self.vm {
                vm.forget();
            }
        }
    }
}

fn is_there(known: &Arc<CachedScripts>) -> bool {
    !known.is_gone.load(Ordering::Acquire)
}

/// The script with this digest, in any case.
pub fn by_sha(scripts: &Scripts, sha: &[u8]) -> Option<Arc<CachedScripts>> {
    let mut name: Sha = sha.try_into().ok()?;
    name.make_ascii_lowercase();
    HERE.with_borrow_mut(|here| {
        here.notice_flush(scripts);
        if let Some(known) = here.by_sha.get(&name).filter(|known| is_there(known)) {
            known.is_called(scripts);
            return Some(Arc::clone(known));
        }
        let known = scripts.find(&name)?;
        known.is_called(scripts);
        if here.by_sha.len() >= MOST_MET {
            here.by_sha.clear();
        }
        here.by_sha.insert(name, Arc::clone(&known));
        Some(known)
    })
}

/// The script with this text; it is stored if it is new and compiles.
///
/// # Errors
/// It does not compile, or is too long for a worker.
pub fn by_body(scripts: &Scripts, body: &[u8], lane: Lane) -> Result<Arc<CachedScripts>, Stop> {
    let is_long = body.len() > MOST_WORKER_TEXT_BYTES;
    if is_long && lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    let met = HERE.with_borrow_mut(|here| {
        here.notice_flush(scripts);
        let (text, known) = here.by_body.get(&here.seed.hash(body))?;
        (**text == *body && is_there(known)).then(|| Arc::clone(known))
    });
    if let Some(known) = met {
        known.is_called(scripts);
        return Ok(known);
    }
    let script = Script::new(body).map_err(ClientError::bytes)?;
    let known = match scripts.find(script.sha()) {
        Some(known) => {
            known.is_called(scripts);
            known
        }
        None => {
            // A script that does not compile is not stored.
            let compiled = with_vm(scripts, |vm| vm.compile(&Arc::new(script)));
            compiled.and_then(|()| scripts.remember(body)).map_err(ClientError::bytes)?
        }
    };
    // A long one is looked up by its digest.
    if !is_long {
        HERE.with_borrow_mut(|here| {
            if here.by_body.len() >= MOST_MET {
                here.by_body.clear();
            }
            let hash = here.seed.hash(body);
            here.by_body.insert(hash, (body.into(), Arc::clone(&known)));
        });
    }
    Ok(known)
}

/// Compiles a script on this thread before partitions are taken for it. Errors are reported when it
/// runs.
#[cold]
pub fn compile(scripts: &Scripts, known: &CachedScripts) {
    if let Program::Script(script) = &known.program {
        let _told_later = with_vm(scripts, |vm| vm.compile(script));
    }
}

/// Works with this thread's interpreter. An interpreter that panics is not used again.
pub fn with_vm<R>(scripts: &Scripts, work: impl FnOnce(&mut Vm) -> R) -> R {
    let mut vm = HERE.with_borrow_mut(|here| {
        here.notice_flush(scripts);
        here.vm.take().unwrap_or_else(|| Box::new(Vm::new(VmLimits::default())))
    });
    vm.limit_memory(scripts.memory_limit_bytes());
    let result = work(&mut vm);
    HERE.with_borrow_mut(|here| {
        let bytes = here.bytes.get_or_insert_with(|| scripts.join());
        bytes.all.store(vm.memory_bytes(), Ordering::Relaxed);
        bytes.libraries.store(vm.library_bytes(), Ordering::Relaxed);
        here.vm = Some(vm);
    });
    result
}
