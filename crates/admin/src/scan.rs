//! Finds where a RESP reply ends, in bytes that come in pieces, and keeps a reply that is not too
//! long.
//!
//! Only lengths are parsed: an aggregate adds the number of its elements to what is awaited, and a
//! reply is whole when nothing is awaited any more.

/// The limit of a reply; a longer one is discarded as it comes.
pub(crate) const REPLY_BYTES: usize = 8 << 20;
/// The limit of the first line of an element: MONITOR's may be long.
const LINE_BYTES: usize = REPLY_BYTES;

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScannedReply {
    /// Its bytes.
    Reply(Vec<u8>),
    /// A reply longer than [`REPLY_BYTES`], and its length.
    TooLarge(u64),
}

/// The bytes are not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedReply;

/// The scanner: received bytes and the state of the reply that is being received.
#[derive(Default)]
pub(crate) struct Scan {
    /// Received bytes: replies already handed out, the current reply, and what follows it.
    bytes: Vec<u8>,
    /// Where the current reply begins: many short ones arrive together, and later ones are not
    /// moved for each.
    begin: usize,
    /// The offset up to which bytes were scanned.
    at: usize,
    /// How many bytes of the current line were searched for its end.
    searched: usize,
    /// Whether the current reply has begun.
    is_within: bool,
    /// How many elements the current reply still lacks.
    awaited: u64,
    /// How many bytes of the current string are still to come, including its end.
    skipped: u64,
    /// How many bytes of the current reply were discarded; not zero: it is too long.
    dropped: u64,
}

impl Scan {
    /// Adds received bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.at -= std::mem::take(&mut self.begin);
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole reply, if there is one.
    ///
    /// # Errors
    /// The received bytes are not RESP.
    pub fn next(&mut self) -> Result<Option<ScannedReply>, MalformedReply> {
        if !self.is_within {
            self.awaited = 1;
        }
        while self.awaited > 0 || self.skipped > 0 {
            let is_done = if self.skipped > 0 { self.skip() } else { self.take_line()? };
            if !is_done {
                self.drop_what_is_too_long();
                return Ok(None);
            }
            self.is_within = true;
        }
        self.is_within = false;
        Ok(Some(self.hand_out()))
    }

    /// Skips the bytes of a string; returns whether all of them are there.
    fn skip(&mut self) -> bool {
        let there = (self.bytes.len() - self.at) as u64;
        let step = there.min(self.skipped);
        self.skipped -= step;
        self.at += step as usize;
        self.skipped == 0
    }

    /// Handles the first line of an element; returns whether it is complete.
    fn take_line(&mut self) -> Result<bool, MalformedReply> {
        let from = self.at + self.searched;
        let Some(end) = self.bytes[from..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len() - self.at;
            return if self.searched > LINE_BYTES { Err(MalformedReply) } else { Ok(false) };
        };
        let end = end + std::mem::take(&mut self.searched);
        let line = &self.bytes[self.at..self.at + end];
        let (more, skipped) = lengths(line.strip_suffix(b"\r").unwrap_or(line))?;
        self.awaited = (self.awaited - 1).saturating_add(more);
        self.skipped = skipped;
        self.at += end + 1;
        Ok(true)
    }

    fn hand_out(&mut self) -> ScannedReply {
        let is_last = self.at == self.bytes.len();
        let reply = match self.begin == 0 && is_last {
            true => std::mem::take(&mut self.bytes),
            false => self.bytes[self.begin..self.at].to_vec(),
        };
        if is_last {
            (self.bytes, self.at) = (Vec::new(), 0);
        }
        self.begin = self.at;
        let length = std::mem::take(&mut self.dropped) + reply.len() as u64;
        if length > REPLY_BYTES as u64 {
            ScannedReply::TooLarge(length)
        } else {
            ScannedReply::Reply(reply)
        }
    }

