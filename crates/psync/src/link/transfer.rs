//! Receives the snapshot from a primary: finds its start and its end.
//!
//! ```text
//! \n \n ...               the primary is alive
//! $PARTS:<n>\r\n          its keys come over n connections beside this one
//! $<bytes>\r\n            this many bytes, then the stream
//! $EOF:<40 bytes>\r\n     up to a second copy of these bytes, then the stream
//! ```
//!
//! Tests: at the foot.

use super::{LineTooLong, MOST_CONNECTIONS, line};

/// The length of a mark.
const MARK_BYTES: usize = 40;
const _: () = assert!(MARK_BYTES == crate::id::ID_BYTES, "a mark is made as an id is");

/// How the end of the snapshot is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// After this many bytes.
    Length(u64),
    /// After this mark.
    Mark([u8; MARK_BYTES]),
}

/// The meaning of a line before the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferStart {
    /// The primary is not ready yet.
    Waits,
    /// Its keys come over this many other connections.
    Parts(usize),
    /// It begins.
    Begins(Frame),
    /// There will be none, for this reason.
    Refused(String),
}

impl TransferStart {
    /// Parses the line at the start of these bytes; also returns how many bytes were used. `None`:
    /// more are needed.
    ///
    /// # Errors
    /// The line is longer than the limit.
    pub fn read(bytes: &[u8]) -> Result<Option<(TransferStart, usize)>, LineTooLong> {
        let Some((line, used)) = line(bytes)? else { return Ok(None) };
        let begun = match line {
            [] => TransferStart::Waits,
            [b'$', b'P', b'A', b'R', b'T', b'S', b':', count @ ..] => {
                let count = std::str::from_utf8(count).ok().and_then(|text| text.parse().ok());
                match count.filter(|count| (1..=MOST_CONNECTIONS).contains(count)) {
                    Some(count) => TransferStart::Parts(count),
                    None => TransferStart::Refused("no number of parts".into()),
                }
            }
            [b'$', rest @ ..] => match frame(rest) {
                Some(frame) => TransferStart::Begins(frame),
                None => TransferStart::Refused(format!("no length: ${}", rest.escape_ascii())),
            },
            _ => TransferStart::Refused(line.escape_ascii().to_string()),
        };
        Ok(Some((begun, used)))
    }
}

fn frame(text: &[u8]) -> Option<Frame> {
    match text.strip_prefix(b"EOF:") {
        Some(mark) => Some(Frame::Mark(mark.try_into().ok()?)),
        None => {
            let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
            // An offset of a file, too.
            text.parse().ok().filter(|bytes| *bytes <= i64::MAX as u64).map(Frame::Length)
        }
    }
}

/// Separates the bytes of the snapshot from what follows.
#[derive(Debug)]
pub struct Transfer {
    frame: Frame,
    /// Received bytes that may be the start of the mark.
    held: Vec<u8>,
    /// Bytes of the snapshot so far.
    bytes: u64,
    is_over: bool,
}

impl Transfer {
    /// A transfer at its start.
    pub fn new(frame: Frame) -> Transfer {
        let is_over = frame == Frame::Length(0);
        Transfer { frame, held: Vec::new(), bytes: 0, is_over }
    }

