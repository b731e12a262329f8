//! Each expected answer is that of memcached 1.6.18 to the same bytes.

use super::reply::{Description, Item, Outcome, Renewal};
use super::*;
use crate::request::{Limits, Request as AnyRequest, RequestParser, Step};

const LIMITS: Limits = Limits { item_bytes: 1000, line_bytes: 4000 };

/// The result of the bytes, fed in pieces of this size: each request, each fault's text.
fn read(bytes: &[u8], piece: usize) -> Vec<String> {
    let mut parser = RequestParser::default();
    let (mut buffer, mut told) = (Vec::new(), Vec::new());
    for part in bytes.chunks(piece) {
        buffer.extend_from_slice(part);
        loop {
            let consumed = match parser.parse(&buffer, &LIMITS) {
                Step::Request { request: AnyRequest::Meta(request), consumed, .. } => {
                    told.push(in_words(&request));
                    consumed
                }
                Step::Request { request, consumed, .. } => {
                    told.push(format!("{request:?}"));
                    consumed
                }
                Step::Fault { fault, stale, consumed, .. } => {
                    let stale = if stale.is_some() { " (stale)" } else { "" };
                    let text = String::from_utf8_lossy(fault.text());
                    told.push(format!("{}{stale}", text.trim_end()));
                    consumed
                }
                Step::Nothing { consumed } => consumed,
                Step::Incomplete { .. } => break,
                Step::Close => return told,
            };
            assert!(consumed > 0 && consumed <= buffer.len());
            buffer.drain(..consumed);
        }
    }
    told
}

/// The request in words, without flags at their defaults.
fn in_words(request: &Request<'_>) -> String {
    let mut room = [0; MOST_KEY_BYTES];
    let key = String::from_utf8_lossy(request.key.bytes(&mut room)).into_owned();
    let quiet = if request.is_quiet { " quiet" } else { "" };
    let usual = match request.action {
        Action::Get(_) => format!("{:?}", Get::default()),
        Action::Delete(_) => format!("{:?}", Delete::default()),
        _ => String::new(),
    };
    let action = match request.action {
        Action::Get(get) => format!("{get:?}"),
        Action::Store(store) => {
            let Store { storing, cas, allows_stale, client_flags, exptime_s, data } = store;
            let data = String::from_utf8_lossy(data);
            format!("{storing:?} {cas:?} {allows_stale} {client_flags} {exptime_s} {data:?}")
        }
        Action::Delete(delete) => format!("{delete:?}"),
        Action::Count(count) => format!("{count:?}"),
        Action::Describe => "Describe".to_owned(),
    };
    if action == usual { format!("{key}{quiet}") } else { format!("{key}{quiet} {action}") }
}

#[track_caller]
fn check(bytes: impl AsRef<[u8]>, expected: &[&str]) {
    let bytes = bytes.as_ref();
    for piece in [usize::MAX, 1, 7] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(read(bytes, piece), expected, "{text:.60?} by {piece}");
    }
}

#[test]
fn items_are_asked_for() {
    check("mg foo\r\n mg  foo  q s t k O7\r\nmg Zm9v b\r\n", &["foo", "foo quiet", "foo"]);
    let get = |get: Get| format!("k {get:?}");
    for (flags, expected) in [
        ("v u", Get { wants_value: true, is_unnoticed: true, ..Get::default() }),
        (
            "T30 R5",
            Get {
                exptime_s: Some(30),
                recache_s: Some(5),
                recache_after_touch: true,
                ..Get::default()
            },
        ),
        ("R5 T-1", Get { exptime_s: Some(-1), recache_s: Some(5), ..Get::default() }),
        ("N10 T30", Get { exptime_s: Some(30), vivify_exptime_s: Some(30), ..Get::default() }),
        ("T30 N10", Get { exptime_s: Some(30), vivify_exptime_s: Some(10), ..Get::default() }),
        ("T4294967297", Get { exptime_s: Some(1 << 32 | 1), ..Get::default() }),
    ] {
        check(format!("mg k {flags}\r\n"), &[&get(expected)]);
    }
}

