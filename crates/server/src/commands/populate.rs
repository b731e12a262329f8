//! DEBUG POPULATE on a whole server.

use pantala_base::crc::slot_of;
use pantala_settings::Settings;

use crate::in_process::LocalServer;

fn server() -> LocalServer {
    LocalServer::new(Settings::defaults()).expect("descriptors")
}

fn ask(server: &mut LocalServer, request: &str) -> String {
    let mut reply = Vec::new();
    server.exchange(request.as_bytes(), &mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn many_threads_make_what_one_would() {
    let mut server = server();
    const COUNT: usize = 20_000;
    assert_eq!(ask(&mut server, "SET key:7 old\r\n"), "+OK\r\n");
    assert_eq!(ask(&mut server, &format!("DEBUG POPULATE {COUNT} key 9\r\n")), "+OK\r\n");
    assert_eq!(ask(&mut server, "DBSIZE\r\n"), format!(":{COUNT}\r\n"));
    for number in 0..COUNT {
        let value = match number {
            7 => "$3\r\nold\r\n".into(),
            _ => format!("$9\r\n{:\0<9.9}\r\n", format!("value:{number}")),
        };
        assert_eq!(ask(&mut server, &format!("GET key:{number}\r\n")), value);
    }
    let changes = server.shared().engine.stats.tallies.sum(|tally| tally.keys.changes.get());
    assert_eq!(changes, COUNT as u64);
}

#[test]
fn keys_of_some_slots_are_the_first_ones() {
    let mut server = server();
    assert_eq!(ask(&mut server, "DEBUG POPULATE 3000 key 0 SLOTS 0 999\r\n"), "+OK\r\n");
    let wanted = (0..).filter(|number| slot_of(format!("key:{number}").as_bytes()) < 1000);
    for number in wanted.take(3000) {
        assert_eq!(ask(&mut server, &format!("EXISTS key:{number}\r\n")), ":1\r\n");
    }
    assert_eq!(ask(&mut server, "DBSIZE\r\n"), ":3000\r\n");
}

#[test]
fn what_can_not_end_does_not_begin() {
    let mut server = server();
    let refused = "-ERR no key with this prefix belongs to these slots\r\n".to_owned();
    let slot = slot_of(b"tag");
    let ask_for = |slot| format!("DEBUG POPULATE 5 {{tag}} 8 SLOT {slot}\r\n");
    assert_eq!(ask(&mut server, &ask_for(slot ^ 1)), refused);
    assert_eq!(ask(&mut server, &ask_for(slot)), "+OK\r\n");
}

#[test]
fn a_server_that_stops_waits_for_no_keys() {
    let mut server = server();
    server.shared().engine.condition.shutdown.begin();
    let told = ask(&mut server, "DEBUG POPULATE 1000000000 key 8\r\n");
    assert_eq!(told, "-ERR the server stops\r\n");
    assert_eq!(ask(&mut server, "DBSIZE\r\n"), ":0\r\n");
}
