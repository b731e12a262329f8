//! DEBUG RELOAD and LOADAOF: data goes through a file and back, for tests.
//!
//! Invariants
//! 1. Only one runs at a time, and it waits until no snapshot and no rewrite is being written.
//! 2. From before the save to the end writes wait, so that none is lost; clients are answered
//!    -LOADING while the data is incomplete.
//!
//! Tests: compat/transcripts/server/save.txt; the server's `tests/append_only.rs`.

use std::time::Duration;

use pantala_base::clock::monotonic_us;
use parking_lot::MutexGuard;

use pantala_commands::{Call, ClientError, CommandResult, error, options::is_word};
use pantala_engine::condition::states::States;
use pantala_keyspace::Scope;
use pantala_persistence::disk::RealDisk;

use crate::Operator;
use pantala_durability::loading::{self, AnswersLoading};
use pantala_durability::saving::{self, SaveFailure};
use pantala_durability::{journaling, rewriting};
use pantala_engine::Message;

#[derive(Default)]
struct Options {
    no_save: bool,
    no_flush: bool,
    merges: bool,
}

fn parse(words: &[&[u8]]) -> Result<Options, ClientError> {
    let mut options = Options::default();
    for word in words {
        let place = match word {
            word if is_word(word, "NOSAVE") => &mut options.no_save,
            word if is_word(word, "NOFLUSH") => &mut options.no_flush,
            word if is_word(word, "MERGE") => &mut options.merges,
            _ => {
                let only = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
                return Err(ClientError::text(only));
            }
        };
        *place = true;
    }
    Ok(options)
}

/// How often is checked whether others have ended.
const LOOK: Duration = Duration::from_millis(5);

/// The error when nothing was loaded.
fn failed(what: &str, why: &dyn std::fmt::Display) -> ClientError {
    tracing::warn!("{what}: {why}");
    ClientError::text("ERR Error trying to load the RDB dump, check server logs.")
}

pub(super) fn reload(call: &mut Call<'_, '_>) -> CommandResult {
    let options = parse(&call.args[2..])?;
    if call.keys.holds_everything() {
        return Err(error::not_in_multi("debug|reload").into());
    }
    let operator = Operator::of(call);
    let failed = |why: &dyn std::fmt::Display| failed("DEBUG RELOAD", why);
    let _others_run = operator.engine.lane.compensate();
    let alone = ReloadGuard::begin(operator).ok_or_else(|| failed(&"the server stops"))?;
    refuse_beside_a_copy(operator)?;
    if !options.no_save {
        save(operator).map_err(|unsaved| failed(&unsaved))?;
    }
    let settings = operator.engine.settings.current();
    let path = loading::find(&settings).map_err(|why| failed(&why))?;
    let path = path.ok_or_else(|| failed(&"there is no file"))?;
    let _others_wait = AnswersLoading::begin(&operator.durability);
    if !options.no_flush {
        forget_everything(call)?;
    }
    loading::load(&operator.durability, &path, options.merges).map_err(|why| failed(&why))?;
    // If the snapshot has other data than the append-only file, that begins anew.
    alone.rewrite();
    call.reply.ok();
    Ok(())
}

/// A full copy of a primary that is loaded beside the present data would be mixed with what is
/// loaded here.
fn refuse_beside_a_copy(operator: &Operator) -> Result<(), ClientError> {
    let is_loading = operator.engine.condition.lasting.now().intersects(States::LOADING_BESIDE);
    if is_loading { Err(error::LOADING) } else { Ok(()) }
}

/// Saves, after any other snapshot that is being written.
fn save(operator: &Operator) -> Result<(), SaveFailure> {
    loop {
        match saving::save(&operator.durability, "DEBUG RELOAD") {
            Err(SaveFailure::Busy) if !operator.engine.condition.shutdown.pause_for(LOOK) => {}
            ended => return ended,
        }
    }
}

/// Removes all data without recording it: the append-only file has it already, or will.
fn forget_everything(call: &mut Call<'_, '_>) -> CommandResult {
    let scope = *call.keys.scope();
    call.keys.set_scope(Scope { recorder: None, ..scope });
    let garbage = call.keys.flush_for_now()?;
    call.space().dispose(garbage, false, call.keys.scope().tally);
    let emptied = |_: &_| Ok::<_, ClientError>(Default::default());
    Operator::of(call).engine.change_functions(emptied)?;
    Ok(())
}

pub(super) fn load_steps(call: &mut Call<'_, '_>) -> CommandResult {
    if call.keys.holds_everything() {
        return Err(error::not_in_multi("debug|loadaof").into());
    }
    let operator = Operator::of(call);
    let failed = |why: &dyn std::fmt::Display| {
        tracing::warn!("DEBUG LOADAOF: {why}");
        ClientError::text("ERR")
    };
    let _others_run = operator.engine.lane.compensate();
    let _alone = ReloadGuard::begin(operator).ok_or_else(|| failed(&"the server stops"))?;
    refuse_beside_a_copy(operator)?;
    let layout = journaling::layout(&operator.engine.settings.current());
    let open = || layout.open(&RealDisk).map_err(|why| failed(&why));
    open()?.ok_or_else(|| failed(&"there is no append-only file"))?;
    let _others_wait = AnswersLoading::begin(&operator.durability);
    // From here on no turn is under way that has recorded something and not handed it over.
    forget_everything(call)?;
    operator.durability.appending.flush(&operator.engine.journal);
    let manifest = open()?.unwrap_or_default();
    loading::load_steps(&operator.durability, call.server, (&layout, &manifest))
        .map_err(|why| failed(&why))?;
    tracing::info!("the append-only file was loaded by DEBUG LOADAOF");
    call.reply.ok();
    Ok(())
}

/// While this lives, writes wait, no rewrite of the append-only file begins, no other reload runs,
/// and no SHUTDOWN saves.
struct ReloadGuard<'s> {
    operator: &'s Operator,
    has_rewrite: bool,
    #[expect(dead_code, reason = "held")]
    held: MutexGuard<'s, ()>,
}

impl<'s> ReloadGuard<'s> {
    /// Waits for the others; `None`: the server stops.
    fn begin(operator: &'s Operator) -> Option<Self> {
        let shutdown = &operator.engine.condition.shutdown;
        let held = loop {
            match operator.durability.writes_wait.try_lock() {
                Some(held) => break held,
                None if shutdown.pause_for(LOOK) => return None,
                None => {}
            }
        };
        operator.engine.condition.lasting.begin(States::PAUSED_WRITES);
        let mut alone = ReloadGuard { operator, has_rewrite: false, held };
        while operator.durability.appending.begin_rewrite(monotonic_us()).is_err() {
            if shutdown.pause_for(LOOK) {
                return None;
            }
        }
        alone.has_rewrite = true;
        Some(alone)
    }

    /// Ends with a rewrite of the append-only file, if there is one.
    fn rewrite(mut self) {
        if self.operator.durability.appending.is_running()
            && let Some(operator) = self.operator.arc()
        {
            self.has_rewrite = false;
            rewriting::go_on(&operator.durability, "DEBUG");
        }
    }
}

impl Drop for ReloadGuard<'_> {
    fn drop(&mut self) {
        if self.has_rewrite {
            self.operator.durability.appending.forgo_rewrite();
        }
        self.operator.engine.resume_writes();
        self.operator.engine.workers.post_all(&|| Message::PauseChanged);
    }
}
