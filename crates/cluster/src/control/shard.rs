//! A node's part in the control of its shard.
//!
//! ```text
//! no lease --Grant--> lease --Read--> another is the primary: follow it
//!                                 --> none, and this node may win: stand, wait, read, win
//! primary: each quarter of the TTL a keepalive, then a read that proves the key: the permission
//! ```
//!
//! Invariants
//! 1. This node leads only after its own transaction has put its key, or a read has shown it, bound
//!    to the lease that this node has now.
//! 2. `may_write` is true only within the permission of `fence`, and only while this node leads.
//! 3. Of an answer only the last request of its kind counts: older ones are dropped.
//! 4. Only replicas in the set that may win stand for election, and none that has promised not to.
//!
//! Not here: how requests are sent; retries are the ticks'. Tests: `simulation`.

use super::fence::{KeptAlive, WritePermission};
use super::store::{KnownPrimary, LeaseId, RequestId, ShardState, StoreAnswer, StoreRequest};
use crate::node::NodeId;

/// How often a keepalive is sent: this part of the TTL.
const ROUNDS_IN_TTL: u64 = 4;
/// A request that is not answered within this part of the TTL is given up.
const PATIENCE_IN_TTL: u64 = 4;
/// How long a candidate waits for others before the best one wins.
const ELECTION_US: u64 = 100_000;
/// How long a replica waits that still has a link to a primary which the store does not know.
const LINKED_US: u64 = 1_000_000;

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlInput {
    /// Time has passed.
    Tick,
    /// The store has answered, in this term.
    Answer(RequestId, StoreAnswer, u64),
    /// A request has failed.
    Failed(RequestId),
    /// The store says that the shard has changed.
    Changed(ShardState),
    /// The end of what this node has of the stream.
    Offset(u64),
    /// Whether the link to the primary is up.
    Link(bool),
    /// The replicas that have almost all of the stream, as the primary knows them.
    Synced(Vec<NodeId>),
    /// All nodes that may win have promised not to stand, for this long, in microseconds; they
    /// were asked at this time (monotonic, microseconds).
    Promised(u64, u64),
}

/// What the node has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlOrder {
    /// Ask the store.
    Ask(RequestId, StoreRequest),
    /// Be the primary, since this epoch.
    Lead(u64),
    /// Be a replica of this node; of none, if the shard has no primary.
    Follow(Option<NodeId>),
}

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    id: RequestId,
    sent_us: u64,
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Grant,
    KeepAlive,
    /// To see the state; with the keepalive before it, if that was answered: then it is a proof.
    Read(Option<KeptAlive>),
    Stand,
    /// To see whether this node is the best candidate.
    Count,
    Win,
    SetInSync,
}

/// The part of the node in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Not known yet.
    Unknown,
    /// A replica.
    Follows(Option<NodeId>),
    /// The primary since this epoch.
    Leads(u64),
}

/// The control of a shard at one of its nodes.
#[derive(Clone, Debug)]
pub struct ShardControl {
    my_id: NodeId,
    ttl_us: u64,
    part: Part,
    lease: Option<LeaseId>,
    permission: WritePermission,
    state: ShardState,
    /// The request under way; one at a time.
    pending: Option<Pending>,
    last_id: RequestId,
    /// When the next round begins.
    next_round_us: u64,
    /// When this node has stood for election.
    stood_us: Option<u64>,
    /// Since when the shard has no primary, as this node sees it.
    vacant_since_us: Option<u64>,
    /// The nodes of all sets that were asked for in place of the known one: any of these sets may
    /// be in force and not be known here.
    asked_in_sync: Vec<NodeId>,
    facts: Facts,
}

/// What the node knows of its replication.
#[derive(Clone, Debug, Default)]
struct Facts {
    offset: u64,
    is_linked: bool,
    synced: Vec<NodeId>,
    promised_until_us: u64,
}

impl ShardControl {
    /// The control at a node that has just started, at this time. Leases live for `ttl_us`. It may
    /// have promised before it was started not to stand, and has forgotten that: it waits as long
    /// as any promise lasts.
    pub fn new(my_id: NodeId, ttl_us: u64, now_us: u64) -> ShardControl {
        ShardControl {
            my_id,
            ttl_us,
            part: Part::Unknown,
            lease: None,
            permission: WritePermission::default(),
            state: ShardState::default(),
            pending: None,
            last_id: 0,
            next_round_us: 0,
            stood_us: None,
            vacant_since_us: None,
            asked_in_sync: Vec::new(),
            facts: Facts { promised_until_us: now_us + ttl_us, ..Facts::default() },
        }
    }

