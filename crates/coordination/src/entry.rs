//! How a node enters its cluster: it looks up where it is, lists what is there, and registers.
//!
//! A node that is nowhere begins as a cluster of its own, under its id, until it meets another one;
//! with `cluster-name` it joins that cluster.

use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pantala_cluster::control::StoreAnswer;
use pantala_cluster::layout::{
    ClusterView, Expectation, StoreWrite, Transaction, cluster_prefix, node_key, place_key,
};
use pantala_cluster::{Member, Membership, NodeId, nodes_file};
use pantala_etcd::{Etcd, EtcdError, Watch};

use crate::known::{KnownCluster, random_id};
use crate::node::CoordinatedNode;
use crate::requests::{transact, view_of};

/// The first pause after a failure, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A cluster that was entered.
pub struct EnteredCluster {
    /// Its name.
    pub name: String,
    /// The shard of this node.
    pub shard: NodeId,
    /// Its keys.
    pub view: ClusterView,
    /// Tells of every change since the view.
    pub watch: Watch,
    /// Tells when this node is put into another cluster.
    pub place_watch: Watch,
    /// The id of the etcd cluster.
    pub etcd_id: u64,
}

/// Enters the cluster of this node, however long etcd is silent.
pub async fn enter(
    etcd: Etcd,
    node: Arc<dyn CoordinatedNode>,
    known: KnownCluster,
    (wanted_name, endpoints): (String, Vec<String>),
) -> EnteredCluster {
    let was_member = !known.name.is_empty();
    // A node that was removed begins anew, alone: it would not be removed if it came back at once.
    let wanted_name = if was_member { String::new() } else { wanted_name };
    let alone = Membership::alone(known.my_id(), random_id());
    let kept = if was_member { &alone } else { &*known.membership };
    let mut pause = PAUSES.0;
    let mut is_told = false;
    loop {
        let me = describe(&node, kept.me().shard, &endpoints).await;
        match try_to_enter(&etcd, kept.my_id(), &me, &wanted_name).await {
            Ok(Some(entered)) => return entered,
            // Another node has changed something meanwhile.
            Ok(None) => pause = PAUSES.0,
            Err(error) => {
                if !is_told {
                    tracing::warn!("this node is not in its cluster yet: {error}");
                }
                is_told = true;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// This node as its settings tell. Names are looked up on another thread.
async fn describe(node: &Arc<dyn CoordinatedNode>, shard: NodeId, endpoints: &[String]) -> Member {
    let (node, endpoints) = (Arc::clone(node), endpoints.to_vec());
    let described = tokio::task::spawn_blocking(move || {
        let seen = endpoints.iter().find_map(|endpoint| address_towards(endpoint));
        let (endpoint, zone) = node.describe(&seen.unwrap_or_default());
        Member { endpoint, zone, ..Member::new(shard) }
    });
    described.await.unwrap_or_else(|_| Member::new(shard))
}

/// The address of this machine on the way to an endpoint of etcd.
fn address_towards(endpoint: &str) -> Option<String> {
    let place = endpoint.split_once("://").map_or(endpoint, |(_, place)| place);
    let place = place.trim_end_matches('/');
    let address = place.to_socket_addrs().ok()?.next()?;
    let any = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    // Nothing is sent: the kernel only chooses the way.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// `None`: to be tried again at once.
async fn try_to_enter(
    etcd: &Etcd,
    id: NodeId,
    me: &Member,
    wanted_name: &str,
) -> Result<Option<EnteredCluster>, EtcdError> {
    let place = etcd.get(place_key(id).as_bytes()).await?;
    let known_place = place.value.as_ref().map(|pair| Expectation::Revision(pair.mod_revision));
    let told = place.value.map(|pair| String::from_utf8_lossy(&pair.value).into_owned());
    // A node that is nowhere may have been of a shard that goes on without it.
    let own_shard = if told.is_some() { me.shard } else { random_id() };
    let name = match told {
        Some(name) => name,
        None if wanted_name.is_empty() => id.to_string(),
        None => wanted_name.to_owned(),
    };
    let listed = etcd.list(cluster_prefix(&name).as_bytes()).await?;
    let view = view_of(&name, &listed);
    let shard = view.shard_of(id).unwrap_or(own_shard);
    let mut me = me.clone();
    me.shard = shard;
    let text = nodes_file::print_address(&me);
    let known = view.get(&node_key(id));
    if known.is_none_or(|known| known.text != text) {
        let key = format!("{}{}", cluster_prefix(&name), node_key(id));
        let expected = known.map(|known| Expectation::Revision(known.revision));
        let made = Transaction {
            expects: vec![
                (key.clone(), expected.unwrap_or(Expectation::Absent)),
                (place_key(id), known_place.unwrap_or(Expectation::Absent)),
            ],
            writes: vec![
                StoreWrite::Put(key, text, None),
                StoreWrite::Put(place_key(id), name.clone(), None),
            ],
        };
        let (answer, _) = transact(etcd, made).await?;
        if let StoreAnswer::Done(_) = answer {
            tracing::info!("this node is registered in the cluster '{name}' in etcd");
        }
        return Ok(None);
    }
    let from = view.revision() + 1;
    Ok(Some(EnteredCluster {
        watch: etcd.watch(cluster_prefix(&name).as_bytes(), from),
        place_watch: etcd.watch(place_key(id).as_bytes(), from),
        etcd_id: listed.header.cluster_id,
        name,
        shard,
        view,
    }))
}
