//! Requests and replies under random and damaged bytes.
//!
//! 1. No bytes make a parser panic.
//! 2. Commands and errors do not depend on the chunking.
//! 3. An undamaged stream gives back the commands it was made of.
//! 4. A reply tree is read from exactly its own bytes: every shorter prefix is incomplete.
//!
//! Linear work is a test of the protocol crate: megabytes a byte at a time would not end otherwise.

use pantala_base::Rng;
use pantala_protocol::{
    Arena, MANY_ARGS, ParseStep, ProtocolError, Reply, RequestLimits, RequestParser, Version,
    value, whole_request,
};

type Command = Vec<Vec<u8>>;

/// Runs the case of `seed`; panics where an invariant is broken.
pub fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    requests(&mut rng);
    replies(&mut rng);
    crate::protocol_texts::case(&mut rng);
}

fn requests(rng: &mut Rng) {
    let limits = RequestLimits {
        max_bulk_bytes: if rng.below(4) == 0 { rng.below(2000) as usize } else { 512 << 20 },
        max_args: if rng.below(4) == 0 { rng.below(20) as usize } else { i32::MAX as usize },
        max_inline_bytes: if rng.below(2) == 0 { rng.below(64) as usize } else { 64 << 10 },
        authenticated: rng.below(8) != 0,
    };
    let commands: Vec<Command> = (0..rng.below(6)).map(|_| command(rng)).collect();
    let mut stream = Vec::new();
    for command in &commands {
        encode(rng, command, &mut stream);
    }
    if limits == RequestLimits::default() {
        assert_eq!(feed(&stream, &limits, rng, false), (commands, None));
    }
    for _ in 0..rng.below(6) {
        damage(rng, &mut stream);
    }
    let mut parser = RequestParser::default();
    let step = parser.parse(&stream, &limits, &Arena::new(), &mut Vec::new());
    assert!(!matches!(step, ParseStep::Command { consumed }
        | ParseStep::Empty { consumed }
        | ParseStep::Long { consumed, .. }
        if consumed == 0 || consumed > stream.len()));
    let whole = feed(&stream, &limits, rng, true);
    for _ in 0..3 {
        let chunked = feed(&stream, &limits, rng, false);
        let (found, error) = (whole == chunked, (whole.1, chunked.1));
        assert!(found, "{limits:?} {error:?} {}", stream.escape_ascii());
    }
}

/// Parses `stream`, at once or in random chunks, with a buffer that is shortened as a server does
/// it.
fn feed(
    stream: &[u8],
    limits: &RequestLimits,
    rng: &mut Rng,
    at_once: bool,
) -> (Vec<Command>, Option<ProtocolError>) {
    let largest = 1 + rng.below(40);
    let mut parser = RequestParser::default();
    let (mut commands, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        let arena = Arena::new();
        let mut args = Vec::new();
        match parser.parse(&stream[start..end], limits, &arena, &mut args) {
            ParseStep::Command { consumed } => {
                commands.push(args.iter().map(|arg| arg.to_vec()).collect());
                start += consumed;
            }
            ParseStep::Long { consumed, arg_count } => {
                let whole = whole_request(&stream[start..start + consumed]);
                assert!(arg_count > MANY_ARGS && whole.len() == arg_count);
                assert!(whole.starts_with(&args) && !args.is_empty());
                commands.push(whole.iter().map(|arg| arg.to_vec()).collect());
                start += consumed;
            }
            ParseStep::Busy => assert!(args.is_empty()),
            ParseStep::Empty { consumed } => start += consumed,
            ParseStep::Error(error) => return (commands, Some(error)),
            ParseStep::Incomplete { .. } if end == stream.len() => return (commands, None),
            ParseStep::Incomplete { wanted } => {
                assert!(args.is_empty());
                // Fewer than `wanted` bytes more cannot complete anything: sometimes try that.
                let want = if rng.below(2) == 0 { wanted.min(4096) } else { 0 };
                let chunk = want.max(1 + rng.below(largest) as usize);
                end = if at_once { stream.len() } else { stream.len().min(end + chunk) };
            }
        }
    }
}

