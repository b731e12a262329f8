//! MEMORY: the memory that keys and the whole server take.

use pantala_base::limits::rss_bytes;
use pantala_base::size::human;
use pantala_commands::{
    Call, Command, CommandResult, Flags, Group, KeyFlags, KeySpec, error, help, options::is_word,
};
use pantala_keyspace::DbIndex;
use pantala_memory::MemoryReport;
use pantala_protocol::Reply;

use crate::Operator;

const TIPS: &[&str] =
    &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// The rows of this family.
pub const ROWS: &[Command] = &[Command::container("MEMORY", Group::Server, SUBCOMMANDS)
    .since("4.0.0")
    .complexity("Depends on the subcommand.")
    .summary("What the data costs.")];

const SUBCOMMANDS: &[Command] = &[
    Command::new("DOCTOR", doctor, Group::Server)
        .of("MEMORY")
        .arity(2)
        .tips(TIPS)
        .since("4.0.0")
        .summary("Says in words how the memory is used."),
    Command::new("MALLOC-STATS", allocator, Group::Server)
        .of("MEMORY")
        .arity(2)
        .flags(Flags::LOADING)
        .tips(TIPS)
        .since("4.0.0")
        .summary("Tells what the allocator says of itself."),
    Command::new("PURGE", purge, Group::Server)
        .of("MEMORY")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::LANE).union(Flags::OPERATOR))
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .since("4.0.0")
        .complexity("Depends on how much memory is idle.")
        .summary("Gives idle memory back to the system at once."),
    Command::new("STATS", statistics, Group::Server)
        .of("MEMORY")
        .arity(2)
        .tips(TIPS)
        .since("4.0.0")
        .summary("Tells how the memory is used."),
    Command::read("USAGE", usage, Group::Server)
        .of("MEMORY")
        .arity(-3)
        .keys(&[KeySpec::one(2, KeyFlags::LOOK)])
        .since("4.0.0")
        .syntax("key [SAMPLES count:int]")
        .summary("Tells the bytes that a key costs with its value and its place in the table."),
    Command::new("HELP", help, Group::Server)
        .of("MEMORY")
        .arity(2)
        .flags(Flags::LOADING.union(Flags::STALE))
        .since("4.0.0")
        .summary("Tells what the subcommands do."),
];

/// The server's memory by use, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// What the allocator has given out.
    pub used: u64,
    /// The highest value of that so far.
    pub peak: u64,
    /// Its value before there was data.
    pub startup: u64,
    /// All that is no data: the value at the start, tables, connections, scripts.
    pub overhead: u64,
    /// Connections, except those of replicas, and their buffers.
    pub clients: u64,
    /// Connections of replicas and their buffers.
    pub replicas: u64,
    /// The backlog of the stream (`repl-backlog-size`).
    pub backlog: u64,
    /// What waits for replicas: the rest of the stream, and copies of the data.
    pub unsent: u64,
    /// Scripts and functions.
    pub scripts: ScriptBytes,
    /// The allocator's own figures.
    pub allocator: MemoryReport,
}

/// The memory of scripts and functions, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptBytes {
    /// The interpreters, each of which runs both, without what libraries took when loaded.
    pub vm_eval: u64,
    /// What libraries took when loaded.
    pub vm_functions: u64,
    /// The texts of scripts.
    pub texts: u64,
    /// The libraries of functions.
    pub libraries: u64,
}

impl ScriptBytes {
    fn take(operator: &Operator) -> ScriptBytes {
        let (vm, libraries_in_vm) = operator.engine.scripts.vm_bytes();
        let functions = operator.engine.functions.current();
        ScriptBytes {
            vm_eval: vm.saturating_sub(libraries_in_vm) as u64,
            vm_functions: libraries_in_vm as u64,
            texts: operator.engine.scripts.counts().1 as u64,
            libraries: functions.iter().map(|library| library.bytes() as u64).sum(),
        }
    }

    /// The interpreters.
    pub(crate) fn vm(&self) -> u64 {
        self.vm_eval + self.vm_functions
    }

    fn all(&self) -> u64 {
        self.vm() + self.texts + self.libraries
    }
}

