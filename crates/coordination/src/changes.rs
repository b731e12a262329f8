//! Changes of the cluster by operators. Each runs on a thread that may wait, and is answered after
//! its transaction was done and this node has seen it.
//!
//! A transaction that is refused was decided from what is not so any more: the keys are listed
//! anew, and the change is decided again.

use std::fmt;
use std::time::Duration;

use pantala_cluster::control::StoreAnswer;
use pantala_cluster::layout::{
    Expectation, StoreWrite, Transaction, alive_key, change, cluster_prefix, join, leave,
    place_key, shard_key,
};
use pantala_cluster::{Endpoint, Membership, MembershipError, NodeId};
use pantala_etcd::EtcdError;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::driver::DriverRequest;
use crate::known::KnownCluster;
use crate::requests::{transact, view_of};
use crate::{Coordination, promises};

/// How often a change is decided again.
const MOST_TRIES: usize = 20;
/// The pause before it is decided again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long this node may take to see what it has changed, before it looks.
const LOOK: Duration = Duration::from_millis(300);
/// How long it may take in all.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// Why a slot cannot be taken.
const NOT_GIVEN: &str = "is not taken: its owner is up and has not agreed by SETSLOT MIGRATING";

/// Why the cluster has not changed. It prints as the error of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeFailure {
    /// The change is refused.
    Refused(MembershipError),
    /// etcd has not answered.
    Silent(String),
    /// Another reason.
    Other(String),
}

impl fmt::Display for ChangeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeFailure::Refused(why) => why.fmt(f),
            ChangeFailure::Silent(why) => {
                write!(f, "etcd does not answer, the change may have been made or not: {why}")
            }
            ChangeFailure::Other(why) => f.write_str(why),
        }
    }
}

impl From<EtcdError> for ChangeFailure {
    fn from(error: EtcdError) -> ChangeFailure {
        ChangeFailure::Silent(error.to_string())
    }
}

fn never_settled() -> ChangeFailure {
    ChangeFailure::Other("the cluster changes all the time: try again".into())
}

impl Coordination {
    fn ask_driver(&self, request: DriverRequest) {
        // The driver has ended: nothing will come of it, and the caller's wait ends.
        let _gone = self.requests.send(request);
    }

    /// Waits until what is known is so.
    fn wait_for(
        &self,
        is_so: impl Fn(&KnownCluster) -> bool,
    ) -> Result<KnownCluster, ChangeFailure> {
        self.wait_within(MOST_WAIT, is_so)
    }

    /// Waits until what is known is so, within this time.
    fn wait_within(
        &self,
        most: Duration,
        is_so: impl Fn(&KnownCluster) -> bool,
    ) -> Result<KnownCluster, ChangeFailure> {
        let mut known = self.known.clone();
        let tries = most.as_millis().div_ceil(LOOK.as_millis());
        self.runtime.block_on(async {
            for _ in 0..tries {
                if let Ok(Ok(known)) = timeout(LOOK, known.wait_for(|known| is_so(known))).await {
                    return Ok(known.clone());
                }
                self.ask_driver(DriverRequest::Refresh);
            }
            Err(ChangeFailure::Silent("this node does not see what it has changed".into()))
        })
    }

    /// What is known at this revision or later.
    fn refreshed(&self, revision: u64) -> Result<KnownCluster, ChangeFailure> {
        self.ask_driver(DriverRequest::Refresh);
        self.wait_for(|known| known.view.revision() >= revision)
    }

    /// What is known, with everything that was done before this call.
    fn up_to_date(&self) -> Result<KnownCluster, ChangeFailure> {
        let key = place_key(self.known().my_id());
        let read = self.runtime.block_on(self.etcd.get(key.as_bytes()))?;
        self.refreshed(read.header.revision)
    }

    fn transact(&self, made: Transaction) -> Result<(StoreAnswer, u64), ChangeFailure> {
        let (answer, header) = self.runtime.block_on(transact(&self.etcd, made))?;
        Ok((answer, header.revision))
    }

