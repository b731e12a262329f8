//! A full copy: the primary's snapshot takes the place of all data.
//!
//! ```text
//! repl-diskless-load disabled    socket --> file in dir, old data is served; then file --> data
//!                    else        socket --> data; clients are answered -LOADING meanwhile
//! ```
//!
//! Invariants
//! 1. No client sees a mix: from before the first key goes to after the last one has come they are
//!    answered -LOADING.
//! 2. Where it fails on the way the data is empty, and belongs to no history.
//!
//! Tests: compat/replication.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pantala_base::clock::unix_ms;
use pantala_commands::ClientError;
use pantala_engine::execute::Turn;
use pantala_engine::limits::Limited;
use pantala_keyspace::Scope;
use pantala_replication::ReplicationId;
use pantala_replication::link::{Begun, Transfer};
use pantala_settings::field::DisklessLoad;

use super::socket::Socket;
use super::{Following, relock};
use crate::process::journaling;
use crate::process::loading::{self, AnswersLoading};
use crate::shared::Shared;

/// Between two signs of life to the primary while data is loaded.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// How soon it is looked again whether a rewrite has ended.
const LOOK: Duration = Duration::from_millis(5);

/// What comes, and for which link.
pub struct FullCopy<'c> {
    pub shared: &'c Shared,
    pub number: u64,
    pub id: ReplicationId,
    pub position: u64,
}

