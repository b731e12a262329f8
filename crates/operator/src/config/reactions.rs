//! What the server does after a change of a setting. A setting's row names the kind of its change
//! ([`OnChange`]). This module says for each kind what is done, and in which order.
//!
//! Invariant: every [`OnChange`] but `Nothing` has one row.
//!
//! Not here: what must hold before a change (`checks`). Tests: at the foot.

use std::sync::Arc;

use pantala_durability::journaling;
use pantala_replication::{primary, replica};
use pantala_settings::{OnChange, Settings};

use crate::Operator;
use crate::parts::process::ProcessControl;

/// What is done when settings of one kind have changed.
pub(super) struct Reaction {
    pub(super) to: OnChange,
    /// Whether it opens files or sockets, or starts threads: CONFIG SET runs on the slow lane then.
    pub(super) takes_long: bool,
    /// Puts the settings into effect; the error says why that failed.
    pub(super) apply: fn(&Operator, &Settings) -> Result<(), String>,
}

const fn quick(to: OnChange, apply: fn(&Operator, &Settings) -> Result<(), String>) -> Reaction {
    Reaction { to, takes_long: false, apply }
}

const fn long(to: OnChange, apply: fn(&Operator, &Settings) -> Result<(), String>) -> Reaction {
    Reaction { to, takes_long: true, apply }
}

/// All reactions, in the order in which they run after one CONFIG SET: those that fail most easily
/// come last, so that little has to be undone.
pub(super) const REACTIONS: &[Reaction] = &[
    quick(OnChange::LogLevel, |operator, now| {
        process(operator)?.apply_log_settings(now);
        Ok(())
    }),
    quick(OnChange::Password, |operator, now| {
        operator.engine.apply_password(now);
        Ok(())
    }),
    quick(OnChange::Logs, |operator, _| {
        operator.engine.apply_log_settings();
        Ok(())
    }),
    quick(OnChange::Scripts, |operator, _| {
        operator.engine.apply_script_settings();
        Ok(())
    }),
    quick(OnChange::Events, |operator, _| {
        operator.engine.apply_event_settings();
        Ok(())
    }),
    quick(OnChange::Expiry, |operator, _| {
        operator.engine.apply_expiry_settings();
        Ok(())
    }),
    // The sweeper makes room; no command has to come for it.
    quick(OnChange::Memory, |operator, _| {
        operator.engine.space.wake_sweeper();
        Ok(())
    }),
    quick(OnChange::Policy, |operator, _| {
        operator.engine.space.policy_has_changed();
        operator.engine.space.wake_sweeper();
        Ok(())
    }),
    quick(OnChange::Replication, |operator, now| {
        primary::settings_changed(&operator.replication);
        replica::settings_changed(&operator.replication, now);
        Ok(())
    }),
    quick(OnChange::Saving, |operator, _| {
        operator.durability.saves.apply(&operator.engine);
        operator.engine.condition.shutdown.wake();
        Ok(())
    }),
    quick(OnChange::Title, |operator, _| {
        process(operator)?.show_title();
        Ok(())
    }),
    quick(OnChange::OomScore, |operator, now| process(operator)?.apply_oom_score(now)),
    // It waits for a change of the cluster that is being written.
    long(OnChange::Cluster, |operator, _| {
        if let Some(member) = operator.cluster.get() {
            member.apply_settings(operator);
        }
        Ok(())
    }),
    long(OnChange::AppendOnly, |operator, now| {
        journaling::settings_changed(&operator.durability, now)
    }),
    long(OnChange::Tls, |operator, _| {
        apply_tls(operator)?;
        // Files may have to be checked more often.
        operator.engine.condition.shutdown.wake();
        Ok(())
    }),
    long(OnChange::Listeners, apply_listeners),
    long(OnChange::Clients, |operator, now| {
        process(operator)?.keep_descriptors(now);
        Ok(())
    }),
    long(OnChange::Workers, |operator, now| {
        let process = process(operator)?;
        process.keep_descriptors(now);
        process.set_workers(now.worker_count())
    }),
];

/// Whether the reaction to such a change belongs on the slow lane.
pub(super) fn takes_long(change: OnChange) -> bool {
    REACTIONS.iter().any(|reaction| reaction.to == change && reaction.takes_long)
}

/// The parts of the process that settings change.
///
/// # Errors
/// The server stops, and they are gone.
pub(super) fn process(operator: &Operator) -> Result<Arc<dyn ProcessControl>, String> {
    operator.process().ok_or_else(|| "the server stops".to_owned())
}

fn apply_tls(operator: &Operator) -> Result<(), String> {
    let applied = operator.context.read_certificates();
    applied.map_err(|trouble| format!("Unable to update TLS configuration: {trouble}"))
}

/// Listens as the settings say. The first port with TLS needs certificates.
fn apply_listeners(operator: &Operator, now: &Settings) -> Result<(), String> {
    if now.tls_port != 0 && operator.context.tls.acceptor().is_none() {
        apply_tls(operator)?;
    }
    let mut listening = operator.context.listening.lock();
    let followed = listening.follow(now, &operator.workers);
    followed.map_err(|trouble| {
        tracing::warn!("CONFIG SET: cannot listen anew: {trouble}");
        "Unable to listen on this port. Check server logs.".to_owned()
    })?;
    process(operator)?.show_title();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_change_has_one_reaction() {
        let named = pantala_settings::rows().iter().map(|row| row.on_change);
        for change in named.filter(|change| *change != OnChange::Nothing) {
            let reactions = REACTIONS.iter().filter(|reaction| reaction.to == change);
            assert_eq!(reactions.count(), 1, "{change:?}");
        }
        assert!(takes_long(OnChange::Workers) && !takes_long(OnChange::Nothing));
    }
}
