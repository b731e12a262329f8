//! Writes one file.
//!
//! Its first part is kept until the end, because the head of a file may be overwritten then; the
//! others are sent when they are full. A file of at most one part is sent in one request.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Ended, sync_channel};

use bytes::{Bytes, BytesMut};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use crate::bucket::Stores;
use crate::unfinished::{Note, Owner, note_path};
use crate::{ObjectFault, QUEUED_PIECES};

/// The size of a part. S3 takes 10,000 parts, so a file may have 160 GB.
const PART_BYTES: usize = 16 << 20;
/// The most parts in transit.
const PARTS_AT_ONCE: usize = 4;

type Outcome<T> = Result<T, object_store::Error>;

enum Piece {
    More(Bytes),
    Head(Bytes),
    End,
}

/// A file being written; nothing exists under its name before [`Upload::finish`]. If it is dropped
/// before, the sent parts are aborted.
pub struct Upload {
    pieces: Sender<Piece>,
    ended: Ended<Outcome<()>>,
}

impl Upload {
    pub(crate) fn begin(stores: Stores, path: Path, runtime: &Handle) -> Upload {
        let (pieces, taken) = channel(QUEUED_PIECES);
        let (done, ended) = sync_channel(1);
        runtime.spawn(async move {
            // Nobody waits any more.
            let _gone = done.send(send(&stores, &path, taken).await);
        });
        Upload { pieces, ended }
    }

