//! `fuzz_memcached_binary --seconds N --seed S`: cases S, S+1, ... for N seconds, one at least.
//!
//! A case is a stream of requests of the binary protocol, most of them nearly right. No bytes make
//! the parser panic; for every division into pieces, the same requests and faults are found; and
//! every step consumes bytes or asks for more.

use std::process::ExitCode;

use pantala_base::Rng;
use pantala_memcached::binary::{Access, Limits, MAGIC, RequestParser, Step};
use pantala_memcached::sasl;

const MOST_REQUESTS: u64 = 30;
const EXTRAS: [usize; 6] = [0, 0, 4, 8, 20, 3];
const BODIES: [usize; 6] = [0, 0, 1, 5, 100, 101];
const ACCESS: [Access; 3] = [Access::Open, Access::Locked, Access::Granted];

fn main() -> ExitCode {
    pantala_fuzz::run("fuzz_memcached_binary", case)
}

fn case(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let limits = Limits { item_bytes: 175, access: ACCESS[rng.below(3) as usize] };
    let bytes = stream(&mut rng);
    let whole = steps(&bytes, &limits, &mut || usize::MAX);
    let most = 1 << rng.below(8);
    let cut = steps(&bytes, &limits, &mut || 1 + rng.below(most) as usize);
    assert_eq!(whole, cut, "cut otherwise it is something else");
}

fn stream(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + rng.below(MOST_REQUESTS) {
        let start = bytes.len();
        let extras = EXTRAS[rng.below(6) as usize];
        let key = if rng.below(4) == 0 { 0 } else { rng.below(12) as usize };
        let body = BODIES[rng.below(6) as usize];
        bytes.extend([MAGIC, rng.below(0x28) as u8, 0, key as u8, extras as u8, 0, 0, 0]);
        bytes.extend(((extras + key + body) as u32).to_be_bytes());
        bytes.extend((0..12).map(|_| (rng.below(3) / 2) as u8));
        bytes.extend((0..extras + key + body).map(|_| rng.below(256) as u8));
        if rng.below(8) == 0 {
            let place = start + rng.below((bytes.len() - start) as u64) as usize;
            bytes[place] = rng.below(256) as u8;
        }
        let _maybe_none = sasl::plain(&bytes[start..]);
    }
    bytes
}

/// The steps in words; discarded data are left out.
fn steps(bytes: &[u8], limits: &Limits, next_piece: &mut dyn FnMut() -> usize) -> Vec<String> {
    let (mut parser, mut found) = (RequestParser::default(), Vec::new());
    let (mut begin, mut end, mut skipped) = (0, 0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end.saturating_add(next_piece()));
        loop {
            let thrown = skipped.min(end - begin);
            begin += thrown;
            skipped -= thrown;
            let step = parser.parse(&bytes[begin..end], limits);
            let is_end = matches!(step, Step::Close | Step::Fault { closes: true, .. });
            begin += match step {
                Step::Request { consumed, skip, .. } | Step::Fault { consumed, skip, .. } => {
                    skipped = skip;
                    found.push(format!("{step:?}"));
                    consumed
                }
                Step::Incomplete { wanted } => {
                    assert!(wanted > 0, "it waits for nothing");
                    break;
                }
                Step::Close => 0,
            };
            if is_end {
                found.push("closed".into());
                return found;
            }
            assert!(begin <= end, "more than there is");
        }
    }
    found
}
