//! A command that panics costs its own connection and nothing else (ARCHITECTURE.md, "When a
//! command panics").
//!
//! A whole server runs in this process with added rows that panic: in the middle of a change, with
//! half a reply written. After each such fault the partition must be free, the data valid, waiting
//! clients served or still waiting, the client answered and its connection closed, and INFO must
//! count the fault.

mod common;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier};

use pantala_commands::{
    Call, Command, CommandResult, Flags, Group, KeyFlags, KeySpec, KeyWait, Lane, Registry, Stop,
    TimeoutReply, WaitedKeys,
};
use pantala_keyspace::event::RPUSH;
use pantala_server::commands::families;
use pantala_values::List;
use pantala_values::list::End;
use pantala_values::packed::Element;
use parking_lot::Mutex;

use common::Server;

const ONE_KEY: &[KeySpec] = &[KeySpec::one(1, KeyFlags::CHANGE)];

const ROWS: &[Command] = &[
    Command::write("FAULT.PUSH", push_and_panic, Group::List).arity(3).keys(ONE_KEY),
    Command::write("FAULT.LANE", push_and_panic, Group::List)
        .arity(3)
        .keys(ONE_KEY)
        .flags(Flags::LANE),
    Command::write("FAULT.POP", panic_when_there_is_one, Group::List)
        .arity(2)
        .keys(ONE_KEY)
        .flags(Flags::BLOCKING),
    Command::read("TO.LANE", go_to_lane, Group::Generic).arity(2).keys(ONE_KEY),
    Command::new("HOLD", hold, Group::Server).arity(2),
];

/// Pushes an element, writes a part of a reply, and panics. Nothing is printed on stderr.
fn push_and_panic(call: &mut Call<'_, '_>) -> CommandResult {
    let (key, element) = (call.key(), call.args[2]);
    let mut opened = call.keys.open(key);
    opened.collection_or_new::<List>()?.push(End::Tail, Element::of(element));
    opened.publish(RPUSH);
    call.reply.array(2);
    call.reply.bulk(b"half a reply");
    std::panic::resume_unwind(Box::new("injected"))
}

/// Waits for a list, and panics once there is one.
fn panic_when_there_is_one(call: &mut Call<'_, '_>) -> CommandResult {
    let key = call.key();
    if !call.keys.peek(key).exists() {
        let at_timeout = TimeoutReply::Null;
        return call.wait(KeyWait { until: None, keys: WaitedKeys::All, at_timeout, args: None });
    }
    call.reply.array(2);
    std::panic::resume_unwind(Box::new("injected"))
}

/// A command of one key that turns out to take long.
fn go_to_lane(call: &mut Call<'_, '_>) -> CommandResult {
    if call.lane == Lane::Worker {
        return Err(Stop::Lane);
    }
    call.reply.ok();
    Ok(())
}

/// Where the test meets a worker that it holds: once when the hold begins, once to end it.
fn gate(name: &[u8]) -> Arc<Barrier> {
    static GATES: Mutex<Option<HashMap<Vec<u8>, Arc<Barrier>>>> = Mutex::new(None);
    let mut gates = GATES.lock();
    let gates = gates.get_or_insert_default();
    Arc::clone(gates.entry(name.to_vec()).or_insert_with(|| Arc::new(Barrier::new(2))))
}

fn hold(call: &mut Call<'_, '_>) -> CommandResult {
    let gate = gate(call.args[1]);
    gate.wait();
    gate.wait();
    call.reply.ok();
    Ok(())
}

const FAULT: &str = "-ERR internal error, see the log of the server";

impl Server {
    /// With one worker, so that commands that arrive together run together.
    fn with_faults() -> Server {
        let mut families = families();
        families.push(ROWS);
        Server::with_rows(&["--threads", "1", "--io_engine", "epoll"], Registry::new(&families))
    }

    fn client(&self) -> Client {
        Client { stream: self.connect_to_socket(), received: Vec::new() }
    }

    /// Waits until INFO has this line.
    fn wait_for(&self, line: &str) {
        let mut client = self.client();
        while !client.ask("INFO").contains(line) {
            std::thread::yield_now();
        }
    }

    #[track_caller]
    fn has_counted(&self, faults: u32) {
        let info = self.client().ask("INFO");
        for name in ["unexpected_error_replies:", "total_error_replies:", "errorstat_ERR:count="] {
            let line = info.split(' ').find(|line| line.starts_with(name));
            assert_eq!(line, Some(&*format!("{name}{faults}")));
        }
    }
}

