//! `fuzz_replica --seconds N --seed S`: the input of a replica from its primary.
//!
//! ```text
//! link    answers of the handshake | +FULLRESYNC | $PARTS:n, $length, $EOF:mark | stream
//! parts   frames
//! ```
//!
//! A case is a valid conversation and a valid part, which are read as they are, and then damaged
//! again and again. However the bytes are divided the result is the same; damaged data is not taken
//! for complete; no more connections are invited than were offered; and an announced number takes
//! no memory.

use std::process::ExitCode;
use std::sync::OnceLock;

use pantala_base::Rng;
use pantala_psync::link::frames::{MOST_FRAME_BYTES, alive};
use pantala_psync::link::{
    Cutter, Frame, FrameReader, FrameWriter, Greeting, Handshake, HandshakeAnswer, HandshakeStep,
    MOST_CONNECTIONS, MOST_LINE_BYTES, ResumeRequest, Transfer, TransferStart, line,
};
use pantala_psync::{ReplicationId, link};

const DAMAGES: u64 = 30;
const ID: &str = "0123456789abcdef0123456789abcdef01234567";
/// More than all cases use together, and less than one announced size would take.
const MOST_GROWTH_KB: u64 = 256 << 10;
/// Words that may mean something.
const WORDS: [&[u8]; 25] = [
    b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 1\r\n",
    b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 18446744073709551615\r\n",
    b"+CONTINUE\r\n",
    b"+PARTS 0a1b 3\r\n",
    b"+PARTS 0a1b 99999999999999999999\r\n",
    b"+PARTS \r\nFLUSHALL\r\n 2\r\n",
    b"-NOMASTERLINK\r\n",
    b"-ERR\r\n",
    b"\n",
    b"\r\n",
    b"$PARTS:8\r\n",
    b"$PARTS:4000000000\r\n",
    b"$EOF:",
    b"$EOF:0123456789abcdef0123456789abcdef01234567\r\n",
    b"$9223372036854775807\r\n",
    b"$-1\r\n",
    b"$4294967296\r\n",
    b"*2147483647\r\n",
    b"*1\r\n$5\r\nMULTI\r\n",
    b"*1\r\n$4\r\nEXEC\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"$0\r\n\r\n",
    b"L\xff\xff\xff\x00\xff\xff\xff\xff",
    b"P\xff\xff\xff\xff\xff\xff\xff\xff",
];

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_replica", case)
}

fn case(seed: u64) {
    let rng = &mut Rng::from_seed(seed);
    let (bytes, sound) = conversation(rng);
    assert_eq!(talk(&bytes, rng), sound);
    damaged(&bytes, rng, |damaged, rng| {
        assert_eq!(talk(damaged, rng), talk(damaged, rng), "pieces make no difference");
    });
    let (frames, held) = part(rng);
    assert_eq!(read_part(&frames, rng), (held.clone(), End::Whole));
    damaged(&frames, rng, |damaged, rng| {
        let (found, end) = read_part(damaged, rng);
        assert!(held.starts_with(&found), "something was found that nobody said");
        assert!(end != End::Whole || found == held, "a damaged part is taken for whole");
        assert_eq!(read_part(damaged, rng), (found, end), "pieces make no difference");
    });
    head(rng);
    check_memory();
}

/// A head alone decides whether its frame is awaited: none above the limit is.
fn head(rng: &mut Rng) {
    let number = |rng: &mut Rng| match rng.below(4) {
        0 => rng.next_u64() as u32,
        1 => (MOST_FRAME_BYTES as u32 + 2).wrapping_sub(rng.below(4) as u32),
        _ => rng.below(3) as u32,
    };
    let stored = number(rng);
    let length = if rng.below(2) == 0 { stored } else { number(rng) };
    let kind = b"PLAE?"[rng.below(5) as usize];
    let head = [&[kind][..], &stored.to_le_bytes(), &length.to_le_bytes(), &[0; 8]].concat();
    let mut out = Vec::new();
    let read = FrameReader::default().read(&head, &mut out);
    assert!(read != Ok(None) || stored.max(length) as usize <= MOST_FRAME_BYTES, "{head:?}");
}

