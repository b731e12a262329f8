//! What nodes promise each other while etcd is silent: a primary goes on as long as all nodes that
//! may take its place have promised not to.
//!
//! They are asked over connections of their own, by `CLUSTER PROMISE epoch milliseconds`.

use std::sync::Arc;

use pantala_cluster::{Endpoint, NodeId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::driver::DriverRequest;
use crate::node::CoordinatedNode;

/// The word of a node that promises.
pub const PROMISED: &str = "OK";

/// Asks these nodes to promise the primary of this epoch not to stand for election, for so long,
/// and tells the driver if all have.
pub fn ask_all(
    node: &Arc<dyn CoordinatedNode>,
    (electors, places): (Vec<NodeId>, Vec<Endpoint>),
    (epoch, lasts_us): (u64, u64),
    told: UnboundedSender<DriverRequest>,
) {
    let asked_us = node.now_us();
    let node = Arc::clone(node);
    tokio::spawn(async move {
        let mut asked = JoinSet::new();
        for elector in places {
            let node = Arc::clone(&node);
            asked.spawn_blocking(move || {
                let (epoch, lasts_ms) = (epoch.to_string(), (lasts_us / 1000).to_string());
                let answer = node.ask(&elector, &["CLUSTER", "PROMISE", &epoch, &lasts_ms]);
                answer.is_ok_and(|word| word == PROMISED)
            });
        }
        let mut have_all = true;
        while let Some(promised) = asked.join_next().await {
            have_all &= promised.unwrap_or(false);
        }
        // The driver may have ended.
        let _gone =
            told.send(DriverRequest::Promised { have_all, epoch, electors, asked_us, lasts_us });
    });
}
