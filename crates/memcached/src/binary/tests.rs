//! Each expected answer is that of memcached 1.6.18 to the same bytes.

use super::*;

const OPEN: Limits = Limits { item_bytes: 175, access: Access::Open };
const ASKED: [u8; 4] = [1, 2, 3, 4];

fn request(opcode: u8, extras: &[u8], key: &[u8], data: &[u8], cas: u64) -> Vec<u8> {
    let mut bytes = vec![MAGIC, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(((extras.len() + key.len() + data.len()) as u32).to_be_bytes());
    bytes.extend(ASKED);
    bytes.extend(cas.to_be_bytes());
    bytes.extend([extras, key, data].concat());
    bytes
}

/// The result of the bytes, fed in pieces of this size.
fn read(bytes: &[u8], limits: &Limits, piece: usize) -> Vec<String> {
    let (mut parser, mut skipped) = (RequestParser::default(), 0);
    let (mut buffer, mut told) = (Vec::<u8>::new(), Vec::new());
    for part in bytes.chunks(piece) {
        buffer.extend_from_slice(part);
        loop {
            let thrown: usize = skipped.min(buffer.len());
            buffer.drain(..thrown);
            skipped -= thrown;
            let consumed = match parser.parse(&buffer, limits) {
                Step::Request { request, consumed, skip } => {
                    skipped = skip;
                    let Request { asked, is_quiet, command } = request;
                    assert_eq!(asked.opaque, ASKED);
                    let quiet = if is_quiet { "quiet " } else { "" };
                    told.push(format!("{quiet}{command:?}"));
                    consumed
                }
                Step::Fault { failure, closes, stale, consumed, skip, .. } => {
                    skipped = skip;
                    let stale = if stale.is_some() { " (stale)" } else { "" };
                    told.push(format!("{failure:?}{stale}"));
                    if closes {
                        told.push("closed".to_owned());
                        return told;
                    }
                    consumed
                }
                Step::Incomplete { wanted } => {
                    assert!(wanted > 0);
                    break;
                }
                Step::Close => {
                    told.push("closed".to_owned());
                    return told;
                }
            };
            assert!(consumed > 0 && consumed <= buffer.len());
            buffer.drain(..consumed);
        }
    }
    told
}

#[track_caller]
fn check(requests: &[Vec<u8>], limits: &Limits, expected: &[&str]) {
    let bytes = requests.concat();
    for piece in [usize::MAX, 1, 7] {
        assert_eq!(read(&bytes, limits, piece), expected, "by {piece}");
    }
}

fn told(command: Command<'_>) -> String {
    format!("{command:?}")
}

fn noop() -> Vec<u8> {
    request(0x0a, b"", b"", b"", 0)
}

#[test]
fn every_opcode_has_its_command() {
    let key = &b"key"[..];
    let get = |with_key, exptime_s| told(Command::Get { key, with_key, exptime_s });
    let time = 30_u32.to_be_bytes();
    for (opcode, extras, expected) in [
        (0x00, &b""[..], get(false, None)),
        (0x0c, b"", get(true, None)),
        (0x1d, &time, get(false, Some(30))),
        (0x23, &time, get(true, Some(30))),
    ] {
        check(&[request(opcode, extras, key, b"", 0)], &OPEN, &[&expected]);
    }
    for (opcode, expected) in [(0x09, get(false, None)), (0x0d, get(true, None))] {
        check(&[request(opcode, b"", key, b"", 0)], &OPEN, &[&format!("quiet {expected}")]);
    }
    check(
        &[request(0x1c, &time, key, b"more", 0), noop()],
        &OPEN,
        &[&told(Command::Touch { key, exptime_s: 30 }), "Nothing"],
    );
    check(
        &[request(0x04, b"", key, b"", 7), request(0x14, b"", key, b"", 0)],
        &OPEN,
        &[
            &told(Command::Delete { key, cas: Some(7) }),
            &format!("quiet {:?}", Command::Delete { key, cas: None }),
        ],
    );
    check(
        &[
            request(0x08, b"", b"", b"", 0),
            request(0x18, &time, b"", b"", 0),
            request(0x0b, b"", b"", b"", 0),
            request(0x10, b"", b"", b"", 0),
            request(0x10, b"", b"items", b"x", 0),
            request(0x17, b"", b"", b"", 0),
        ],
        &OPEN,
        &[
            "Flush { delay_s: 0 }",
            "quiet Flush { delay_s: 30 }",
            "Version",
            "Stats([])",
            "Stats([105, 116, 101, 109, 115])",
            "quiet Quit",
        ],
    );
}

#[test]
fn values_are_stored_and_counted() {
    let key = &b"key"[..];
    let store = |storing, cas, flags, exptime_s| Command::Store {
        storing,
        key,
        cas,
        flags,
        exptime_s,
        data: b"value",
    };
    let extras = [0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff];
    for (opcode, storing) in
        [(0x01, StoreMode::Always), (0x02, StoreMode::IfMissing), (0x03, StoreMode::IfPresent)]
    {
        for (cas, storing) in [(0, storing), (9, StoreMode::Always)] {
            let expected = told(store(storing, (cas != 0).then_some(cas), 5, 4_294_967_295));
            let quiet = format!("quiet {expected}");
            let both = [
                request(opcode, &extras, key, b"value", cas),
                request(opcode + 0x10, &extras, key, b"value", cas),
            ];
            check(&both, &OPEN, &[&expected, &quiet]);
        }
    }
    for (opcode, storing) in [(0x0e, StoreMode::After), (0x0f, StoreMode::Before)] {
        let expected = told(store(storing, Some(9), 0, 0));
        let both =
            [request(opcode, b"", key, b"value", 9), request(opcode + 0x0b, b"", key, b"value", 9)];
        check(&both, &OPEN, &[&expected, &format!("quiet {expected}")]);
    }
    let mut extras = [5_u64.to_be_bytes(), 13_u64.to_be_bytes()].concat();
    extras.extend(30_u32.to_be_bytes());
    let count =
        |direction, made_as| Command::Count { key, direction, delta: 5, made_as, cas: None };
    let up = told(count(Direction::Up, Some((13, 30))));
    check(&[request(0x05, &extras, key, b"", 0)], &OPEN, &[&up]);
    extras.splice(16.., [0xff; 4]);
    let down = format!("quiet {}", told(count(Direction::Down, None)));
    check(&[request(0x16, &extras, key, b"", 0)], &OPEN, &[&down]);
}

#[test]
fn what_does_not_fit_ends_the_connection() {
    let key = &b"key"[..];
    let long = "k".repeat(251);
    for bad in [
        request(0x00, b"x", key, b"", 0),
        request(0x00, b"", b"", b"", 0),
        request(0x00, b"", key, b"x", 0),
        request(0x00, b"", long.as_bytes(), b"", 0),
        request(0x01, b"", key, b"x", 0),
        request(0x01, &[0; 8], b"", b"x", 0),
        request(0x05, &[0; 19], key, b"", 0),
        request(0x05, &[0; 20], key, b"x", 0),
        request(0x0e, b"x", key, b"", 0),
        request(0x08, &[0; 3], b"", b"", 0),
        request(0x10, b"x", b"", b"", 0),
        request(0x1c, b"", key, b"", 0),
        request(0x0a, b"", key, b"", 0),
        request(0x0b, b"", b"", b"x", 0),
    ] {
        check(&[bad, noop()], &OPEN, &["Invalid", "closed"]);
    }
    let mut short = request(0x00, b"", key, b"", 0);
    short[11] = 2;
    check(&[short], &OPEN, &["Unknown", "closed"]);
    let mut other = noop();
    other[0] = 0x81;
    check(&[noop(), other], &OPEN, &["Nothing", "closed"]);
}

#[test]
fn what_is_refused_is_passed_over() {
    let large = [b'x'; 114];
    check(
        &[
            request(0x01, &[0; 8], b"key", &large, 0),
            request(0x11, &[0; 8], b"key", &large, 7),
            request(0x0e, b"", b"key", &large, 0),
            request(0x30, b"x", b"key", b"data", 0),
            request(0x1b, b"", b"", b"", 0),
            request(0x20, b"", b"", b"", 0),
            request(0x21, b"", b"PLAIN", b"\0a\0b", 0),
            noop(),
        ],
        &OPEN,
        &[
            "TooLarge (stale)",
            "TooLarge (stale)",
            "TooLarge",
            "Unknown",
            "Unknown",
            "Unknown",
            "Unknown",
            "Nothing",
        ],
    );
}

#[test]
fn who_a_client_is_may_have_to_be_shown() {
    let locked = Limits { access: Access::Locked, ..OPEN };
    let auth =
        told(Command::Authenticate { mechanism: b"PLAIN", data: b"\0a\0b", continues: false });
    check(
        &[
            request(0x20, b"", b"", b"", 0),
            request(0x0b, b"", b"", b"", 0),
            request(0x21, b"", &[b'm'; 33], b"x", 0),
            request(0x21, b"", b"PLAIN", b"\0a\0b", 0),
            request(0x21, b"", b"PLAIN", &[0; 176], 0),
            noop(),
        ],
        &locked,
        &["Mechanisms", "Version", "Invalid", &auth, "OutOfMemory", "Unauthenticated", "closed"],
    );
    check(&[noop()], &Limits { access: Access::Granted, ..OPEN }, &["Nothing"]);
}

#[test]
fn replies_repeat_what_was_asked() {
    let asked = RequestEcho { opcode: 0x0c, opaque: ASKED };
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out
    };
    let value = written(&|out| {
        reply::value(out, asked, Some(b"k"), (5, 7), 3);
        out.extend_from_slice(b"abc");
    });
    let head = [0x81, 0x0c, 0, 1, 4, 0, 0, 0, 0, 0, 0, 8, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(value, [&head[..], &[0, 0, 0, 5], b"kabc"].concat());
    let miss = written(&|out| reply::miss(out, asked, None));
    let head = [0x81, 0x0c, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(miss, [&head[..], b"Not found"].concat());
    let miss = written(&|out| reply::miss(out, asked, Some(b"k")));
    assert_eq!((miss[3], miss[7], miss[11], miss[24]), (1, 1, 1, b'k'));
    let number = written(&|out| reply::number(out, asked, 258, 9));
    assert_eq!((number[11], &number[23..]), (8, &[9, 0, 0, 0, 0, 0, 0, 1, 2][..]));
    let figure = written(&|out| reply::figure(out, asked, "pid", "12"));
    assert_eq!((figure[1], figure[3], figure[11], &figure[24..]), (0x10, 3, 5, &b"pid12"[..]));
    let done = written(&|out| reply::done(out, asked, 9));
    assert_eq!((done.len(), done[23]), (24, 9));
}
