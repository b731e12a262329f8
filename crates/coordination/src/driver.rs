//! The task that watches the cluster in etcd, controls the shard of this node, and publishes what
//! follows.

use std::sync::Arc;
use std::time::Duration;

use pantala_cluster::control::{
    ControlInput, ControlOrder, RequestId, ShardControl, StoreAnswer, StoreRequest,
};
use pantala_cluster::{Membership, NodeId};
use pantala_etcd::{Etcd, EtcdAnswer, EtcdError, EtcdHeader, KeyValue, WatchEvent};
use tokio::sync::{mpsc, oneshot, watch};

use crate::CoordinationOptions;
use crate::entry::{self, EnteredCluster};
use crate::known::KnownCluster;
use crate::node::{CoordinatedNode, RoleTarget};
use crate::requests::{self, StorePlace, stored, view_of};
use crate::{promises, roles::RoleThread};

/// How often the control is told the time; and while an election is under way.
const TICKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(10));

/// What other tasks and threads tell the driver.
pub enum DriverRequest {
    /// The answer to a request of the control of this number.
    Answer(u64, RequestId, Result<(StoreAnswer, EtcdHeader), EtcdError>),
    /// The keys are to be listed anew.
    Refresh,
    /// The keys were listed anew.
    Refreshed(Result<EtcdAnswer<Vec<KeyValue>>, EtcdError>),
    /// Another node asks for a promise: the epoch in which it became the primary, and how long.
    Promise(u64, u64, oneshot::Sender<bool>),
    /// Nodes were asked for promises.
    Promised {
        /// All of them have promised.
        have_all: bool,
        /// Since which epoch this node led.
        epoch: u64,
        /// The nodes that were asked.
        electors: Vec<NodeId>,
        /// When they were asked.
        asked_us: u64,
        /// For how long, in microseconds.
        lasts_us: u64,
    },
    /// This node has another id, and is alone: CLUSTER RESET.
    Reset(Box<Membership>, oneshot::Sender<()>),
    /// The role of primary was handed over, at this revision.
    Yielded(u64, oneshot::Sender<()>),
    /// The node stops: its lease is given back.
    Stop(oneshot::Sender<()>),
}

/// The way of requests to the driver, and of what it publishes.
type DriverEnds = (
    watch::Sender<KnownCluster>,
    mpsc::UnboundedReceiver<DriverRequest>,
    mpsc::UnboundedSender<DriverRequest>,
);

/// The task.
pub struct Driver {
    node: Arc<dyn CoordinatedNode>,
    etcd: Etcd,
    options: CoordinationOptions,
    known: watch::Sender<KnownCluster>,
    requests: mpsc::UnboundedReceiver<DriverRequest>,
    to_myself: mpsc::UnboundedSender<DriverRequest>,
    role: RoleThread,
    /// The number of the control in force: answers to another one are dropped.
    generation: u64,
    is_over: bool,
    /// The stay that has ended, until the next one begins.
    left: Option<LeftStay>,
    /// Is told when the lease was given back.
    stopped: Option<oneshot::Sender<()>>,
}

/// The stay of the node in a cluster.
struct Stay {
    entered: EnteredCluster,
    id: NodeId,
    control: ShardControl,
    /// When etcd has answered last (monotonic, microseconds).
    heard_us: u64,
    asks_for_promises: bool,
    is_refreshing: bool,
}

/// What goes on from a stay to the next one.
struct LeftStay {
    id: NodeId,
    shard: NodeId,
    control: ShardControl,
}

/// How a stay goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stay,
    /// The cluster is to be entered anew, or another one.
    Enter,
    /// As [`Next::Enter`], and nothing that is known of etcd holds any more.
    BeginAnew,
}

