//! What listeners are told of generic commands, in the order Valkey 9.1.2 tells it.

use std::sync::{Arc, Mutex};

use pantala_base::UnixMs;
use pantala_keyspace::{
    ChangeListener, DbIndex, Expiry, Keyspace, LockPlan, Scope, Tally, event::Event, event::SET,
};
use pantala_server::in_process::InProcess;
use pantala_settings::Settings;

type Heard = Arc<Mutex<Vec<String>>>;

struct Ear(Heard);

impl ChangeListener for Ear {
    fn changed(&self, db: DbIndex, key: &[u8], event: Event) {
        let line = format!("{}:{} {}", db.0, event.name, String::from_utf8_lossy(key));
        self.0.lock().expect("no panic under it").push(line);
    }
}

/// Puts a key into database 0 that expired in 1970.
fn plant_expired(space: &Keyspace, name: &str) {
    let key = space.key(name.as_bytes());
    let tally = Tally::default();
    let scope = Scope { space, db: DbIndex(0), now: UnixMs(0), tally: &tally, touch: false };
    let mut locked = space.lock_waiting(&LockPlan::one(key.hash), scope);
    let mut opened = locked.open(key);
    opened.set_string(b"old", Expiry::At(UnixMs(1)));
    opened.publish(SET);
}

/// What is told of `command` where `before` has run and the keys of `expired` have expired.
#[track_caller]
fn check(before: &[&str], expired: &[&str], command: &str, expected: &[&str]) {
    let mut server = InProcess::new(Settings::defaults()).expect("descriptors");
    let heard = Heard::default();
    server.space().set_listener(Box::new(Ear(Arc::clone(&heard))));
    let mut reply = Vec::new();
    for line in before {
        server.exchange(format!("{line}\r\n").as_bytes(), &mut reply);
    }
    expired.iter().for_each(|name| plant_expired(server.space(), name));
    heard.lock().expect("no panic under it").clear();
    server.exchange(format!("{command}\r\n").as_bytes(), &mut reply);
    assert_eq!(*heard.lock().expect("no panic under it"), expected, "{command}");
}

#[test]
fn removing() {
    check(&["SET a 1", "SET b 2"], &[], "DEL a x b a", &["0:del a", "0:del b"]);
    check(&["SET a 1"], &[], "UNLINK a", &["0:del a"]);
    check(&[], &["a"], "DEL a", &["0:expired a"]);
    check(&["SET a 1"], &[], "FLUSHDB", &[]);
}

#[test]
fn deadlines() {
    check(&["SET a 1"], &[], "EXPIRE a 100", &["0:expire a"]);
    check(&["SET a 1"], &[], "EXPIRE a 100 XX", &[]);
    check(&["SET a 1"], &[], "EXPIRE a -1", &["0:expired a"]);
    check(&["SET a 1"], &[], "PEXPIREAT a 1", &["0:expired a"]);
    check(&[], &["a"], "EXPIRE a 100", &["0:expired a"]);
    check(&["SET a 1 EX 100"], &[], "PERSIST a", &["0:persist a"]);
    check(&["SET a 1"], &[], "PERSIST a", &[]);
}

#[test]
fn moving() {
    let both = ["SET a 1", "SET b 2"];
    check(&both, &[], "RENAME a b", &["0:rename_from a", "0:rename_to b"]);
    check(&both, &[], "RENAMENX a b", &[]);
    check(&both, &[], "RENAME a a", &[]);
    let expired_first = ["0:expired b", "0:rename_from a", "0:rename_to b"];
    check(&["SET a 1"], &["b"], "RENAME a b", &expired_first);
    check(&["SET a 1"], &[], "MOVE a 2", &["0:move_from a", "2:move_to a"]);
    check(&["SET a 1"], &[], "COPY a c DB 1", &["1:copy_to c"]);
    check(&both, &[], "COPY a b", &[]);
    check(&both, &[], "COPY a b REPLACE", &["0:copy_to b"]);
    check(&["SET a 1"], &["b"], "COPY a b", &["0:expired b", "0:copy_to b"]);
}

#[test]
fn looking() {
    for command in ["EXISTS a", "TYPE a", "TTL a", "TOUCH a", "OBJECT ENCODING a"] {
        check(&["SET a 1"], &[], command, &[]);
        check(&[], &["a"], command, &["0:expired a"]);
    }
}