impl Account {
    pub(crate) fn take(operator: &Operator) -> Account {
        let used = operator.engine.condition.memory.used();
        let startup = operator.engine.condition.memory.at_startup();
        let clients = operator.engine.stats.tallies.sum(|tally| tally.own_client_bytes());
        let replicas = operator.engine.stats.tallies.sum(|tally| tally.replica_bytes.get());
        let scripts = ScriptBytes::take(operator);
        let databases = (0..operator.engine.space.database_count()).map(DbIndex);
        let replication = &operator.replication;
        let copies = replication.downstream.replicas.all();
        let copies = copies.iter().filter_map(|replica| replica.copy());
        let copies = copies.map(|copy| copy.bytes() as u64).sum::<u64>();
        let stream = replication.downstream.stream.memory_bytes();
        let backlog = replication.downstream.stream.kept_memory_bytes().min(stream);
        let unsent = stream - backlog + copies;
        let tables: u64 = databases.map(|db| operator.engine.space.index_bytes(db)).sum();
        Account {
            used,
            peak: operator.engine.condition.memory.peak(),
            startup,
            overhead: startup + clients + replicas + backlog + unsent + scripts.all() + tables,
            clients,
            replicas,
            backlog,
            unsent,
            scripts,
            allocator: pantala_memory::report().unwrap_or_default(),
        }
    }

    /// What replicas take beside the backlog: waiting bytes, and their connections.
    pub(crate) fn of_replicas(&self) -> u64 {
        self.unsent + self.replicas
    }

    pub(crate) fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead)
    }

    /// The share of data in what was allocated after the start, from 0 to 1.
    pub(crate) fn dataset_share(&self) -> f64 {
        ratio(self.dataset(), self.used.saturating_sub(self.startup)).min(1.0)
    }
}

/// A part of a whole; 0 if the whole is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The bytes of a key in a full table: its word and its fingerprint, rounded up.
const PLACE_BYTES: usize = 16;

fn usage(call: &mut Call<'_, '_>) -> CommandResult {
    match &call.args[3..] {
        [] => {}
        [word, _] if is_word(word, "SAMPLES") => {
            // A record knows its bytes, so SAMPLES has no effect.
            if call.int(4)? < 0 {
                return Err(error::SYNTAX.into());
            }
        }
        _ => return Err(error::SYNTAX.into()),
    }
    let opened = call.keys.peek(call.key());
    let Some((table, place)) = opened.record() else {
        call.reply.null();
        return Ok(());
    };
    // Only the key's own share of the table counts: the rest is room for further keys.
    let share = table.heap_bytes().div_ceil(table.len().max(1)).min(PLACE_BYTES);
    let bytes = table.record_bytes(place) + share;
    call.reply.int(bytes.cast_signed() as i64);
    Ok(())
}

/// A figure of MEMORY STATS.
enum Figure {
    Bytes(u64),
    Share(f64),
}