fn command(rng: &mut Rng) -> Command {
    if rng.below(200) == 0 {
        // Some near the limits of a long command, which is parsed in several calls.
        let around = [MANY_ARGS as u64, 16 << 10, 40 << 10][rng.below(3) as usize];
        return (0..around - 2 + rng.below(5)).map(|_| vec![b'x'; rng.below(3) as usize]).collect();
    }
    (0..1 + rng.below(6)).map(|_| bytes(rng)).collect()
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(8) {
        0 => rng.below(3000),
        1 => rng.below(130),
        _ => rng.below(12),
    };
    let plain = rng.below(2) == 0;
    let mut bytes = vec![0; len as usize];
    rng.bytes(&mut bytes);
    if plain {
        bytes.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
    }
    bytes
}

fn encode(rng: &mut Rng, command: &Command, out: &mut Vec<u8>) {
    if rng.below(3) > 0 || command.iter().map(Vec::len).sum::<usize>() > 5000 {
        out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for arg in command {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
        return;
    }
    for arg in command {
        // The first byte of the stream must not look like a multibulk.
        out.push(b' ');
        out.push(b'"');
        for &byte in arg {
            match byte {
                b'a'..=b'z' => out.push(byte),
                _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        out.push(b'"');
    }
    out.extend_from_slice(if rng.below(2) == 0 { b"\n" } else { b"\r\n" });
}

/// A small change: a byte of the grammar, a random byte, or a removal.
fn damage(rng: &mut Rng, stream: &mut Vec<u8>) {
    const PIECES: [&[u8]; 14] = [
        b"\r\n",
        b"\r",
        b"\n",
        b"*",
        b"$",
        b"-1",
        b"0",
        b"99999999999999999999",
        b"*2\r\n",
        b"$3\r\n",
        b"\"",
        b"'",
        b"\\x",
        b" ",
    ];
    let at = rng.below(stream.len() as u64 + 1) as usize;
    match rng.below(4) {
        0 => {
            let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
            stream.splice(at..at, piece.iter().copied());
        }
        1 => {
            if let Some(byte) = stream.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
        }
        2 => {
            let end = stream.len().min(at + rng.below(8) as usize);
            stream.drain(at..end);
        }
        _ => {
            let end = stream.len().min(at + rng.below(20) as usize);
            let copy = stream[at..end].to_vec();
            stream.extend_from_slice(&copy);
        }
    }
}

fn replies(rng: &mut Rng) {
    let version = if rng.below(2) == 0 { Version::Resp2 } else { Version::Resp3 };
    let mut stream = Vec::new();
    write_reply(rng, &mut Reply::new(&mut stream, version), 0);
    let read = value::parse(&stream);
    assert!(matches!(&read, Ok(Some((_, len))) if *len == stream.len()), "{read:?}");
    for _ in 0..4 {
        let end = rng.below(stream.len() as u64) as usize;
        assert_eq!(value::parse(&stream[..end]), Ok(None), "{}", stream.escape_ascii());
    }
    for _ in 0..rng.below(6) {
        damage(rng, &mut stream);
    }
    if let Ok(Some((_, len))) = value::parse(&stream) {
        assert!(len <= stream.len());
        assert!(matches!(value::parse(&stream[..len]), Ok(Some((_, again))) if again == len));
    }
}

fn write_reply(rng: &mut Rng, reply: &mut Reply<'_>, depth: u64) {
    let count = rng.below(4) as usize;
    let kind = rng.below(if depth < 4 { 17 } else { 12 });
    match kind {
        0 => reply.ok(),
        1 => reply.error(bytes(rng)),
        2 => reply.int(rng.next_u64() as i64 >> rng.below(64)),
        3 => reply.bulk(&bytes(rng)),
        4 => reply.bulk_int(rng.next_u64() as i64 >> rng.below(64)),
        5 => reply.null(),
        6 => reply.null_array(),
        7 => reply.double(f64::from_bits(rng.next_u64())),
        8 => reply.bool(rng.below(2) == 0),
        9 => reply.verbatim(b"txt", &bytes(rng)),
        10 => reply.big_number(b"123456789012345678901234567890"),
        11 => reply.simple("PONG"),
        _ => {
            let mark = reply.begin();
            let pairs = kind == 13;
            for _ in 0..if pairs { 2 * count } else { count } {
                write_reply(rng, reply, depth + 1);
            }
            match kind {
                13 => reply.end_map(mark, count),
                14 => reply.end_set(mark, count),
                _ => reply.end_array(mark, count),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_cases_pass() {
        (0..2000).for_each(super::case);
    }
}