    /// Whether this node may acknowledge a write at this time (monotonic, microseconds).
    pub fn may_write(&self, now_us: u64) -> bool {
        matches!(self.part, Part::Leads(_)) && self.permission.holds(now_us)
    }

    /// When the permission to acknowledge writes ends (monotonic, microseconds); 0: there is none.
    pub fn permitted_until_us(&self) -> u64 {
        match self.part {
            Part::Leads(_) => self.permission.until_us(),
            Part::Unknown | Part::Follows(_) => 0,
        }
    }

    /// This node has handed its role over at this revision: it leads no more, though no state of
    /// the store has told it yet. States of earlier revisions say nothing any more, nor does what
    /// is being asked.
    pub fn yield_role(&mut self, revision: u64) {
        self.permission.end();
        self.pending = None;
        self.state.revision = self.state.revision.max(revision);
        if matches!(self.part, Part::Leads(_)) {
            self.part = Part::Follows(None);
        }
    }

    /// The shard is kept at another place in the store from now on: the request under way, and
    /// what this node has put among the candidates, were of the place before.
    pub fn change_place(&mut self) {
        (self.pending, self.stood_us) = (None, None);
    }

    /// The revision of the state that this control knows.
    pub fn revision(&self) -> u64 {
        self.state.revision
    }

    /// The lease of this node, if it has one.
    pub fn lease(&self) -> Option<LeaseId> {
        self.lease
    }

    /// Whether an election is under way, in which each moment counts.
    pub fn is_electing(&self) -> bool {
        self.vacant_since_us.is_some() && !matches!(self.part, Part::Leads(_))
    }

