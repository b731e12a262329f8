//! The active settings. One row declares the typed field, its names, kind, bounds, default, when it
//! may change and its doc line.
//!
//! Not here: settings that have no effect (`inert`, `dragonfly`). Tests: `row`, `snapshot`.

use crate::field::{
    AppendSync, ChannelDefault, ClusterMode, CopyCompression, DisklessLoad, EndpointType,
    EvictionPolicy, Facility, Field, IoEngine, LogFormat, LogLevel, LogTimes, MemoryShare, Mode,
    OomScoreAdj, OomScores, OutputLimits, Percentiles, Permission, PortSharing, PropagationErrors,
    SavePoints, ShutdownWords, Supervised, TlsClients, TlsUserField, VersionCheck,
};
use crate::kind::{BYTES, COUNT, HOST_NAME, Kind, LONG, PORT, SHUTDOWN, SIZE};
use crate::row::{OnChange, Row, SettingGroup, live, protected, start};
use crate::shapes;
use crate::shapes::title::{self, TitleTemplate};
use crate::sources::users::UserLine;
use SettingGroup::{
    Cluster, Commands, Encodings, Memory, Network, Observe, Persistence, Process, Replication,
    Security, Threads, Tls,
};
use std::collections::BTreeMap;

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $row:expr;)+) => {
        /// The values of every setting: an immutable snapshot that workers read and share.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $field: $type,)+
            /// Values of the settings that nothing acts on yet, where they differ from the default.
            pub(crate) inert: BTreeMap<&'static str, String>,
            /// What the configuration file says of users; only for the start.
            pub user_lines: Vec<UserLine>,
        }

        impl Settings {
            /// Every setting at its default.
            pub fn defaults() -> Self {
                Self {
                    $($field: <$type as Field>::read(($row).default),)+
                    inert: BTreeMap::new(),
                    user_lines: Vec::new(),
                }
            }
        }

        pub(crate) const ROWS: &[Row] = &[
            $($row.doc(concat!($($doc),+)).acting(
                |settings| settings.$field.write(),
                |settings, text| settings.$field = <$type as Field>::read(text),
            ),)+
        ];
    };
}

/// Bytes a client's input or one argument may take: 1 MB at least.
const INPUT_BYTES: Kind = Kind::Memory(1 << 20, i64::MAX as u64);
/// How a node is told to others.
const NODE_ADDRESS: Kind = Kind::Checked(shapes::node_address, "an address or a host name");
/// A threshold that -1 turns off.
const THRESHOLD: Kind = Kind::Int(-1, i64::MAX);

/// What is kept for replicas.
const BACKLOG: Kind = Kind::Checked(shapes::backlog_bytes, "bytes, such as 10mb, at least 16kb");
/// A pause, in microseconds.
const DELAY_US: Kind = Kind::Int(0, i32::MAX as i64);

