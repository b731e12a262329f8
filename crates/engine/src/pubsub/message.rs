//! A published message on its way to the subscribers of one worker.

use std::sync::Arc;

use pantala_base::number::push_u64;
use pantala_protocol::Version;

use super::Kind;
use super::name::Name;

/// A message as it is sent: one text for both protocol versions, which differ in its first byte
/// only.
#[derive(Clone)]
pub struct Frame {
    /// `*3`, the kind, the channel and the payload.
    bytes: Arc<Vec<u8>>,
    /// Where the channel begins: from there on the text is the same for subscribers of patterns.
    channel_at: usize,
}

/// One message for one worker.
pub struct Message {
    /// The text that is sent.
    pub frame: Frame,
    /// Whether it is of a channel or of a shard channel.
    pub kind: Kind,
    /// The hash of the channel.
    pub hash: u64,
    /// Start and length of the channel in the frame.
    channel: (usize, usize),
    /// Connections that subscribed to the channel after this moment do not get it.
    pub moment: u64,
    /// The queue was full: the connections that should get it are closed.
    pub is_lost: bool,
    /// The patterns that match, each with such a moment.
    pub patterns: Option<Box<[(Name, u64)]>>,
}

impl Frame {
    /// Writes the frame of a message.
    fn new(kind: Kind, channel: &[u8], message: &[u8]) -> (Frame, (usize, usize)) {
        const ROOM: usize = 80;
        let head: &[u8] = match kind {
            Kind::SlotChannel => b"*3\r\n$8\r\nsmessage\r\n",
            Kind::Channel | Kind::Pattern => b"*3\r\n$7\r\nmessage\r\n",
        };
        let mut bytes = Vec::with_capacity(channel.len() + message.len() + ROOM);
        bytes.extend_from_slice(head);
        push_bulk(&mut bytes, channel);
        let channel_begin = bytes.len() - 2 - channel.len();
        push_bulk(&mut bytes, message);
        let frame = Frame { bytes: Arc::new(bytes), channel_at: head.len() };
        (frame, (channel_begin, channel.len()))
    }

    /// Appends it for a subscriber of the channel.
    #[inline]
    fn write(&self, out: &mut Vec<u8>, version: Version) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        if version == Version::Resp3 {
            out[begin] = b'>';
        }
    }

    /// Appends it for a subscriber of a pattern.
    fn write_for_pattern(&self, out: &mut Vec<u8>, version: Version, pattern: &[u8]) {
        let begin = out.len();
        out.extend_from_slice(b"*4\r\n$8\r\npmessage\r\n");
        push_bulk(out, pattern);
        out.extend_from_slice(&self.bytes[self.channel_at..]);
        if version == Version::Resp3 {
            out[begin] = b'>';
        }
    }
}

impl Message {
    /// A message of a channel with this hash.
    pub fn new(kind: Kind, hash: u64, channel: &[u8], message: &[u8], moment: u64) -> Self {
        let (frame, channel) = Frame::new(kind, channel, message);
        Message { frame, kind, hash, channel, moment, is_lost: false, patterns: None }
    }

    /// A copy of the message for another worker, with the patterns that have subscribers there.
    pub fn with(&self, patterns: Option<Box<[(Name, u64)]>>) -> Self {
        Message { frame: self.frame.clone(), patterns, ..*self }
    }

    /// What is kept when the queue is full: enough to know which connections should get it.
    #[cold]
    pub fn lose(self) -> Self {
        let bytes = self.channel().to_vec();
        let channel = (0, bytes.len());
        let frame = Frame { bytes: Arc::new(bytes), channel_at: 0 };
        Message { frame, channel, is_lost: true, ..self }
    }

    /// Appends it for a subscriber of the channel, or of a pattern.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, version: Version, pattern: Option<&Name>) {
        match pattern {
            None => self.frame.write(out, version),
            Some(pattern) => self.frame.write_for_pattern(out, version, pattern.bytes()),
        }
    }

    /// Bytes of the message as it is sent.
    pub fn wire_bytes(&self) -> usize {
        self.frame.bytes.len()
    }

    /// The channel.
    pub fn channel(&self) -> &[u8] {
        let (begin, len) = self.channel;
        &self.frame.bytes[begin..][..len]
    }
}

fn push_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    push_u64(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