    /// The epoch since which this node leads.
    pub fn leads_since(&self) -> Option<u64> {
        match self.part {
            Part::Leads(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// The nodes beside this primary that may win: if all of them promise not to, nobody can take
    /// its place, whatever the store does. `None`: any node may.
    pub fn electors(&self) -> Option<Vec<NodeId>> {
        if self.state.in_sync.0.is_empty() {
            return None;
        }
        let known = self.state.in_sync.0.iter().chain(&self.asked_in_sync);
        let mut electors: Vec<NodeId> = known.copied().filter(|id| *id != self.my_id).collect();
        electors.sort_unstable();
        electors.dedup();
        Some(electors)
    }

    /// Promises the primary of this epoch not to stand for this long, in microseconds, as the store
    /// is silent. False if this node stands already, or if the store has not told it, since it was
    /// started, that this is the primary: there may be a later one. A node that kept promising to
    /// a primary which has lost its key would never stand.
    pub fn promise(&mut self, epoch: u64, lasts_us: u64, now_us: u64) -> bool {
        let stands = |pending: &Pending| {
            matches!(pending.purpose, Purpose::Stand | Purpose::Count | Purpose::Win)
        };
        let stands_now = self.stood_us.is_some() || self.pending.as_ref().is_some_and(stands);
        // After a restart it waits only for as long as its own leases live.
        if lasts_us > self.ttl_us
            || stands_now
            || self.state.primary.is_none_or(|known| known.epoch != epoch)
        {
            return false;
        }
        let until_us = now_us.saturating_add(lasts_us);
        self.facts.promised_until_us = self.facts.promised_until_us.max(until_us);
        true
    }

    /// Takes in what happens at this time (monotonic, microseconds); returns what is to be done.
    pub fn handle(&mut self, input: ControlInput, now_us: u64) -> Vec<ControlOrder> {
        let mut orders = Vec::new();
        let late_us = self.ttl_us / PATIENCE_IN_TTL;
        let is_late = |pending: &mut Pending| now_us >= pending.sent_us + late_us;
        self.pending.take_if(is_late);
        match input {
            ControlInput::Tick => {}
            ControlInput::Answer(id, answer, term) => {
                if let Some(pending) = self.pending.take_if(|pending| pending.id == id) {
                    self.take_answer(pending, answer, term, now_us, &mut orders);
                }
            }
            ControlInput::Failed(id) => {
                self.pending.take_if(|pending| pending.id == id);
                // The next tick asks again.
                return orders;
            }
            ControlInput::Changed(state) => self.take_state(state, now_us, &mut orders),
            ControlInput::Offset(offset) => self.facts.offset = offset,
            ControlInput::Link(is_up) => self.facts.is_linked = is_up,
            ControlInput::Synced(synced) => self.facts.synced = synced,
            ControlInput::Promised(asked_us, lasts_us) => {
                if matches!(self.part, Part::Leads(_)) {
                    self.permission.extend_by_promises(asked_us, lasts_us);
                }
            }
        }
        if self.pending.is_none() {
            self.ask_next(now_us, &mut orders);
        }
        orders
    }

    fn ask(
        &mut self,
        (purpose, request): (Purpose, StoreRequest),
        now_us: u64,
        orders: &mut Vec<ControlOrder>,
    ) {
        self.last_id += 1;
        self.pending = Some(Pending { id: self.last_id, sent_us: now_us, purpose });
        orders.push(ControlOrder::Ask(self.last_id, request));
    }

    /// Asks what has to be asked next, if anything.
    fn ask_next(&mut self, now_us: u64, orders: &mut Vec<ControlOrder>) {
        let Some(lease) = self.lease else {
            let request = (Purpose::Grant, StoreRequest::Grant(self.ttl_us));
            return self.ask(request, now_us, orders);
        };
        if now_us >= self.next_round_us {
            self.next_round_us = now_us + self.ttl_us / ROUNDS_IN_TTL;
            let request = (Purpose::KeepAlive, StoreRequest::KeepAlive(lease));
            return self.ask(request, now_us, orders);
        }
        if let Part::Leads(epoch) = self.part {
            let wanted = self.wanted_in_sync();
            if wanted != self.state.in_sync.0 {
                let is_new = |id: &NodeId| {
                    !self.state.in_sync.0.contains(id) && !self.asked_in_sync.contains(id)
                };
                if wanted.iter().any(is_new) {
                    // That one has promised nothing.
                    self.permission.forget_promises();
                }
                self.asked_in_sync.extend_from_slice(&wanted);
                self.asked_in_sync.sort_unstable();
                self.asked_in_sync.dedup();
                let request = StoreRequest::SetInSync(wanted, epoch, self.state.in_sync.1);
                let request = (Purpose::SetInSync, request);
                self.ask(request, now_us, orders);
            }
            return;
        }
        if self.state.primary.is_none() && self.may_stand(now_us) {
            match self.stood_us {
                None => {
                    let request = StoreRequest::Stand(lease, self.facts.offset);
                    self.ask((Purpose::Stand, request), now_us, orders);
                }
                // One that has a link still has what others may lack: it stands, and others wait
                // for it, but it does not win before the primary had time to come back.
                Some(_) if self.is_patient(now_us) => {}
                Some(stood_us) if now_us >= stood_us + ELECTION_US || self.have_all_stood() => {
                    self.ask((Purpose::Count, StoreRequest::Read), now_us, orders);
                }
                Some(_) => {}
            }
        }
    }

    /// This node and the replicas that have almost all; sorted.
    fn wanted_in_sync(&self) -> Vec<NodeId> {
        let mut wanted = self.facts.synced.clone();
        wanted.push(self.my_id);
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    fn may_stand(&self, now_us: u64) -> bool {
        // Where no other node is named that may win, this one was not asked to promise anything.
        let may_have_promised = self.state.in_sync.0.iter().any(|id| *id != self.my_id);
        self.state.revision > 0
            && self.state.may_win(self.my_id)
            && !(may_have_promised && now_us < self.facts.promised_until_us)
    }

    fn is_patient(&self, now_us: u64) -> bool {
        self.facts.is_linked && self.vacant_since_us.is_none_or(|since| now_us < since + LINKED_US)
    }

    fn have_all_stood(&self) -> bool {
        let (in_sync, _) = &self.state.in_sync;
        let has_stood = |id: &NodeId| self.state.candidates.iter().any(|(one, _)| one == id);
        !in_sync.is_empty() && in_sync.iter().all(has_stood)
    }

    fn take_answer(
        &mut self,
        pending: Pending,
        answer: StoreAnswer,
        term: u64,
        now_us: u64,
        orders: &mut Vec<ControlOrder>,
    ) {
        match (pending.purpose, answer) {
            (_, StoreAnswer::LeaseGone) => self.lose_lease(),
            (Purpose::Grant, StoreAnswer::Granted(lease)) => {
                self.lease = Some(lease);
                (self.stood_us, self.next_round_us) = (None, now_us);
            }
            (Purpose::KeepAlive, StoreAnswer::Alive(ttl_us)) => {
                let kept = KeptAlive { sent_us: pending.sent_us, ttl_us, term };
                self.ask((Purpose::Read(Some(kept)), StoreRequest::Read), now_us, orders);
            }
            (Purpose::Read(kept), StoreAnswer::State(state)) => {
                let is_mine =
                    |known: KnownPrimary| known.id == self.my_id && Some(known.lease) == self.lease;
                let is_mine = state.primary.is_some_and(is_mine);
                self.take_state(state, now_us, orders);
                if let (true, Some(kept), Part::Leads(_)) = (is_mine, kept, self.part) {
                    self.permission.extend(kept, term);
                }
            }
            (Purpose::Stand, StoreAnswer::Done(_)) => self.stood_us = Some(pending.sent_us),
            (Purpose::Count, StoreAnswer::State(state)) => {
                self.take_state(state, now_us, orders);
                let is_best = self.state.best_candidate() == Some(self.my_id);
                if let (true, None, Some(lease)) = (is_best, self.state.primary, self.lease) {
                    let request = StoreRequest::Win(lease, self.state.in_sync.1);
                    self.ask((Purpose::Win, request), now_us, orders);
                } else {
                    // The best one may have gone since: count again a little later.
                    self.stood_us = self.stood_us.map(|_| now_us);
                }
            }
            (Purpose::Win, StoreAnswer::Done(epoch)) => {
                self.stood_us = None;
                let lease = self.lease.unwrap_or_default();
                // States of earlier revisions, which may be on their way, say nothing any more.
                self.state.revision = self.state.revision.max(epoch);
                self.state.primary = Some(KnownPrimary { id: self.my_id, epoch, lease });
                self.state.in_sync = (vec![self.my_id], epoch);
                self.asked_in_sync.clear();
                self.lead(epoch, now_us, orders);
            }
            (Purpose::Stand | Purpose::Win | Purpose::SetInSync, StoreAnswer::Refused) => {
                self.stood_us = None;
                self.ask((Purpose::Read(None), StoreRequest::Read), now_us, orders);
            }
            (Purpose::SetInSync, StoreAnswer::Done(_)) => {
                self.ask((Purpose::Read(None), StoreRequest::Read), now_us, orders);
            }
            // An answer that does not fit its request says nothing.
            _ => {}
        }
    }

    /// What was bound to the lease is gone. A primary stays one in name until the store says who
    /// is: its permission ends by itself, as nobody can be another one before.
    fn lose_lease(&mut self) {
        (self.lease, self.stood_us) = (None, None);
    }

    fn lead(&mut self, epoch: u64, now_us: u64, orders: &mut Vec<ControlOrder>) {
        if self.part != Part::Leads(epoch) {
            self.permission.end();
            self.part = Part::Leads(epoch);
            // The permission begins with the next proof.
            self.next_round_us = now_us;
            orders.push(ControlOrder::Lead(epoch));
        }
    }

    /// Takes over a state of the shard that is not older than the known one.
    fn take_state(&mut self, state: ShardState, now_us: u64, orders: &mut Vec<ControlOrder>) {
        if state.revision < self.state.revision {
            return;
        }
        if state.in_sync.1 > self.state.in_sync.1 {
            // Those that were asked for in place of the one before are refused from now on.
            self.asked_in_sync.clear();
        }
        self.state = state;
        let primary = self.state.primary;
        match primary {
            None => self.vacant_since_us = self.vacant_since_us.or(Some(now_us)),
            Some(_) => (self.vacant_since_us, self.stood_us) = (None, None),
        }
        match (primary, self.part) {
            (Some(known), _) if known.id == self.my_id && Some(known.lease) == self.lease => {
                self.lead(known.epoch, now_us, orders);
            }
            (primary, part) => {
                // This node, in another life, is nobody to follow: its key will go.
                let primary = primary.map(|known| known.id).filter(|id| *id != self.my_id);
                if part != Part::Follows(primary) {
                    self.permission.end();
                    self.part = Part::Follows(primary);
                    orders.push(ControlOrder::Follow(primary));
                }
            }
        }
    }
}