    /// What is known, once this node has entered its cluster: for a short time after its start it
    /// has not.
    fn entered(&self) -> Result<KnownCluster, ChangeFailure> {
        let entered = self.wait_for(|known| !known.name.is_empty());
        entered.map_err(|_| ChangeFailure::Silent("this node has not reached it yet".into()))
    }

    /// Changes the membership.
    ///
    /// # Errors
    /// The change is refused, or cannot be made.
    pub fn change<T>(
        &self,
        mut act: impl FnMut(&mut Membership) -> Result<T, MembershipError>,
    ) -> Result<T, ChangeFailure> {
        let _one_at_a_time = self.changing.lock();
        let (mut known, mut is_up_to_date) = (self.entered()?, false);
        for _ in 0..MOST_TRIES {
            let mut next = Membership::clone(&known.membership);
            let done = act(&mut next).map_err(ChangeFailure::Refused)?;
            let made = change(&known.name, &known.view, &known.membership, &next);
            let made = match made {
                Ok(made) => made,
                // The owner may have agreed a moment ago.
                Err(_) if !is_up_to_date => {
                    is_up_to_date = true;
                    known = self.up_to_date()?;
                    continue;
                }
                Err(slot) => return Err(ChangeFailure::Other(format!("slot {slot} {NOT_GIVEN}"))),
            };
            if made.is_empty() {
                return Ok(done);
            }
            match self.transact(made)? {
                (StoreAnswer::Done(revision), _) => {
                    self.wait_for(|known| known.view.revision() >= revision)?;
                    return Ok(done);
                }
                (_, revision) => known = self.refreshed(revision)?,
            }
            // The primary of a shard may be about to be elected.
            self.runtime.block_on(async { tokio::time::sleep(PAUSE).await });
        }
        Err(never_settled())
    }

    /// CLUSTER MEET: this node and the one at this place are of one cluster from now on. A node
    /// that does not answer is logged, as its answer would be waited for elsewhere, too.
    ///
    /// # Errors
    /// Both are in clusters of several nodes, or own the same slot, or etcd does not answer.
    pub fn meet(&self, place: &Endpoint) -> Result<(), ChangeFailure> {
        let asked = self.node.ask(place, &["CLUSTER", "MYID"]);
        let other = asked.and_then(|text| {
            NodeId::parse(text.as_bytes()).ok_or_else(|| format!("'{text}' is no id of a node"))
        });
        let other = match other {
            Ok(other) => other,
            Err(why) => {
                tracing::warn!("the node at {}:{} is not met: {why}", place.ip, place.port);
                return Ok(());
            }
        };
        let _one_at_a_time = self.changing.lock();
        let mut known = self.entered()?;
        for _ in 0..MOST_TRIES {
            if known.membership.members().contains_key(&other) {
                return Ok(());
            }
            let revision = self.try_to_meet(other, &known)?;
            known = match revision {
                // Which of the two has moved does not matter.
                None => self.wait_for(|known| known.membership.members().contains_key(&other))?,
                Some(revision) => self.refreshed(revision)?,
            };
        }
        Err(never_settled())
    }

    /// `None`: they have met. Else it is to be decided again, with what is known at a revision.
    fn try_to_meet(
        &self,
        other: NodeId,
        known: &KnownCluster,
    ) -> Result<Option<u64>, ChangeFailure> {
        let place = self.runtime.block_on(self.etcd.get(place_key(other).as_bytes()))?;
        let unknown = || ChangeFailure::Other(format!("node {other} is not in the same etcd"));
        let name = place.value.ok_or_else(unknown)?.value;
        let name = String::from_utf8_lossy(&name).into_owned();
        if name == known.name {
            return Ok(None);
        }
        let listed = self.runtime.block_on(self.etcd.list(cluster_prefix(&name).as_bytes()))?;
        let theirs = view_of(&name, &listed);
        let my_id = known.my_id();
        let (there, here) = ((&*name, &theirs), (&*known.name, &*known.view));
        let made = match theirs.nodes().len() {
            0 | 1 => join(other, there, here),
            _ => join(my_id, here, there),
        };
        let made = made.map_err(|slot| match slot {
            Some(slot) => ChangeFailure::Other(format!("both clusters own slot {slot}")),
            None => ChangeFailure::Other(
                "both nodes are in clusters of several nodes, which cannot become one".into(),
            ),
        })?;
        match self.transact(made)? {
            (StoreAnswer::Done(_), _) => Ok(None),
            // The other cluster has changed: this one need not.
            (_, _) => Ok(Some(known.view.revision())),
        }
    }