#[test]
fn values_are_stored() {
    check("ms foo 3\r\nabc\r\nmg foo\r\n", &["foo Always None false 0 0 \"abc\"", "foo"]);
    for (flags, expected) in [
        ("F5 T30 q", "foo quiet Always None false 5 30 \"x\""),
        ("ME", "foo IfMissing None false 0 0 \"x\""),
        ("ME C7", "foo IfMissing None false 0 0 \"x\""),
        ("MA C7", "foo After Some(7) false 0 0 \"x\""),
        ("MP C0", "foo Before None false 0 0 \"x\""),
        ("MR I", "foo IfPresent None false 0 0 \"x\""),
        ("MR C7", "foo IfPresent Some(7) false 0 0 \"x\""),
        ("MS C7 I", "foo Always Some(7) true 0 0 \"x\""),
        ("C0", "foo Always Some(0) false 0 0 \"x\""),
    ] {
        check(format!("ms foo 1 {flags}\r\nx\r\n"), &[expected]);
    }
}

#[test]
fn the_others() {
    check(
        "md foo\r\nmd foo q C0\r\n",
        &["foo", &format!("foo quiet {:?}", Delete { cas: Some(0), ..Delete::default() })],
    );
    let stale = Delete { makes_stale: true, exptime_s: Some(30), cas: None };
    check("md foo I T30\r\nmd foo T30\r\n", &[&format!("foo {stale:?}"), "foo"]);
    let up = Count {
        direction: Direction::Up,
        delta: 1,
        cas: None,
        wants_value: false,
        initial: 0,
        vivify_exptime_s: None,
        exptime_s: None,
    };
    for (flags, expected) in [
        ("", up),
        ("MI C0", up),
        ("M+ D5 v", Count { delta: 5, wants_value: true, ..up }),
        ("M- C9", Count { direction: Direction::Down, cas: Some(9), ..up }),
        (
            "MD J13 N30",
            Count { direction: Direction::Down, initial: 13, vivify_exptime_s: Some(30), ..up },
        ),
    ] {
        check(format!("ma foo {flags}\r\n"), &[&format!("foo {expected:?}")]);
    }
    check("me foo\r\nme foo x y z\r\nme Zm9v b x\r\n", &["foo Describe"; 3]);
}

const FORMAT: &str = "CLIENT_ERROR bad command line format";
const EITHER: &str = "CLIENT_ERROR invalid or duplicate flag";

#[test]
fn what_is_wrong_is_told() {
    check(
        "mg\r\nms\r\nmd\r\nma\r\nme\r\nmx a\r\nmgg a\r\nm\r\n",
        &["ERROR", "ERROR", "ERROR", "ERROR", FORMAT, "ERROR", "ERROR", "ERROR"],
    );
    let long = "k".repeat(251);
    for command in ["mg", "ms", "md", "ma", "me"] {
        check(format!("{command} {long} 1\r\n"), &[FORMAT]);
    }
    for (flags, error) in [
        ("E5", "invalid flag"),
        ("S5", "invalid flag"),
        ("s s", "duplicate flag"),
        ("O1 O2", "duplicate flag"),
        ("\u{e9}", "duplicate flag"),
        ("Tx", "bad token in command line format"),
        ("N", "bad token in command line format"),
        ("Fx", "bad command line format"),
        ("Fx b", "error decoding key"),
        ("C-1", "bad token in command line format"),
        ("Mzz", "incorrect length for M token"),
        ("M", "incorrect length for M token"),
        ("Jx", "invalid numeric initial value"),
        ("Dx", "invalid numeric delta value"),
        ("Tx Dx", "invalid numeric delta value"),
        ("Tx E", "invalid flag"),
        ("b", "error decoding key"),
        ("O12345678901234567890123456789012", "opaque token too long"),
    ] {
        let error = format!("CLIENT_ERROR {error}");
        check(format!("mg foo q {flags}\r\n"), &[&error]);
        check(format!("ms foo 6 q {flags}\r\nmg a\r\n\r\nmg b\r\n"), &[&error, "b"]);
        let error = if flags.starts_with("O123") { &error } else { EITHER };
        check(format!("md foo q {flags}\r\nma foo q {flags}\r\n"), &[error, error]);
    }
    check("ma foo Mx\r\n", &["CLIENT_ERROR invalid mode for ma M token"]);
    check("ms foo 1 Mx\r\nx\r\n", &["CLIENT_ERROR invalid mode for ms M token"]);
}

#[test]
fn what_can_not_be_stored() {
    for line in ["ms foo", "ms foo x", "ms foo -1", "ms foo S1 1", "ms foo 2147483647"] {
        check(format!("{line}\r\nmg a\r\n"), &[FORMAT, "a"]);
    }
    check("ms foo 1\r\nxyz\r\n", &["CLIENT_ERROR bad data chunk", "ERROR"]);
    let data = "x".repeat(1001);
    let bytes = format!("ms foo 1001 ME q\r\n{data}\r\nmg a\r\n");
    check(bytes, &["SERVER_ERROR object too large for cache (stale)", "a"]);
    let many = " s".repeat(17);
    check(format!("mg k{many} q t\r\n"), &["CLIENT_ERROR options flags are too long"]);
    check(format!("md k{many} q t\r\n"), &["CLIENT_ERROR options flags too long"]);
    check(format!("ms k 1{many} q\r\nmg a\r\n"), &["CLIENT_ERROR options flags too long", "a"]);
}

