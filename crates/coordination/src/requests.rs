//! The requests of the control of a shard, as etcd's.

use std::collections::BTreeMap;

use pantala_cluster::NodeId;
use pantala_cluster::control::{ShardState, StoreAnswer, StoreRequest};
use pantala_cluster::layout::{
    ClusterView, Expectation, StoreWrite, StoredValue, Transaction, alive_key, candidate_key,
    cluster_prefix, node_key, shard_key, shard_prefix,
};
use pantala_etcd::{Compare, Etcd, EtcdAnswer, EtcdError, EtcdHeader, KeyValue, Txn, TxnOp};

/// Where a node is in etcd.
#[derive(Clone, Debug)]
pub struct StorePlace {
    /// The name of its cluster.
    pub cluster: String,
    /// Its shard.
    pub shard: NodeId,
    /// Its id.
    pub id: NodeId,
}

impl StorePlace {
    fn key(&self, below: &str) -> String {
        format!("{}{below}", cluster_prefix(&self.cluster))
    }
}

/// Asks etcd; the answer with the term in which it was given.
pub async fn ask(
    etcd: &Etcd,
    place: &StorePlace,
    offset: u64,
    request: StoreRequest,
) -> Result<(StoreAnswer, EtcdHeader), EtcdError> {
    match request {
        StoreRequest::Grant(ttl_us) => grant(etcd, place, ttl_us).await,
        StoreRequest::KeepAlive(lease) => {
            let kept = etcd.keep_alive(lease.cast_signed()).await?;
            let alive = |seconds| StoreAnswer::Alive(seconds * 1_000_000);
            Ok((kept.value.map_or(StoreAnswer::LeaseGone, alive), kept.header))
        }
        StoreRequest::Read => {
            let read = etcd.list(place.key(&shard_prefix(place.shard)).as_bytes()).await?;
            Ok((StoreAnswer::State(state_of(place, &read)), read.header))
        }
        StoreRequest::Stand(lease, offset) => {
            let made = Transaction {
                expects: vec![(primary(place), Expectation::Absent)],
                writes: vec![StoreWrite::Put(
                    place.key(&candidate_key(place.shard, place.id)),
                    offset.to_string(),
                    Some(lease),
                )],
            };
            transact(etcd, made).await
        }
        StoreRequest::Win(lease, in_sync) => {
            let holder = format!("{} {offset}", place.id);
            let made = Transaction {
                expects: vec![
                    (primary(place), Expectation::Absent),
                    (part(place, "insync"), known_since(in_sync)),
                    (place.key(&node_key(place.id)), Expectation::Present),
                ],
                writes: vec![
                    StoreWrite::Put(primary(place), place.id.to_string(), Some(lease)),
                    StoreWrite::Put(part(place, "holder"), holder, None),
                    StoreWrite::Put(part(place, "insync"), place.id.to_string(), None),
                    StoreWrite::DeleteBelow(part(place, "candidates/")),
                ],
            };
            transact(etcd, made).await
        }
        StoreRequest::SetInSync(ids, epoch, in_sync) => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let made = Transaction {
                expects: vec![
                    (primary(place), Expectation::Revision(epoch)),
                    (part(place, "insync"), known_since(in_sync)),
                ],
                writes: vec![StoreWrite::Put(part(place, "insync"), ids.join(" "), None)],
            };
            transact(etcd, made).await
        }
    }
}

fn part(place: &StorePlace, part: &str) -> String {
    place.key(&shard_key(place.shard, part))
}

fn primary(place: &StorePlace) -> String {
    part(place, "primary")
}

/// A value of revision 0 is none.
fn known_since(revision: u64) -> Expectation {
    match revision {
        0 => Expectation::Absent,
        revision => Expectation::Revision(revision),
    }
}

/// A new lease; the key that says that the node lives is bound to it.
async fn grant(
    etcd: &Etcd,
    place: &StorePlace,
    ttl_us: u64,
) -> Result<(StoreAnswer, EtcdHeader), EtcdError> {
    let granted = etcd.grant(ttl_us.div_ceil(1_000_000)).await?;
    let lease = granted.value.0;
    let alive = Transaction {
        expects: vec![(place.key(&node_key(place.id)), Expectation::Present)],
        writes: vec![StoreWrite::Put(
            place.key(&alive_key(place.id)),
            granted.header.revision.to_string(),
            Some(lease.cast_unsigned()),
        )],
    };
    let (_, header) = transact(etcd, alive).await?;
    Ok((StoreAnswer::Granted(lease.cast_unsigned()), header))
}

fn state_of(place: &StorePlace, read: &EtcdAnswer<Vec<KeyValue>>) -> ShardState {
    view_of(&place.cluster, read).shard_state(place.shard)
}

/// The keys of a cluster that etcd has listed.
pub fn view_of(cluster: &str, read: &EtcdAnswer<Vec<KeyValue>>) -> ClusterView {
    let keys: BTreeMap<String, StoredValue> =
        read.value.iter().filter_map(|pair| stored(cluster, pair)).collect();
    ClusterView::new(read.header.revision, keys)
}

/// A key of a cluster, without its prefix, and its value; `None`: it is none.
pub fn stored(cluster: &str, pair: &KeyValue) -> Option<(String, StoredValue)> {
    let key = std::str::from_utf8(&pair.key).ok()?.strip_prefix(&cluster_prefix(cluster))?;
    let value = StoredValue {
        text: String::from_utf8_lossy(&pair.value).into_owned(),
        revision: pair.mod_revision,
        lease: pair.lease.cast_unsigned(),
    };
    Some((key.to_owned(), value))
}

/// Carries out a transaction.
pub async fn transact(
    etcd: &Etcd,
    made: Transaction,
) -> Result<(StoreAnswer, EtcdHeader), EtcdError> {
    let compare = |expected| match expected {
        Expectation::Absent => Compare::Absent,
        Expectation::Present => Compare::Present,
        Expectation::Revision(revision) => Compare::ModRevision(revision),
    };
    let operation = |write| match write {
        StoreWrite::Put(key, text, lease) => TxnOp::Put {
            key: key.into_bytes(),
            value: text.into_bytes(),
            lease: lease.unwrap_or(0).cast_signed(),
        },
        StoreWrite::Delete(key) => TxnOp::Delete { key: key.into_bytes() },
        StoreWrite::DeleteBelow(prefix) => TxnOp::DeletePrefix { prefix: prefix.into_bytes() },
    };
    let txn = Txn {
        compares: made.expects.into_iter().map(|(key, e)| (key.into_bytes(), compare(e))).collect(),
        then: made.writes.into_iter().map(operation).collect(),
        otherwise: Vec::new(),
    };
    let done = etcd.transact(txn).await?;
    let answer = match done.value.succeeded {
        true => StoreAnswer::Done(done.header.revision),
        false => StoreAnswer::Refused,
    };
    Ok((answer, done.header))
}
