//! The events of generic commands, in Valkey 9.1.2's order.

use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_keyspace::event::{EventClass, SET};
use pantala_keyspace::{
    ChangeSink, DbIndex, Effect, EventMask, Expiry, Keyspace, LockPlan, Scope, Tally, Ticket,
};
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;
use parking_lot::Mutex;

type Heard = Arc<Mutex<Vec<String>>>;

struct Ear(Heard);

impl ChangeSink for Ear {
    fn hear(&self, happened: Vec<Effect>, _tickets: &mut Vec<Ticket>) {
        for effect in happened {
            let Effect::Happened { db, key, event } = effect else { continue };
            let line = format!("{}:{} {}", db.0, event.name, String::from_utf8_lossy(&key));
            self.0.lock().push(line);
        }
    }

    fn forget_all(&self, _tickets: &mut Vec<Ticket>) {}
}

/// Puts a key into database 0 that expired in 1970.
fn plant_expired(space: &Keyspace, name: &str) {
    let key = space.key(name.as_bytes());
    let tally = Tally::default();
    let scope = Scope {
        space,
        db: DbIndex(0),
        now: UnixMs(0),
        tally: &tally,
        touch: false,
        sees_expired: false,
        recorder: None,
    };
    let mut locked = space.lock_waiting(&LockPlan::one(key.hash), scope);
    let mut opened = locked.open(key);
    opened.set_string(b"old", Expiry::At(UnixMs(1)));
    opened.publish(SET);
}

/// Checks the events of `command` after `before` has run and the keys of `expired` have expired.
#[track_caller]
fn check(before: &[&str], expired: &[&str], command: &str, expected: &[&str]) {
    let heard = Heard::default();
    let sink = Box::new(Ear(Arc::clone(&heard)));
    let mut server = LocalServer::observed(Settings::defaults(), Some(sink)).expect("descriptors");
    let other = EventClass::NEW.0 | EventClass::KEY_MISS.0;
    server.space().want(EventMask::events(EventClass(!other)));
    let mut reply = Vec::new();
    for line in before {
        server.exchange(format!("{line}\r\n").as_bytes(), &mut reply);
    }
    expired.iter().for_each(|name| plant_expired(server.space(), name));
    heard.lock().clear();
    server.exchange(format!("{command}\r\n").as_bytes(), &mut reply);
    assert_eq!(*heard.lock(), expected, "{command}");
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
fn restoring() {
    const PAYLOAD: &str = r#""\x00\x03abc\x0a\x00\xd9\xac0=Ar\xa2\xe2""#;
    let restore = |key: &str, words: &str| format!("RESTORE {key} {PAYLOAD} {words}");
    check(&[], &[], &restore("a 0", ""), &["0:restore a"]);
    check(&[], &[], &restore("a 100000", ""), &["0:restore a"]);
    check(&["SET a 1"], &[], &restore("a 0", ""), &[]);
    check(&["SET a 1"], &[], &restore("a 0", "REPLACE"), &["0:restore a"]);
    check(&["SET a 1"], &[], &restore("a 1", "ABSTTL REPLACE"), &["0:del a"]);
    check(&[], &[], &restore("a 1", "ABSTTL"), &[]);
    check(&[], &["a"], &restore("a 0", ""), &["0:expired a", "0:restore a"]);
    check(&["SET a 1"], &[], "DUMP a", &[]);
}

#[test]
fn looking() {
    for command in ["EXISTS a", "TYPE a", "TTL a", "TOUCH a", "OBJECT ENCODING a"] {
        check(&["SET a 1"], &[], command, &[]);
        check(&[], &["a"], command, &["0:expired a"]);
    }
}

#[test]
fn streams() {
    let stream = ["XADD s 1-1 a 1", "XGROUP CREATE s g 0"];
    let with = |more: &'static str| [stream[0], stream[1], more];
    check(&stream, &[], "XADD s 1-2 a 1", &["0:xadd s"]);
    check(&stream, &[], "XADD s MAXLEN 1 1-2 a 1", &["0:xadd s", "0:xtrim s"]);
    check(&stream, &[], "XADD s NOMKSTREAM 1-1 a 1", &[]);
    check(&stream, &[], "XTRIM s MAXLEN 0", &["0:xtrim s"]);
    check(&stream, &[], "XTRIM s MAXLEN 1", &[]);
    check(&stream, &[], "XDEL s 1-1 1-2", &["0:xdel s"]);
    check(&stream, &[], "XDELEX s ACKED IDS 1 1-1", &[]);
    check(&stream, &[], "XSETID s 5", &["0:xsetid s"]);
    check(&[], &[], "XGROUP CREATE s g $ MKSTREAM", &["0:xgroup-create s"]);
    check(&stream, &[], "XGROUP SETID s g 1", &["0:xgroup-setid s"]);
    check(&stream, &[], "XGROUP DESTROY s g", &["0:xgroup-destroy s"]);
    check(&stream, &[], "XGROUP CREATECONSUMER s g c", &["0:xgroup-createconsumer s"]);
    let read = with("XREADGROUP GROUP g c STREAMS s >");
    check(&stream, &[], read[2], &["0:xgroup-createconsumer s"]);
    check(&read, &[], read[2], &[]);
    check(&read, &[], "XACK s g 1-1", &[]);
    check(&read, &[], "XCLAIM s g d 0 1-1", &["0:xgroup-createconsumer s"]);
    check(&read, &[], "XACKDEL s g IDS 1 1-1", &["0:xdel s"]);
    check(&read, &[], "XGROUP DELCONSUMER s g c", &["0:xgroup-delconsumer s"]);
    check(&stream, &[], "XGROUP DELCONSUMER s g nobody", &[]);
}