    /// CLUSTER RESET: this node leaves its cluster, and is one of its own as `alone`.
    ///
    /// # Errors
    /// etcd does not answer.
    pub fn reset(&self, alone: Membership) -> Result<(), ChangeFailure> {
        let _one_at_a_time = self.changing.lock();
        let mut known = self.entered()?;
        for _ in 0..MOST_TRIES {
            match self.transact(leave(&known.name, &known.view, known.my_id()))? {
                (StoreAnswer::Done(_), _) => {
                    let (done, told) = oneshot::channel();
                    let id = alone.my_id();
                    self.ask_driver(DriverRequest::Reset(Box::new(alone), done));
                    // The driver is about to end if it does not tell.
                    let _gone = self.runtime.block_on(told);
                    self.wait_for(|known| known.my_id() == id && !known.name.is_empty())?;
                    return Ok(());
                }
                (_, revision) => known = self.refreshed(revision)?,
            }
        }
        Err(never_settled())
    }

    /// Promises the primary of this epoch not to stand for election for so long: whether it does.
    pub fn promise(&self, epoch: u64, lasts_us: u64) -> bool {
        let (told, answer) = oneshot::channel();
        self.ask_driver(DriverRequest::Promise(epoch, lasts_us, told));
        self.runtime.block_on(answer).unwrap_or(false)
    }