struct Client {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Client {
    /// Sends lines, all at once.
    fn send(&mut self, lines: &str) {
        let lines = lines.replace('\n', "\r\n") + "\r\n";
        self.stream.write_all(lines.as_bytes()).expect("it is open");
    }

    /// Sends a command whose words may have any content.
    fn send_words(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(request.as_bytes()).expect("it is open");
    }

    /// One reply, its parts with spaces between.
    #[track_caller]
    fn hear(&mut self) -> String {
        let line = self.line();
        let count = |line: &str| line[1..].parse::<i64>().expect("a number");
        match line.as_bytes()[0] {
            b'*' if count(&line) >= 0 => {
                let parts: Vec<String> = (0..count(&line)).map(|_| self.hear()).collect();
                format!("[{}]", parts.join(" "))
            }
            b'$' if count(&line) >= 0 => {
                let length = count(&line).unsigned_abs() as usize + 2;
                self.fill(length);
                let bytes: Vec<u8> = self.received.drain(..length).collect();
                String::from_utf8_lossy(&bytes[..length - 2]).replace("\r\n", " ")
            }
            _ => line,
        }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut length = 2;
        self.fill(length);
        while !self.received[..length].ends_with(b"\r\n") {
            length += 1;
            self.fill(length);
        }
        let line: Vec<u8> = self.received.drain(..length).collect();
        String::from_utf8_lossy(&line[..length - 2]).into_owned()
    }

    #[track_caller]
    fn fill(&mut self, length: usize) {
        let mut chunk = [0; 4096];
        while self.received.len() < length {
            let count = self.stream.read(&mut chunk).expect("a reply in time");
            assert!(count > 0, "the connection was closed after {:?}", self.received);
            self.received.extend_from_slice(&chunk[..count]);
        }
    }

    #[track_caller]
    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.hear()
    }

    #[track_caller]
    fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.ask(line), expected, "{line}");
    }

    /// Checks that the fault's single reply comes whole, and then the end.
    #[track_caller]
    fn is_told_and_closed(&mut self) {
        assert_eq!(self.hear(), FAULT);
        assert!(self.received.is_empty(), "{:?}", String::from_utf8_lossy(&self.received));
        let mut rest = Vec::new();
        // What was sent after the fault is not read, so the end may be a reset.
        let _reset = self.stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn on_a_worker_what_came_before_is_answered_and_the_partition_is_free() {
    let server = Server::with_faults();
    let (mut client, mut other) = (server.client(), server.client());
    client.send("PING\nRPUSH k a\nFAULT.PUSH k b\nRPUSH k never");
    assert_eq!(client.hear(), "+PONG");
    assert_eq!(client.hear(), ":1");
    client.is_told_and_closed();
    other.check("RPUSH k c", ":3");
    other.check("LRANGE k 0 -1", "[a b c]");
    server.has_counted(1);
}

#[test]
fn in_a_group_the_others_go_on() {
    let server = Server::with_faults();
    let mut clients: Vec<Client> = (0..7).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.check("PING", "+PONG"));
    let gate = gate(b"group");
    clients[0].send("HOLD group");
    gate.wait();
    // Before and after the fault in the pipeline: commands that go on, go to the lane, or wait for
    // a key.
    clients[1].send("SET before 1\nTO.LANE before\nGET before");
    clients[2].send("TO.LANE alone");
    clients[3].send("FAULT.PUSH k a");
    clients[4].send("TO.LANE behind");
    clients[5].send("SET behind 1\nGET behind");
    clients[6].send("FAULT.PUSH k b");
    gate.wait();
    clients[0].check("PING", "+OK");
    assert_eq!(clients[0].hear(), "+PONG");
    clients[3].is_told_and_closed();
    clients[6].is_told_and_closed();
    for (number, replies) in
        [(1, &["+OK", "+OK", "1"][..]), (2, &["+OK"]), (4, &["+OK"]), (5, &["+OK", "1"])]
    {
        replies.iter().for_each(|reply| assert_eq!(clients[number].hear(), *reply, "{number}"));
        clients[number].check("LLEN k", ":2");
    }
    server.has_counted(2);
}

#[test]
fn on_the_lane_the_thread_goes_on() {
    let server = Server::with_faults();
    let mut other = server.client();
    for count in 1..=20 {
        let mut client = server.client();
        client.send("PING\nFAULT.LANE k a\nPING");
        assert_eq!(client.hear(), "+PONG");
        client.is_told_and_closed();
        other.check("LLEN k", &format!(":{count}"));
        other.check("TO.LANE k", "+OK");
    }
    server.has_counted(20);
}

