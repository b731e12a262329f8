//! Settings of Redis and Valkey that are accepted and stored without an effect yet: files that
//! contain them load, CONFIG GET answers them, and a start warns when one is not at its default.
//!
//! Those that promise safety are `refused`: data believed to be on disk, traffic believed to be
//! encrypted, or outsiders believed to be kept out are worse than a server that does not start. A
//! row of that kind says so.
//!
//! A row moves to `active` when the server implements it. Tests: `row`, `tests/reference.rs`.

use crate::field::Permission;
use crate::kind::{BYTES, COUNT, IPV4, IPV6, Kind, LONG, PORT};
use crate::row::{Row, SettingGroup, live, start};
use crate::shapes;
use Kind::{Bool, Int, Text, Word};
use SettingGroup::{
    Cluster, Commands, Encodings, Memory, Network, Observe, Persistence, Process, Replication,
    Security, Threads, Tls,
};

const NODE_NAME: Kind = Kind::Checked(shapes::node_name, "letters, digits, -./:_");
const PERMISSION: Kind = Word(Permission::WORDS);

pub(crate) const ROWS: &[Row] = &[
    live("active-defrag-max-scan-fields", Int(1, i64::MAX), "1000", Memory)
        .doc("Parts of a collection defragmented in one go. Here they are always 64."),
    live("activerehashing", Bool, "yes", Memory)
        .doc("Use idle time to rehash. Tables here grow one segment at a time instead."),
    start("always-show-logo", Bool, "no", Process).doc("Show a logo at start."),
    start("aof-rewrite-cpulist", Text, "", Threads)
        .also(&["aof_rewrite_cpulist"])
        .doc("CPUs for the rewrite of the append-only file."),
    live("aof-rewrite-incremental-fsync", Bool, "yes", Persistence)
        .doc("Sync the rewritten append-only file in steps."),
    start("bgsave-cpulist", Text, "", Threads)
        .also(&["bgsave_cpulist"])
        .doc("CPUs for background saves."),
    start("bio-cpulist", Text, "", Threads)
        .also(&["bio_cpulist"])
        .doc("CPUs for background threads."),
    live("cluster-allow-replica-migration", Bool, "yes", Cluster)
        .doc("Let replicas move to a primary that has none."),
    live("cluster-announce-client-ipv4", IPV4, "", Cluster).doc("IPv4 address told to clients."),
    live("cluster-announce-client-ipv6", IPV6, "", Cluster).doc("IPv6 address told to clients."),
    live("cluster-announce-client-port", PORT, "0", Cluster).doc("Port told to clients."),
    live("cluster-announce-client-tls-port", PORT, "0", Cluster).doc("TLS port told to clients."),
    live("cluster-announce-human-nodename", NODE_NAME, "", Cluster)
        .doc("Name of this node in logs."),
    live("cluster-blacklist-ttl", Int(i64::MIN, i64::MAX), "60", Cluster)
        .doc("Seconds for which a forgotten node is not added again."),
    live("cluster-config-save-behavior", Word(&["sync", "best-effort"]), "sync", Cluster)
        .doc("Whether failing to save the cluster's state is fatal."),
    live("cluster-link-sendbuf-limit", BYTES, "0", Cluster)
        .doc("Unsent bytes that close a link between nodes."),
    live("cluster-migration-barrier", COUNT, "1", Cluster)
        .doc("Replicas a primary keeps before one may move away."),
    live("cluster-ping-interval", LONG, "1000", Cluster)
        .hidden()
        .doc("Milliseconds between pings of nodes."),
    start("cluster-port", PORT, "0", Cluster).doc("Port of the cluster bus."),
    live("cluster-replica-no-failover", Bool, "no", Cluster)
        .also(&["cluster-slave-no-failover"])
        .doc("Keep this replica from taking over."),
    live("cluster-replica-validity-factor", COUNT, "10", Cluster)
        .also(&["cluster-slave-validity-factor"])
        .doc("Multiple of the node timeout beyond which a replica is too old to take over."),
    live("cluster-slot-migration-log-max-len", LONG, "1000", Cluster)
        .doc("Finished slot migrations that are remembered."),
    live("cluster-slot-stats-enabled", Bool, "no", Cluster).doc("Count CPU and traffic per slot."),
    live("crash-memcheck-enabled", Bool, "yes", Observe)
        .doc("Check memory when the server crashes."),
    start("daemonize", Bool, "no", Process)
        .doc("Run in the background. Use a service manager, or a shell's &."),
    start("disable-thp", Bool, "yes", Memory).doc("Ask the kernel for no huge pages."),
    live("dual-channel-replication-enabled", Bool, "no", Replication)
        .doc("Send a full sync over a connection of its own."),
    start("enable-debug-assert", Bool, "no", Process)
        .hidden()
        .doc("Let DEBUG ASSERT fail. There is no such subcommand here."),
    start("enable-module-command", PERMISSION, "no", Security)
        .doc("Who may load modules. There are none here."),
    live("extended-redis-compatibility", Bool, "no", Process).doc("Pretend more to be Redis."),
    live("ignore-warnings", Text, "", Process).doc("Warnings at start that are not fatal."),
    live("io-threads", Int(1, 256), "1", Threads)
        .doc("I/O threads. Here every worker does its own I/O: see threads."),
    live("jemalloc-bg-thread", Bool, "yes", Memory)
        .doc("Let the allocator give memory back from a thread of its own."),
    live(
        "loading-process-events-interval-bytes",
        Int(1024, i32::MAX as i64),
        "2097152",
        Persistence,
    )
    .hidden()
    .doc("Bytes loaded between looks at clients, which are always served here."),
    live("locale-collate", Text, "", Commands).doc("Locale by which SORT ALPHA compares."),
    live("max-new-connections-per-cycle", Int(1, 1_000), "10", Network)
        .doc("Connections accepted in one turn of the loop."),
    live("maxmemory-samples", Int(1, 64), "5", Memory)
        .doc("Keys compared to find one to evict; here it is always a whole segment of the table."),
    start("mptcp", Bool, "no", Network).doc("Listen with multipath TCP."),
    live("prefetch-batch-max-size", Int(0, 128), "16", Threads)
        .doc("Commands whose memory is prefetched together."),
    live("rdb-del-sync-files", Bool, "no", Replication)
        .doc("Delete snapshot files made only for a replica."),
    live("rdma-bind", Text, "", Network).doc("Addresses to listen on for RDMA."),
    start("rdma-completion-vector", Int(-1, 1024), "-1", Network)
        .doc("Interrupt vector of RDMA completions."),
    live("rdma-port", PORT, "0", Network).doc("Port to listen on for RDMA."),
    start("rdma-rx-size", Int(65_536, 16_777_216), "1048576", Network)
        .doc("Bytes of an RDMA receive buffer."),
    live("repl-disable-tcp-nodelay", Bool, "no", Replication)
        .doc("Send to replicas in fewer, later packets."),
    start("repl-mptcp", Bool, "no", Replication).doc("Reach the primary with multipath TCP."),
    live("replica-ignore-disk-write-errors", Bool, "no", Replication)
        .doc("Let a replica go on when its disk fails."),
    live("replica-lazy-flush", Bool, "yes", Replication)
        .also(&["slave-lazy-flush"])
        .doc("Free the old data set in the background at a full sync."),
    start("server-cpulist", Text, "", Threads)
        .also(&["server_cpulist"])
        .doc("CPUs for the main threads."),
    live("slot-migration-max-failover-repl-bytes", Kind::MemoryOrMinusOne, "0", Cluster)
        .doc("Bytes in flight up to which a migrated slot changes its owner; -1 means any."),
    start("socket-mark-id", Int(0, u32::MAX as i64), "0", Network).doc("Mark of outgoing packets."),
    live("tls-cluster", Bool, "no", Tls).refused().doc("Use TLS between nodes."),
    live("tls-dh-params-file", Text, "", Tls).doc("File of Diffie-Hellman parameters."),
    live("tls-session-cache-size", COUNT, "20480", Tls).doc("Sessions that are cached."),
    live("use-exit-on-panic", Bool, "no", Process)
        .hidden()
        .doc("End without a core file when the server panics."),
    live("active-expire-effort", Int(1, 10), "1", Memory)
        .doc("How hard the sweep for expired keys works."),
    live("lfu-log-factor", COUNT, "10", Memory).doc(
        "Accesses needed to saturate the frequency counter; here it has two bits, a step each.",
    ),
    live("lfu-decay-time", COUNT, "1", Memory)
        .doc("Minutes after which the frequency counter loses one; here it ages with evictions."),
    live("lazyfree-lazy-eviction", Bool, "yes", Memory)
        .doc("Free evicted values outside the command."),
    live("lazyfree-lazy-expire", Bool, "yes", Memory)
        .doc("Free expired values outside the command."),
    live("lazyfree-lazy-server-del", Bool, "yes", Memory)
        .doc("Free values that a command replaces, such as RENAME's target, outside the command."),
    live("lazyfree-lazy-user-del", Bool, "yes", Memory).doc("DEL frees as UNLINK does."),
    live("hz", Kind::Checked(shapes::timer_hz, "1 to 500"), "10", Process)
        .doc("Runs of the main timer in a second; bent into 1 to 500."),
    // Settings of older Redis that change nothing a client sees; Valkey passes over them.
    live("dynamic-hz", Bool, "yes", Process).doc("Let hz grow with the clients. Obsolete."),
    start("events-per-io-thread", COUNT, "2", Threads)
        .doc("Events that wake an I/O thread. Obsolete."),
    start("io-threads-do-reads", Bool, "no", Threads).doc("Let I/O threads read. Obsolete."),
    start("list-max-ziplist-entries", LONG, "512", Encodings)
        .doc("Elements of a packed list. Obsolete."),
    start("list-max-ziplist-value", LONG, "64", Encodings)
        .doc("Bytes of a packed list's element. Obsolete."),
    start("lua-enable-deprecated-api", Bool, "no", Commands)
        .doc("Old functions in scripts. Obsolete."),
    start("lua-replicate-commands", Bool, "yes", Commands)
        .doc("Replicate a script's effects. Obsolete."),
    live("sanitize-dump-payload", Word(&["no", "yes", "clients"]), "no", Security)
        .doc("How deeply what is loaded is checked. Here always to the last byte."),
];