/// The process has never used much more memory than at its start.
fn check_memory() {
    static FIRST_KB: OnceLock<u64> = OnceLock::new();
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let peak = peak.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse().ok());
    let peak_kb: u64 = peak.expect("a number");
    assert!(peak_kb < FIRST_KB.get_or_init(|| peak_kb) + MOST_GROWTH_KB, "{peak_kb} KB");
}

/// Calls `check` with the bytes, damaged in many ways.
fn damaged(bytes: &[u8], rng: &mut Rng, check: impl Fn(&[u8], &mut Rng)) {
    for _ in 0..DAMAGES {
        let mut damaged = bytes.to_vec();
        (0..1 + rng.below(3)).for_each(|_| damage(&mut damaged, rng));
        check(&damaged, rng);
    }
}

fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    // Mostly where heads and lines are.
    let most = if rng.below(2) == 0 { bytes.len() } else { bytes.len().min(600) };
    let at = rng.below(most as u64 + 1) as usize;
    let end = bytes.len().min(at + 1 + rng.below(40) as usize);
    let word = WORDS[rng.below(WORDS.len() as u64) as usize];
    match rng.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let twice = bytes[at..end].to_vec();
            bytes.splice(at..at, twice);
        }
        3 => drop(bytes.splice(at..at, word.iter().copied())),
        4 => drop(bytes.splice(at..end, word.iter().copied())),
        5 => {
            let long = vec![b'x'; MOST_LINE_BYTES + 1];
            bytes.splice(at..at, long);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
}

fn noise(rng: &mut Rng, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(most + 1) as usize];
    if rng.below(2) == 0 {
        rng.bytes(&mut bytes);
    }
    bytes
}

/// Bytes in pieces of any size.
fn pieces<'b>(mut rest: &'b [u8], rng: &mut Rng) -> Vec<&'b [u8]> {
    // Single bytes of a long text would take long.
    let sizes = if rest.len() < 3_000 { [1, 7, 300, 70_000] } else { [500, 3_000, 9_000, 70_000] };
    let most = sizes[rng.below(4) as usize];
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + rng.below(most) as usize));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The state of a replica.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Connections that it was invited to open.
    invited: Vec<usize>,
    answer: Option<HandshakeAnswer>,
    /// How many parts were announced, and what came over the link.
    parts: Vec<usize>,
    snapshot: Vec<u8>,
    is_whole: bool,
    /// The steps: their commands, and whether they are transactions.
    steps: Vec<(Vec<Vec<Vec<u8>>>, bool)>,
    /// The reason, if it has ended early.
    ended: Option<String>,
}

