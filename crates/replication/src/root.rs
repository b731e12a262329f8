//! The state of replication: the stream, this server as a primary, and as a replica.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use pantala_commands::{Call, Lane, Server, Stop};
use pantala_durability::Durability;
use pantala_engine::{Engine, Message};
use pantala_psync::{Downstream, Phase};

use parking_lot::RwLock;

use crate::failover::Failover;
use crate::primary::{self, Primary};
use crate::replica::FollowState;

/// How long a client that asks for the stream's position waits for it to catch up.
const CATCH_UP_MOST: Duration = Duration::from_millis(100);

/// What is called when the role has changed.
pub type RoleChangeHook = Box<dyn Fn(&Replication) + Send + Sync>;

/// The state of replication: the stream, this server as a primary, and as a replica.
pub struct Replication {
    /// Runs commands.
    pub engine: Arc<Engine>,
    /// What the server keeps, and the role it does that in.
    pub durability: Arc<Durability>,
    /// The stream, the replicas, and how far each is.
    pub downstream: Arc<Downstream>,
    /// This server as a primary.
    pub primary: Primary,
    /// This server as a replica.
    pub following: FollowState,
    /// The FAILOVER under way, if any.
    pub failover: Failover,
    /// The id of this server as a node of a cluster, which primaries are told; empty: it is none.
    pub node_id: RwLock<String>,
    role_changed: RoleChangeHook,
    server: OnceLock<Weak<dyn Server>>,
    self_ref: Weak<Replication>,
}

impl Replication {
    /// The state of a server that has just started: a primary without replicas.
    pub fn new(engine: Arc<Engine>, role_changed: RoleChangeHook) -> Arc<Replication> {
        Arc::new_cyclic(|self_ref: &Weak<Replication>| {
            let told = Weak::clone(self_ref);
            let stream_grew = move || {
                if let Some(replication) = told.upgrade() {
                    stream_grew(&replication);
                }
            };
            let durability = Durability::new(Arc::clone(&engine), Box::new(stream_grew));
            Replication {
                engine,
                downstream: Arc::clone(&durability.downstream),
                primary: Primary::default(),
                following: FollowState::new(Arc::clone(&durability.role)),
                failover: Failover::default(),
                node_id: RwLock::default(),
                durability,
                role_changed,
                server: OnceLock::new(),
                self_ref: Weak::clone(self_ref),
            }
        })
    }

    /// The state of the server that runs this call.
    pub fn of<'c>(call: &Call<'c, '_>) -> &'c Replication {
        call.server.part()
    }

    /// Sets the server that runs the commands of a primary's stream.
    pub fn set_server(&self, server: Weak<dyn Server>) {
        // There is one server.
        let _first = self.server.set(server);
    }

    /// The server that runs the commands of a primary's stream.
    pub(crate) fn server(&self) -> Arc<dyn Server> {
        let server = self.server.get().and_then(Weak::upgrade);
        server.unwrap_or_else(|| Arc::clone(&self.engine) as Arc<dyn Server>)
    }

    /// The state itself, for threads that will be started.
    pub fn arc(&self) -> Option<Arc<Replication>> {
        self.self_ref.upgrade()
    }

    /// Whether this server is a replica.
    pub fn is_replica(&self) -> bool {
        self.following.is_replica()
    }

    /// Whether replicas may follow: of a server that is a replica itself, only once it has its
    /// primary's data.
    pub fn may_be_followed(&self) -> bool {
        !self.is_replica() || self.following.is_connected()
    }

    /// Says that the role has changed.
    pub(crate) fn tell_role_changed(&self) {
        (self.role_changed)(self);
    }
}

/// Waits until everything that clients were answered is in the stream, before a client is told its
/// position. Only on a thread that may wait.
///
/// # Errors
/// This is no such thread: the command moves to the lane.
pub fn catch_up(call: &Call<'_, '_>) -> Result<(), Stop> {
    let replication = Replication::of(call);
    // Within a transaction its own changes hold the stream back.
    if !call.may_wait || !replication.durability.appending.is_fed() {
        return Ok(());
    }
    if call.lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    let coming = replication.durability.appending.position(&replication.engine.journal);
    // After that time the reported position is slightly old.
    let _late = coming.recv_timeout(CATCH_UP_MOST);
    Ok(())
}

/// The stream has grown: drops what is not needed, and calls the workers that have replicas.
pub fn stream_grew(replication: &Replication) {
    primary::let_go(replication);
    for replica in replication.downstream.replicas.all() {
        let follows = matches!(replica.phase(), Phase::Copying | Phase::Online);
        if follows && replica.call() {
            // A replica that has moved is called by its new worker itself.
            let _gone = replication.engine.workers.post(replica.worker(), Message::StreamGrew);
        }
    }
}