    fn drop_what_is_too_long(&mut self) {
        if self.dropped > 0 || self.at - self.begin > REPLY_BYTES {
            self.dropped += (self.at - self.begin) as u64;
            self.bytes.drain(..self.at);
            (self.begin, self.at) = (0, 0);
        }
    }
}

/// How many elements this element holds, and how many bytes follow its first line.
fn lengths(line: &[u8]) -> Result<(u64, u64), MalformedReply> {
    let (kind, number) = line.split_first().ok_or(MalformedReply)?;
    let count = || -> Result<u64, MalformedReply> {
        let number = std::str::from_utf8(number).map_err(|_| MalformedReply)?;
        match number.parse::<i64>().map_err(|_| MalformedReply)? {
            -1 => Ok(0),
            count => u64::try_from(count).map_err(|_| MalformedReply),
        }
    };
    match kind {
        b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => Ok((0, 0)),
        b'$' | b'=' | b'!' if number == b"-1" => Ok((0, 0)),
        b'$' | b'=' | b'!' => Ok((0, count()?.checked_add(2).ok_or(MalformedReply)?)),
        b'*' | b'~' | b'>' => Ok((count()?, 0)),
        b'%' => Ok((count()?.checked_mul(2).ok_or(MalformedReply)?, 0)),
        _ => Err(MalformedReply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"+OK\r\n$5\r\nab\r\nc\r\n*2\r\n:1\r\n%1\r\n+k\r\n$-1\r\n_\r\n>2\r\n$1\r\nx\r\n\
                            *0\r\n*-1\r\n,1.5\r\n#t\r\n(12\r\n=7\r\ntxt:abc\r\n~1\r\n!3\r\nERR\r\n";

    fn replies(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<ScannedReply> {
        let (mut scan, mut replies) = (Scan::default(), Vec::new());
        for piece in pieces {
            scan.take(&piece);
            while let Some(reply) = scan.next().expect("good bytes") {
                replies.push(reply);
            }
        }
        assert!(scan.bytes.is_empty());
        replies
    }

    #[test]
    fn replies_are_whole_in_whatever_pieces_they_come() {
        let expected = replies(std::iter::once(STREAM.to_vec()));
        assert_eq!(expected.len(), 11);
        assert_eq!(expected[0], ScannedReply::Reply(b"+OK\r\n".to_vec()));
        assert_eq!(expected[1], ScannedReply::Reply(b"$5\r\nab\r\nc\r\n".to_vec()));
        for size in 1..STREAM.len() {
            assert_eq!(replies(STREAM.chunks(size).map(<[u8]>::to_vec)), expected, "{size}");
        }
    }

    #[test]
    fn what_is_too_long_is_counted_and_not_kept() {
        let mut scan = Scan::default();
        let length = 3 * REPLY_BYTES;
        scan.take(format!("*2\r\n${length}\r\n").as_bytes());
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..length / piece.len() {
            scan.take(&piece);
            assert_eq!(scan.next(), Ok(None));
            assert!(scan.bytes.len() <= REPLY_BYTES + 2 * piece.len());
        }
        scan.take(b"\r\n:1\r\n+next\r\n");
        let header = 4 + format!("${length}\r\n").len();
        let all = (header + length + 2 + 4) as u64;
        assert_eq!(scan.next(), Ok(Some(ScannedReply::TooLarge(all))));
        assert_eq!(scan.next(), Ok(Some(ScannedReply::Reply(b"+next\r\n".to_vec()))));
        assert_eq!(scan.next(), Ok(None));
    }

    #[test]
    fn what_is_no_resp_is_an_error() {
        for bytes in ["x\r\n", "$x\r\n", "*-2\r\n", "\r\n", "%99999999999999999999\r\n", "|1\r\n"] {
            let mut scan = Scan::default();
            scan.take(bytes.as_bytes());
            assert_eq!(scan.next(), Err(MalformedReply), "{bytes:?}");
        }
        let mut scan = Scan::default();
        scan.take(&vec![b'+'; LINE_BYTES + 2]);
        assert_eq!(scan.next(), Err(MalformedReply));
    }
}