fn statistics(call: &mut Call<'_, '_>) -> CommandResult {
    use Figure::{Bytes, Share};
    let operator = Operator::of(call);
    let account = Account::take(operator);
    let Account { used, peak, startup, overhead, clients, backlog, .. } = account;
    let Account { scripts, allocator, .. } = account;
    let (rss, dataset) = (rss_bytes(), account.dataset());
    let databases = used_databases(operator);
    let keys: u64 = databases.iter().map(|(_, keys, _)| keys).sum();
    let difference = |larger: u64, smaller: u64| Bytes(larger.saturating_sub(smaller));
    let not_tables = startup + clients + backlog + account.of_replicas() + scripts.all();
    let before = [
        ("peak.allocated", Bytes(peak)),
        ("total.allocated", Bytes(used)),
        ("startup.allocated", Bytes(startup)),
        ("replication.backlog", Bytes(backlog)),
        ("replicas.repl.buffer", Bytes(0)),
        ("clients.slaves", Bytes(account.of_replicas())),
        ("clients.normal", Bytes(clients)),
        ("cluster.links", Bytes(0)),
        ("cluster.slot_import", Bytes(0)),
        ("cluster.slot_export", Bytes(0)),
        ("aof.buffer", Bytes(0)),
        ("lua.caches", Bytes(scripts.texts)),
        ("functions.caches", Bytes(scripts.libraries)),
    ];
    let after = [
        ("overhead.db.hashtable.lut", difference(overhead, not_tables)),
        ("overhead.db.hashtable.rehashing", Bytes(0)),
        ("overhead.total", Bytes(overhead)),
        ("db.dict.rehashing.count", Bytes(0)),
        ("keys.count", Bytes(keys)),
        ("keys.bytes-per-key", Bytes(used.saturating_sub(startup) / keys.max(1))),
        ("dataset.bytes", Bytes(dataset)),
        ("dataset.percentage", Share(account.dataset_share() * 100.0)),
        ("peak.percentage", Share(ratio(used, peak) * 100.0)),
        ("allocator.allocated", Bytes(allocator.allocated)),
        ("allocator.active", Bytes(allocator.active)),
        ("allocator.resident", Bytes(allocator.resident)),
        ("allocator.muzzy", Bytes(0)),
        ("allocator-fragmentation.ratio", Share(ratio(allocator.active, allocator.allocated))),
        ("allocator-fragmentation.bytes", difference(allocator.active, allocator.allocated)),
        ("allocator-rss.ratio", Share(ratio(allocator.resident, allocator.active))),
        ("allocator-rss.bytes", difference(allocator.resident, allocator.active)),
        ("rss-overhead.ratio", Share(ratio(rss, allocator.resident))),
        ("rss-overhead.bytes", difference(rss, allocator.resident)),
        ("fragmentation", Share(ratio(rss, used))),
        ("fragmentation.bytes", difference(rss, used)),
    ];
    let reply = &mut call.reply;
    reply.map(before.len() + databases.len() + after.len());
    reply_figures(reply, &before);
    for (db, _, tables) in databases {
        reply.bulk(format!("db.{}", db.0).as_bytes());
        reply.map(2);
        reply_figures(
            reply,
            &[("overhead.hashtable.main", Bytes(tables)), ("overhead.hashtable.expires", Bytes(0))],
        );
    }
    reply_figures(reply, &after);
    Ok(())
}

fn reply_figures(reply: &mut Reply<'_>, figures: &[(&str, Figure)]) {
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        match figure {
            Figure::Bytes(bytes) => reply.int(bytes.cast_signed()),
            Figure::Share(share) => reply.double(*share),
        }
    }
}

/// Databases with keys: the number of keys, and the bytes of their tables.
fn used_databases(operator: &Operator) -> Vec<(DbIndex, u64, u64)> {
    let space = &operator.engine.space;
    let keys = |db| space.sizes(db).map_or(0, pantala_keyspace::DatabaseSizes::keys);
    (0..space.database_count())
        .map(DbIndex)
        .filter(|&db| keys(db) > 0)
        .map(|db| (db, keys(db), space.index_bytes(db)))
        .collect()
}

/// Below this the doctor finds nothing.
const WORTH_A_LOOK_BYTES: u64 = 16 << 20;
/// How much the allocator may waste before the doctor reports it.
const WASTE_BYTES: u64 = 10 << 20;
/// From this average on, client buffers are large.
const CLIENT_BYTES: u64 = 200 << 10;
/// More scripts than this are hardly written by hand.
const SCRIPTS: usize = 1000;

/// What the doctor looks at beside the account.
#[derive(Clone, Copy, Debug)]
struct DoctorInput {
    rss: u64,
    limit: u64,
    clients: u64,
    scripts: usize,
}

