//! Plays a trace over a socket, against a small store that keeps the last few values.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use pantala_load::Fault;
use pantala_load::wire::Protocol;
use pantala_traces::Request;
use pantala_traces::args::Source;
use pantala_traces::limits::{Rules, lru};
use pantala_traces::play::{Manner, play};

/// Serves one connection; keeps `most` values, LRU.
fn serve(stream: TcpStream, protocol: Protocol, most: usize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut out = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    let mut kept: VecDeque<(String, Vec<u8>)> = VecDeque::new();
    loop {
        let words = match protocol {
            Protocol::Resp => resp_words(&mut input)?,
            Protocol::Memcached => text_words(&mut input)?,
        };
        let key = words[1].clone();
        let place = kept.iter().position(|(held, _)| *held == key);
        let found = place.and_then(|place| kept.remove(place));
        if let Some(value) = words.get(2) {
            kept.push_back((key, value.clone().into_bytes()));
            if kept.len() > most {
                kept.pop_front();
            }
            let stored = if protocol == Protocol::Resp { "+OK\r\n" } else { "STORED\r\n" };
            out.write_all(stored.as_bytes()).ok()?;
            continue;
        }
        let reply = match (&found, protocol) {
            (Some((_, value)), Protocol::Resp) => {
                [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
            }
            (None, Protocol::Resp) => b"$-1\r\n".to_vec(),
            (Some((_, value)), Protocol::Memcached) => {
                [format!("VALUE k 0 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"]
                    .concat()
            }
            (None, Protocol::Memcached) => b"END\r\n".to_vec(),
        };
        kept.extend(found);
        out.write_all(&reply).ok()?;
    }
}

fn line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (input.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_string())
}

/// The bytes of a value are random: each becomes one character.
fn bytes(input: &mut impl Read, length: usize) -> Option<String> {
    let mut value = vec![0; length + 2];
    input.read_exact(&mut value).ok()?;
    Some(value[..length].iter().map(|&byte| char::from(byte & 0x7f)).collect())
}

fn resp_words(input: &mut impl BufRead) -> Option<Vec<String>> {
    let count: usize = line(input)?.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = line(input)?.strip_prefix('$')?.parse().ok()?;
        words.push(bytes(input, length)?);
    }
    // PSETEX key ttl value
    if count == 4 {
        words.remove(2);
    }
    Some(words)
}

fn text_words(input: &mut impl BufRead) -> Option<Vec<String>> {
    let words: Vec<String> = line(input)?.split(' ').map(str::to_string).collect();
    match words[0].as_str() {
        "get" => Some(words),
        _ => {
            let value = bytes(input, words[4].parse().ok()?)?;
            Some(vec![words[0].clone(), words[1].clone(), value])
        }
    }
}

fn manner(protocol: Protocol, most: usize) -> Manner {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, protocol, most);
        }
    });
    Manner { address, protocol, warm_up: 10, rate: 0 }
}

fn trace() -> Vec<Request> {
    let mut chance = pantala_load::chance::Chance::new(5);
    let request = |key| Request { key, value_bytes: 20 + key as u32, ttl_ms: (key % 2) as u32 * 9 };
    (0..2_000).map(|_| request(chance.below(30) * chance.below(4))).collect()
}

#[test]
fn both_protocols_see_the_same_hits() {
    let [resp, text] = [Protocol::Resp, Protocol::Memcached]
        .map(|protocol| play(&trace(), &manner(protocol, 16)).expect("played"));
    assert_eq!(resp.score, text.score);
    assert_eq!(resp.score.requests, 1_990);
    assert!(resp.score.hits > 500, "{resp:?}");
}

#[test]
fn with_room_for_all_a_server_and_the_simulation_agree() {
    let played = play(&trace(), &manner(Protocol::Resp, 1_000)).expect("played");
    let simulated = lru(&trace(), Rules { items: 1_000, warm_up: 10, rate: 0 });
    assert_eq!(played.score, simulated);
}

#[test]
fn files_are_played_as_what_they_tell() {
    let plain: Vec<Request> =
        trace().into_iter().map(|request| Request { ttl_ms: 0, ..request }).collect();
    let path = |name| std::env::temp_dir().join(format!("played-{}-{name}", std::process::id()));
    let (oracle, twitter) = (path("oracle"), path("twitter"));
    let (mut records, mut lines) = (Vec::new(), String::new());
    for (at, Request { key, value_bytes, .. }) in plain.iter().enumerate() {
        records.extend_from_slice(&(at as u32).to_le_bytes());
        records.extend_from_slice(&key.to_le_bytes());
        records.extend_from_slice(&value_bytes.to_le_bytes());
        records.extend_from_slice(&(-1_i64).to_le_bytes());
        lines += &format!("{at},k{key},3,{value_bytes},1,get,0\n{at},k{key},3,0,1,delete,0\n");
    }
    std::fs::write(&oracle, records).expect("written");
    std::fs::write(&twitter, lines).expect("written");
    let expected = play(&plain, &manner(Protocol::Resp, 16)).expect("played").score;
    for source in [Source::Oracle(oracle.clone(), 9_999), Source::Twitter(twitter.clone(), 9_999)] {
        let read = source.trace().expect("read");
        let played = play(&read, &manner(Protocol::Resp, 16)).expect("played");
        assert_eq!(played.score, expected, "{source:?}");
        assert_eq!(source.warm_up(5_000, read.len()), 1_000, "of what is there");
    }
    std::fs::remove_file(oracle).expect("removed");
    std::fs::remove_file(twitter).expect("removed");
}

#[test]
fn what_is_no_reply_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(b"-ERR no\r\n").expect("written");
        }
    });
    let manner = Manner { address, protocol: Protocol::Resp, warm_up: 0, rate: 0 };
    assert!(matches!(play(&trace(), &manner), Err(Fault::Reply(_) | Fault::Io(_))));
}
