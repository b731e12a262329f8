//! `fuzz_memcached --seconds N --seed S`: cases S, S+1, ... for N seconds, one at least.
//!
//! A case is a stream of lines, most of them nearly right. No bytes make the parser panic; for
//! every division into pieces, the same requests and faults are found; and every step consumes
//! bytes or asks for more. Keys in base64 are decoded.

use std::process::ExitCode;

use pantala_base::Rng;
use pantala_memcached::meta::KeyRoom;
use pantala_memcached::{Limits, Request, RequestParser, Step};

const LIMITS: Limits = Limits { item_bytes: 160, line_bytes: 4000 };
const MOST_LINES: u64 = 30;
const WORDS: [&str; 60] = [
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "incr",
    "decr",
    "touch",
    "delete",
    "flush_all",
    "version",
    "verbosity",
    "stats",
    "mn",
    "noreply",
    "a",
    "key",
    "0",
    "1",
    "5",
    "10",
    "99",
    "101",
    "-1",
    "x",
    "18446744073709551615",
    "4294967296",
    "mg",
    "ms",
    "md",
    "ma",
    "me",
    "mg",
    "ms",
    "b",
    "v",
    "q",
    "k",
    "t",
    "c",
    "s",
    "I",
    "Zm9v",
    "Zg==",
    "O123",
    "T30",
    "N-1",
    "R0",
    "F7",
    "C9",
    "MA",
    "Mx",
    "J5",
    "D5",
    "E1",
];

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_memcached", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let bytes = stream(&mut rng);
    let whole = steps(&bytes, &mut || usize::MAX);
    let most = 1 << rng.below(8);
    let cut = steps(&bytes, &mut || 1 + rng.below(most) as usize);
    assert_eq!(whole, cut, "cut otherwise it is something else");
}

fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + rng.below(MOST_LINES) {
        for _ in 0..rng.below(8) {
            bytes.extend_from_slice(WORDS[rng.below(WORDS.len() as u64) as usize].as_bytes());
            bytes.extend(std::iter::repeat_n(b' ', 1 + rng.below(2) as usize));
        }
        match rng.below(12) {
            0 => bytes.extend((0..rng.below(300)).map(|_| rng.below(256) as u8)),
            1 => bytes.extend(std::iter::repeat_n(b'k', rng.below(5000) as usize)),
            2 => bytes.extend_from_slice(b"set a 0 0 5\r\nhello"),
            3 => bytes.extend_from_slice(b"set a 0 0 101\r\n"),
            4 => bytes.extend_from_slice(b"ms a 5 F5 T30\r\nhello"),
            5 => bytes.extend_from_slice(b"ms a 5 b x\r\n"),
            _ => {}
        }
        bytes.extend_from_slice(if rng.below(4) == 0 { b"\n" } else { b"\r\n" });
    }
    bytes
}

/// The steps in words; discarded data come in pieces and are left out.
fn steps(bytes: &[u8], next_piece: &mut dyn FnMut() -> usize) -> Vec<String> {
    let (mut parser, mut found) = (RequestParser::default(), Vec::new());
    let (mut begin, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end.saturating_add(next_piece()));
        loop {
            let step = parser.parse(&bytes[begin..end], &LIMITS);
            begin += match step {
                Step::Request { consumed, .. } | Step::Fault { consumed, .. } => {
                    found.push(format!("{step:?} {:?}", key(&step)));
                    consumed
                }
                Step::Nothing { consumed } => consumed,
                Step::Incomplete { .. } => break,
                Step::Close => {
                    found.push("closed".into());
                    return found;
                }
            };
            assert!(begin <= end, "more than there is");
        }
    }
    found
}

/// The key of a meta command, which the parser guarantees.
fn key(step: &Step<'_>) -> Vec<u8> {
    let mut room: KeyRoom = [0; size_of::<KeyRoom>()];
    match step {
        Step::Request { request: Request::Meta(request), .. } => {
            let key = request.key.bytes(&mut room).to_vec();
            assert!(!key.is_empty(), "a key of nothing");
            key
        }
        _ => Vec::new(),
    }
}