    /// Handles received bytes: appends those of the snapshot to `out`. Returns how many bytes were
    /// used; the rest belongs to the stream.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        if self.is_over {
            return 0;
        }
        let before = out.len();
        let used = match self.frame {
            Frame::Length(length) => {
                debug_assert!(self.bytes < length, "a complete one is over");
                let left = (length - self.bytes).min(bytes.len() as u64) as usize;
                out.extend_from_slice(&bytes[..left]);
                self.is_over = self.bytes + left as u64 == length;
                left
            }
            Frame::Mark(mark) => self.take_to_mark(&mark, bytes, out),
        };
        debug_assert!(used <= bytes.len(), "the rest belongs to the stream");
        self.bytes += (out.len() - before) as u64;
        used
    }

    fn take_to_mark(&mut self, mark: &[u8; MARK_BYTES], bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let held = self.held.len();
        self.held.extend_from_slice(bytes);
        let found = self.held.windows(MARK_BYTES).position(|window| window == mark);
        if let Some(at) = found {
            out.extend_from_slice(&self.held[..at]);
            self.held = Vec::new();
            self.is_over = true;
            // A mark that was whole before would have been found before.
            debug_assert!(at + MARK_BYTES > held, "it ends in the new bytes");
            return at + MARK_BYTES - held;
        }
        let sure = self.held.len().saturating_sub(MARK_BYTES - 1);
        out.extend_from_slice(&self.held[..sure]);
        self.held.drain(..sure);
        debug_assert!(self.held.len() < MARK_BYTES, "only the start of a mark is held");
        bytes.len()
    }

    /// Whether the snapshot is complete.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes of the snapshot so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The length of the snapshot, if known.
    pub fn length(&self) -> Option<u64> {
        match self.frame {
            Frame::Length(length) => Some(length),
            Frame::Mark(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(bytes: &[u8]) -> Option<(TransferStart, usize)> {
        TransferStart::read(bytes).expect("no long line")
    }

    #[test]
    fn the_line_before_says_how_the_end_is_found() {
        assert_eq!(begun(b"\n\n$1"), Some((TransferStart::Waits, 1)));
        assert_eq!(begun(b"$12\r\nREDIS"), Some((TransferStart::Begins(Frame::Length(12)), 5)));
        assert_eq!(begun(b"$PARTS:4\r\n$EOF"), Some((TransferStart::Parts(4), 10)));
        assert_eq!(begun(b"$1"), None);
        let mut line = b"$EOF:".to_vec();
        line.extend_from_slice(&[b'm'; MARK_BYTES]);
        line.extend_from_slice(b"\r\n");
        let frame = Frame::Mark([b'm'; MARK_BYTES]);
        assert_eq!(begun(&line), Some((TransferStart::Begins(frame), line.len())));
        for refused in [
            "-ERR no",
            "$",
            "$-1",
            "$EOF:short",
            "$99999999999999999999",
            "+OK",
            "$1x",
            "$PARTS:0",
            "$PARTS:9",
            "$PARTS:",
        ] {
            let line = format!("{refused}\r\n");
            assert!(
                matches!(begun(line.as_bytes()), Some((TransferStart::Refused(_), _))),
                "{refused}"
            );
        }
        assert_eq!(TransferStart::read(&[b'$'; 1 << 20]), Err(LineTooLong));
    }

    #[track_caller]
    fn check(frame: &Frame, sent: &[u8], snapshot: &[u8], stream: &[u8]) {
        for size in 1..=sent.len() {
            let mut transfer = Transfer::new(frame.clone());
            let (mut out, mut rest) = (Vec::new(), Vec::new());
            for piece in sent.chunks(size) {
                let used = transfer.take(piece, &mut out);
                rest.extend_from_slice(&piece[used..]);
            }
            assert!(transfer.is_over(), "{size}");
            assert_eq!((&*out, &*rest), (snapshot, stream), "{size}");
            assert_eq!(transfer.bytes(), snapshot.len() as u64);
        }
    }

    #[test]
    fn any_pieces_give_the_same_snapshot_and_the_same_rest() {
        check(&Frame::Length(5), b"hello*1", b"hello", b"*1");
        check(&Frame::Length(0), b"*1", b"", b"*1");
        let mut mark = [b'm'; MARK_BYTES];
        mark[MARK_BYTES - 1] = b'n';
        // Bytes that nearly are the mark, too.
        let mut sent = [b'm'; 100].to_vec();
        sent.extend_from_slice(b"hello");
        let snapshot = sent.clone();
        sent.extend_from_slice(&mark);
        sent.extend_from_slice(b"*1\r\n");
        check(&Frame::Mark(mark), &sent, &snapshot, b"*1\r\n");
    }
}
