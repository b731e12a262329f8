//! A server that answers `+PONG` for every `PING` it finds, to measure the engines.
//!
//! `echo --engine uring|epoll|auto --port N [--prompt] [--turn BYTES] [--without FEATURE]...`
//! with FEATURE one of `multishot`, `defer`.

use pantala_reactor::{EngineChoice, Event, ListenerId, Reactor, ReactorConfig, Receipt, net};
use std::io;

fn main() -> io::Result<()> {
    let mut config = ReactorConfig::default();
    let mut port = 7700u16;
    let mut receipt = Receipt::Lazy;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--prompt" {
            receipt = Receipt::Prompt;
            continue;
        }
        let value = arguments.next().unwrap_or_default();
        match (name.as_str(), value.as_str()) {
            ("--engine", "uring") => config.choice = EngineChoice::Uring,
            ("--engine", "epoll") => config.choice = EngineChoice::Epoll,
            ("--engine", "auto") => config.choice = EngineChoice::Auto,
            ("--port", number) => port = number.parse().map_err(io::Error::other)?,
            ("--turn", bytes) => config.turn_bytes = bytes.parse().map_err(io::Error::other)?,
            ("--without", "multishot") => config.without.multishot_receive = true,
            ("--without", "defer") => config.without.defer_taskrun = true,
            _ => return Err(io::Error::other(format!("what is {name} {value}?"))),
        }
    }
    let mut reactor = Reactor::new(config)?;
    println!("{} port {port} pid {}", reactor.features(), std::process::id());
    let listener = net::tcp_listener(([127, 0, 0, 1], port).into(), 511, false)?;
    reactor.ops().listen(listener, ListenerId(0))?;
    serve(&mut reactor, receipt)
}

/// The answers that a connection still has to send, and whether a send is in progress.
#[derive(Default)]
struct Client {
    answers: Vec<u8>,
    sending: bool,
}

fn serve(reactor: &mut Reactor, receipt: Receipt) -> io::Result<()> {
    let mut clients: Vec<Client> = Vec::new();
    let mut dirty = Vec::new();
    loop {
        let (events, mut ops) = reactor.wait(None)?;
        for event in events {
            match event {
                Event::Accepted { socket, .. } => {
                    net::set_nodelay(&socket);
                    let conn = ops.adopt(socket)?;
                    if clients.len() <= conn.index as usize {
                        clients.resize_with(conn.index as usize + 1, Client::default);
                    }
                    clients[conn.index as usize] = Client::default();
                }
                Event::Data { conn, bytes } => {
                    let client = &mut clients[conn.index as usize];
                    if client.answers.is_empty() {
                        dirty.push(conn);
                    }
                    for word in bytes.split(|&byte| byte == b'\n') {
                        if word.starts_with(b"PING") {
                            client.answers.extend_from_slice(b"+PONG\r\n");
                        } else if word.starts_with(b"CONFIG") {
                            // The first request of redis-benchmark; it accepts an error.
                            client.answers.extend_from_slice(b"-ERR\r\n");
                        }
                    }
                    if client.answers.is_empty() {
                        dirty.pop();
                    }
                }
                Event::Sent { conn, buffer } => {
                    let client = &mut clients[conn.index as usize];
                    client.sending = false;
                    if client.answers.is_empty() {
                        client.answers = buffer;
                    } else {
                        dirty.push(conn);
                    }
                }
                Event::Eof { conn } | Event::Failed { conn, .. } => ops.close(conn),
                _ => {}
            }
        }
        for conn in dirty.drain(..) {
            let client = &mut clients[conn.index as usize];
            if !client.sending && !client.answers.is_empty() {
                client.sending = true;
                ops.send(conn, std::mem::take(&mut client.answers), receipt);
            }
        }
    }
}