/// A conversation, and the expected state of the replica.
fn conversation(rng: &mut Rng) -> (Vec<u8>, Heard) {
    let (mut said, mut heard) = (b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n".to_vec(), Heard::default());
    (0..rng.below(3)).for_each(|_| said.extend_from_slice(b"\n"));
    if rng.below(3) == 0 {
        said.extend_from_slice(b"+CONTINUE\r\n");
        heard.answer = Some(HandshakeAnswer::Continue(None));
    } else {
        if rng.below(2) == 0 {
            let count = 1 + rng.below(MOST_CONNECTIONS as u64) as usize;
            said.extend_from_slice(format!("+PARTS 0a1b {count}\r\n").as_bytes());
            heard.invited.push(count);
        }
        said.extend_from_slice(format!("+FULLRESYNC {ID} 42\r\n\n").as_bytes());
        heard.answer = Some(HandshakeAnswer::FullCopy(id(), 42));
        if let [count] = heard.invited[..] {
            said.extend_from_slice(format!("$PARTS:{count}\r\n\n\n").as_bytes());
            heard.parts.push(count);
        }
        heard.snapshot = noise(rng, 3_000);
        let mark = &ID.as_bytes()[..40];
        if rng.below(2) == 0 {
            said.extend_from_slice(format!("$EOF:{ID}\r\n").as_bytes());
            said.extend_from_slice(&heard.snapshot);
            said.extend_from_slice(mark);
        } else {
            said.extend_from_slice(format!("${}\r\n", heard.snapshot.len()).as_bytes());
            said.extend_from_slice(&heard.snapshot);
        }
        heard.is_whole = true;
    }
    for _ in 0..rng.below(8) {
        heard.steps.push(step(rng, &mut said));
    }
    (said, heard)
}

fn id() -> ReplicationId {
    ReplicationId::parse(ID.as_bytes()).expect("forty digits")
}

/// One step of the stream.
fn step(rng: &mut Rng, said: &mut Vec<u8>) -> (Vec<Vec<Vec<u8>>>, bool) {
    let mut push = |args: &[Vec<u8>]| {
        said.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            said.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            said.extend_from_slice(arg);
            said.extend_from_slice(b"\r\n");
        }
    };
    let is_transaction = rng.below(3) == 0;
    let count = if is_transaction { rng.below(4) } else { 1 };
    let commands: Vec<Vec<Vec<u8>>> = (0..count)
        .map(|_| {
            let more = (0..rng.below(4)).map(|_| noise(rng, 40));
            std::iter::once(b"SET".to_vec()).chain(more).collect()
        })
        .collect();
    if is_transaction {
        push(&[b"MULTI".to_vec()]);
    }
    commands.iter().for_each(|command| push(command));
    if is_transaction {
        push(&[b"exec".to_vec()]);
    }
    (commands, is_transaction)
}

/// A replica that receives everything in pieces: the parts of `link` in the server's order.
fn talk(bytes: &[u8], rng: &mut Rng) -> Heard {
    let greeting = Greeting { connections: MOST_CONNECTIONS, ..Greeting::default() };
    let wanted = Some(ResumeRequest { id: id(), position: 41 });
    let mut replica = Replica {
        heard: Heard::default(),
        handshake: Handshake::new(greeting, wanted, false),
        input: Vec::new(),
        transfer: None,
        cutter: Cutter::default(),
    };
    replica.handshake.begin();
    for piece in pieces(bytes, rng) {
        replica.input.extend_from_slice(piece);
        if let Err(why) = replica.go_on() {
            replica.heard.ended = Some(why);
            break;
        }
    }
    replica.heard
}

struct Replica {
    heard: Heard,
    handshake: Handshake,
    input: Vec<u8>,
    transfer: Option<Transfer>,
    cutter: Cutter,
}

impl Replica {
    /// Handles the received bytes.
    fn go_on(&mut self) -> Result<(), String> {
        while self.heard.answer.is_none() {
            let found = line(&self.input).map_err(|_| "a line does not end")?;
            let Some((line, used)) = found else { return Ok(()) };
            assert!(line.len() < MOST_LINE_BYTES);
            let next = self.handshake.take(line);
            self.input.drain(..used);
            self.hear(next)?;
        }
        if matches!(self.heard.answer, Some(HandshakeAnswer::FullCopy(..))) && !self.copy()? {
            return Ok(());
        }
        self.follow()
    }

