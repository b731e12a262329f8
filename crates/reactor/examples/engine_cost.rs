//! The server's cost of a command, measured in one thread, so that neither the load generator nor
//! other programs on this machine disturb it: clients write, the reactor's part is timed by the
//! thread's processor clock, clients read. Prints the fastest and the median of many rounds.
//!
//! `engine_cost [--connections N] [--rounds N] [--bytes N] [--only NAME]`

use pantala_reactor::{EngineChoice, Event, Features, Reactor, ReactorConfig, Receipt, net};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn main() -> io::Result<()> {
    let mut connections = 50usize;
    let mut rounds = 2000usize;
    let mut bytes = 14usize;
    let mut only = None;
    let mut arguments = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        if name == "--only" {
            only = Some(value);
            continue;
        }
        let value = value.parse().map_err(io::Error::other)?;
        match name.as_str() {
            "--connections" => connections = value,
            "--rounds" => rounds = value,
            "--bytes" => bytes = value,
            _ => return Err(io::Error::other(format!("what is {name}?"))),
        }
    }
    let uring = ReactorConfig { choice: EngineChoice::Uring, ..ReactorConfig::default() };
    let epoll = ReactorConfig { choice: EngineChoice::Epoll, ..ReactorConfig::default() };
    let single = Features { multishot_receive: true, ..Features::default() };
    let kinds = [
        ("epoll", Receipt::Lazy, epoll.clone()),
        ("epoll, 2 MB", Receipt::Lazy, ReactorConfig { turn_bytes: 2 << 20, ..epoll }),
        ("uring", Receipt::Lazy, uring.clone()),
        ("uring, prompt", Receipt::Prompt, uring.clone()),
        ("uring, no multishot", Receipt::Lazy, ReactorConfig { without: single, ..uring.clone() }),
        ("uring, 4 MB", Receipt::Lazy, ReactorConfig { turn_bytes: 4 << 20, ..uring }),
    ];
    let mut scenes = Vec::new();
    for (name, receipt, config) in kinds {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        scenes.push((name, Scene::new(config, receipt, connections)?, Vec::new(), Vec::new(), 0));
    }
    for round in 0..rounds {
        for (_, scene, times, wholes, turns) in &mut scenes {
            let before = processor_time();
            let (time, count) = scene.round(bytes)?;
            let whole = processor_time() - before;
            if round > 20 {
                wholes.push(whole.as_nanos() as u64);
                times.push(time.as_nanos() as u64);
                *turns += count;
            }
        }
    }
    for (name, _, times, wholes, turns) in &mut scenes {
        times.sort_unstable();
        wholes.sort_unstable();
        let each = |nanos: u64| nanos as f64 / connections as f64 / 1000.0;
        println!(
            "{name:20} least {:.3} tenth {:.3} median {:.3} us/message, with the clients {:.3} \
             {:.3}, {:.2} turns",
            each(times[0]),
            each(times[times.len() / 10]),
            each(times[times.len() / 2]),
            each(wholes[wholes.len() / 10]),
            each(wholes[wholes.len() / 2]),
            *turns as f64 / times.len() as f64
        );
    }
    Ok(())
}

struct Scene {
    reactor: Reactor,
    receipt: Receipt,
    clients: Vec<TcpStream>,
    spare: Vec<Vec<u8>>,
    got: Vec<usize>,
}

impl Scene {
    fn new(config: ReactorConfig, receipt: Receipt, connections: usize) -> io::Result<Scene> {
        let mut reactor = Reactor::new(config)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut clients = Vec::new();
        for _ in 0..connections {
            let client = TcpStream::connect(listener.local_addr()?)?;
            client.set_nodelay(true)?;
            let (socket, _) = listener.accept()?;
            net::set_nodelay(&socket);
            reactor.ops().adopt(socket.into())?;
            clients.push(client);
        }
        let spare = (0..connections).map(|_| Vec::with_capacity(64)).collect();
        Ok(Scene { reactor, receipt, clients, spare, got: vec![0; connections] })
    }

    /// Every client sends a request and gets the answer. Returns the reactor's time and number of
    /// turns.
    fn round(&mut self, bytes: usize) -> io::Result<(Duration, usize)> {
        let question = vec![b'x'; bytes];
        for client in &mut self.clients {
            client.write_all(&question)?;
        }
        let started = processor_time();
        let mut answered = 0;
        let mut turns = 0;
        let mut unsent = false;
        while answered < self.clients.len() * bytes || unsent {
            // The last answers are sent with the next wait, which must not sleep here.
            let all = answered == self.clients.len() * bytes;
            let (events, mut ops) =
                self.reactor.wait(if all { Some(Duration::ZERO) } else { None })?;
            turns += 1;
            unsent = false;
            for event in events {
                match event {
                    Event::Data { conn, bytes: piece } => {
                        answered += piece.len();
                        let got = &mut self.got[conn.index as usize];
                        *got += piece.len();
                        if *got < bytes {
                            continue;
                        }
                        *got = 0;
                        let mut answer = self.spare.pop().unwrap_or_default();
                        answer.extend_from_slice(b"+PONG\r\n");
                        ops.send(conn, answer, self.receipt);
                        unsent = true;
                    }
                    Event::Sent { buffer, .. } => self.spare.push(buffer),
                    _ => {}
                }
            }
        }
        let time = processor_time() - started;
        for client in &mut self.clients {
            client.read_exact(&mut [0; 7])?;
        }
        Ok((time, turns))
    }
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