#[test]
fn in_a_transaction_who_waits_for_its_other_keys_is_served() {
    let server = Server::with_faults();
    let (mut client, mut other, mut waits) = (server.client(), server.client(), server.client());
    waits.send("BLPOP l other 0");
    server.wait_for("blocked_clients:1 ");
    client.check("SET s 1", "+OK");
    other.check("WATCH s", "+OK");
    client.send("MULTI\nINCR s\nRPUSH l a b\nFAULT.PUSH k a\nRPUSH never a\nEXEC");
    for expected in ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED"] {
        assert_eq!(client.hear(), expected);
    }
    client.is_told_and_closed();
    assert_eq!(waits.hear(), "[l a]");
    // What ran before the fault has taken effect, also for a client that watched it.
    other.send("MULTI\nPING\nEXEC");
    assert_eq!([other.hear(), other.hear(), other.hear()], ["+OK", "+QUEUED", "*-1"]);
    other.check("GET s", "2");
    other.check("LRANGE l 0 -1", "[b]");
    other.check("RPUSH k b", ":2");
    other.check("EXISTS never", ":0");
    server.has_counted(1);
}

/// Calls the command in ARGV, if there is one, with the keys that it names. `word` makes the
/// script's text unique.
fn script(word: &str) -> String {
    format!("local {word} if #ARGV > 0 then redis.call(unpack(ARGV)) end return {{#KEYS, 'done'}}")
}

#[test]
fn in_a_script_the_interpreter_is_replaced() {
    let server = Server::with_faults();
    let mut other = server.client();
    let body = script("declares");
    // Unknown scripts run on the lane, those known as quick on the worker.
    for length in 1..=5 {
        let mut client = server.client();
        client.send_words(&["EVAL", &body, "1", "k", "FAULT.PUSH", "k", "a"]);
        client.is_told_and_closed();
        other.check("LLEN k", &format!(":{length}"));
        for _ in 0..3 {
            other.send_words(&["EVAL", &body, "1", "k"]);
            assert_eq!(other.hear(), "[:1 done]");
        }
    }
    // The same where the script catches the errors of what it calls.
    let mut client = server.client();
    let catches = "pcall(redis.pcall, 'FAULT.PUSH', 'k', 'a') return 1";
    client.send_words(&["EVAL", catches, "0"]);
    client.is_told_and_closed();
    other.check("LLEN k", ":6");
    server.has_counted(6);
}

#[test]
fn in_a_script_with_the_token_the_token_is_given_back() {
    let server = Server::with_faults();
    let mut other = server.client();
    other.send_words(&["SET", "big", &"x".repeat(1 << 20)]);
    assert_eq!(other.hear(), "+OK");
    // The value is too large to be copied: the script needs the token to change it.
    let fault = "redis.call('APPEND', 'big', 'y') redis.call('RPUSH', 'l', 'a') \
        if ARGV[1] == 'yes' then redis.call('FAULT.PUSH', 'k', 'a') end return 1";
    let mut waits = server.client();
    waits.send("BLPOP l 0");
    server.wait_for("blocked_clients:1 ");
    for length in 1..=5 {
        let mut client = server.client();
        client.send_words(&["EVAL", fault, "0", "yes"]);
        client.is_told_and_closed();
        assert_eq!(waits.hear(), "[l a]");
        other.check("LLEN k", &format!(":{length}"));
        other.send_words(&["EVAL", fault, "0", "no"]);
        assert_eq!(other.hear(), ":1");
        waits.check("BLPOP l 0", "[l a]");
        waits.send("BLPOP l 0");
        server.wait_for("blocked_clients:1 ");
    }
    other.check("STRLEN big", &format!(":{}", (1 << 20) + 10));
    server.has_counted(5);
}

#[test]
fn who_is_served_pays_and_not_who_pushed() {
    let server = Server::with_faults();
    let mut pushes = server.client();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (number, line) in ["BLPOP l 0", "FAULT.POP l", "BLPOP l 0", "BLPOP l 0"].iter().enumerate()
    {
        clients[number].send(line);
        server.wait_for(&format!("blocked_clients:{} ", number + 1));
    }
    pushes.check("RPUSH l a b c d", ":4");
    assert_eq!(clients[0].hear(), "[l a]");
    clients[1].is_told_and_closed();
    assert_eq!(clients[2].hear(), "[l b]");
    assert_eq!(clients[3].hear(), "[l c]");
    pushes.check("LRANGE l 0 -1", "[d]");
    server.wait_for("blocked_clients:0 ");
    server.has_counted(1);
}
