//! What DEBUG turns off or on for the whole server, for tests.

use std::sync::atomic::{AtomicBool, Ordering};

use pantala_base::number::parse_i64;
use pantala_commands::{Call, Done};

use crate::shared::Shared;

/// All of them; off at the start.
#[derive(Default)]
pub struct Switches {
    /// SET-ACTIVE-EXPIRE 0: the sweep rests.
    is_sweep_off: AtomicBool,
    /// PAUSE-CRON 1: nothing is done that no client has asked for.
    is_housekeeping_paused: AtomicBool,
    /// SET-DISABLE-DENY-SCRIPTS 1: scripts may call DEBUG.
    may_scripts_debug: AtomicBool,
}

impl Switches {
    /// Whether expired keys stay until somebody meets them.
    pub fn does_sweep_rest(&self) -> bool {
        self.is_sweep_off.load(Ordering::Relaxed) || self.is_housekeeping_paused()
    }

    /// Whether an idle server does nothing of its own accord.
    pub fn is_housekeeping_paused(&self) -> bool {
        self.is_housekeeping_paused.load(Ordering::Relaxed)
    }

    /// Whether scripts may call DEBUG.
    pub fn may_scripts_debug(&self) -> bool {
        self.may_scripts_debug.load(Ordering::Relaxed)
    }
}

/// The number behind the name of the form; what is no number counts as 0.
fn is_on(call: &Call<'_, '_>) -> bool {
    parse_i64(call.args[2]).unwrap_or(0) != 0
}

pub(super) fn set_sweep(call: &mut Call<'_, '_>) -> Done {
    let is_off = !is_on(call);
    Shared::of(call).switches.is_sweep_off.store(is_off, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

pub(super) fn pause_housekeeping(call: &mut Call<'_, '_>) -> Done {
    let is_paused = is_on(call);
    let shared = Shared::of(call);
    shared.switches.is_housekeeping_paused.store(is_paused, Ordering::Relaxed);
    // Whoever sleeps makes up for it.
    shared.workers.post_all(|| crate::inbox::Message::LookUp);
    call.reply.ok();
    Ok(())
}

pub(super) fn let_scripts_debug(call: &mut Call<'_, '_>) -> Done {
    let may = is_on(call);
    Shared::of(call).switches.may_scripts_debug.store(may, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}
