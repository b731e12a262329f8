//! Receiving a full copy, and where its bytes go.
//!
//! ```text
//! repl-diskless-load disabled    socket --> file in dir, old data is served; then file --> data
//!                    else        socket --> data
//! ```
//!
//! A Pantala may send the keys in parts, over connections of their own (`parts`): then each has a
//! file, or a thread that loads, and the rest comes over the link. The copy is complete when all
//! parts are, and the link's snapshot, which ends after them.
//!
//! Not here: how it replaces the present data (`replace`). Tests: compat/replication.

mod incoming;
mod parts;
mod replace;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use pantala_psync::link::Transfer;
use pantala_settings::field::DisklessLoad;

use self::incoming::{DirectSource, Start};
use self::parts::PartSource;
use super::socket::Socket;
use pantala_durability::loading::Source;

pub use self::incoming::FullCopy;
pub use self::parts::Dialer;

/// The interval of signs of life to the primary while data is loaded.
const SIGN_EVERY: Duration = Duration::from_secs(1);

impl FullCopy<'_> {
    /// Receives the snapshot and loads it; returns the database that the stream begins in. `parts`
    /// are the connections beside the link.
    ///
    /// # Errors
    /// A text for the log.
    pub fn take(&self, socket: &mut Socket, mut parts: Vec<Socket>) -> Result<u32, String> {
        let settings = self.replication.engine.settings.current();
        let transfer = match self.begin(socket)? {
            Start::Parts(count) if count == parts.len() => None,
            Start::Parts(count) => {
                return Err(format!("it comes in {count} parts, and {} are here", parts.len()));
            }
            Start::Whole(transfer) => {
                parts.clear();
                Some(transfer)
            }
        };
        let length = transfer.as_ref().and_then(Transfer::length);
        let copying = &self.following().copying;
        copying.total.store(length.unwrap_or_default(), Ordering::Relaxed);
        copying.bytes.store(0, Ordering::Relaxed);
        let is_empty = (0..self.replication.engine.space.database_count())
            .filter_map(|db| self.replication.engine.space.sizes(pantala_keyspace::DbIndex(db)))
            .all(|sizes| sizes.keys() == 0);
        let directory = Path::new(&*settings.dir);
        let straight = match settings.repl_diskless_load {
            DisklessLoad::Disabled => !directory.is_dir(),
            DisklessLoad::OnEmpty => is_empty,
            DisklessLoad::Flush | DisklessLoad::Swap => true,
        };
        if straight {
            let part = |socket| -> Box<dyn Read + Send> { Box::new(PartSource::new(self, socket)) };
            let parts = parts.into_iter().map(part).collect();
            let first = &mut DirectSource { copy: self, socket, transfer, out: Vec::new(), at: 0 };
            return self.replace(Source { first, bytes: length, parts, bytes_of_parts: 0 });
        }
        let temporary = |what: &str| {
            TemporaryFile(directory.join(format!("temp-{}-replica{what}.rdb", std::process::id())))
        };
        let file = temporary("");
        let Some(mut transfer) = transfer else {
            let files = (0..parts.len()).map(|at| temporary(&format!("-{at}"))).collect::<Vec<_>>();
            return self.take_parts(socket, parts, (&file, &files));
        };
        let bytes = self
            .to_file(socket, &mut transfer, &file.0)
            .map_err(|error| format!("the snapshot was not received: {error}"))?;
        let input =
            File::open(&file.0).map_err(|error| format!("{}: {error}", file.0.display()))?;
        let last = socket.now();
        let first = &mut KeepaliveFile { input, socket, last };
        self.replace(Source { first, bytes: Some(bytes), parts: Vec::new(), bytes_of_parts: 0 })
    }

    /// Receives the parts and the link's snapshot into files, in parallel, and loads them.
    fn take_parts(
        &self,
        socket: &mut Socket,
        parts: Vec<Socket>,
        (first, files): (&TemporaryFile, &[TemporaryFile]),
    ) -> Result<u32, String> {
        std::thread::scope(|scope| {
            for (socket, file) in parts.into_iter().zip(files) {
                let take = move || {
                    let mut part = PartSource::new(self, socket);
                    let taken = File::create(&file.0)
                        .and_then(|mut file| io::copy(&mut part, &mut file).map(drop));
                    self.fail_if(taken);
                    pantala_memory::release_seat();
                };
                let spawned = Builder::new().name("copy-part".into()).spawn_scoped(scope, take);
                self.fail_if(spawned.map(drop));
            }
            let rest = self.rest(socket);
            let rest = rest.and_then(|mut rest| self.to_file(socket, &mut rest, &first.0));
            self.fail_if(rest.map(drop));
        });
        if let Some(why) = self.failure.lock().take() {
            return Err(format!("the snapshot was not received: {why}"));
        }
        let open = |file: &TemporaryFile| {
            let opened = File::open(&file.0);
            opened.map_err(|error| format!("{}: {error}", file.0.display()))
        };
        let (mut first, mut bytes_of_parts, mut parts) = (open(first)?, 0, Vec::new());
        for file in files {
            let part = open(file)?;
            bytes_of_parts += part.metadata().map_or(0, |data| data.len());
            parts.push(Box::new(part) as Box<dyn Read + Send>);
        }
        let source = Source { first: &mut first, bytes: None, parts, bytes_of_parts };
        self.replace_with_signs(socket, source)
    }

    /// [`FullCopy::replace`], with signs of life to the primary meanwhile.
    fn replace_with_signs(&self, socket: &mut Socket, source: Source<'_>) -> Result<u32, String> {
        let (over, is_over) = channel::<()>();
        std::thread::scope(|scope| {
            let signs = move || {
                while is_over.recv_timeout(SIGN_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if socket.send(b"\n").is_err() {
                        break;
                    }
                }
                pantala_memory::release_seat();
            };
            let spawned = Builder::new().name("copy-signs".into()).spawn_scoped(scope, signs);
            spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
            let loaded = self.replace(source);
            drop(over);
            loaded
        })
    }

    fn to_file(
        &self,
        socket: &mut Socket,
        transfer: &mut Transfer,
        path: &Path,
    ) -> io::Result<u64> {
        let (mut file, mut out) = (File::create(path)?, Vec::new());
        let mut told = socket.now();
        while !transfer.is_over() {
            self.go_on(socket, transfer, &mut out)?;
            file.write_all(&out)?;
            out.clear();
            if socket.now() - told >= SIGN_EVERY {
                told = socket.now();
                socket.send(b"\n")?;
            }
        }
        Ok(transfer.bytes())
    }
}

/// A file that is removed when this is dropped.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It may never have been created.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Reads a file, with signs of life to the primary meanwhile.
struct KeepaliveFile<'w> {
    input: File,
    socket: &'w mut Socket,
    last: Instant,
}

impl Read for KeepaliveFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.socket.now() - self.last >= SIGN_EVERY {
            self.last = self.socket.now();
            self.socket.send(b"\n")?;
        }
        self.input.read(buffer)
    }
}