    fn hear(&mut self, next: HandshakeStep) -> Result<(), String> {
        match next {
            HandshakeStep::Send(bytes) => assert!(bytes.starts_with(b"*") && bytes.len() < 1_000),
            HandshakeStep::Read => {}
            HandshakeStep::Invited(to) => {
                assert!(to.token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", to.token);
                assert!((1..=MOST_CONNECTIONS).contains(&to.connections));
                self.heard.invited.push(to.connections);
            }
            HandshakeStep::Over(HandshakeAnswer::FullCopy(id, position)) => {
                assert!(i64::try_from(position).is_ok(), "a position that is none");
                self.heard.answer = Some(HandshakeAnswer::FullCopy(id, position));
            }
            HandshakeStep::Over(answer @ HandshakeAnswer::Continue(_)) => {
                self.heard.answer = Some(answer)
            }
            HandshakeStep::Over(HandshakeAnswer::IsPrimary) => {
                return Err("it is a primary itself".into());
            }
            HandshakeStep::Over(HandshakeAnswer::Later(why) | HandshakeAnswer::Refused(why)) => {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Receives the snapshot; returns whether it is complete.
    fn copy(&mut self) -> Result<bool, String> {
        while self.transfer.is_none() {
            let found = TransferStart::read(&self.input)
                .map_err(|link::LineTooLong| "a line does not end")?;
            let Some((begun, used)) = found else { return Ok(false) };
            self.input.drain(..used);
            match begun {
                TransferStart::Waits => {}
                TransferStart::Parts(count) if self.heard.parts.is_empty() => {
                    assert!((1..=MOST_CONNECTIONS).contains(&count));
                    self.heard.parts.push(count);
                }
                TransferStart::Parts(_) => return Err("parts, again".into()),
                TransferStart::Begins(frame) => {
                    if let Frame::Length(bytes) = frame {
                        assert!(i64::try_from(bytes).is_ok(), "no file is so long");
                    }
                    self.transfer = Some(Transfer::new(frame));
                }
                TransferStart::Refused(why) => return Err(why),
            }
        }
        let transfer = self.transfer.as_mut().expect("it has begun");
        let used = transfer.take(&self.input, &mut self.heard.snapshot);
        self.input.drain(..used);
        assert_eq!(transfer.bytes(), self.heard.snapshot.len() as u64);
        self.heard.is_whole = transfer.is_over();
        assert!(self.heard.is_whole || self.input.is_empty(), "all was used, or it is over");
        Ok(self.heard.is_whole)
    }

    /// Receives the stream.
    fn follow(&mut self) -> Result<(), String> {
        self.cutter.add(&std::mem::take(&mut self.input));
        let cut = self.cutter.cut();
        for step in self.cutter.steps() {
            let commands = step.commands().map(|args| args.map(<[u8]>::to_vec).collect());
            self.heard.steps.push((commands.collect(), step.is_transaction()));
        }
        self.cutter.forget_whole();
        cut.map_err(|broken| broken.to_string())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Unfinished,
    Damaged(&'static str),
}

/// A part of some pieces, with alive frames between them, and its content.
fn part(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let (mut writer, mut out, mut held) = (FrameWriter::default(), Vec::new(), Vec::new());
    for _ in 0..rng.below(6) {
        let most = if rng.below(50) == 0 { MOST_FRAME_BYTES as u64 } else { 300 };
        let piece = noise(rng, most);
        writer.write(&piece, rng.below(3) > 0, &mut out);
        held.extend_from_slice(&piece);
        (0..rng.below(2)).for_each(|_| out.extend_from_slice(&alive()));
    }
    writer.end(&mut out);
    (out, held)
}

/// The content of a part that comes in pieces, up to its end or a damage.
fn read_part(bytes: &[u8], rng: &mut Rng) -> (Vec<u8>, End) {
    let (mut reader, mut input, mut held) = (FrameReader::default(), Vec::new(), Vec::new());
    for piece in pieces(bytes, rng) {
        input.extend_from_slice(piece);
        loop {
            let before = held.len();
            match reader.read(&input, &mut held) {
                Ok(Some(used)) => drop(input.drain(..used)),
                Ok(None) => break,
                Err(why) => return (held, End::Damaged(why.0)),
            }
            assert!(held.len() - before <= MOST_FRAME_BYTES);
        }
        assert!(input.len() < piece.len() + MOST_FRAME_BYTES + 17, "no frame is longer");
    }
    let is_over = reader.is_over();
    (held, if is_over { End::Whole } else { End::Unfinished })
}
