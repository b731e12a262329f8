//! A full copy in parts: the connections beside the link, and the snapshots they carry.
//!
//! Tests: compat/replication, `several_connections` and those after it.

use std::io::{self, Error, ErrorKind, Read};
use std::time::Duration;

use pantala_journal::resp::push_command;
use pantala_psync::link::{FrameReader, Invitation};
use pantala_tls::Connector;

use super::incoming::FullCopy;
use crate::Replication;
use crate::replica::Primary;
use crate::replica::socket::Socket;

/// The longest wait for an answer: the primary does not wait for longer, either.
const MOST_WAIT: Duration = Duration::from_secs(5);

/// Opens connections to the primary.
pub struct Dialer<'d> {
    pub replication: &'d Replication,
    pub primary: &'d Primary,
    pub silence: Duration,
    pub tls: Option<&'d Connector>,
}

impl Dialer<'_> {
    /// How many connections beside the link a full copy may use.
    pub fn connections(&self) -> usize {
        let settings = self.replication.engine.settings.current();
        let network = self.replication.following.network(&settings);
        settings.worker_count().min(network.most_connections())
    }

    /// Opens the connections of an invitation; returns those that the primary has accepted.
    pub fn open(&self, to: &Invitation) -> Vec<Socket> {
        let one = || {
            let opened = self.open_one(&to.token);
            pantala_memory::release_seat();
            opened
        };
        let opened: Vec<_> = std::thread::scope(|scope| {
            let spawn =
                |_| std::thread::Builder::new().name("part".into()).spawn_scoped(scope, one);
            let threads: Vec<_> = (0..to.connections).filter_map(|at| spawn(at).ok()).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let (opened, failed): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        if let Some(Err(why)) = failed.first() {
            let failed = failed.len();
            tracing::warn!(failed, "connections for a full copy could not be opened: {why}");
        }
        opened.into_iter().flatten().collect()
    }

    fn open_one(&self, token: &str) -> io::Result<Socket> {
        let settings = self.replication.engine.settings.current();
        let network = self.replication.following.network(&settings);
        let (mut socket, _) = Socket::open(network, self.primary, self.silence, self.tls)?;
        let (user, password) = (settings.primaryuser.as_bytes(), settings.primaryauth.as_bytes());
        let (mut said, mut answers) = (Vec::new(), 1);
        if !password.is_empty() {
            answers += 1;
            match user.is_empty() {
                true => push_command(&mut said, &[b"AUTH", password]),
                false => push_command(&mut said, &[b"AUTH", user, password]),
            }
        }
        push_command(&mut said, &[b"REPLCONF", b"copy-part", token.as_bytes()]);
        socket.send(&said)?;
        let since = socket.now();
        while answers > 0 {
            match socket.line()? {
                Some(line) if line.starts_with(b"+") => answers -= 1,
                Some(line) => return Err(Error::other(line.escape_ascii().to_string())),
                None if socket.now() - since > MOST_WAIT => return Err(ErrorKind::TimedOut.into()),
                None => drop(socket.fill()?),
            }
        }
        Ok(socket)
    }
}

/// The snapshot that arrives over one connection.
pub struct PartSource<'s, 'c> {
    copy: &'s FullCopy<'c>,
    socket: Socket,
    frames: FrameReader,
    out: Vec<u8>,
    at: usize,
}

impl<'s, 'c> PartSource<'s, 'c> {
    /// A part of which nothing was read.
    pub fn new(copy: &'s FullCopy<'c>, socket: Socket) -> PartSource<'s, 'c> {
        PartSource { copy, socket, frames: FrameReader::default(), out: Vec::new(), at: 0 }
    }

    /// Reads frames until one has data; nothing after the last.
    fn go_on(&mut self) -> io::Result<()> {
        self.out.clear();
        self.at = 0;
        while self.out.is_empty() && !self.frames.is_over() {
            let read = self.frames.read(self.socket.input(), &mut self.out);
            let read = read.map_err(|why| Error::new(ErrorKind::InvalidData, why.0))?;
            match read {
                Some(used) => {
                    self.socket.use_up(used);
                    self.copy.count(used);
                }
                None => drop(self.copy.fill(&mut self.socket)?),
            }
        }
        Ok(())
    }
}

impl Read for PartSource<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.out.len() {
            self.go_on().map_err(|why| {
                let why = format!("a part: {why}");
                self.copy.fail_if(Err(Error::other(why.clone())));
                Error::other(why)
            })?;
        }
        debug_assert!(self.at <= self.out.len(), "only what has come is read");
        let bytes = buffer.len().min(self.out.len() - self.at);
        buffer[..bytes].copy_from_slice(&self.out[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}