impl FullCopy<'_> {
    fn following(&self) -> &Following {
        &self.shared.replication.following
    }

    /// Takes the snapshot and loads it. The database that the stream begins in.
    ///
    /// # Errors
    /// A text for the log.
    pub fn take(&self, socket: &mut Socket) -> Result<u32, String> {
        let settings = self.shared.engine.settings.current();
        let mut transfer = self.begin(socket)?;
        let copying = &self.following().copying;
        copying.total.store(transfer.length().unwrap_or_default(), Ordering::Relaxed);
        copying.bytes.store(0, Ordering::Relaxed);
        let is_empty = (0..self.shared.engine.space.database_count())
            .filter_map(|db| self.shared.engine.space.sizes(pantala_keyspace::DbIndex(db)))
            .all(|sizes| sizes.keys() == 0);
        let directory = Path::new(&*settings.dir);
        let straight = match settings.repl_diskless_load {
            DisklessLoad::Disabled | DisklessLoad::Swap => !directory.is_dir(),
            DisklessLoad::OnEmpty => is_empty,
            DisklessLoad::Flush => true,
        };
        if straight {
            let length = transfer.length();
            let mut source = Straight { copy: self, socket, transfer, out: Vec::new(), at: 0 };
            let db = self.replace(&mut source, length)?;
            return source.finish().map_err(|error| error.to_string()).map(|()| db);
        }
        let file = Temporary(directory.join(format!("temp-{}-replica.rdb", std::process::id())));
        let bytes = self
            .to_file(socket, &mut transfer, &file.0)
            .map_err(|error| format!("the snapshot was not received: {error}"))?;
        let input =
            File::open(&file.0).map_err(|error| format!("{}: {error}", file.0.display()))?;
        let mut input = WithSigns { input, socket, last: Instant::now() };
        self.replace(&mut input, Some(bytes))
    }

    /// Waits until the snapshot begins.
    fn begin(&self, socket: &mut Socket) -> Result<Transfer, String> {
        loop {
            match Begun::read(socket.input()) {
                Err(_) => return Err("a line before the snapshot does not end".into()),
                Ok(Some((Begun::Begins(frame), used))) => {
                    socket.use_up(used);
                    return Ok(Transfer::new(frame));
                }
                Ok(Some((Begun::Refused(why), _))) => return Err(format!("no snapshot: {why}")),
                Ok(Some((Begun::Waits, used))) => socket.use_up(used),
                Ok(None) => {
                    self.fill(socket).map_err(|error| error.to_string())?;
                }
            }
        }
    }

    fn fill(&self, socket: &mut Socket) -> io::Result<bool> {
        if !self.following().is_in_force(self.number) {
            return Err(Error::new(ErrorKind::Interrupted, "another primary is to be followed"));
        }
        let came = socket.fill()?;
        if came {
            self.following().heard();
        }
        Ok(came)
    }

    /// Takes what has come of the snapshot, or waits a while for it.
    fn go_on(
        &self,
        socket: &mut Socket,
        transfer: &mut Transfer,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        if socket.input().is_empty() {
            self.fill(socket)?;
        }
        let used = transfer.take(socket.input(), out);
        socket.use_up(used);
        self.following().copying.bytes.store(transfer.bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn to_file(
        &self,
        socket: &mut Socket,
        transfer: &mut Transfer,
        path: &Path,
    ) -> io::Result<u64> {
        let (mut file, mut out) = (File::create(path)?, Vec::new());
        let mut told = Instant::now();
        while !transfer.is_over() {
            self.go_on(socket, transfer, &mut out)?;
            file.write_all(&out)?;
            out.clear();
            if told.elapsed() >= SIGN_EVERY {
                told = Instant::now();
                socket.send(b"\n")?;
            }
        }
        Ok(transfer.bytes())
    }

    /// Puts what the snapshot has in the place of all data.
    fn replace(&self, input: &mut dyn Read, bytes: Option<u64>) -> Result<u32, String> {
        let shared = self.shared;
        let following = self.following();
        let _between_steps = relock(&following.applying);
        if !following.is_in_force(self.number) {
            return Err("another primary is to be followed".into());
        }
        super::drop_replicas(shared);
        let _others_wait = AnswersLoading::begin(shared);
        let keeps_file = shared.appending.is_running();
        if keeps_file {
            // What it has is of another history.
            shared.appending.close(&shared.engine.journal);
        }
        forget_everything(shared)?;
        let loaded = loading::load_copy(shared, input, bytes);
        let loaded = match loaded {
            Ok(loaded) => {
                shared.replication.stream.become_copy(self.id, self.position);
                shared.replication.checkpoints.forget();
                Ok(loaded)
            }
            Err(why) => {
                shared.replication.stream.stop_keeping();
                forget_everything(shared)?;
                Err(format!("the snapshot was not loaded: {why}"))
            }
        };
        if keeps_file {
            begin_file(shared);
        }
        loaded
    }
}

/// All keys and functions go. Nothing of this is recorded.
fn forget_everything(shared: &Shared) -> Result<(), String> {
    let engine = &shared.engine;
    let (tally, recorder) = (engine.stats.tallies.join(), engine.journal.join());
    let limited = Limited::new(engine.settings.current());
    let now = (unix_ms(), pantala_base::clock::monotonic_us());
    let thread = (&*tally, &recorder);
    let turn = Turn::new(shared, thread, &limited, pantala_commands::Lane::Slow, now);
    let scope = Scope { recorder: None, ..turn.plain_scope() };
    let mut locked = engine.space.lock_none(scope);
    let garbage = locked.flush_for_now().map_err(|_| "a script does not end")?;
    engine.space.dispose(garbage, false, &tally.keys);
    drop(locked);
    let emptied = engine.change_functions(|_: &_| Ok::<_, ClientError>(Default::default()));
    emptied.map_err(|error| String::from_utf8_lossy(&error.0).into_owned())
}

/// The append-only file begins with what there is now.
fn begin_file(shared: &Shared) {
    let Some(shared) = shared.arc() else { return };
    loop {
        match journaling::begin_anew(&shared) {
            Ok(()) => return,
            Err(why) if shared.engine.condition.shutdown.pause_for(LOOK) => {
                return tracing::warn!("the append-only file was not begun: {why}");
            }
            // A rewrite that is under way ends.
            Err(_) if shared.appending.rewrites().began_us.is_some() => {}
            Err(why) => return tracing::error!("the append-only file was not begun: {why}"),
        }
    }
}

/// A file that goes when it is not needed any more.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may never have been there.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// A file that is read while the primary sees that this server is alive.
struct WithSigns<'w> {
    input: File,
    socket: &'w mut Socket,
    last: Instant,
}

impl Read for WithSigns<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.last.elapsed() >= SIGN_EVERY {
            self.last = Instant::now();
            self.socket.send(b"\n")?;
        }
        self.input.read(buffer)
    }
}

/// The snapshot as it comes.
struct Straight<'s, 'c> {
    copy: &'s FullCopy<'c>,
    socket: &'s mut Socket,
    transfer: Transfer,
    out: Vec<u8>,
    at: usize,
}

impl Straight<'_, '_> {
    /// Nothing but the end may follow what was loaded.
    fn finish(&mut self) -> io::Result<()> {
        let mut rest = [0; 256];
        while self.read(&mut rest)? > 0 {}
        Ok(())
    }
}

impl Read for Straight<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.out.len() {
            if self.transfer.is_over() {
                return Ok(0);
            }
            self.out.clear();
            self.at = 0;
            self.copy.go_on(self.socket, &mut self.transfer, &mut self.out)?;
        }
        let bytes = buffer.len().min(self.out.len() - self.at);
        buffer[..bytes].copy_from_slice(&self.out[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}
