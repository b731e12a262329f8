//! CONFIG GET of a fresh server, compared with the answers of valkey-server 9.1.2.

use pantala_settings::{Settings, find};

/// Settings whose default differs from Valkey's, and why.
const ON_PURPOSE: [(&str, &str); 3] = [
    // Memory is given back without being asked for: it costs nothing where nothing is wasted.
    ("activedefrag", "yes"),
    ("active-defrag-ignore-bytes", "16777216"),
    // Local clients use DEBUG for tests and measurements; see docs/differences.md.
    ("enable-debug-command", "local"),
];

#[test]
fn every_setting_of_valkey_is_known_with_its_default() {
    let settings = Settings::defaults();
    let listed: Vec<(String, String)> = settings.get(&["*"]);
    let reference = include_str!("valkey-9.1.2.txt");
    let lines: Vec<&str> = reference.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 236);
    for line in lines {
        let (name, theirs) = line.split_once(' ').unwrap_or((line, ""));
        let ours = listed.iter().find(|(listed, _)| listed == name);
        let (_, ours) = ours.unwrap_or_else(|| panic!("CONFIG GET * does not list {name}"));
        let on_purpose = ON_PURPOSE.iter().find(|(differs, _)| *differs == name);
        assert_eq!(ours, on_purpose.map_or(theirs, |(_, value)| value), "{name}");
    }
}

#[test]
fn the_flags_of_dragonfly_that_operators_use_are_known() {
    let flags = "port bind requirepass maxmemory dir dbfilename memcached_port keys_output_limit \
                 dbnum cache_mode hz save_schedule snapshot_cron primary_port_http_enabled \
                 admin_port admin_bind admin_nopass http_admin_console cluster_mode \
                 cluster_announce_ip announce_port num_shards proactor_threads logtostderr \
                 alsologtostderr tcp_keepalive timeout maxclients slowlog_log_slower_than \
                 slowlog_max_len notify_keyspace_events masterauth masteruser tls tls_cert_file";
    for flag in flags.split_whitespace() {
        assert!(find(flag).is_some(), "{flag}");
    }
}
