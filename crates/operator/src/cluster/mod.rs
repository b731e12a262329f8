//! CLUSTER, and the commands by which clients of a cluster read from replicas.
//!
//! | file | what |
//! |---|---|
//! | here | the rows, and whether there is a cluster |
//! | `emulated` | the topology of `cluster_mode emulated` |
//! | `member` | this server as a node of a real cluster (`cluster-enabled`) |
//! | `part` | this server as coordination over etcd sees it |
//! | `peers` | questions to other nodes |
//! | `changes` | the subcommands that change slots and nodes |
//! | `describe` | SLOTS, SHARDS, NODES, INFO and their kin |
//! | `keys` | COUNTKEYSINSLOT, GETKEYSINSLOT, SLOT-STATS |
//!
//! Emulated means one node that owns every slot: cluster clients work, keys of several slots may
//! stand in one command, and nothing is redirected. Commands that would change the slots are
//! refused. A real cluster is kept in a file of nodes, which operators change by these commands;
//! commands about keys of other nodes are redirected (`pantala_engine::execute`).
//!
//! Tests: compat/transcripts/cluster; the server's `tests/cluster.rs`.

mod changes;
mod describe;
mod emulated;
mod keys;
mod member;
mod part;
mod peers;

pub use member::{ClusterMember, begin};
pub use part::{hand_over_role, leave, take_part, takes_part};

use pantala_base::crc::slot_of;
use pantala_cluster::Topology;
use pantala_commands::{
    Call, Category, ClientError, Command, CommandResult, Databases, Flags, Group, Handler, help,
};
use pantala_settings::field::ClusterMode;

use crate::Operator;

/// The rows of this family.
pub const ROWS: &[Command] = &[
    CLUSTER,
    Command::new("ASKING", ask, Group::Cluster)
        .arity(1)
        .flags(Flags::FAST)
        .categories(&[Category::Connection])
        .since("3.0.0")
        .summary("The next command may use a slot that is being moved here."),
    Command::new("READONLY", read_here, Group::Cluster)
        .arity(1)
        .flags(Flags::FAST.union(ANY_TIME))
        .categories(&[Category::Connection])
        .since("3.0.0")
        .summary("A client that follows redirections reads from a replica all the same."),
    Command::new("READWRITE", read_there, Group::Cluster)
        .arity(1)
        .flags(Flags::FAST.union(ANY_TIME))
        .categories(&[Category::Connection])
        .since("3.0.0")
        .summary("A client that follows redirections is sent to the primary to read."),
];

const ANY_TIME: Flags = Flags::LOADING.union(Flags::STALE);
/// Flags of subcommands that change the cluster.
const CHANGES: Flags = Flags::ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::STALE);
/// How they run: on the lane of operators, outside the gate, as they write a file and sync it.
const WRITES_FILE: Flags = Flags::LANE.union(Flags::OPERATOR);
/// A tip: the reply is not the same each time.
const VARIES: &[&str] = &["nondeterministic_output"];

const CLUSTER: Command = Command::container("CLUSTER", Group::Cluster, SUBCOMMANDS)
    .since("3.0.0")
    .complexity("Depends on the subcommand.")
    .summary("Tells about the cluster, and changes it.");

const fn sub(name: &'static str, handler: Handler, arity: i16) -> Command {
    Command::new(name, handler, Group::Cluster).of("CLUSTER").arity(arity).since("3.0.0")
}

/// A subcommand that changes who owns which slots, or which nodes there are.
const fn change(name: &'static str, handler: Handler, arity: i16, syntax: &'static str) -> Command {
    sub(name, handler, arity).flags(CHANGES.union(WRITES_FILE)).syntax(syntax)
}

