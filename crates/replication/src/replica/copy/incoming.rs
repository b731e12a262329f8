//! A full copy as it arrives from the primary: its beginning, its bytes, and whether it has failed.

use std::io::{self, Error, ErrorKind, Read};
use std::sync::atomic::Ordering;

use pantala_psync::ReplicationId;
use pantala_psync::link::{Transfer, TransferStart};
use parking_lot::Mutex;

use crate::Replication;
use crate::replica::FollowState;
use crate::replica::socket::Socket;
/// An arriving full copy, and the link that it is for.
pub struct FullCopy<'c> {
    pub replication: &'c Replication,
    pub number: u64,
    pub id: ReplicationId,
    pub position: u64,
    /// The reason for which it has failed, if it has: all its threads then end.
    pub failure: Mutex<Option<String>>,
}

/// What the primary sends first.
pub(super) enum Start {
    /// The snapshot.
    Whole(Transfer),
    /// This many parts of it.
    Parts(usize),
}

impl FullCopy<'_> {
    pub(super) fn following(&self) -> &FollowState {
        &self.replication.following
    }

    /// Whether its link is still in force.
    pub(super) fn is_in_force(&self) -> bool {
        self.following().is_in_force(self.number)
    }

    /// Marks the copy as failed if `ended` is an error; the first reason is kept.
    pub(super) fn fail_if(&self, ended: io::Result<()>) {
        if let Err(why) = ended {
            self.failure.lock().get_or_insert_with(|| why.to_string());
        }
    }

    /// Counts arrived bytes.
    pub(super) fn count(&self, bytes: usize) {
        self.following().copying.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for the snapshot over the link, beside the parts.
    pub(super) fn rest(&self, socket: &mut Socket) -> io::Result<Transfer> {
        match self.begin(socket).map_err(Error::other)? {
            Start::Whole(transfer) => Ok(transfer),
            Start::Parts(_) => Err(Error::new(ErrorKind::InvalidData, "parts, again")),
        }
    }

    /// Waits until the snapshot begins.
    pub(super) fn begin(&self, socket: &mut Socket) -> Result<Start, String> {
        loop {
            match TransferStart::read(socket.input()) {
                Err(_) => return Err("a line before the snapshot does not end".into()),
                Ok(Some((TransferStart::Begins(frame), used))) => {
                    socket.use_up(used);
                    return Ok(Start::Whole(Transfer::new(frame)));
                }
                Ok(Some((TransferStart::Refused(why), _))) => {
                    return Err(format!("no snapshot: {why}"));
                }
                Ok(Some((TransferStart::Waits, used))) => socket.use_up(used),
                Ok(Some((TransferStart::Parts(count), used))) => {
                    socket.use_up(used);
                    return Ok(Start::Parts(count));
                }
                Ok(None) => {
                    self.fill(socket).map_err(|error| error.to_string())?;
                }
            }
        }
    }

    /// Reads what is there, or waits a while. Its errors are never of the kind `Interrupted`, which
    /// readers would retry.
    pub(super) fn fill(&self, socket: &mut Socket) -> io::Result<bool> {
        if self.failure.lock().is_some() {
            return Err(Error::new(ErrorKind::ConnectionAborted, "another part of it has failed"));
        }
        if !self.is_in_force() {
            let why = "another primary is to be followed";
            return Err(Error::new(ErrorKind::ConnectionAborted, why));
        }
        let came = socket.fill()?;
        if came {
            self.following().heard();
        }
        Ok(came)
    }

    /// Takes what has arrived of the snapshot, or waits a while for it.
    pub(super) fn go_on(
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
        self.count(used);
        Ok(())
    }
}

/// The snapshot as a reader that takes it from the link.
pub(super) struct DirectSource<'s, 'c> {
    pub copy: &'s FullCopy<'c>,
    pub socket: &'s mut Socket,
    /// `None`: parts come before it.
    pub transfer: Option<Transfer>,
    pub out: Vec<u8>,
    pub at: usize,
}

impl Read for DirectSource<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.out.len() {
            let transfer = match self.transfer.take() {
                Some(transfer) => transfer,
                None => self.copy.rest(self.socket)?,
            };
            let transfer = self.transfer.insert(transfer);
            if transfer.is_over() {
                return Ok(0);
            }
            self.out.clear();
            self.at = 0;
            self.copy.go_on(self.socket, transfer, &mut self.out)?;
        }
        debug_assert!(self.at < self.out.len(), "something has come");
        let bytes = buffer.len().min(self.out.len() - self.at);
        buffer[..bytes].copy_from_slice(&self.out[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}