settings! {
    /// TCP port that clients connect to; 0 opens none.
    port: u16 = live("port", PORT, "6379", Network).on_change(OnChange::Listeners);
    /// TCP port for clients of Memcached's protocols; 0 opens none.
    memcached_port: u16 = live("memcached_port", PORT, "0", Network)
        .beyond_redis().on_change(OnChange::Listeners);
    /// Clients of Memcached may use `port`, too, told by their first line: `clear` one that RESP
    /// refuses, `yes` also `get KEY` and `touch KEY N` in lower case.
    primary_port_memcached: PortSharing = live(
        "primary_port_memcached", Kind::Word(PortSharing::WORDS), "no", Network)
        .beyond_redis();
    /// `port` also serves HTTP, told by its first line: the console, its API, metrics and health.
    primary_port_http_enabled: bool = start(
        "primary_port_http_enabled", Kind::Bool, "yes", Network)
        .beyond_redis();
    /// TCP port for administration, of RESP and of HTTP; 0 opens none.
    admin_port: u16 = start("admin_port", PORT, "0", Network).beyond_redis();
    /// Addresses that `admin_port` listens on; empty means those of `bind`.
    admin_bind: Vec<String> = start(
        "admin_bind", Kind::Shape(shapes::addresses, "up to 16 addresses"), "", Network)
        .beyond_redis();
    /// Ask nobody for a password who comes to `admin_port`: all are the default user.
    admin_nopass: bool = start("admin_nopass", Kind::Bool, "no", Security).beyond_redis();
    /// Serve the console over HTTP; the rest of HTTP is served without it.
    http_admin_console: bool = start("http_admin_console", Kind::Bool, "yes", Network)
        .beyond_redis();
    /// By whose names `/metrics` tells what it tells, where the request does not say; any of
    /// `pantala`, `dragonfly`, `redis_exporter`, spaces between.
    metrics_names: String = live(
        "metrics_names", Kind::Shape(shapes::metrics_names, "kinds of names"), "pantala", Network)
        .beyond_redis();
    /// Names that HTTP may be asked for by, beside IP addresses and `localhost`; spaces between.
    http_hosts: String = live("http_hosts", Kind::Text, "", Network).beyond_redis();
    /// The largest item that clients of Memcached may store: key, value and what Memcached adds.
    memcached_item_size_max: u64 = live(
        "memcached_item_size_max", Kind::Memory(1 << 10, 1 << 30), "1048576", Network)
        .beyond_redis();
    /// Addresses to listen on; `*` and `::*` are all of IPv4 and IPv6; one after `-` may fail.
    bind: Vec<String> = live(
        "bind", Kind::Shape(shapes::addresses, "up to 16 addresses"), "* -::*", Network)
        .on_change(OnChange::Listeners);
    /// Local address of the connections to a primary; none: the system chooses.
    bind_source_addr: String = live("bind-source-addr", Kind::Text, "", Network);
    /// Zone that INFO and HELLO report.
    availability_zone: String = live("availability-zone", Kind::Text, "", Process);
    /// Clients may bring another server's data (CLIENT IMPORT-SOURCE). Keys that have expired are
    /// hidden from the others, but stay until a source removes them.
    import_mode: bool = live("import-mode", Kind::Bool, "no", Commands)
        .on_change(OnChange::Expiry);
    /// Connections the kernel keeps waiting for accept.
    tcp_backlog: u32 = start("tcp-backlog", COUNT, "511", Network);
    /// Path of a Unix socket to listen on as well.
    unixsocket: String = start("unixsocket", Kind::Text, "", Network);
    /// Group of the Unix socket; empty leaves it to the process.
    unixsocketgroup: String = start("unixsocketgroup", Kind::Text, "", Network);
    /// Permission bits of the Unix socket; 0 leaves them to the umask.
    unixsocketperm: Mode = start("unixsocketperm", Kind::Octal, "0", Network);
    /// Seconds after which an idle client is disconnected; 0 means never.
    timeout_s: u32 = live("timeout", COUNT, "0", Network);
    /// Seconds of silence after which TCP asks whether the client lives; 0 means never.
    tcp_keepalive_s: u32 = live("tcp-keepalive", COUNT, "300", Network);
    /// Connections at most at one time.
    maxclients: u32 = live("maxclients", Kind::Int(1, u32::MAX as i64), "10000", Network)
        .on_change(OnChange::Clients);
    /// Unsent replies that cost a client its connection: class, hard bytes, soft bytes and seconds.
    client_output_buffer_limit: OutputLimits = live(
        "client-output-buffer-limit",
        Kind::Shape(shapes::output_limits, "normal|replica|pubsub hard soft seconds, repeated"),
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Network);
    /// Unread input that costs a client its connection, in bytes.
    client_query_buffer_limit: u64 = live(
        "client-query-buffer-limit", INPUT_BYTES, "1073741824", Network);
    /// Longest argument a client may send, in bytes.
    proto_max_bulk_len: u64 = live("proto-max-bulk-len", INPUT_BYTES, "536870912", Network);

    /// Worker threads; auto is one for each available core.
    threads: usize = live("threads", Kind::IntOr(0, 1024, "auto"), "0", Threads)
        .understood(&["proactor_threads"]).beyond_redis().on_change(OnChange::Workers);
    /// What moves bytes between sockets and memory; auto is io_uring where allowed, else epoll.
    io_engine: IoEngine = start("io_engine", Kind::Word(IoEngine::WORDS), "auto", Threads)
        .beyond_redis();
    /// Threads for commands that are known to be long, so that workers go on serving.
    slow_lane_threads: usize = start("slow_lane_threads", Kind::Int(1, 64), "2", Threads)
        .beyond_redis();

    /// Bytes of data above which keys are evicted or writes refused; 0 means no limit.
    maxmemory: u64 = live("maxmemory", BYTES, "0", Memory).on_change(OnChange::Memory);
    /// What happens when a write would exceed maxmemory.
    maxmemory_policy: EvictionPolicy = live(
        "maxmemory-policy", Kind::Word(EvictionPolicy::WORDS), "noeviction", Memory)
        .on_change(OnChange::Policy);
    /// How long one turn may evict: 50 us each up to 10, then 15 % more each; 100 is without end.
    maxmemory_eviction_tenacity: u32 = live(
        "maxmemory-eviction-tenacity", Kind::Int(0, 100), "10", Memory);
    /// Evict cold keys at maxmemory, or at 80 % of the memory there is; noeviction then means
    /// allkeys-lru or allkeys-lfu, whichever has fewer misses.
    cache_mode: bool = live("cache_mode", Kind::Bool, "no", Memory)
        .on_change(OnChange::Policy)
        .beyond_redis();
    /// Bytes, or share of maxmemory, that clients' buffers may take together; 0 means no limit.
    maxmemory_clients: MemoryShare = live(
        "maxmemory-clients", Kind::MemoryOrPercent, "0", Memory);
    /// Data that lies in mostly empty pages is moved in the background, so that these are given
    /// back.
    activedefrag: bool = live("activedefrag", Kind::Bool, "yes", Memory);
    /// Wasted bytes below which defragmentation rests.
    active_defrag_ignore_bytes: u64 = live(
        "active-defrag-ignore-bytes", Kind::Memory(1, i64::MAX as u64), "16777216", Memory);
    /// Wasted bytes, in percent of those used, below which defragmentation rests.
    active_defrag_threshold_lower: u32 = live(
        "active-defrag-threshold-lower", Kind::Int(0, 1_000), "10", Memory);
    /// Wasted bytes, in percent of those used, from which on it takes as much CPU as it may.
    active_defrag_threshold_upper: u32 = live(
        "active-defrag-threshold-upper", Kind::Int(0, 1_000), "100", Memory);
    /// Percentage of one core that defragmentation takes at least.
    active_defrag_cycle_min: u32 = live(
        "active-defrag-cycle-min", Kind::Int(1, 99), "1", Memory);
    /// Percentage of one core that defragmentation takes at most.
    active_defrag_cycle_max: u32 = live(
        "active-defrag-cycle-max", Kind::Int(1, 99), "25", Memory);
    /// Microseconds that defragmentation works without a rest.
    active_defrag_cycle_us: u32 = live(
        "active-defrag-cycle-us", Kind::Int(0, 100_000), "500", Memory);
    /// FLUSHALL and FLUSHDB free as with ASYNC.
    lazyfree_lazy_user_flush: bool = live("lazyfree-lazy-user-flush", Kind::Bool, "yes", Memory);

    /// Fields up to which a hash is packed.
    hash_max_listpack_entries: usize = live("hash-max-listpack-entries", LONG, "512", Encodings)
        .also(&["hash-max-ziplist-entries"]);
    /// Bytes of a field or value up to which a hash is packed.
    hash_max_listpack_value_bytes: usize = live("hash-max-listpack-value", SIZE, "64", Encodings)
        .also(&["hash-max-ziplist-value"]);
    /// Bytes up to which a HyperLogLog is sparse.
    hll_sparse_max_bytes: usize = live("hll-sparse-max-bytes", SIZE, "3000", Encodings);
    /// Seconds and changes after which a snapshot is taken, in pairs; empty means never.
    save: SavePoints = live(
        "save",
        Kind::Shape(shapes::save_points, "seconds changes, repeated, or nothing"),
        "3600 1 300 100 60 10000",
        Persistence).accumulates().on_change(OnChange::Saving);
    /// Times of day (UTC) at which a snapshot is taken, as HH:MM with the wildcards of KEYS.
    save_schedule: String = live(
        "save_schedule",
        Kind::Checked(shapes::times_of_day, "HH:MM, such as 23:45 or *:30"),
        "",
        Persistence).beyond_redis().on_change(OnChange::Saving);
    /// Times (UTC) at which a snapshot is taken, as a cron line: minute hour day month weekday.
    snapshot_cron: String = live(
        "snapshot_cron",
        Kind::Checked(shapes::cron_line, "a cron line, such as */30 * * * *"),
        "",
        Persistence).beyond_redis().on_change(OnChange::Saving);
    /// Threads that write and read snapshots; auto is one for each available core.
    snapshot_threads: usize = live("snapshot_threads", Kind::IntOr(0, 64, "auto"), "0", Persistence)
        .beyond_redis();
    /// Name of the snapshot file, inside dir; {timestamp} becomes the time.
    dbfilename: String = protected(
        "dbfilename", Kind::Checked(shapes::file_name, "a file's name"), "dump.rdb", Persistence);
    /// Snapshot to begin with: a file's name inside dir, or latest; empty means dbfilename.
    load: String = start(
        "load", Kind::Checked(shapes::file_to_load, "latest, or a file's name"), "", Persistence)
        .beyond_redis();
    /// Append every write to files, which are loaded at the start.
    appendonly: bool = live("appendonly", Kind::Bool, "no", Persistence)
        .fixed_while_loading().on_change(OnChange::AppendOnly);
    /// When the append-only file is synced to disk: each second, before a reply, or never.
    appendfsync: AppendSync = live(
        "appendfsync", Kind::Word(AppendSync::WORDS), "everysec", Persistence)
        .on_change(OnChange::AppendOnly);
    /// Do not sync the append-only file while a snapshot or a rewrite is being written.
    no_appendfsync_on_rewrite: bool = live(
        "no-appendfsync-on-rewrite", Kind::Bool, "no", Persistence);
    /// Begin a rewritten append-only file with a snapshot; else with commands.
    aof_use_rdb_preamble: bool = live("aof-use-rdb-preamble", Kind::Bool, "yes", Persistence);
    /// Directory of the append-only files, inside dir.
    appenddirname: String = start(
        "appenddirname", Kind::Checked(shapes::file_name, "a directory's name"), "appendonlydir",
        Persistence);
    /// Base name of the append-only files.
    appendfilename: String = start(
        "appendfilename", Kind::Checked(shapes::file_name, "a file's name"), "appendonly.aof",
        Persistence);
    /// Where acknowledged writes outlive the process until they are in the append-only file; auto:
    /// in /dev/shm, if that is memory. Empty means nowhere.
    journal_ring_dir: String = start("journal-ring-dir", Kind::Text, "auto", Persistence)
        .beyond_redis();
    /// Keep append-only files that a rewrite has replaced, until this is off again.
    aof_disable_auto_gc: bool = live("aof-disable-auto-gc", Kind::Bool, "no", Persistence)
        .on_change(OnChange::AppendOnly);
    /// Growth in percent at which the append-only file is rewritten; 0 means never.
    auto_aof_rewrite_percentage: u32 = live(
        "auto-aof-rewrite-percentage", COUNT, "100", Persistence);
    /// Bytes below which the append-only file is not rewritten by itself.
    auto_aof_rewrite_min_bytes: u64 = live(
        "auto-aof-rewrite-min-size", SIZE, "67108864", Persistence);
    /// Load an append-only file whose end is missing, up to its last whole step.
    aof_load_truncated: bool = live("aof-load-truncated", Kind::Bool, "yes", Persistence);
    /// Write the time into the append-only file, each second in which there is a write.
    aof_timestamp_enabled: bool = live("aof-timestamp-enabled", Kind::Bool, "no", Persistence);
    /// Compress strings in a snapshot.
    rdbcompression: bool = live("rdbcompression", Kind::Bool, "yes", Persistence);
    /// End a snapshot with a checksum, and check it when one is read.
    rdbchecksum: bool = start("rdbchecksum", Kind::Bool, "yes", Persistence);
    /// Write snapshots that other servers load: without what only Pantala keeps.
    snapshot_portable: bool = live("snapshot_portable", Kind::Bool, "no", Persistence)
        .beyond_redis();
    /// Sync a snapshot to disk in steps.
    rdb_save_incremental_fsync: bool = live(
        "rdb-save-incremental-fsync", Kind::Bool, "yes", Persistence);
    /// Rest for so many microseconds after each key that is saved; for tests.
    rdb_key_save_delay_us: u64 = live("rdb-key-save-delay", DELAY_US, "0", Persistence).hidden();
    /// Rest for so many microseconds after each key that is loaded; for tests.
    key_load_delay_us: u64 = live("key-load-delay", DELAY_US, "0", Persistence).hidden();
    /// RESTORE does not look at a payload's checksum; for tests, by DEBUG.
    skip_checksum_validation: bool = live(
        "skip-checksum-validation", Kind::Bool, "no", Persistence).beyond_redis().hidden();
    /// Refuse writes after a failed snapshot, if there are save points, until one succeeds.
    stop_writes_on_bgsave_error: bool = live(
        "stop-writes-on-bgsave-error", Kind::Bool, "yes", Persistence).on_change(OnChange::Saving);
    /// Pass over the values of modules in a snapshot that is loaded; else they refuse the start.
    skip_module_values: bool = start("skip_module_values", Kind::Bool, "no", Persistence)
        .beyond_redis();
    /// Whether RESTORE and FUNCTION RESTORE take payloads of Redis's own and of newer versions.
    rdb_version_check: VersionCheck = live(
        "rdb-version-check", Kind::Word(VersionCheck::WORDS), "strict", Persistence);
    /// Nodes at each end of a list beyond which they are compressed; 0 means none is.
    list_compress_depth: u32 = live("list-compress-depth", COUNT, "0", Encodings);
    /// Elements of a list's node, or -1 to -5 for 4 to 64 KB.
    list_max_listpack_size: i64 = live(
        "list-max-listpack-size", Kind::Int(i32::MIN as i64, i32::MAX as i64), "-2", Encodings)
        .also(&["list-max-ziplist-size"]);
    /// Members up to which a set of integers is packed as such.
    set_max_intset_entries: usize = live("set-max-intset-entries", LONG, "512", Encodings);
    /// Members up to which a set is packed.
    set_max_listpack_entries: usize = live("set-max-listpack-entries", LONG, "128", Encodings);
    /// Bytes of a member up to which a set is packed.
    set_max_listpack_value_bytes: usize = live("set-max-listpack-value", LONG, "64", Encodings);
    /// Members up to which a sorted set is packed.
    zset_max_listpack_entries: usize = live("zset-max-listpack-entries", LONG, "128", Encodings)
        .also(&["zset-max-ziplist-entries"]);
    /// Bytes of a member up to which a sorted set is packed.
    zset_max_listpack_value_bytes: usize = live("zset-max-listpack-value", SIZE, "64", Encodings)
        .also(&["zset-max-ziplist-value"]);
    /// Bytes of a stream's block.
    stream_node_max_bytes: usize = live("stream-node-max-bytes", SIZE, "4096", Encodings);
    /// Entries of a stream's block.
    stream_node_max_entries: usize = live("stream-node-max-entries", LONG, "100", Encodings);

    /// Host and port of the primary to follow.
    replicaof: String = start(
        "replicaof", Kind::Shape(shapes::primary, "host port, or no one"), "", Replication)
        .also(&["slaveof"]);
    /// Password to send to the primary.
    primaryauth: String = live("primaryauth", Kind::Text, "", Replication)
        .also(&["masterauth"]).secret();
    /// User name to send to the primary.
    primaryuser: String = live("primaryuser", Kind::Text, "", Replication)
        .also(&["masteruser"]).secret();
    /// Bytes of recent writes kept for replicas that come back.
    repl_backlog_bytes: u64 = live("repl-backlog-size", BACKLOG, "10485760", Replication)
        .on_change(OnChange::Replication);
    /// Seconds without replicas after which the backlog is freed; 0 means never.
    repl_backlog_ttl_s: u64 = live("repl-backlog-ttl", LONG, "3600", Replication)
        .on_change(OnChange::Replication);
    /// Send a full copy straight to the socket, else from a file.
    repl_diskless_sync: bool = live("repl-diskless-sync", Kind::Bool, "yes", Replication);
    /// Seconds to wait for more replicas before a full copy.
    repl_diskless_sync_delay_s: u32 = live(
        "repl-diskless-sync-delay", COUNT, "5", Replication);
    /// Replicas that end the wait before a full copy; 0 means none do.
    repl_diskless_sync_max_replicas: u32 = live(
        "repl-diskless-sync-max-replicas", COUNT, "0", Replication);
    /// Compress full copies between Pantalas. `auto`: while the network is the slowest part, and
    /// never with `rdbcompression no`.
    repl_copy_compression: CopyCompression = live(
        "repl-copy-compression", Kind::Word(CopyCompression::WORDS), "auto", Replication)
        .beyond_redis();
    /// Whether a replica loads a full copy straight from the socket, and what becomes of its data.
    repl_diskless_load: DisklessLoad = live(
        "repl-diskless-load", Kind::Word(DisklessLoad::WORDS), "disabled", Replication);
    /// What an error of a repeated command does: `panic-on-replicas` ends the link until REPLICAOF,
    /// `panic` the start from an append-only file, too.
    propagation_error_behavior: PropagationErrors = live(
        "propagation-error-behavior", Kind::Word(PropagationErrors::WORDS), "ignore", Replication);
    /// Seconds between pings to replicas.
    repl_ping_replica_period_s: u32 = live(
        "repl-ping-replica-period", Kind::Int(1, i32::MAX as i64), "10", Replication)
        .also(&["repl-ping-slave-period"]);
    /// Seconds of silence that end a replication link.
    repl_timeout_s: u32 = live("repl-timeout", Kind::Int(1, i32::MAX as i64), "60", Replication);
    /// Address told to the primary.
    replica_announce_ip: String = live("replica-announce-ip", Kind::Text, "", Replication)
        .also(&["slave-announce-ip"]);
    /// Port told to the primary; 0 means the port it listens at.
    replica_announce_port: u16 = live("replica-announce-port", PORT, "0", Replication)
        .also(&["slave-announce-port"]);
    /// Serve cluster clients: `emulated` is one node that owns every slot.
    cluster_mode: ClusterMode = start("cluster_mode", Kind::Word(ClusterMode::WORDS), "", Cluster)
        .beyond_redis();
    /// Run as a node of a cluster: slots of keys have owners.
    cluster_enabled: bool = start("cluster-enabled", Kind::Bool, "no", Cluster);
    /// File in dir that keeps the nodes of the cluster and their slots.
    cluster_config_file: String = start(
        "cluster-config-file", Kind::Checked(shapes::file_name, "a file's name"), "nodes.conf",
        Cluster);
    /// Logical databases of a cluster.
    cluster_databases: u32 = start(
        "cluster-databases", Kind::Int(1, i32::MAX as i64), "1", Cluster);
    /// A slot without an owner takes the whole cluster down.
    cluster_require_full_coverage: bool = live(
        "cluster-require-full-coverage", Kind::Bool, "yes", Cluster).on_change(OnChange::Cluster);
    /// Serve reads while the cluster is down.
    cluster_allow_reads_when_down: bool = live(
        "cluster-allow-reads-when-down", Kind::Bool, "no", Cluster).on_change(OnChange::Cluster);
    /// Serve shard channels while the cluster is down.
    cluster_allow_pubsubshard_when_down: bool = live(
        "cluster-allow-pubsubshard-when-down", Kind::Bool, "yes", Cluster)
        .on_change(OnChange::Cluster);
    /// Endpoints of etcd that keeps the cluster, as http://host:port, with commas; empty means the
    /// file.
    cluster_etcd: String = start("cluster-etcd", Kind::Text, "", Cluster).beyond_redis();
    /// User at etcd; empty means none.
    cluster_etcd_user: String = start("cluster-etcd-user", Kind::Text, "", Cluster)
        .beyond_redis();
    /// Password of the user at etcd.
    cluster_etcd_password: String = start("cluster-etcd-password", Kind::Text, "", Cluster)
        .beyond_redis().secret();
    /// Certificates of the authorities that etcd's is checked against; empty means the system's.
    cluster_etcd_ca_file: String = start("cluster-etcd-ca-file", Kind::Text, "", Cluster)
        .beyond_redis();
    /// Certificate that is shown to etcd.
    cluster_etcd_cert_file: String = start("cluster-etcd-cert-file", Kind::Text, "", Cluster)
        .beyond_redis();
    /// Key of the certificate that is shown to etcd.
    cluster_etcd_key_file: String = start("cluster-etcd-key-file", Kind::Text, "", Cluster)
        .beyond_redis();
    /// Go on while etcd is silent, as long as all replicas that may take over promise not to.
    cluster_etcd_failsafe: bool = start("cluster-etcd-failsafe", Kind::Bool, "yes", Cluster)
        .beyond_redis();
    /// Cluster in etcd that this node joins; empty means that it waits for CLUSTER MEET.
    cluster_name: String = start("cluster-name", Kind::Text, "", Cluster).beyond_redis();
    /// Milliseconds after which a silent node counts as failing; with etcd 2 to 5 seconds of it.
    cluster_node_timeout_ms: u64 = live("cluster-node-timeout", LONG, "15000", Cluster);
    /// Milliseconds that a manual failover may take.
    cluster_manual_failover_timeout_ms: u64 = live(
        "cluster-manual-failover-timeout", Kind::Int(1, i32::MAX as i64), "5000", Cluster);
    /// Id of this node, forty hexadecimal digits; empty means one of this run.
    cluster_node_id: String = start("cluster_node_id", Kind::Text, "", Cluster).beyond_redis();
    /// Address told to clients of the cluster; empty means the one that they have asked.
    cluster_announce_ip: String = live("cluster-announce-ip", NODE_ADDRESS, "", Cluster);
    /// Host name told to clients of the cluster.
    cluster_announce_hostname: String = live("cluster-announce-hostname", HOST_NAME, "", Cluster);
    /// Port told to clients of the cluster; 0 means the port it listens at.
    cluster_announce_port: u16 = live("cluster-announce-port", PORT, "0", Cluster)
        .understood(&["announce_port"]);
    /// TLS port told to clients of the cluster; 0 means the port it listens at.
    cluster_announce_tls_port: u16 = live("cluster-announce-tls-port", PORT, "0", Cluster);
    /// Bus port that tools are told; 0 means 10000 above the port.
    cluster_announce_bus_port: u16 = live("cluster-announce-bus-port", PORT, "0", Cluster);
    /// How this node is named to clients of the cluster.
    cluster_preferred_endpoint_type: EndpointType = live(
        "cluster-preferred-endpoint-type", Kind::Word(EndpointType::WORDS), "ip", Cluster)
        .on_change(OnChange::Cluster);
    /// Whether Sentinel shows this replica.
    replica_announced: bool = live("replica-announced", Kind::Bool, "yes", Replication);
    /// Leave eviction to the primary.
    replica_ignore_maxmemory: bool = live(
        "replica-ignore-maxmemory", Kind::Bool, "yes", Replication)
        .also(&["slave-ignore-maxmemory"]).on_change(OnChange::Replication);
    /// Rank for Sentinel: the lowest is promoted first, 0 never.
    replica_priority: u32 = live("replica-priority", COUNT, "100", Replication)
        .also(&["slave-priority"]);
    /// Refuse writes of clients while a replica.
    replica_read_only: bool = live("replica-read-only", Kind::Bool, "yes", Replication)
        .also(&["slave-read-only"]).on_change(OnChange::Replication);
    /// Answer from old data while the link to the primary is down.
    replica_serve_stale_data: bool = live(
        "replica-serve-stale-data", Kind::Bool, "yes", Replication)
        .also(&["slave-serve-stale-data"]).on_change(OnChange::Replication);
    /// Replicas without which writes are refused; 0 means that none are needed.
    min_replicas_to_write: u32 = live("min-replicas-to-write", COUNT, "0", Replication)
        .also(&["min-slaves-to-write"]).on_change(OnChange::Replication);
    /// Refuse commands whose effect a replica of another kind that follows can not have: deadlines
    /// of members, for Redis those of fields, marks of STICK.
    repl_refuse_unknown: bool = live("repl-refuse-unknown", Kind::Bool, "no", Replication)
        .on_change(OnChange::Replication).beyond_redis();
    /// Seconds of lag up to which a replica counts; 0 means that none are needed.
    min_replicas_max_lag_s: u32 = live("min-replicas-max-lag", COUNT, "10", Replication)
        .also(&["min-slaves-max-lag"]).on_change(OnChange::Replication);
    /// Seconds that SHUTDOWN waits for replicas at most.
    shutdown_timeout_s: u32 = live("shutdown-timeout", COUNT, "10", Process);

    /// Password of the default user; empty means none is asked for.
    requirepass: String = live("requirepass", Kind::Text, "", Security).secret()
        .on_change(OnChange::Password);
    /// File of users, beside the data; empty means that users stand in the configuration file.
    aclfile: String = start("aclfile", Kind::Text, "", Security);
    /// Channels that a new user may use.
    acl_pubsub_default: ChannelDefault = live(
        "acl-pubsub-default", Kind::Word(ChannelDefault::WORDS), "resetchannels", Security);
    /// Entries that ACL LOG keeps.
    acllog_max_len: usize = live("acllog-max-len", LONG, "128", Security);
    /// Seconds that a client has to give a password where one is asked for; 0 means no limit.
    auth_timeout_s: u32 = live("auth_timeout", COUNT, "60", Security).beyond_redis();
    /// Milliseconds for which the answer to a wrong password is held back; 0 means not at all.
    auth_failure_delay_ms: u32 = live(
        "auth_failure_delay", Kind::Int(0, 10_000), "100", Security).beyond_redis();
    /// The kernel keeps the process from writing outside of dir and from listening anew.
    landlock: bool = start("landlock", Kind::Bool, "no", Security).beyond_redis();
    /// Without a password, serve only clients of this machine.
    protected_mode: bool = live("protected-mode", Kind::Bool, "yes", Security);
    /// Who may use DEBUG. Redis and Valkey say no by default.
    enable_debug_command: Permission = start(
        "enable-debug-command", Kind::Word(Permission::WORDS), "local", Security);
    /// Who may change protected settings such as dir by CONFIG SET.
    enable_protected_configs: Permission = start(
        "enable-protected-configs", Kind::Word(Permission::WORDS), "no", Security);

    /// TCP port for clients that speak TLS; 0 opens none.
    tls_port: u16 = live("tls-port", PORT, "0", Tls).on_change(OnChange::Listeners);
    /// Speak TLS on `port` and `memcached_port`, too.
    tls: bool = start("tls", Kind::Bool, "no", Tls).beyond_redis();
    /// `admin_port` speaks no TLS where `tls` would have it so.
    no_tls_on_admin_port: bool = start("no_tls_on_admin_port", Kind::Bool, "no", Tls)
        .beyond_redis();
    /// Ports with TLS also serve who speaks plainly, told by the first byte.
    tls_accept_plain: bool = live("tls_accept_plain", Kind::Bool, "no", Tls).beyond_redis();
    /// File of the server's certificate, and of those up to the root.
    tls_cert_file: String = live("tls-cert-file", Kind::Text, "", Tls).on_change(OnChange::Tls);
    /// File of the server's key.
    tls_key_file: String = live("tls-key-file", Kind::Text, "", Tls).on_change(OnChange::Tls);
    /// Password of the server's key.
    tls_key_file_pass: String = live("tls-key-file-pass", Kind::Text, "", Tls)
        .secret().on_change(OnChange::Tls);
    /// File of the certificate that a primary is shown; empty means the server's.
    tls_client_cert_file: String = live("tls-client-cert-file", Kind::Text, "", Tls)
        .on_change(OnChange::Tls);
    /// File of its key.
    tls_client_key_file: String = live("tls-client-key-file", Kind::Text, "", Tls)
        .on_change(OnChange::Tls);
    /// Password of its key.
    tls_client_key_file_pass: String = live("tls-client-key-file-pass", Kind::Text, "", Tls)
        .secret().on_change(OnChange::Tls);
    /// File of certificates that clients' must be signed by.
    tls_ca_cert_file: String = live("tls-ca-cert-file", Kind::Text, "", Tls)
        .on_change(OnChange::Tls);
    /// Directory of such files.
    tls_ca_cert_dir: String = live("tls-ca-cert-dir", Kind::Text, "", Tls)
        .on_change(OnChange::Tls);
    /// Whether clients must show a certificate; optional: who shows one must be believed.
    tls_auth_clients: TlsClients = live(
        "tls-auth-clients", Kind::Word(TlsClients::WORDS), "yes", Tls).on_change(OnChange::Tls);
    /// Use TLS to the primary.
    tls_replication: bool = live("tls-replication", Kind::Bool, "no", Tls);
    /// Field of a client's certificate that names its user.
    tls_auth_clients_user: TlsUserField = live(
        "tls-auth-clients-user", Kind::Word(TlsUserField::WORDS), "off", Tls);
    /// Versions that are allowed: TLSv1.2, TLSv1.3; empty means both.
    tls_protocols: String = live("tls-protocols", Kind::Text, "", Tls).on_change(OnChange::Tls);
    /// Ciphers of TLS 1.2, as OpenSSL writes them; empty means all there are.
    tls_ciphers: String = live("tls-ciphers", Kind::Text, "", Tls).on_change(OnChange::Tls);
    /// Cipher suites of TLS 1.3, separated by colons; empty means all there are.
    tls_ciphersuites: String = live("tls-ciphersuites", Kind::Text, "", Tls)
        .understood(&["tls_cipher_suites"]).on_change(OnChange::Tls);
    /// The server's order of ciphers decides.
    tls_prefer_server_ciphers: bool = live("tls-prefer-server-ciphers", Kind::Bool, "no", Tls)
        .on_change(OnChange::Tls);
    /// Let clients resume sessions, by tickets that they keep.
    tls_session_caching: bool = live("tls-session-caching", Kind::Bool, "yes", Tls)
        .on_change(OnChange::Tls);
    /// Seconds after which the key of tickets is replaced; they are taken for twice as long.
    tls_session_cache_timeout_s: u32 = live("tls-session-cache-timeout", COUNT, "300", Tls)
        .on_change(OnChange::Tls);
    /// Seconds between looks at the files, which are read anew when they have changed; 0: none.
    tls_auto_reload_interval_s: u32 = live("tls-auto-reload-interval", COUNT, "0", Tls)
        .on_change(OnChange::Tls);
    /// Seconds that a handshake may take; 0 means no limit.
    tls_handshake_timeout_s: u32 = live("tls_handshake_timeout", COUNT, "10", Tls).beyond_redis();
    /// Steps of handshakes that a worker computes in one turn; others wait for the next.
    max_new_tls_connections_per_cycle: u32 = live(
        "max-new-tls-connections-per-cycle", Kind::Int(1, 1_000), "1", Tls);

    /// Least important lines that are logged.
    loglevel: LogLevel = live("loglevel", Kind::Word(LogLevel::WORDS), "notice", Observe)
        .on_change(OnChange::LogLevel);
    /// File to log to; empty means standard output. One that was moved away is begun anew.
    logfile: String = start("logfile", Kind::Text, "", Observe);
    /// Form of log lines: legacy is that of Redis and Valkey.
    log_format: LogFormat = live("log-format", Kind::Word(LogFormat::WORDS), "legacy", Observe)
        .on_change(OnChange::LogLevel);
    /// Form of times in the log: legacy is `23 Nov 2026 05:17:03.123`, in local time.
    log_timestamp_format: LogTimes = live(
        "log-timestamp-format", Kind::Word(LogTimes::WORDS), "legacy", Observe)
        .on_change(OnChange::LogLevel);
    /// Log to the system log as well.
    syslog_enabled: bool = start("syslog-enabled", Kind::Bool, "no", Observe);
    /// Name in the system log, and in systemd's journal.
    syslog_ident: String = start("syslog-ident", Kind::Text, "valkey", Observe);
    /// Facility in the system log.
    syslog_facility: Facility = start(
        "syslog-facility", Kind::Word(Facility::WORDS), "local0", Observe);
    /// Log to systemd's journal as well, with the fields of each line.
    journald_enabled: bool = start("journald_enabled", Kind::Bool, "no", Observe).beyond_redis();
    /// Microseconds from which a command enters the slow log; -1 turns it off.
    commandlog_execution_slower_than_us: i64 = live(
        "commandlog-execution-slower-than", THRESHOLD, "10000", Observe)
        .also(&["slowlog-log-slower-than"]).on_change(OnChange::Logs);
    /// Entries the slow log keeps.
    commandlog_slow_execution_max_len: u64 = live(
        "commandlog-slow-execution-max-len", LONG, "128", Observe).also(&["slowlog-max-len"])
        .on_change(OnChange::Logs);
    /// Bytes from which a request enters the log of large requests; -1 turns it off.
    commandlog_request_larger_than_bytes: i64 = live(
        "commandlog-request-larger-than", THRESHOLD, "1048576", Observe).on_change(OnChange::Logs);
    /// Entries the log of large requests keeps.
    commandlog_large_request_max_len: u64 = live(
        "commandlog-large-request-max-len", LONG, "128", Observe).on_change(OnChange::Logs);
    /// Bytes from which a reply enters the log of large replies; -1 turns it off.
    commandlog_reply_larger_than_bytes: i64 = live(
        "commandlog-reply-larger-than", THRESHOLD, "1048576", Observe).on_change(OnChange::Logs);
    /// Entries the log of large replies keeps.
    commandlog_large_reply_max_len: u64 = live(
        "commandlog-large-reply-max-len", LONG, "128", Observe).on_change(OnChange::Logs);
    /// Where metrics and traces are exported to, by OTLP over HTTP: `http://host:4318`; empty
    /// exports none.
    otlp_endpoint: String = start(
        "otlp_endpoint", Kind::Checked(shapes::http_address, "http://host:port"), "", Observe)
        .beyond_redis();
    /// Headers of each export, such as a password's: `name=value`, commas between.
    otlp_headers: String = start(
        "otlp_headers", Kind::Checked(shapes::header_list, "name=value,..."), "", Observe)
        .beyond_redis().secret();
    /// Attributes of this server in each export: `service.name=sessions`, commas between.
    otlp_attributes: String = start(
        "otlp_attributes", Kind::Checked(shapes::attribute_list, "name=value,..."), "", Observe)
        .beyond_redis();
    /// Seconds between two exports.
    otlp_interval_s: u32 = live("otlp_interval", Kind::Int(1, 3_600), "10", Observe)
        .beyond_redis();
    /// Trace about one command in so many, beside those of the slow log; 0 traces only these, -1
    /// none.
    otlp_sample: i64 = live("otlp_sample", Kind::Int(-1, 1_000_000_000), "0", Observe)
        .beyond_redis();
    /// Note the keys of about one command in so many: the console and `/api/hotkeys` show which are
    /// called most. 0 notes none.
    hot_keys_sample: u32 = live("hot-keys-sample", Kind::Int(0, 1_000_000_000), "1024", Observe)
        .beyond_redis();
    /// Milliseconds from which LATENCY records an event; 0 turns it off.
    latency_monitor_threshold_ms: u64 = live("latency-monitor-threshold", LONG, "0", Observe)
        .on_change(OnChange::Logs);
    /// Keep a histogram of times per command for INFO and LATENCY HISTOGRAM.
    latency_tracking: bool = live("latency-tracking", Kind::Bool, "yes", Observe);
    /// Percentiles that INFO latencystats shows.
    latency_tracking_info_percentiles: Percentiles = live(
        "latency-tracking-info-percentiles",
        Kind::Shape(shapes::percentiles, "up to 16 numbers from 0 to 100"),
        "50 99 99.9",
        Observe);

    /// Logical databases that SELECT reaches.
    databases: u32 = start("databases", Kind::Int(1, i32::MAX as i64), "16", Process)
        .understood(&["dbnum"]);
    /// Directory of files; for snapshots also s3://bucket/prefix, or the same with gs, az.
    dir: String = protected("dir", Kind::Text, ".", Process).fixed_while_loading();
    /// How SIGINT shuts down. A second one ends the server at once.
    shutdown_on_sigint: ShutdownWords = live("shutdown-on-sigint", SHUTDOWN, "default", Process);
    /// How SIGTERM shuts down.
    shutdown_on_sigterm: ShutdownWords = live("shutdown-on-sigterm", SHUTDOWN, "default", Process);
    /// A report is logged when the server crashes.
    crash_log_enabled: bool = live("crash-log-enabled", Kind::Bool, "yes", Observe);
    /// The log has no bytes of a client's request that could not be read.
    hide_user_data_from_log: bool =
        live("hide-user-data-from-log", Kind::Bool, "yes", Observe);
    /// The kernel may write a core file when the server crashes. It holds all keys and passwords.
    core_dumps: bool = start("core_dumps", Kind::Bool, "no", Process).beyond_redis();
    /// File that holds the process id while the server runs; empty means none.
    pidfile: String = start("pidfile", Kind::Text, "", Process);
    /// Seed of the hash of keys: servers with the same one list keys in one order; empty means a
    /// random one. Keep it secret: it tells which keys collide.
    hash_seed: String = start("hash-seed", Kind::Text, "", Process);
    /// Service manager that is told when the server is ready and when it stops; auto: whichever has
    /// set its variables.
    supervised: Supervised = start(
        "supervised", Kind::Word(Supervised::WORDS), "no", Process);

    /// Tell the kernel how readily to end this process when memory runs out, by its role: `yes` and
    /// `relative` add to the score it had, `absolute` sets it.
    oom_score_adj: OomScoreAdj = live(
        "oom-score-adj",
        Kind::Checked(shapes::oom_score_adj, "no, yes, relative, absolute"),
        "no",
        Process,
    )
    .on_change(OnChange::OomScore);
    /// The scores of `oom-score-adj`: of a primary, of a replica, and of a saving child, of which
    /// there are none here.
    oom_score_adj_values: OomScores = live(
        "oom-score-adj-values",
        Kind::Shape(shapes::oom_scores, "three numbers from -2000 to 2000"),
        "0 200 800",
        Process,
    )
    .on_change(OnChange::OomScore);

    /// Title of the process in `ps`: text, and {title}, {listen-addr}, {server-mode}, {port},
    /// {tls-port}, {unixsocket}, {config-file}.
    proc_title_template: TitleTemplate = live(
        "proc-title-template",
        Kind::Checked(title::check, "text with variables in braces"),
        "{title} {listen-addr} {server-mode}",
        Process,
    )
    .on_change(OnChange::Title);
    /// Show that title in place of the arguments the process was started with.
    set_proc_title: bool = start("set-proc-title", Kind::Bool, "yes", Process);

    /// Classes of keyspace events that are published.
    notify_keyspace_events: String = live(
        "notify-keyspace-events",
        Kind::Checked(shapes::event_classes, "letters of Ag$lshzxeKEtmdn"),
        "",
        Commands).on_change(OnChange::Events);
    /// Keys remembered for clients that track what they read; 0 means no limit.
    tracking_table_max_keys: u64 = live("tracking-table-max-keys", LONG, "1000000", Commands)
        .on_change(OnChange::Events);
    /// Milliseconds after which clients that wait for a running script get BUSY; 0 means never.
    busy_reply_threshold_ms: u64 = live("busy-reply-threshold", LONG, "5000", Commands)
        .also(&["lua-time-limit"]);
    /// Bytes that Lua may use for the scripts of one thread; 0 means no limit.
    lua_memory_limit_bytes: u64 = live(
        "lua_memory_limit", Kind::Memory(0, i64::MAX as u64), "268435456", Commands)
        .beyond_redis().on_change(OnChange::Scripts);
    /// Keys that KEYS returns at most; 0 means no limit.
    keys_output_limit: usize = live("keys_output_limit", LONG, "0", Commands).beyond_redis();
}