const SUBCOMMANDS: &[Command] = &[
    sub("COUNTKEYSINSLOT", keys::count, 3)
        .flags(Flags::STALE.union(Flags::LANE))
        .syntax("slot:int")
        .complexity("O(N) for N keys")
        .summary("How many keys of the selected database a slot has."),
    sub("GETKEYSINSLOT", keys::get, 4)
        .flags(Flags::STALE.union(Flags::LANE))
        .tips(VARIES)
        .syntax("slot:int count:int")
        .complexity("O(N) for N keys")
        .summary("Keys of a slot in the selected database."),
    sub("INFO", describe::info, 2)
        .flags(ANY_TIME)
        .tips(VARIES)
        .summary("The state of the cluster, and figures."),
    sub("KEYSLOT", key_slot, 3)
        .flags(Flags::STALE)
        .syntax("key:string")
        .summary("The slot of a key."),
    sub("MYID", describe::my_id, 2).flags(ANY_TIME).summary("The id of this node."),
    sub("MYSHARDID", describe::my_shard_id, 2)
        .flags(ANY_TIME)
        .tips(VARIES)
        .since("7.2.0")
        .summary("The id of this node's shard."),
    sub("NODES", describe::nodes, 2).flags(ANY_TIME).tips(VARIES).summary("A line for each node."),
    sub("REPLICAS", describe::replicas, 3)
        .flags(Flags::ADMIN.union(Flags::STALE))
        .tips(VARIES)
        .since("5.0.0")
        .syntax("node-id")
        .summary("A line for each replica of a primary."),
    sub("SLAVES", describe::replicas, 3)
        .flags(Flags::ADMIN.union(Flags::STALE))
        .tips(VARIES)
        .syntax("node-id")
        .summary("The same as REPLICAS."),
    sub("SLOTS", describe::slots, 2)
        .flags(ANY_TIME)
        .tips(VARIES)
        .summary("The nodes that serve each range of slots."),
    sub("SLOT-STATS", keys::stats, -4)
        .flags(ANY_TIME.union(Flags::LANE))
        .tips(&["nondeterministic_output", "request_policy:all_shards"])
        .since("8.0.0")
        .syntax(
            "(filter: SLOTSRANGE start-slot:int end-slot:int | ORDERBY metric [LIMIT limit:int] \
             [order: ASC | DESC])",
        )
        .complexity("O(N) for N keys")
        .summary("Figures of the slots that this node serves."),
    sub("SHARDS", describe::shards, 2)
        .flags(ANY_TIME)
        .tips(VARIES)
        .since("7.0.0")
        .summary("The shards: their slots and their nodes."),
    sub("LINKS", describe::links, 2)
        .flags(Flags::STALE)
        .tips(VARIES)
        .since("7.0.0")
        .summary("The links between this node and others: there are none."),
    sub("COUNT-FAILURE-REPORTS", describe::failure_reports, 3)
        .flags(Flags::ADMIN.union(Flags::STALE))
        .tips(VARIES)
        .syntax("node-id")
        .summary("How many nodes report that a node fails: none, nodes do not report here."),
    sub("GETSLOTMIGRATIONS", describe::migrations, 2)
        .flags(CHANGES)
        .since("9.0.0")
        .summary("The moves of slots that go on, and the last ones that ended."),
    change("ADDSLOTS", changes::add_slots, -3, "slot:int [slot ...]")
        .summary("Gives free slots to this node."),
    change("ADDSLOTSRANGE", changes::add_ranges, -4, "(range: start-slot:int end-slot:int) ...")
        .since("7.0.0")
        .summary("Gives free ranges of slots to this node."),
    change("BUMPEPOCH", changes::bump_epoch, 2, "")
        .tips(VARIES)
        .summary("Advances the epoch of this node."),
    change("CANCELSLOTMIGRATIONS", changes::cancel_moves, 2, "")
        .databases(Databases::All)
        .since("9.0.0")
        .summary("Cancels the moves of slots."),
    change("DELSLOTS", changes::delete_slots, -3, "slot:int [slot ...]")
        .summary("Takes slots from this node."),
    change("DELSLOTSRANGE", changes::delete_ranges, -4, "(range: start-slot:int end-slot:int) ...")
        .since("7.0.0")
        .summary("Takes ranges of slots from this node."),
    change("FAILOVER", changes::fail_over, -2, "[options: FORCE | TAKEOVER]")
        .summary("Makes this replica the primary of its shard."),
    sub("FLUSHSLOT", refuse_change, -3)
        .flags(Flags::ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::WRITE))
        .categories(&[Category::Keyspace])
        .since("9.0.0")
        .databases(Databases::All)
        .syntax("slot:int [flush-type: ASYNC | SYNC]")
        .summary("Removes all keys of a slot."),
    change("FLUSHSLOTS", changes::flush_slots, 2, "").summary("Takes all slots from this node."),
    change("FORGET", changes::forget, 3, "node-id").summary("Removes a node from the cluster."),
    change("MEET", changes::meet, -4, "ip port:int [cluster-bus-port:int]")
        .summary("Joins another node's cluster."),
    change("MIGRATESLOTS", refuse_change, -4, MIGRATION)
        .databases(Databases::All)
        .since("9.0.0")
        .summary("Moves slots to another node."),
    // On another lane than changes, which may wait for etcd while it is silent.
    sub("PROMISE", changes::promise, 4)
        .flags(CHANGES.union(Flags::LANE))
        .syntax("epoch:int milliseconds:int")
        .summary("A primary asks this replica not to stand for election for so long."),
    change("YIELD", changes::yield_role, 4, "node-id milliseconds:int")
        .summary("A replica asks this primary to hand over its role."),
    change("REPLICATE", changes::replicate, -3, "(args: node-id | (no-one: NO ONE))")
        .summary("Makes this node a replica of another one."),
    sub("RESET", changes::reset, -2)
        .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE).union(WRITES_FILE))
        .syntax("[reset-type: HARD | SOFT]")
        .summary("Makes this node forget its cluster."),
    change("SAVECONFIG", changes::save_file, 2, "")
        .summary("Writes the state of the cluster to its file."),
    change("SET-CONFIG-EPOCH", changes::set_epoch, 3, "config-epoch:int")
        .summary("Sets the epoch of a new node."),
    change("SETSLOT", changes::set_slot, -4, SLOT_CHANGE)
        .summary("Binds a slot to a node, or begins or ends its move."),
    Command::new("HELP", help_if_on, Group::Cluster)
        .of("CLUSTER")
        .arity(2)
        .flags(ANY_TIME)
        .since("5.0.0")
        .summary("Shows this text."),
];

