//! `fill` and `run` over real sockets, against a small store that speaks both protocols and can
//! misbehave on demand.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use pantala_load::Fault;
use pantala_load::args::{Job, parse};
use pantala_load::fill::{Filled, fill};
use pantala_load::run::{Outcome, run};

type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// How the store answers.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Resp,
    Memcached,
    RespErrors,
    Closes,
}

/// Starts a store on a free port; its threads end with the test process.
fn store(manner: Manner) -> (u16, Store) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let store = Store::default();
    let shared = store.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = shared.clone();
            // An error means that the client is gone.
            std::thread::spawn(move || serve(stream, manner, &shared));
        }
    });
    (port, store)
}

fn serve(stream: TcpStream, manner: Manner, store: &Store) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut out = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let (key, value) = match manner {
            Manner::Memcached => memcached_command(&mut input)?,
            _ => resp_command(&mut input)?,
        };
        let answer = match (manner, value) {
            (Manner::Closes, _) => return None,
            (Manner::RespErrors, _) => b"-OOM no room\r\n".to_vec(),
            (_, Some(value)) => {
                store.lock().ok()?.insert(key, value);
                if manner == Manner::Memcached {
                    b"STORED\r\n".to_vec()
                } else {
                    b"+OK\r\n".to_vec()
                }
            }
            (Manner::Memcached, None) => match store.lock().ok()?.get(&key) {
                Some(value) => {
                    let head = format!("VALUE key 0 {}\r\n", value.len());
                    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
                }
                None => b"END\r\n".to_vec(),
            },
            (_, None) => match store.lock().ok()?.get(&key) {
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
                None => b"$-1\r\n".to_vec(),
            },
        };
        out.write_all(&answer).ok()?;
    }
}

type Asked = (Vec<u8>, Option<Vec<u8>>);

fn line(input: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    (input.read_line(&mut text).ok()? > 0).then(|| text.trim_end().to_string())
}

fn block(input: &mut BufReader<TcpStream>, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    input.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

fn resp_command(input: &mut BufReader<TcpStream>) -> Option<Asked> {
    let count: usize = line(input)?.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = line(input)?.strip_prefix('$')?.parse().ok()?;
        words.push(block(input, length)?);
    }
    let value = if count == 3 { words.pop() } else { None };
    Some((words.pop()?, value))
}

fn memcached_command(input: &mut BufReader<TcpStream>) -> Option<Asked> {
    let text = line(input)?;
    let words: Vec<&str> = text.split(' ').collect();
    let value = match words[0] {
        "set" => Some(block(input, words.last()?.parse().ok()?)?),
        _ => None,
    };
    Some((words[1].as_bytes().to_vec(), value))
}

fn job(line: &str) -> Job {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    parse(&arguments).expect("a valid command line")
}

fn filled(line: &str) -> Result<Filled, Fault> {
    let Job::Fill(job) = job(line) else { panic!("{line} is no fill") };
    fill(&job)
}

fn ran(line: &str) -> Result<Outcome, Fault> {
    let Job::Run(job) = job(line) else { panic!("{line} is no run") };
    run(&job)
}

fn refusal(outcome: Result<Outcome, Fault>) -> String {
    match outcome {
        Err(Fault::Reply(text)) => text,
        Err(other) => panic!("another fault: {other}"),
        Ok(outcome) => panic!("{} requests counted as success", outcome.requests),
    }
}

#[test]
fn what_was_filled_is_found_and_verified_in_both_protocols() {
    for (manner, name) in [(Manner::Resp, "resp"), (Manner::Memcached, "memcached")] {
        let (port, store) = store(manner);
        let shape = format!("--port {port} --protocol {name} --keys 2001 --value-bytes 33");
        assert_eq!(filled(&format!("fill {shape}")).expect("filled").keys, 2_001);
        assert_eq!(store.lock().expect("not poisoned").len(), 2_001);
        let mix = "--connections 5 --threads 2 --pipeline 7 --get-percent 60 --verify";
        let outcome = ran(&format!("run {shape} {mix} --requests 3001")).expect("ran");
        assert_eq!((outcome.requests, outcome.misses), (3_001, 0));
        assert_eq!(outcome.latency.count(), 3_001);
        assert_eq!(store.lock().expect("not poisoned").len(), 2_001);
    }
}

#[test]
fn a_long_value_spans_many_reads() {
    let (port, _) = store(Manner::Resp);
    let shape = format!("--port {port} --keys 4 --value-bytes 300000");
    filled(&format!("fill {shape}")).expect("filled");
    let outcome = ran(&format!("run {shape} --pipeline 3 --verify --requests 30"));
    assert_eq!(outcome.expect("ran").requests, 30);
}

#[test]
fn a_fill_may_go_on_where_the_last_one_ended() {
    let (port, store) = store(Manner::Resp);
    filled(&format!("fill --port {port} --keys 10")).expect("filled");
    let more = filled(&format!("fill --port {port} --keys 25 --first 10")).expect("filled");
    assert_eq!((more.keys, store.lock().expect("not poisoned").len()), (15, 25));
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    let (port, _) = store(Manner::Resp);
    let shape = format!("--port {port} --keys 9");
    filled(&format!("fill {shape}")).expect("filled");
    let outcome = ran(&format!("run {shape} --zipf 0.99 --seconds 0.05")).expect("ran");
    assert!(outcome.requests > 0 && outcome.seconds >= 0.05);
}

#[test]
fn a_miss_is_refused_unless_allowed() {
    let (port, _) = store(Manner::Resp);
    let line = format!("run --port {port} --keys 9 --requests 20");
    assert!(refusal(ran(&line)).contains("missing"));
    assert_eq!(ran(&format!("{line} --allow-misses")).expect("ran").misses, 20);
}

#[test]
fn errors_and_wrong_values_never_count_as_success() {
    let (port, _) = store(Manner::RespErrors);
    let line = format!("run --port {port} --keys 9 --requests 20 --allow-misses");
    assert!(refusal(ran(&line)).contains("OOM"));
    assert!(filled(&format!("fill --port {port} --keys 9")).is_err());
    let (port, _) = store(Manner::Closes);
    assert!(refusal(ran(&format!("run --port {port} --keys 9 --requests 20"))).contains("closed"));
    let (port, _) = store(Manner::Resp);
    filled(&format!("fill --port {port} --keys 9 --value-bytes 8")).expect("filled");
    let line = format!("run --port {port} --keys 9 --requests 20 --verify");
    assert!(refusal(ran(&format!("{line} --value-bytes 9"))).contains("has 8 bytes"));
    assert!(refusal(ran(&format!("{line} --value-bytes 8 --seed 2"))).contains("another value"));
}
