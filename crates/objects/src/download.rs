//! Reads one file from its start.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, channel};

use crate::{ObjectFault, QUEUED_PIECES};

/// The size of a range. Each range is retried by itself.
const RANGE_BYTES: u64 = 8 << 20;

/// A file being read.
pub struct Download {
    ranges: Receiver<Result<Bytes, object_store::Error>>,
    at_hand: Bytes,
    size: u64,
    left: u64,
}

impl Download {
    pub(crate) fn begin(
        store: Arc<dyn ObjectStore>,
        path: Path,
        size: u64,
        runtime: &Handle,
    ) -> Download {
        let (sender, ranges) = channel(QUEUED_PIECES);
        runtime.spawn(async move {
            let mut from = 0;
            while from < size {
                let to = size.min(from + RANGE_BYTES);
                let range = store.get_range(&path, from..to).await;
                let is_over = range.is_err();
                if sender.send(range).await.is_err() || is_over {
                    break;
                }
                from = to;
            }
        });
        Download { ranges, at_hand: Bytes::new(), size, left: size }
    }

    /// The length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Read for Download {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || into.is_empty() {
            return Ok(0);
        }
        while self.at_hand.is_empty() {
            self.at_hand = match self.ranges.blocking_recv() {
                Some(range) => range.map_err(ObjectFault::from)?,
                None => return Err(ObjectFault("the file ended too early".into()).into()),
            };
        }
        let count = into.len().min(self.at_hand.len());
        self.at_hand.copy_to_slice(&mut into[..count]);
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}