/// The reply to this line.
fn reply(line: &str, answer: impl Fn(&mut Vec<u8>, &Request<'_>)) -> String {
    let mut out = Vec::new();
    let bytes = format!("{line}\r\n");
    match RequestParser::default().parse(bytes.as_bytes(), &LIMITS) {
        Step::Request { request: AnyRequest::Meta(request), .. } => answer(&mut out, &request),
        step => panic!("{step:?}"),
    }
    String::from_utf8(out).expect("text")
}

#[test]
fn items_are_shown_in_the_order_of_the_flags() {
    let known = Item {
        size: 3,
        client_flags: 5,
        cas: 7,
        ttl_before_s: None,
        ttl_after_s: Some(30),
        since_access_s: 9,
        was_fetched: true,
        was_made: false,
        renewal: Renewal::default(),
    };
    let shown = |line: &str, item: Item| {
        reply(line, |out, request| {
            if reply::item(out, request, &item) {
                out.extend_from_slice(b"abc\r\n");
            }
        })
    };
    for (line, expected) in [
        ("mg k", "HD\r\n"),
        ("mg k q v", "VA 3\r\nabc\r\n"),
        ("mg k s f c h l t k O3 q", "HD s3 f5 c7 h1 l9 t-1 kk O3\r\n"),
        ("mg Zm9v b k", "HD kZm9v b\r\n"),
        ("mg k t T30", "HD t-1\r\n"),
        ("mg k T30 t", "HD t30\r\n"),
        ("mg k N30 t", "HD t-1\r\n"),
        ("ma k v c t k O1 s f", "VA 3 c7 t-1 kk O1\r\nabc\r\n"),
        ("ma k v q", ""),
    ] {
        assert_eq!(shown(line, known), expected, "{line}");
    }
    let made = Item { was_made: true, ttl_before_s: Some(30), ttl_after_s: Some(60), ..known };
    assert_eq!(shown("mg k t N30", made), "HD t-1\r\n");
    assert_eq!(shown("mg k N30 t T60", made), "HD t30\r\n");
    assert_eq!(shown("mg k N30 T60 t", made), "HD t60\r\n");
    assert_eq!(shown("ma k q N30", made), "HD\r\n");
    let renewal = Renewal { is_stale: true, was_won: true, wins: false };
    assert_eq!(shown("mg k c", Item { renewal, ..known }), "HD c7 Z X\r\n");
    let renewal = Renewal { is_stale: true, was_won: false, wins: true };
    assert_eq!(shown("mg k c", Item { renewal, ..known }), "HD c7 X W\r\n");
}

#[test]
fn outcomes_are_told_unless_quiet() {
    use Outcome::{Done, Exists, NotFound, NotStored};
    // The data of `ms` is part of its line here.
    for (line, outcome, expected) in [
        ("ms k 1 c k O1\r\nx", Done(9), "HD c9 kk O1\r\n"),
        ("ms k 1 c q\r\nx", Done(9), ""),
        ("ms k 1 c q\r\nx", NotStored, "NS c0\r\n"),
        ("ms k 1 k q\r\nx", Exists, "EX kk\r\n"),
        ("ms k 1\r\nx", NotFound, "NF\r\n"),
        ("md k c O1", Done(0), "HD O1\r\n"),
        ("md k q", Done(0), ""),
        ("md Zm9v b k q", NotFound, "NF kZm9v b\r\n"),
        ("md k q", Exists, "EX\r\n"),
        ("ma k O1 q", NotFound, "NF O1\r\n"),
        ("mg k O1 k s", NotFound, "EN O1 kk\r\n"),
        ("mg k q", NotFound, ""),
        ("me k", NotFound, "EN\r\n"),
    ] {
        let told = reply(line, |out, request| reply::outcome(out, request, outcome));
        assert_eq!(told, expected, "{line} {outcome:?}");
    }
    let item = Description { ttl_s: None, since_access_s: 3, cas: 4, was_fetched: true, size: 61 };
    let told = reply("me k", |out, request| reply::description(out, request, &item));
    assert_eq!(told, "ME k exp=-1 la=3 cas=4 fetch=yes cls=1 size=61\r\n");
}