fn doctor(call: &mut Call<'_, '_>) -> CommandResult {
    let operator = Operator::of(call);
    let account = Account::take(operator);
    let circumstances = DoctorInput {
        rss: rss_bytes(),
        limit: operator.engine.settings.current().memory_limit(),
        clients: operator.workers.room.connection_count() as u64,
        scripts: operator.engine.scripts.counts().0,
    };
    let text = diagnose(&account, circumstances);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn diagnose(account: &Account, circumstances: DoctorInput) -> String {
    let Account { used, peak, allocator, .. } = *account;
    let DoctorInput { rss, limit, clients, scripts } = circumstances;
    if used < WORTH_A_LOOK_BYTES {
        return "Next to nothing is stored: there is nothing to diagnose.".to_owned();
    }
    let is_much = |larger: u64, smaller: u64, most: f64| {
        ratio(larger, smaller) > most && larger - smaller > WASTE_BYTES
    };
    let mut findings = Vec::new();
    if limit > 0 && used > limit / 10 * 9 {
        findings.push(format!("{} of {} (maxmemory) are in use.", human(used), human(limit)));
    }
    if ratio(peak, used) > 1.5 {
        findings.push(format!(
            "There was more data once: {} at the peak. What is resident since then is given back \
             in time.",
            human(peak)
        ));
    }
    if is_much(rss, used, 1.4) {
        let (rss, used) = (human(rss), human(used));
        findings.push(format!(
            "{rss} are resident for {used} in use; MEMORY PURGE gives idle pages back."
        ));
    }
    if is_much(allocator.active, allocator.allocated, 1.1) {
        let waste = human(allocator.active - allocator.allocated);
        findings.push(format!(
            "{waste} lie between what is stored, in pages that are used in part: activedefrag \
             moves data together."
        ));
    }
    if clients > 0 && account.clients / clients > CLIENT_BYTES {
        let (all, each) = (human(account.clients), human(account.clients / clients));
        findings.push(format!(
            "Clients' buffers take {all}, {each} each: some read their replies slowly, or send or \
             ask for much at once. CLIENT LIST shows who; maxmemory-clients sets a limit."
        ));
    }
    if scripts > SCRIPTS {
        findings.push(format!(
            "{scripts} scripts are kept: give what differs to EVAL as arguments, not as text."
        ));
    }
    match findings.is_empty() {
        true => "No trouble with memory was found.".to_owned(),
        false => findings.join("\n"),
    }
}

fn allocator(call: &mut Call<'_, '_>) -> CommandResult {
    let report = pantala_memory::report().unwrap_or_default();
    let text = format!(
        "jemalloc, bytes\nallocated: {}\nactive: {}\nresident: {}\nretained: {}\nmetadata: {}\n",
        report.allocated, report.active, report.resident, report.retained, report.metadata
    );
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn purge(call: &mut Call<'_, '_>) -> CommandResult {
    if !pantala_memory::purge() {
        tracing::warn!("the allocator did not purge");
    }
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_SCRIPTS: ScriptBytes =
        ScriptBytes { vm_eval: 0, vm_functions: 0, texts: 0, libraries: 0 };

    fn check(used: u64, change: impl Fn(&mut Account, &mut DoctorInput), part: &str) {
        let mut account = Account {
            used,
            peak: used,
            startup: 0,
            overhead: 0,
            backlog: 0,
            unsent: 0,
            replicas: 0,
            clients: 0,
            scripts: NO_SCRIPTS,
            allocator: MemoryReport::default(),
        };
        let mut circumstances = DoctorInput { rss: used, limit: 0, clients: 4, scripts: 9 };
        change(&mut account, &mut circumstances);
        let text = diagnose(&account, circumstances);
        assert!(text.contains(part) && !text.contains('\n'), "{part}: {text}");
    }

    #[test]
    fn each_trouble_is_found_alone() {
        const USED: u64 = 100 << 20;
        check(1 << 20, |_, here| here.rss = 90 << 20, "Next to nothing");
        check(USED, |_, _| {}, "No trouble");
        check(USED, |_, here| here.limit = 105 << 20, "100.00M of 105.00M");
        check(USED, |account, _| account.peak = 200 << 20, "200.00M at the peak");
        check(USED, |_, here| here.rss = 150 << 20, "150.00M are resident");
        check(
            USED,
            |account, _| {
                (account.allocator.active, account.allocator.allocated) = (120 << 20, 100 << 20);
            },
            "20.00M lie between",
        );
        check(USED, |account, _| account.clients = 2 << 20, "512.00K each");
        check(USED, |_, here| here.scripts = 5_000, "5000 scripts");
    }
}
