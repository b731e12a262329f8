//! PSYNC ... FAILOVER: a primary asks this replica to take over its role.
//!
//! The role changes on a thread of its own, while the command waits without a thread. Like MIGRATE
//! the command is on an errand, and goes on as any PSYNC when the errand has ended.
//!
//! A Pantala adds FORCE if the replica may lack something. Without FORCE a replica that lacks
//! something refuses: it may have been restarted from an old file after its primary chose it. Other
//! primaries do not distinguish the two cases, and a replica obeys them.
//!
//! If a replica lacks something, the missing bytes may be in the kernel's buffer: the replica may
//! have been stopped for a while, and the primary may have closed the link since; bytes that it
//! sent before can still be read. So the role changes once the link has ended or everything has
//! arrived.
//!
//! Tests: compat/replication (`roles`).

use std::any::Any;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use pantala_base::number::parse_i64;
use pantala_commands::options::is_word;
use pantala_commands::{AsyncRequest, Call, ClientError, Lane, Park, ResumeGuard, Stop};

use crate::Replication;
use crate::replica;

const NOT_A_REPLICA: ClientError =
    ClientError::text("ERR PSYNC FAILOVER can't be sent to a master.");
const LACKS: ClientError =
    ClientError::text("ERR PSYNC FAILOVER: this replica does not have all of its primary's data.");
const OTHER_HISTORY: ClientError =
    ClientError::text("ERR PSYNC FAILOVER replid must match my replid.");

/// How often is checked whether the link has brought the rest.
const LOOK: Duration =
    if cfg!(test) { Duration::from_micros(10) } else { Duration::from_millis(1) };
/// How many times. What has arrived is read in far less; a link that goes on may bring no more.
const MOST_LOOKS: u32 = 500;

/// The errand of PSYNC ... FAILOVER: this replica becomes a primary, if it can with everything
/// before the position `end`.
struct TakeOver {
    replication: Arc<Replication>,
    end: u64,
}

impl TakeOver {
    /// Waits until the link to the primary has brought what was sent before it was closed.
    fn wait_for_rest(&self) {
        let (replication, condition) = (&self.replication, &self.replication.engine.condition);
        let is_behind = || replication.downstream.stream.end() < self.end;
        for _ in 0..MOST_LOOKS {
            if !is_behind() || !replication.following.is_connected() {
                return;
            }
            if condition.shutdown.pause_for(LOOK) {
                return;
            }
        }
    }
}

impl std::fmt::Debug for TakeOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TakeOver")
    }
}

impl AsyncRequest for TakeOver {
    fn begin(self: Arc<Self>, way_back: ResumeGuard) {
        let life = move || {
            self.wait_for_rest();
            if let Err(why) = replica::promote(&self.replication) {
                tracing::error!("this server does not take over: {why}");
            }
            drop(way_back);
            pantala_memory::release_seat();
        };
        let spawned = Builder::new().name("role".into()).spawn(life);
        if let Err(error) = spawned {
            tracing::error!("this server does not take over: cannot start a thread: {error}");
        }
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Returns once this server is a primary, as requested by a primary with the history `id`.
pub(super) fn take_over(call: &mut Call<'_, '_>, id: &[u8]) -> Result<(), Stop> {
    let replication = Replication::of(call);
    let has_tried = call.session.errand.take().is_some();
    let (is_replica, history) = replica::role_and_history(replication);
    match (is_replica, has_tried) {
        (false, true) => return Ok(()),
        (false, false) => return Err(NOT_A_REPLICA.into()),
        (true, true) => return Err(ClientError::text("ERR the role can not be changed").into()),
        (true, false) => {}
    }
    if history.id.as_str().as_bytes() != id {
        return Err(OTHER_HISTORY.into());
    }
    let is_forced = call.args.get(4).is_some_and(|word| is_word(word, "FORCE"));
    let is_ours = call.session.replica.as_ref().is_some_and(|one| one.announced().takes_own);
    let first = parse_i64(call.args[2]).and_then(|number| u64::try_from(number).ok());
    if is_ours && !is_forced && first.is_none_or(|first| first > history.end + 1) {
        return Err(LACKS.into());
    }
    if call.lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    let replication = replication.arc().ok_or(ClientError::text("ERR the server stops"))?;
    tracing::info!("the primary asks this server to take its place");
    // The position is that of the byte after what the primary has.
    let end = first.map_or(0, |first| first.saturating_sub(1));
    call.session.errand = Some(Arc::new(TakeOver { replication, end }));
    Err(Stop::Park(Park::Errand))
}
