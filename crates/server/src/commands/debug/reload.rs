//! DEBUG RELOAD: through a file and back, for tests.
//!
//! Invariants
//! 1. One runs at a time: two would load the same keys.
//! 2. From before the save to the end changes of data wait, so that none is lost; other clients are
//!    answered -LOADING while the data is not whole.
//!
//! Tests: compat/transcripts/server/save.txt; tests/append_only.rs.

use std::sync::{MutexGuard, TryLockError};

use pantala_commands::{Call, ClientError, Done, error, options::is_word};
use pantala_engine::states::States;
use pantala_keyspace::Scope;

use crate::process::loading::{self, AnswersLoading};
use crate::process::{rewriting, saving};
use crate::shared::Shared;
use crate::workers::inbox::Message;

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

pub(super) fn reload(call: &mut Call<'_, '_>) -> Done {
    let options = parse(&call.args[2..])?;
    if call.keys.holds_everything() {
        return Err(error::not_in_multi("debug|reload").into());
    }
    let shared = Shared::of(call);
    let failed = |why: &dyn std::fmt::Display| {
        tracing::warn!("DEBUG RELOAD: {why}");
        ClientError::text("ERR Error trying to load the RDB dump, check server logs.")
    };
    let _writes_wait =
        WritesWait::begin(shared).ok_or_else(|| failed(&"another one has not ended"))?;
    if !options.no_save {
        saving::save(shared).map_err(|unsaved| failed(&unsaved))?;
    }
    let settings = shared.engine.settings.current();
    let path = loading::find(&settings).map_err(|why| failed(&why))?;
    let path = path.ok_or_else(|| failed(&"there is no file"))?;
    let _others_wait = AnswersLoading::begin(shared);
    // The append-only file has the data already; where the snapshot has other data, it begins anew.
    let scope = *call.keys.scope();
    call.keys.set_scope(Scope { recorder: None, ..scope });
    if !options.no_flush {
        let garbage = call.keys.flush(None)?;
        call.space().dispose(garbage, false, call.keys.scope().tally);
        let emptied = |_: &_| Ok::<_, ClientError>(Default::default());
        shared.engine.change_functions(emptied)?;
    }
    loading::load(shared, &path, options.merges).map_err(|why| failed(&why))?;
    if shared.appending.is_running()
        && let Some(shared) = shared.arc()
    {
        rewriting::begin(&shared);
    }
    call.reply.ok();
    Ok(())
}

/// Changes of data wait while it lives; there is one, and none while a SHUTDOWN saves.
struct WritesWait<'s>(&'s Shared, #[expect(dead_code, reason = "held")] MutexGuard<'s, ()>);

impl<'s> WritesWait<'s> {
    fn begin(shared: &'s Shared) -> Option<Self> {
        let held = match shared.writes_wait.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        shared.engine.condition.lasting.begin(States::PAUSED_WRITES);
        Some(WritesWait(shared, held))
    }
}

impl Drop for WritesWait<'_> {
    fn drop(&mut self) {
        self.0.engine.condition.lasting.end(States::PAUSED_WRITES);
        self.0.workers.post_all(|| Message::PauseChanged);
    }
}