impl Driver {
    /// A driver that has not begun.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn new(
        node: Arc<dyn CoordinatedNode>,
        etcd: Etcd,
        options: CoordinationOptions,
        (known, requests, to_myself): DriverEnds,
    ) -> Result<Driver, String> {
        let role = RoleThread::begin(Arc::clone(&node))?;
        Ok(Driver {
            node,
            etcd,
            options,
            known,
            requests,
            to_myself,
            role,
            generation: 0,
            is_over: false,
            left: None,
            stopped: None,
        })
    }

    /// Takes part until the node stops.
    pub async fn run(mut self) {
        while !self.is_over {
            if let Some(entered) = self.enter().await {
                let mut stay = self.begin_stay(entered);
                let next = self.stay(&mut stay).await;
                self.end_stay(stay, next).await;
            }
        }
        if let Some(told) = self.stopped.take() {
            _ = told.send(());
        }
    }

    fn membership(&self) -> Arc<Membership> {
        Arc::clone(&self.known.borrow().membership)
    }

    /// Enters the cluster of this node; `None`: what it would enter has changed, or it stops.
    async fn enter(&mut self) -> Option<EnteredCluster> {
        let (etcd, node) = (self.etcd.clone(), Arc::clone(&self.node));
        let wanted = (self.options.cluster_name.clone(), self.options.etcd.endpoints.clone());
        let known = self.known.borrow().clone();
        let entering = entry::enter(etcd, node, known, wanted);
        tokio::pin!(entering);
        loop {
            let request = tokio::select! {
                entered = &mut entering => return Some(entered),
                request = self.requests.recv() => request,
            };
            match request {
                None => self.is_over = true,
                Some(DriverRequest::Stop(done)) => {
                    (self.is_over, self.stopped) = (true, Some(done))
                }
                Some(DriverRequest::Reset(alone, done)) => {
                    self.become_alone(*alone);
                    _ = done.send(());
                }
                // Nothing is promised by a node that knows nothing yet: the sender is dropped.
                Some(_) => continue,
            }
            return None;
        }
    }

    /// This node knows only itself from now on.
    fn become_alone(&mut self, alone: Membership) {
        self.node.permit(0);
        self.options.cluster_name.clear();
        self.publish_membership(alone);
        self.known.send_modify(|known| known.name.clear());
    }

    fn begin_stay(&mut self, entered: EnteredCluster) -> Stay {
        let id = self.membership().my_id();
        tracing::info!("this node is in the cluster '{}', shard {}", entered.name, entered.shard);
        let control = match self.left.take() {
            Some(left)
                if (left.id, left.shard) == (id, entered.shard)
                    && left.control.revision() <= entered.view.revision() =>
            {
                left.control
            }
            left => {
                self.node.permit(0);
                if let Some(lease) = left.and_then(|left| left.control.lease()) {
                    self.revoke(lease);
                }
                self.new_control(id)
            }
        };
        Stay {
            entered,
            id,
            control,
            heard_us: self.node.now_us(),
            asks_for_promises: false,
            is_refreshing: false,
        }
    }

    fn new_control(&mut self, id: NodeId) -> ShardControl {
        self.generation += 1;
        let ttl_us = self.options.ttl_s * 1_000_000;
        ShardControl::new(id, ttl_us, self.node.now_us())
    }

    /// The lease goes, and with it what is bound to it. A node that only enters another cluster
    /// takes its shard along, and leads on.
    async fn end_stay(&mut self, stay: Stay, next: Next) {
        self.generation += 1;
        if !self.is_over && next == Next::Enter {
            let Stay { id, mut control, entered, .. } = stay;
            control.change_place();
            self.left = Some(LeftStay { id, shard: entered.shard, control });
            return;
        }
        self.node.permit(0);
        if let Some(lease) = stay.control.lease() {
            let revoking = self.etcd.revoke(lease.cast_signed());
            let most = Duration::from_millis(500);
            // Otherwise it ends by itself.
            let _late = tokio::time::timeout(most, revoking).await;
        }
    }

    /// Gives a lease back, which nobody waits for.
    fn revoke(&self, lease: u64) {
        let etcd = self.etcd.clone();
        tokio::spawn(async move { etcd.revoke(lease.cast_signed()).await });
    }

    async fn stay(&mut self, stay: &mut Stay) -> Next {
        if self.follow_view(stay) == Next::Enter {
            return Next::Enter;
        }
        let mut tick_at = tokio::time::Instant::now();
        loop {
            let next = tokio::select! {
                event = stay.entered.watch.next() => self.take_change(stay, event),
                event = stay.entered.place_watch.next() => take_place(event),
                request = self.requests.recv() => self.take_request(stay, request),
                () = tokio::time::sleep_until(tick_at) => {
                    let tick = if stay.control.is_electing() { TICKS.1 } else { TICKS.0 };
                    tick_at = tokio::time::Instant::now() + tick;
                    self.tick(stay)
                }
            };
            if next != Next::Stay || self.is_over {
                return next;
            }
        }
    }

    fn tick(&mut self, stay: &mut Stay) -> Next {
        let report = self.node.report();
        let inputs = [
            ControlInput::Offset(report.offset),
            ControlInput::Link(report.is_linked),
            ControlInput::Synced(report.synced),
            ControlInput::Tick,
        ];
        for input in inputs {
            self.control(stay, input);
        }
        self.ask_for_promises(stay);
        let is_heard = self.node.now_us() < stay.heard_us + self.options.ttl_s * 1_000_000;
        self.known
            .send_if_modified(|known| std::mem::replace(&mut known.is_heard, is_heard) != is_heard);
        Next::Stay
    }

    /// Hands an input to the control and carries out what it orders.
    fn control(&mut self, stay: &mut Stay, input: ControlInput) {
        let now_us = self.node.now_us();
        let orders = stay.control.handle(input, now_us);
        if orders.iter().any(|order| !matches!(order, ControlOrder::Ask(..))) {
            // Another node may have led since.
            self.node.permit(0);
        }
        self.node.permit(stay.control.permitted_until_us());
        for order in orders {
            match order {
                ControlOrder::Ask(id, request) => self.ask(stay, id, request),
                ControlOrder::Lead(epoch) => {
                    tracing::info!(epoch, "this node leads its shard");
                }
                ControlOrder::Follow(primary) => {
                    let name = primary.map_or_else(|| "none".into(), |id| id.to_string());
                    tracing::info!(primary = name, "the primary of the shard has changed");
                }
            }
        }
        self.want_role(stay);
        let (lease, leads_since) = (stay.control.lease(), stay.control.leads_since());
        self.known.send_if_modified(|known| {
            let was = (known.lease, known.leads_since);
            (known.lease, known.leads_since) = (lease, leads_since);
            was != (lease, leads_since)
        });
    }

    fn ask(&self, stay: &Stay, id: RequestId, request: StoreRequest) {
        let place = StorePlace {
            cluster: stay.entered.name.clone(),
            shard: stay.entered.shard,
            id: stay.id,
        };
        let offset = self.node.report().offset;
        let (etcd, told, generation) = (self.etcd.clone(), self.to_myself.clone(), self.generation);
        tokio::spawn(async move {
            let answer = requests::ask(&etcd, &place, offset, request).await;
            let _gone = told.send(DriverRequest::Answer(generation, id, answer));
        });
    }

    /// Wants the role that the control has decided, once the place of the primary is known.
    fn want_role(&self, stay: &Stay) {
        if let Some(epoch) = stay.control.leads_since() {
            return self.role.want(RoleTarget::Lead(epoch));
        }
        let view = &stay.entered.view;
        let Some((holder, offset)) = view.holder_of(stay.entered.shard) else { return };
        let is_primary = view.shard_state(stay.entered.shard).primary.is_some();
        let place = view.node(holder).map(|member| member.endpoint);
        if let (Some(place), true, true) = (place, is_primary, holder != stay.id) {
            self.role.want(RoleTarget::Follow(holder, place, offset));
        }
    }

    fn take_change(&mut self, stay: &mut Stay, event: WatchEvent) -> Next {
        match event {
            WatchEvent::Changes { revision, changes } => {
                stay.heard_us = self.node.now_us();
                let (name, view) = (&stay.entered.name, &mut stay.entered.view);
                let seen = view.revision();
                for (pair, is_put) in changes {
                    // What has changed before the keys were listed anew is known.
                    if pair.mod_revision > seen
                        && let Some((key, value)) = stored(name, &pair)
                    {
                        view.apply(revision, key, is_put.then_some(value));
                    }
                }
                view.advance(revision);
                self.follow_view(stay)
            }
            WatchEvent::Progress { revision } => {
                stay.entered.view.advance(revision);
                Next::Stay
            }
            WatchEvent::Compacted { .. } => {
                tracing::info!("etcd has compacted what this node has not seen: it lists anew");
                Next::Enter
            }
            WatchEvent::Lost(error) => {
                tracing::debug!("the watch of the cluster was lost: {error}");
                Next::Stay
            }
        }
    }

    /// The view has changed.
    fn follow_view(&mut self, stay: &mut Stay) -> Next {
        let Some(all) = stay.entered.view.membership(stay.id) else {
            tracing::info!("this node is not in the cluster '{}' any more", stay.entered.name);
            return Next::Enter;
        };
        let shard = all.me().shard;
        if shard != stay.entered.shard {
            stay.entered.shard = shard;
            if let Some(lease) = stay.control.lease() {
                self.revoke(lease);
            }
            stay.control = self.new_control(stay.id);
        }
        let state = stay.entered.view.shard_state(shard);
        self.publish(stay, all);
        self.control(stay, ControlInput::Changed(state));
        Next::Stay
    }

    fn publish(&mut self, stay: &Stay, all: Membership) {
        self.publish_membership(all);
        let (name, view) = (stay.entered.name.clone(), Arc::new(stay.entered.view.clone()));
        self.known.send_modify(|known| (known.name, known.view) = (name, view));
    }

    /// Puts a membership in force, if it is another one.
    fn publish_membership(&mut self, all: Membership) {
        if *self.membership() == all {
            return;
        }
        let all = Arc::new(all);
        self.node.adopt(&all);
        let node = Arc::clone(&self.node);
        tokio::task::spawn_blocking(move || node.keep());
        self.known.send_modify(|known| known.membership = all);
    }

    fn take_request(&mut self, stay: &mut Stay, request: Option<DriverRequest>) -> Next {
        match request {
            None => self.is_over = true,
            Some(DriverRequest::Answer(generation, id, answer)) => {
                if generation == self.generation {
                    return self.take_answer(stay, id, answer);
                }
            }
            Some(DriverRequest::Refresh) => self.refresh(stay),
            Some(DriverRequest::Refreshed(listed)) => {
                stay.is_refreshing = false;
                if let Ok(listed) = listed
                    && listed.header.revision >= stay.entered.view.revision()
                {
                    stay.entered.view = view_of(&stay.entered.name, &listed);
                    return self.follow_view(stay);
                }
            }
            Some(DriverRequest::Promise(epoch, lasts_us, told)) => {
                let now_us = self.node.now_us();
                _ = told.send(stay.control.promise(epoch, lasts_us, now_us));
            }
            Some(DriverRequest::Promised { have_all, epoch, electors, asked_us, lasts_us }) => {
                stay.asks_for_promises = false;
                let is_same = stay.control.leads_since() == Some(epoch)
                    && stay.control.electors() == Some(electors);
                if have_all && is_same {
                    self.control(stay, ControlInput::Promised(asked_us, lasts_us));
                }
            }
            Some(DriverRequest::Reset(alone, done)) => {
                self.become_alone(*alone);
                _ = done.send(());
                return Next::Enter;
            }
            Some(DriverRequest::Yielded(revision, done)) => {
                stay.control.yield_role(revision);
                self.node.permit(0);
                self.refresh(stay);
                _ = done.send(());
            }
            Some(DriverRequest::Stop(done)) => (self.is_over, self.stopped) = (true, Some(done)),
        }
        Next::Stay
    }

    fn take_answer(
        &mut self,
        stay: &mut Stay,
        id: RequestId,
        answer: Result<(StoreAnswer, EtcdHeader), EtcdError>,
    ) -> Next {
        match answer {
            Ok((answer, header)) => {
                if header.cluster_id != stay.entered.etcd_id {
                    tracing::error!("etcd is another cluster than before: this node enters anew");
                    return Next::BeginAnew;
                }
                stay.heard_us = self.node.now_us();
                let is_behind = self.look_for_lag(stay, &answer);
                // Slots that this node does not know to be gone are not to be served: no proof.
                let term = if is_behind { u64::MAX } else { header.raft_term };
                self.control(stay, ControlInput::Answer(id, answer, term));
            }
            Err(error) => {
                tracing::debug!("a request to etcd has failed: {error}");
                self.control(stay, ControlInput::Failed(id));
            }
        }
        Next::Stay
    }

    /// A state of the shard that was read and that the watch has not told is a sign that the watch
    /// is behind, or dead. Whether the slots have changed.
    fn look_for_lag(&mut self, stay: &mut Stay, answer: &StoreAnswer) -> bool {
        let StoreAnswer::State(read) = answer else { return false };
        let seen = stay.entered.view.shard_state(stay.entered.shard);
        let is_behind = read.slots_revision > seen.slots_revision;
        let differs = (&seen.primary, &seen.in_sync) != (&read.primary, &read.in_sync);
        if read.revision > seen.revision && (differs || is_behind) {
            self.refresh(stay);
        }
        is_behind
    }

    /// Lists the keys anew.
    fn refresh(&mut self, stay: &mut Stay) {
        if std::mem::replace(&mut stay.is_refreshing, true) {
            return;
        }
        let (etcd, told) = (self.etcd.clone(), self.to_myself.clone());
        let prefix = pantala_cluster::layout::cluster_prefix(&stay.entered.name);
        tokio::spawn(async move {
            let listed = etcd.list(prefix.as_bytes()).await;
            let _gone = told.send(DriverRequest::Refreshed(listed));
        });
    }

    /// A primary whose permission ends soon, as etcd is silent, asks the nodes that may take its
    /// place.
    fn ask_for_promises(&mut self, stay: &mut Stay) {
        let (now_us, ttl_us) = (self.node.now_us(), self.options.ttl_s * 1_000_000);
        let Some(epoch) = stay.control.leads_since() else { return };
        let is_late = !stay.control.may_write(now_us + ttl_us / 2);
        if !is_late || !self.options.has_failsafe || stay.asks_for_promises {
            return;
        }
        let Some(electors) = stay.control.electors() else { return };
        if electors.is_empty() {
            return self.control(stay, ControlInput::Promised(now_us, ttl_us));
        }
        let place = |id: &NodeId| stay.entered.view.node(*id).map(|member| member.endpoint);
        let places: Vec<_> = electors.iter().filter_map(place).collect();
        if places.len() == electors.len() {
            stay.asks_for_promises = true;
            let asked = (electors, places);
            promises::ask_all(&self.node, asked, (epoch, ttl_us), self.to_myself.clone());
        }
    }
}

/// This node was put into another cluster, by another node.
fn take_place(event: WatchEvent) -> Next {
    match event {
        WatchEvent::Changes { .. } | WatchEvent::Compacted { .. } => Next::Enter,
        WatchEvent::Progress { .. } | WatchEvent::Lost(_) => Next::Stay,
    }
}
