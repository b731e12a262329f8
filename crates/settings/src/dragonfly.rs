//! Settings of Dragonfly that Redis lacks, accepted and stored without an effect yet. CONFIG GET
//! answers them in Dragonfly's spelling.
//!
//! Dragonfly's flags that correspond to a setting of ours are aliases or switches of that (`dbnum`,
//! `proactor_threads`, `announce_port`, `force_epoll`). Tests: `row`.

use crate::kind::{COUNT, Kind};
use crate::row::{Row, SettingGroup, live, start};
use Kind::{Bool, Text, Word};
use SettingGroup::{Commands, Memory, Network, Observe, Persistence, Process, Security, Threads};

pub(crate) const ROWS: &[Row] = &[
    start("alsologtostderr", Bool, "no", Observe)
        .beyond_redis()
        .doc("Log to standard error as well as to files."),
    live("compression_mode", COUNT, "3", Persistence)
        .beyond_redis()
        .doc("How much of a snapshot is compressed."),
    start("default_lua_flags", Text, "", Commands)
        .beyond_redis()
        .doc("Flags of scripts that name none. Undeclared keys need none here."),
    live("df_snapshot_format", Bool, "yes", Persistence)
        .beyond_redis()
        .doc("Dragonfly's own snapshot format. Snapshots here are RDB."),
    start("log_dir", Text, "", Observe).beyond_redis().doc("Directory of log files."),
    start("logtostderr", Bool, "no", Observe).beyond_redis().doc("Log to standard error."),
    start("max_log_size", COUNT, "200", Observe).beyond_redis().doc("Megabytes of a log file."),
    start("num_shards", COUNT, "0", Threads)
        .beyond_redis()
        .doc("Dragonfly's division of the data. Here every thread serves every key."),
    live("pipeline_queue_limit", COUNT, "10000", Network)
        .beyond_redis()
        .doc("Commands of one client that may wait."),
    start("proactor_affinity_mode", Word(&["on", "off", "auto"]), "on", Threads)
        .beyond_redis()
        .doc("Bind threads to cores."),
    start("restricted_commands", Text, "", Security)
        .beyond_redis()
        .refused()
        .doc("Commands allowed on the admin port only."),
    start("s3_endpoint", Text, "", Persistence).beyond_redis().doc("Object storage to save to."),
    start("tcp_nodelay", Bool, "yes", Network).beyond_redis().doc("Send small packets at once."),
    start("tcp_user_timeout", COUNT, "0", Network)
        .beyond_redis()
        .doc("Milliseconds that sent bytes may stay unacknowledged."),
    live("tiered_offload_threshold", Text, "0.5", Memory)
        .beyond_redis()
        .doc("Share of free memory below which values move to disk."),
    start("tiered_prefix", Text, "", Memory)
        .beyond_redis()
        .doc("Path of the files to which values move."),
    start("version_check", Bool, "yes", Process)
        .beyond_redis()
        .doc("Ask a server for newer versions. This one never does."),
];
