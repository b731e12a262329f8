//! How many changes commands count in `rdb_changes_since_last_save`, which decides when a save is
//! due: as in Valkey 9.1.2.

use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;

fn ask(server: &mut LocalServer, line: &str) -> String {
    let mut reply = Vec::new();
    server.exchange(format!("{line}\r\n").as_bytes(), &mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

fn changes(server: &mut LocalServer) -> i64 {
    let info = ask(server, "INFO persistence");
    let mut lines = info.lines();
    let line = lines.find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    line.and_then(|count| count.trim().parse().ok()).expect("INFO has the line")
}

/// Runs lines of commands one after the other; each begins with the count expected for it.
#[track_caller]
fn check(script: &str) {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (expected, command) = line.split_once(' ').expect("a count and a command");
        let before = changes(&mut server);
        let reply = ask(&mut server, command);
        let counted = changes(&mut server) - before;
        assert_eq!(counted.to_string(), expected, "{command} answered {reply}");
    }
}

#[test]
fn lists() {
    check(
        "3 LPUSH l 1 2 3
         2 RPUSHX l a a
         0 RPUSHX other a
         2 LREM l 0 a
         0 LREM l 0 a
         1 LMOVE l l2 LEFT RIGHT
         1 RPOPLPUSH l l
         1 BLMOVE l l2 LEFT LEFT 1
         4 RPUSH l 4 5 6 7
         2 LTRIM l 1 3
         0 LTRIM l 0 -1
         2 LPOP l 2
         1 RPOP l
         2 LMPOP 1 l2 LEFT COUNT 5",
    );
}

#[test]
fn sets() {
    check(
        "5 SADD s 1 2 3 a b
         1 SADD s 1 9
         0 SADD s 1
         2 SREM s 1 9 other
         2 SMOVE s s2 2
         7 SADD s 1 2 4 5 6 7 8
         3 SPOP s 3
         7 SPOP s 100
         2 SADD s 1 2
         1 SUNIONSTORE d s s2
         2 SORT s STORE d
         1 SORT other STORE d",
    );
}

#[test]
fn sorted_sets() {
    check(
        "3 ZADD z 1 a 2 b 3 c
         2 ZADD z 1 a 5 b 9 d
         0 ZADD z XX 1 q
         1 ZINCRBY z 1 a
         1 ZREM z a other
         2 ZPOPMIN z 2
         3 ZADD z 1 a 2 b 3 c
         2 ZREMRANGEBYRANK z 0 1
         2 ZREMRANGEBYSCORE z 0 100
         2 GEOADD g 1 1 a 2 2 b
         2 GEOSEARCHSTORE gd g FROMMEMBER a BYRADIUS 1000 km",
    );
}

#[test]
fn hashes() {
    check(
        "2 HSET h a 1 b 2
         2 HSET h a 5 c 6
         2 HMSET h x 1 y 2
         2 HDEL h x y other
         2 HEXPIRE h 100 FIELDS 2 a b
         2 HPERSIST h FIELDS 3 a b c
         2 HGETEX h EX 100 FIELDS 2 a b
         0 HGETEX h FIELDS 1 a
         2 HSETEX h FIELDS 2 a 1 b 2
         2 HGETDEL h FIELDS 2 a b",
    );
}

#[test]
fn keys_and_databases() {
    check(
        "2 MSET a 1 b 2
         1 RENAME a c
         1 COPY c d
         1 MOVE d 5
         2 BITFIELD bits SET u8 0 5 SET u8 8 6 GET u8 0
         1 EXPIRE c 100
         1 EXPIRE c -1
         1 SWAPDB 0 1
         1 SWAPDB 0 1
         2 FLUSHDB
         1 FLUSHALL
         0 FLUSHALL
         4 EVAL \"redis.call('lpush','q',1,2,3) return redis.call('set','x',1)\" 0",
    );
}