    /// Overwrites the first bytes, which have been written; at most a part's length.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn write_over_start(&self, bytes: &[u8]) -> Result<(), ObjectFault> {
        self.put(Piece::Head(Bytes::copy_from_slice(bytes)))
    }

    /// Finishes the file; waits until it is stored.
    ///
    /// # Errors
    /// Those of the storage: the old file is still there, or none.
    pub fn finish(self) -> Result<(), ObjectFault> {
        self.put(Piece::End)?;
        self.outcome()
    }

    fn put(&self, piece: Piece) -> Result<(), ObjectFault> {
        // Nothing is accepted any more after a failure.
        self.pieces.blocking_send(piece).map_err(|_| self.fault())
    }

    fn outcome(&self) -> Result<(), ObjectFault> {
        let gone = |_| ObjectFault("the control plane has ended".into());
        self.ended.recv().map_err(gone)?.map_err(ObjectFault::from)
    }

    fn fault(&self) -> ObjectFault {
        match self.outcome() {
            Ok(()) => ObjectFault("the upload has ended".into()),
            Err(fault) => fault,
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(Piece::More(Bytes::copy_from_slice(bytes)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The state of sending a file.
struct UploadProgress<'s> {
    stores: &'s Stores,
    path: &'s Path,
    first: BytesMut,
    others: Option<Parts>,
}

async fn send(stores: &Stores, path: &Path, mut pieces: Receiver<Piece>) -> Outcome<()> {
    let mut sending = UploadProgress { stores, path, first: BytesMut::new(), others: None };
    let ended = loop {
        match pieces.recv().await {
            Some(Piece::More(piece)) => {
                if let Err(error) = sending.add(piece).await {
                    break Err(error);
                }
            }
            Some(Piece::Head(bytes)) => {
                let end = bytes.len().min(sending.first.len());
                sending.first[..end].copy_from_slice(&bytes[..end]);
            }
            Some(Piece::End) => return sending.finish().await,
            None => break Ok(()),
        }
    };
    if let Some(others) = sending.others {
        others.give_up().await;
        forget_note(stores, path).await;
    }
    ended
}

impl UploadProgress<'_> {
    async fn add(&mut self, piece: Bytes) -> Outcome<()> {
        let fits = piece.len().min(PART_BYTES - self.first.len());
        self.first.extend_from_slice(&piece[..fits]);
        if fits == piece.len() {
            return Ok(());
        }
        if self.others.is_none() {
            let store = Arc::clone(&self.stores.parts);
            let id = store.create_multipart(self.path).await?;
            let note = Note { owner: Owner::here(), id: id.clone() };
            self.others = Some(Parts::new(store, self.path.clone(), id));
            self.stores.whole.put(&note_path(self.path), note.to_string().into()).await?;
        }
        match &mut self.others {
            Some(others) => others.add(&piece[fits..]).await,
            None => Ok(()),
        }
    }

    async fn finish(self) -> Outcome<()> {
        let first = self.first.freeze();
        match self.others {
            None => self.stores.whole.put(self.path, first.into()).await.map(drop),
            Some(others) => {
                let finished = others.finish(first).await;
                forget_note(self.stores, self.path).await;
                finished
            }
        }
    }
}

/// Removes the note: there are no parts any more.
async fn forget_note(stores: &Stores, path: &Path) {
    let note = note_path(path);
    if let Err(error) = stores.whole.delete(&note).await {
        tracing::warn!(%note, "the note of an upload that has ended stays: {error}");
    }
}

/// The parts after the first.
struct Parts {
    store: Arc<dyn MultipartStore>,
    path: Path,
    id: MultipartId,
    /// The part that is not full.
    next: BytesMut,
    under_way: JoinSet<(usize, Outcome<PartId>)>,
    sent: Vec<(usize, PartId)>,
    count: usize,
}

impl Parts {
    fn new(store: Arc<dyn MultipartStore>, path: Path, id: MultipartId) -> Parts {
        let under_way = JoinSet::new();
        Parts { store, path, id, next: BytesMut::new(), under_way, sent: Vec::new(), count: 1 }
    }

    async fn add(&mut self, mut bytes: &[u8]) -> Outcome<()> {
        while !bytes.is_empty() {
            let fits = bytes.len().min(PART_BYTES - self.next.len());
            self.next.extend_from_slice(&bytes[..fits]);
            bytes = &bytes[fits..];
            if self.next.len() == PART_BYTES {
                self.send_next().await?;
            }
        }
        Ok(())
    }

    async fn send_next(&mut self) -> Outcome<()> {
        let (number, part) = (self.count, self.next.split().freeze());
        self.count += 1;
        self.send(number, part).await
    }

    async fn send(&mut self, number: usize, part: Bytes) -> Outcome<()> {
        while self.under_way.len() >= PARTS_AT_ONCE {
            self.take_sent().await?;
        }
        let (store, path, id) = (Arc::clone(&self.store), self.path.clone(), self.id.clone());
        self.under_way
            .spawn(async move { (number, store.put_part(&path, &id, number, part.into()).await) });
        Ok(())
    }

    /// Waits until a part is stored; returns whether there was one to wait for.
    async fn take_sent(&mut self) -> Outcome<bool> {
        let Some(joined) = self.under_way.join_next().await else { return Ok(false) };
        let (number, sent) = joined.map_err(|source| object_store::Error::JoinError { source })?;
        self.sent.push((number, sent?));
        Ok(true)
    }

    async fn finish(mut self, first: Bytes) -> Outcome<()> {
        let finished = self.send_rest(first).await;
        if finished.is_err() {
            self.give_up().await;
        }
        finished
    }

    async fn send_rest(&mut self, first: Bytes) -> Outcome<()> {
        if !self.next.is_empty() {
            self.send_next().await?;
        }
        self.send(0, first).await?;
        while self.take_sent().await? {}
        self.sent.sort_unstable_by_key(|(number, _)| *number);
        let parts = std::mem::take(&mut self.sent).into_iter().map(|(_, part)| part).collect();
        self.store.complete_multipart(&self.path, &self.id, parts).await.map(drop)
    }

    async fn give_up(mut self) {
        self.under_way.shutdown().await;
        if let Err(error) = self.store.abort_multipart(&self.path, &self.id).await {
            let path = &self.path;
            tracing::warn!(%path, "the parts of an upload that was given up may remain: {error}");
        }
    }
}