    /// The word that tells a primary that this node has promised.
    pub fn promised_word() -> &'static str {
        promises::PROMISED
    }

    /// Hands the role of this primary over to a replica of its shard, within so many milliseconds.
    ///
    /// # Errors
    /// This node is no primary, or that one no replica that may win, or it has not caught up.
    pub fn hand_over(&self, to: NodeId, most_ms: u64) -> Result<(), ChangeFailure> {
        let other = |why: &str| ChangeFailure::Other(why.into());
        let known = self.entered()?;
        let epoch = known.leads_since.ok_or_else(|| other("this node is not the primary"))?;
        let shard = known.membership.me().shard;
        if known.view.shard_of(to) != Some(shard) {
            return Err(other("the node is no replica of this one"));
        }
        if !known.view.shard_state(shard).in_sync.0.contains(&to) {
            return Err(other("the replica is not in sync"));
        }
        let mut commit = |offset| self.commit_hand_over(&known.name, (shard, epoch), to, offset);
        let handed = self.node.hand_over(to, most_ms, &mut commit);
        handed.map_err(ChangeFailure::Other)
    }

    /// Makes a node the primary in place of this one, as of this epoch, at this offset.
    fn commit_hand_over(
        &self,
        name: &str,
        (shard, epoch): (NodeId, u64),
        to: NodeId,
        offset: u64,
    ) -> Result<(), String> {
        let alive = self.known().view.get(&alive_key(to)).cloned();
        let alive = alive.ok_or("the replica has no lease")?;
        let key = |below: String| format!("{}{below}", cluster_prefix(name));
        let primary = key(shard_key(shard, "primary"));
        let made = Transaction {
            expects: vec![
                (primary.clone(), Expectation::Revision(epoch)),
                (key(alive_key(to)), Expectation::Revision(alive.revision)),
            ],
            writes: vec![
                StoreWrite::Put(primary.clone(), to.to_string(), Some(alive.lease)),
                StoreWrite::Put(key(shard_key(shard, "holder")), format!("{to} {offset}"), None),
            ],
        };
        match self.transact(made) {
            Ok((StoreAnswer::Done(revision), _)) => {
                self.end_permission(revision);
                Ok(())
            }
            Ok(_) => Err("etcd has refused: the shard has changed".into()),
            Err(why) => self.settle_hand_over(&primary, epoch).map_err(|()| why.to_string()),
        }
    }

    /// This node leads no more since this revision, whether it has seen that in etcd or not.
    fn end_permission(&self, revision: u64) {
        let (done, told) = oneshot::channel();
        self.ask_driver(DriverRequest::Yielded(revision, done));
        // The driver is about to end if it does not tell.
        let _gone = self.runtime.block_on(told);
    }

    /// Finds out whether a hand-over was done whose transaction was not answered: it may still be
    /// on its way. This node puts its own key again, which the transaction expects to be as it was:
    /// then it cannot be done any more. Writes are held back until that is known.
    ///
    /// # Errors
    /// It was not done: this node leads on.
    fn settle_hand_over(&self, primary: &str, epoch: u64) -> Result<(), ()> {
        loop {
            let known = self.known();
            if known.leads_since != Some(epoch) {
                return Ok(());
            }
            let again = Transaction {
                expects: vec![(primary.to_owned(), Expectation::Revision(epoch))],
                writes: vec![StoreWrite::Put(
                    primary.to_owned(),
                    known.my_id().to_string(),
                    known.lease,
                )],
            };
            match self.transact(again) {
                Ok((StoreAnswer::Done(_), _)) => return Err(()),
                Ok((_, revision)) => {
                    self.end_permission(revision);
                    return Ok(());
                }
                Err(why) => tracing::warn!("whether the role was handed over is unknown: {why}"),
            }
            self.runtime.block_on(async { tokio::time::sleep(LOOK).await });
        }
    }

    /// CLUSTER FAILOVER at a replica: asks its primary to hand over.
    ///
    /// # Errors
    /// This node is no replica, or the primary refuses.
    pub fn fail_over(&self, most_ms: u64) -> Result<(), ChangeFailure> {
        let known = self.entered()?;
        let me = known.membership.me();
        let primary = me.primary.and_then(|id| known.membership.members().get(&id));
        let no_replica = || ChangeFailure::Other("this node is not a replica".into());
        let place = primary.ok_or_else(no_replica)?.endpoint.clone();
        let (id, most_ms) = (known.my_id().to_string(), most_ms.to_string());
        match self.node.ask(&place, &["CLUSTER", "YIELD", &id, &most_ms]) {
            Ok(_) => Ok(()),
            // What a primary says after its permission has ended does not leave: the outcome tells.
            Err(why) => {
                let leads = self.wait_within(LOOK * 3, |known| known.leads_since.is_some());
                leads.map(drop).map_err(|_| ChangeFailure::Other(why))
            }
        }
    }

    /// This node stops: its lease is given back. It has handed its role over before.
    pub fn stop(&self) {
        let (done, told) = oneshot::channel();
        self.ask_driver(DriverRequest::Stop(done));
        // The lease ends by itself if that is late.
        let _late = self.runtime.block_on(async { timeout(LOOK * 3, told).await });
    }

    /// Hands the role of this primary over to a replica that may take it, if there is one. Waits
    /// for it for so many milliseconds at most.
    pub fn hand_over_to_any(&self, most_ms: u64) {
        if self.known().leads_since.is_none() {
            return;
        }
        let (known, synced) = (self.known(), self.node.report().synced);
        let in_sync = known.view.shard_state(known.membership.me().shard).in_sync.0;
        let may = |id: &&NodeId| **id != known.my_id() && synced.contains(id);
        let Some(to) = in_sync.iter().find(may) else { return };
        match self.hand_over(*to, most_ms) {
            Ok(()) => tracing::info!(to = %to, "the role of the primary was handed over"),
            Err(why) => tracing::warn!("the role of the primary is not handed over: {why}"),
        }
    }
}
