//! The body of an answer that stays open, line by line.

use bytes::Buf;
use http_body_util::BodyExt;
use pantala_http::Parts;

/// The longest answer, or line of one, that is read.
pub(crate) const ANSWER_BYTES: usize = 16 << 20;

/// Why there is no next line.
#[derive(Debug)]
pub(crate) enum LineFault {
    /// It is longer than `ANSWER_BYTES`.
    TooLong,
    /// The connection failed, or the answer ended.
    Ended(String),
}

impl std::fmt::Display for LineFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LineFault::TooLong => write!(f, "the answer is longer than {ANSWER_BYTES} bytes"),
            LineFault::Ended(text) => f.write_str(text),
        }
    }
}

/// A body and what of it is not yet a line. A call that is dropped loses nothing.
pub(crate) struct Lines {
    body: Parts,
    held: Vec<u8>,
    /// The first bytes of `held`, in which there is no end of a line.
    searched: usize,
}

impl Lines {
    pub(crate) fn new(body: Parts) -> Lines {
        Lines { body, held: Vec::new(), searched: 0 }
    }

    /// The next line that is not empty, without its end; the last one may have no end.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, LineFault> {
        loop {
            while let Some(line) = self.take_line() {
                if !line.is_empty() {
                    return Ok(line);
                }
            }
            if !self.read_more().await? {
                self.searched = 0;
                return match self.held.is_empty() {
                    true => Err(LineFault::Ended("the answer has ended".into())),
                    false => Ok(std::mem::take(&mut self.held)),
                };
            }
        }
    }

    /// The whole body.
    pub(crate) async fn rest(mut self) -> Result<Vec<u8>, LineFault> {
        while self.read_more().await? {}
        Ok(self.held)
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.held[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.held.len();
            return None;
        };
        let rest = self.held.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.held, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Whether there was more.
    async fn read_more(&mut self) -> Result<bool, LineFault> {
        let Some(part) = self.body.frame().await else { return Ok(false) };
        let part = part.map_err(|fault| LineFault::Ended(fault.to_string()))?;
        if let Ok(bytes) = part.into_data() {
            if self.held.len() + bytes.remaining() > ANSWER_BYTES {
                return Err(LineFault::TooLong);
            }
            self.held.extend_from_slice(&bytes);
        }
        Ok(true)
    }
}
