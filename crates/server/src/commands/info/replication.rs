//! The section about who follows whom.

use pantala_base::clock::monotonic_us;
use pantala_replication::{History, Phase, Replica};

use super::Page;
use crate::replication::primary::{address, good_count};
use crate::shared::Shared;

/// The id of a history that there is not.
const ZEROS: &str = "0000000000000000000000000000000000000000";

pub(super) fn replication(shared: &Shared, page: &mut Page) {
    page.line("role", "master");
    followers(shared, page);
    page.line("master_failover_state", "no-failover");
    history(shared, page);
}

/// Those who follow.
fn followers(shared: &Shared, page: &mut Page) {
    let settings = shared.engine.settings.current();
    let replicas = shared.replication.replicas.all();
    page.line("connected_slaves", replicas.len());
    if settings.min_replicas_to_write > 0 && settings.min_replicas_max_lag_s > 0 {
        page.line("min_slaves_good_slaves", good_count(shared));
    }
    for (number, replica) in replicas.iter().enumerate() {
        page.line(&format!("slave{number}"), line(replica));
    }
    page.line("replicas_waiting_psync", 0);
}

fn line(replica: &Replica) -> String {
    let (ip, port) = address(replica);
    let said = replica.acknowledged();
    let lag_s = match replica.phase() {
        Phase::Online => monotonic_us().saturating_sub(said.heard_us) / 1_000_000,
        _ => 0,
    };
    let (state, offset) = (replica.state_name(), said.position);
    format!("ip={ip},port={port},state={state},offset={offset},lag={lag_s},type=replica")
}

fn history(shared: &Shared, page: &mut Page) {
    let History { id, second, is_kept, first, end, kept_bytes } =
        shared.replication.stream.history();
    page.line("master_replid", id);
    match second {
        Some((id, _)) => page.line("master_replid2", id),
        None => page.line("master_replid2", ZEROS),
    }
    page.line("master_repl_offset", end);
    page.line("second_repl_offset", second.map_or(-1, |(_, end)| end.cast_signed() + 1));
    page.line("repl_backlog_active", u8::from(is_kept));
    page.line("repl_backlog_size", kept_bytes);
    page.line("repl_backlog_first_byte_offset", if is_kept { first + 1 } else { 0 });
    page.line("repl_backlog_histlen", end - first);
}
