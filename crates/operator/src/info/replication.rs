//! INFO's section about primaries and replicas.

use pantala_base::clock::monotonic_us;
use pantala_engine::stats::info_table::InfoValue;
use pantala_psync::{FollowerKind, History, Phase, Replica};

use super::Page;
use crate::Operator;
use pantala_replication::primary::{address, good_count};
use pantala_replication::replica::{self, LinkPhase, LinkReport};

/// The id of a missing history.
const ZEROS: &str = "0000000000000000000000000000000000000000";

pub(super) fn replication(operator: &Operator, page: &mut Page) {
    let settings = operator.engine.settings.current();
    match replica::told(&operator.replication) {
        None => page.line("role", "master"),
        Some(told) => {
            page.line("role", "slave");
            of_replica(&told, page);
            page.line("slave_priority", settings.replica_priority);
            page.line("slave_read_only", u8::from(settings.replica_read_only));
            page.line("replica_announced", u8::from(settings.replica_announced));
        }
    }
    followers(operator, page);
    page.line("master_failover_state", operator.replication.failover.step().word());
    history(operator, page);
}

/// The lines about the replicas of this server.
fn followers(operator: &Operator, page: &mut Page) {
    let settings = operator.engine.settings.current();
    let replicas = operator.replication.downstream.replicas.all();
    page.line("connected_slaves", replicas.len());
    if settings.min_replicas_to_write > 0 && settings.min_replicas_max_lag_s > 0 {
        page.line("min_slaves_good_slaves", good_count(&operator.replication));
    }
    for (number, replica) in replicas.iter().enumerate() {
        page.line(format!("slave{number}"), line(replica));
    }
    page.line("replicas_waiting_psync", 0);
    let asides = operator.engine.journal.asides();
    let of_kind = |kind| replicas.iter().filter(|one| one.announced().kind() == kind).count();
    page.line("replicas_of_valkey", of_kind(FollowerKind::Valkey));
    page.line("replicas_of_redis", of_kind(FollowerKind::Redis));
    page.line("commands_for_pantala_only", asides.ours);
    page.line("commands_beyond_redis70", asides.newer);
}

fn line(replica: &Replica) -> InfoValue {
    let (ip, port) = address(replica);
    let said = replica.acknowledged();
    let lag_s = match replica.phase() {
        Phase::Online => monotonic_us().saturating_sub(said.heard_us) / 1_000_000,
        _ => 0,
    };
    let (state, offset) = (replica.state_name(), said.position);
    InfoValue::parts([
        ("ip", ip.into()),
        ("port", port.into()),
        ("state", state.into()),
        ("offset", offset.into()),
        ("lag", lag_s.into()),
        ("type", "replica".into()),
    ])
}

fn history(operator: &Operator, page: &mut Page) {
    let History { id, second, is_kept, first, end, kept_bytes } =
        operator.replication.downstream.stream.history();
    page.line("master_replid", id.to_string());
    match second {
        Some((id, _)) => page.line("master_replid2", id.to_string()),
        None => page.line("master_replid2", ZEROS),
    }
    page.line("master_repl_offset", end);
    page.line("second_repl_offset", second.map_or(-1, |(_, end)| end.cast_signed() + 1));
    page.line("repl_backlog_active", u8::from(is_kept));
    page.line("repl_backlog_size", kept_bytes);
    page.line("repl_backlog_first_byte_offset", if is_kept { first + 1 } else { 0 });
    page.line("repl_backlog_histlen", end - first);
}

fn of_replica(told: &LinkReport, page: &mut Page) {
    page.line("master_host", told.primary.host.clone());
    page.line("master_port", told.primary.port);
    let is_up = told.phase == LinkPhase::Connected;
    page.line("master_link_status", if is_up { "up" } else { "down" });
    page.line("master_last_io_seconds_ago", told.heard_s);
    page.line("master_sync_in_progress", u8::from(told.copy.is_some()));
    page.line("slave_read_repl_offset", told.position + told.unapplied_bytes);
    page.line("slave_repl_offset", told.position);
    page.each(&["replicas_repl_buffer_size", "replicas_repl_buffer_peak"], 0);
    if let Some((total, bytes)) = told.copy {
        page.line("master_sync_total_bytes", total);
        page.line("master_sync_read_bytes", bytes);
        page.line("master_sync_left_bytes", total.saturating_sub(bytes));
        // The length of a copy that comes straight from the primary's memory is not known.
        let done = if total == 0 { 0.0 } else { bytes as f64 / total as f64 * 100.0 };
        page.line("master_sync_perc", InfoValue::Real(done, 2));
        page.line("master_sync_last_io_seconds_ago", told.heard_s.max(0));
    }
    if !is_up {
        page.line("master_link_down_since_seconds", told.down_s);
    }
}