/// The arguments of MIGRATESLOTS.
const MIGRATION: &str = "(migration-group: (slotsrange-token: SLOTSRANGE) \
     (range: start-slot:int end-slot:int) ... (node-token: NODE) node-id) ...";
/// The arguments of SETSLOT.
const SLOT_CHANGE: &str = "slot:int \
     (subcommand: IMPORTING importing | MIGRATING migrating | NODE node | STABLE) \
     [TIMEOUT timeout:int]";

const DISABLED: ClientError = ClientError::text("ERR This instance has cluster support disabled");

/// Whether cluster clients are served.
pub(crate) fn is_on(operator: &Operator) -> bool {
    let settings = operator.engine.settings.current();
    settings.cluster_enabled || settings.cluster_mode != ClusterMode::Off
}

/// The cluster as this node sees it, told to a client that has connected to the address `local`;
/// `None` without a cluster.
pub(crate) fn topology(operator: &Operator, local: &str) -> Option<Topology> {
    if let Some(member) = operator.cluster.get() {
        return Some(member.topology(operator, local));
    }
    match operator.engine.settings.current().cluster_mode {
        ClusterMode::Off => None,
        ClusterMode::Emulated => Some(emulated::topology(operator, local)),
    }
}

/// The topology for the client of a call.
///
/// # Errors
/// There is no cluster.
fn topology_for(call: &Call<'_, '_>) -> Result<Topology, ClientError> {
    topology(Operator::of(call), &call.session.local).ok_or(DISABLED)
}

/// # Errors
/// There is no cluster.
fn require(call: &Call<'_, '_>) -> Result<(), ClientError> {
    if is_on(Operator::of(call)) { Ok(()) } else { Err(DISABLED) }
}

fn help_if_on(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    help(call)
}

fn key_slot(call: &mut Call<'_, '_>) -> CommandResult {
    call.reply.int(slot_of(call.args[2]).into());
    Ok(())
}

/// Refuses what this cluster cannot do.
fn refuse_change(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    let name = call.command.name;
    let why = match Operator::of(call).cluster.get() {
        None => "with cluster_mode emulated: this node owns every slot",
        Some(_) => "yet: the nodes of this cluster are in cluster-config-file",
    };
    let text = format!("ERR CLUSTER {name} is not possible {why}");
    Err(ClientError::new(text).into())
}

fn ask(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    call.session.asks = true;
    call.reply.ok();
    Ok(())
}

fn read_here(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.reads_replicas = true;
    call.reply.ok();
    Ok(())
}

fn read_there(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.reads_replicas = false;
    call.reply.ok();
    Ok(())
}
