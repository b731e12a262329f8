//! The keeper: timed work for replicas, that is copies that are due, silent replicas, an unused
//! stream.
//!
//! It sleeps while no replica follows and nothing is kept. Tests: compat/replication; at the foot.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pantala_base::clock::monotonic_us;
use pantala_psync::{FollowerKind, Phase, Replica};
use pantala_settings::Settings;

use super::recipients::{CopyMode, Recipients};
use super::{close, copy, count_good, let_go, name};
use crate::Replication;
use pantala_durability::journaling;

/// How often it checks while replicas follow.
const TICK: Duration = Duration::from_secs(1);

/// The main loop of the keeper's thread.
pub(super) fn run(replication: &Weak<Replication>, woken: &Receiver<()>) {
    let mut alone_since_us = None;
    while let Some(replication) = replication.upgrade() {
        if replication.engine.condition.shutdown.is_final() {
            break;
        }
        let pause = look(&replication, &mut alone_since_us);
        drop(replication);
        let heard = match pause {
            Some(pause) => woken.recv_timeout(pause),
            None => woken.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if heard == Err(RecvTimeoutError::Disconnected) {
            break;
        }
        while woken.try_recv().is_ok() {}
    }
    pantala_memory::release_seat();
}

/// Does what is due; returns how soon to check again.
fn look(replication: &Arc<Replication>, alone_since_us: &mut Option<u64>) -> Option<Duration> {
    let now_us = monotonic_us();
    let settings = replication.engine.settings.current();
    let replicas = replication.downstream.replicas.all();
    replicas.iter().for_each(|replica| end_if_silent(replication, replica, now_us));
    if let Some(recipients) = replication.primary.copying() {
        recipients.keep_alive(replication);
        recipients.end_if_gone();
    }
    count_good(replication);
    tell_what_is_lacking(replication, &replicas);
    if replicas.is_empty() {
        return free_if_unused(replication, alone_since_us, now_us);
    }
    *alone_since_us = None;
    if replication.downstream.stream.free_unused() {
        let_go(replication);
    }
    let soon = begin_copy_if_due(replication, &settings, &replicas, now_us);
    Some(soon.unwrap_or(TICK).min(TICK))
}

/// Logs once for each replica of another kind that it does not get everything.
fn tell_what_is_lacking(replication: &Replication, replicas: &[Arc<Replica>]) {
    let asides = replication.engine.journal.asides();
    let (own, newer) = (asides.ours > 0, asides.newer > 0);
    for replica in replicas.iter().filter(|replica| replica.phase() == Phase::Online) {
        let what = match replica.announced().kind() {
            FollowerKind::Redis if own || newer => {
                "deadlines of members and fields, and other things"
            }
            FollowerKind::Valkey if own => "deadlines of members, and other things",
            _ => continue,
        };
        if replica.lacks_something() {
            tracing::warn!(
                replica = name(replica),
                "a replica of another kind does not get data that it does not know ({what}): see \
                 docs/followers.md and repl-refuse-unknown"
            );
        }
    }
}

/// Does what is due now, for tests without the thread.
pub fn look_once(replication: &Arc<Replication>) {
    look(replication, &mut None);
}

/// Closes a replica that has been silent for `repl-timeout`.
fn end_if_silent(replication: &Replication, replica: &Arc<Replica>, now_us: u64) {
    let most_us = u64::from(replication.engine.settings.current().repl_timeout_s) * 1_000_000;
    let follows = replica.phase() == Phase::Online || replica.has_copy();
    let may_be_silent = replica.is_silent() || replica.announced().only_copy;
    let silent_us = now_us.saturating_sub(replica.acknowledged().heard_us);
    if follows && !may_be_silent && silent_us > most_us {
        let what = if replica.phase() == Phase::Online { "streaming" } else { "full" };
        tracing::warn!("Disconnecting timedout replica ({what} sync): {}", name(replica));
        close(replication, replica);
    }
}

/// Begins the next full copy if a replica waits and none is being made. Returns when that is due,
/// if it is not yet.
fn begin_copy_if_due(
    replication: &Arc<Replication>,
    settings: &Settings,
    replicas: &[Arc<Replica>],
    now_us: u64,
) -> Option<Duration> {
    let waits = |replica: &&Arc<Replica>| replica.phase() == Phase::Waiting;
    let first = replicas.iter().find(waits)?;
    let is_stopping = replication.engine.condition.shutdown.is_preparing();
    if replication.primary.copying().is_some() || is_stopping {
        // Its end wakes this thread.
        return None;
    }
    let way = CopyMode::of(settings, first);
    let alike = |replica: &&Arc<Replica>| waits(replica) && CopyMode::of(settings, replica) == way;
    let together: Vec<_> = replicas.iter().filter(alike).cloned().collect();
    if way.is_direct {
        let since_us = together.iter().map(|one| one.acknowledged().heard_us).min();
        let due_us =
            since_us.unwrap_or(now_us) + u64::from(settings.repl_diskless_sync_delay_s) * 1_000_000;
        let most = settings.repl_diskless_sync_max_replicas as usize;
        let is_full = most > 0 && together.len() >= most;
        if !is_full && now_us < due_us {
            return Some(Duration::from_micros(due_us - now_us));
        }
    }
    let recipients = Arc::new(Recipients::new(together, way));
    if replication.primary.begin_copy(&recipients) {
        if replication.engine.condition.shutdown.is_preparing() {
            // Since the check: a preparing shutdown may have looked before the copy began.
            recipients.save.cancel();
        }
        copy::begin(replication, recipients);
    }
    None
}

/// Frees the backlog once there has been no replica for `repl-backlog-ttl`. Returns when that will
/// be.
fn free_if_unused(
    replication: &Replication,
    alone_since_us: &mut Option<u64>,
    now_us: u64,
) -> Option<Duration> {
    let ttl_s = replication.engine.settings.current().repl_backlog_ttl_s;
    let is_kept = replication.downstream.stream.history().is_kept && !replication.is_replica();
    if ttl_s == 0 || !is_kept {
        *alone_since_us = None;
        return None;
    }
    let since_us = *alone_since_us.get_or_insert(now_us);
    let left_us = since_us.saturating_add(ttl_s.saturating_mul(1_000_000)).saturating_sub(now_us);
    if left_us > 0 {
        return Some(Duration::from_micros(left_us));
    }
    *alone_since_us = None;
    // In this order: a replica that would go on is refused before it would miss something.
    replication.downstream.stream.stop_keeping();
    end_those_who_go_on(replication);
    journaling::stop_feeding(&replication.durability);
    replication.downstream.checkpoints.forget();
    tracing::info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
    None
}

/// Closes replicas that have come since the check and may have been let go on: they would miss
/// later changes. Those that wait for a copy would not.
fn end_those_who_go_on(replication: &Replication) {
    let replicas = replication.downstream.replicas.all();
    let go_on = replicas.iter().filter(|replica| replica.phase() != Phase::Waiting);
    go_on.for_each(|replica| close(replication, replica));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::replication;

    #[test]
    fn who_comes_while_the_stream_is_freed_is_closed_or_gets_a_copy() {
        let ttl_s = Settings::defaults().repl_backlog_ttl_s;
        let replication = &replication(Settings::defaults());
        replication.downstream.stream.begin_to_keep();
        let ask = |client| {
            let (replica, id) = (
                Arc::new(Replica::new(client, None, 0)),
                replication.downstream.stream.history().id,
            );
            let is_let = replication.downstream.replicas.go_on(
                &replica,
                &replication.downstream.stream,
                id,
                0,
                0,
            );
            (replica, is_let.is_ok())
        };
        // Both come after it was looked who is there.
        let (goes_on, is_let) = ask(1);
        assert!(is_let);
        let (waits, _) = ask(2);
        waits.set_phase(Phase::Waiting);
        let now_us = ttl_s * 1_000_000;
        assert_eq!(free_if_unused(replication, &mut Some(0), now_us), None);
        assert!(!replication.downstream.stream.history().is_kept);
        assert_eq!((goes_on.phase(), waits.phase()), (Phase::Gone, Phase::Waiting));
        assert_eq!(replication.downstream.replicas.all().len(), 1);
    }
}
