//! Each expected answer is that of memcached 1.6.18 to the same bytes.

use super::*;

const LIMITS: Limits = Limits { item_bytes: 1 << 20, line_bytes: 1 << 16 };

/// The result of the bytes, fed in pieces of this size: each request in words, each fault's text.
fn read(bytes: &[u8], piece: usize) -> Vec<String> {
    let mut parser = RequestParser::default();
    let (mut buffer, mut told) = (Vec::new(), Vec::new());
    for part in bytes.chunks(piece) {
        buffer.extend_from_slice(part);
        loop {
            let (word, consumed) = match parser.parse(&buffer, &LIMITS) {
                Step::Request { request, no_reply, consumed } => {
                    (format!("{}{}", in_words(request), silently(no_reply)), consumed)
                }
                Step::Fault { fault, no_reply, stale, consumed } => {
                    let text = String::from_utf8_lossy(fault.text()).trim_end().to_owned();
                    let stale = stale.map_or(String::new(), |key| {
                        format!(" -{}", name(key.bytes(&mut [0; MOST_KEY_BYTES])))
                    });
                    (format!("{text}{stale}{}", silently(no_reply)), consumed)
                }
                Step::Nothing { consumed } => (String::new(), consumed),
                Step::Incomplete { .. } => break,
                Step::Close => {
                    told.push("closed".into());
                    return told;
                }
            };
            assert!(consumed > 0 && consumed <= buffer.len());
            buffer.drain(..consumed);
            told.extend((!word.is_empty()).then_some(word));
        }
    }
    told
}

fn silently(no_reply: bool) -> &'static str {
    if no_reply { " (silent)" } else { "" }
}

/// A short form, also of a long key.
fn name(bytes: &[u8]) -> String {
    match bytes.len() {
        ..=20 => String::from_utf8_lossy(bytes).into_owned(),
        length => format!("<{length}>"),
    }
}

fn in_words(request: Request<'_>) -> String {
    match request {
        Request::Get { keys, with_cas, exptime_s } => {
            let keys: Vec<_> = keys.iter().map(name).collect();
            let cas = if with_cas { "s" } else { "" };
            format!("get{cas} {} {:?}", keys.join(","), exptime_s.map(name))
        }
        Request::Store { storing, key, flags, exptime_s, data, .. } => {
            let (flags, exptime_s) = (name(flags), name(exptime_s));
            format!("{storing:?} {} {flags} {exptime_s} {}", name(key), name(data))
        }
        Request::Count { key, delta, direction } => {
            format!("{direction:?} {} {}", name(key), name(delta))
        }
        Request::Touch { key, exptime_s } => format!("touch {} {}", name(key), name(exptime_s)),
        Request::Delete { key } => format!("delete {}", name(key)),
        Request::FlushAll { delay_s } => format!("flush {}", name(delay_s)),
        Request::Stats(what) => format!("stats {}", name(what)),
        Request::Verbosity => "verbosity".into(),
        Request::CacheMemlimit { megabytes } => format!("cache_memlimit {}", name(megabytes)),
        Request::Version => "version".into(),
        Request::MetaNothing => "mn".into(),
        Request::Meta(_) => "meta".into(),
    }
}

#[track_caller]
fn check(bytes: impl AsRef<[u8]>, expected: &[&str]) {
    let bytes = bytes.as_ref();
    for piece in [usize::MAX, 1, 7] {
        assert_eq!(read(bytes, piece), expected, "{:.60?} by {piece}", name(bytes));
    }
}

const ERROR: &str = "ERROR";
const FORMAT: &str = "CLIENT_ERROR bad command line format";
const DATA: &str = "CLIENT_ERROR bad data chunk";
const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const USAGE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

#[test]
fn values_are_stored() {
    check("set a 5 0 3\r\nabc\r\nget a\r\n", &["Always a 5 0 abc", "get a None"]);
    check("set a 5 0 3\nabc\r\n", &["Always a 5 0 abc"]);
    check("add a 0 -1 0\r\n\r\n", &["IfMissing a 0 -1 "]);
    check("replace a 4294967295 99999999999 1\r\nx\r\n", &["IfPresent a 4294967295 99999999999 x"]);
    check("append a 18446744073709551615 0 1\r\nx\r\n", &["After a 18446744073709551615 0 x"]);
    check("prepend a +1 0 +1 noreply\r\n\n\r\n", &["Before a +1 0 \n (silent)"]);
    check("cas a 0 0 2 7\r\n\r\n\r\n", &["IfUnchanged(7) a 0 0 \r\n"]);
    check(
        "cas a 0 0 1 18446744073709551615 foo\r\nx\r\n",
        &["IfUnchanged(18446744073709551615) a 0 0 x"],
    );
    check("set a 1 0 1 foo\r\nx\r\n", &["Always a 1 0 x"]);
    check("set a 0 0 1 \r\nx\r\n", &["Always a 0 0 x"]);
    let longest = "k".repeat(MOST_KEY_BYTES);
    check(format!("set {longest} 1 0 1\r\nx\r\n"), &["Always <250> 1 0 x"]);
}

#[test]
fn what_can_not_be_stored_is_told() {
    check("set a 5 0 3\r\nabcd\r\nget a\r\n", &[DATA, ERROR, "get a None"]);
    check("set a 5 0 3\r\nabc\nget a\r\n", &[DATA, ERROR]);
    check("set a 0 0 0\r\nget a\r\nversion\r\n", &[DATA, ERROR, "version"]);
    check("set a 5 0 3 noreply\r\nabcd\r\n", &["CLIENT_ERROR bad data chunk (silent)", ERROR]);
    for line in ["a x 0 1", "a -1 0 1", "a 1 x 1", "a 0 0 1x", "a 0 -9223372036854775809 1"] {
        check(format!("set {line}\r\nx\r\n"), &[FORMAT, ERROR]);
    }
    for length in ["-1", "x", "2147483646", "2147483647", "99999999999"] {
        check(format!("set a 0 0 {length}\r\nversion\r\n"), &[FORMAT, "version"]);
    }
    check("set a x 0 1 noreply\r\n", &["CLIENT_ERROR bad command line format (silent)"]);
    check("set a 0 0 noreply\r\n", &["CLIENT_ERROR bad command line format (silent)"]);
    check("set a 1 0\r\n", &[ERROR]);
    for line in ["\tget a", "\rget a", "\u{c}version"] {
        check(format!("{line}\r\n"), &[ERROR]);
    }
    check("set a 1 0 1 noreply x\r\nx\r\n", &[ERROR, ERROR]);
    check("cas a 0 0 1\r\nx\r\n", &[ERROR, ERROR]);
    check("cas a 0 0 1 x\r\nx\r\n", &[FORMAT, ERROR]);
    check("cas a 0 0 1 99999999999999999999\r\nx\r\n", &[FORMAT, ERROR]);
    check("cas a 0 0 1 1 2 3\r\nx\r\n", &[ERROR, ERROR]);
    let too_long = "k".repeat(MOST_KEY_BYTES + 1);
    check(format!("set {too_long} 1 0 1\r\nx\r\n"), &[FORMAT, ERROR]);
}

#[test]
fn the_data_of_a_value_that_is_too_large_are_passed_over() {
    let data = "x".repeat(LIMITS.item_bytes);
    let length = data.len();
    for (command, told) in
        [("set a 0 0", format!("{TOO_LARGE} -a")), ("add a 0 0", TOO_LARGE.to_owned())]
    {
        let bytes = format!("{command} {length}\r\n{data}\r\nversion\r\n");
        for piece in [usize::MAX, 1000] {
            assert_eq!(read(bytes.as_bytes(), piece), [told.as_str(), "version"]);
        }
    }
    let at_most = "x".repeat(LIMITS.item_bytes - 60);
    let bytes = format!("set a 0 0 {}\r\n{at_most}\r\n", at_most.len());
    assert_eq!(read(bytes.as_bytes(), 5000), ["Always a 0 0 <1048516>"]);
}

#[test]
fn keys_are_asked_for() {
    check("get a b  c \r\n", &["get a,b,c None"]);
    check(" gets a\r\n", &["gets a None"]);
    check("gat 10 a b\r\ngats -1 a\r\n", &["get a,b Some(\"10\")", "gets a Some(\"-1\")"]);
    check("get noreply\r\n", &["get noreply None"]);
    for line in ["get", "get ", "gets", "gat", "get\ta", "GET a"] {
        check(format!("{line}\r\n"), &[ERROR]);
    }
    check("gat x a\r\ngat 1x a\r\ngat x\r\ngat 10\r\n", &[EXPTIME, EXPTIME, EXPTIME, "END"]);
    check("bget a b\r\n", &["get a,b None"]);
    let too_long = "k".repeat(MOST_KEY_BYTES + 1);
    check(format!("get {too_long}\r\nget a {too_long}\r\ngat 1 {too_long}\r\n"), &[FORMAT; 3]);
    let many = "a ".repeat(1500);
    let keys = vec!["a"; 1500].join(",");
    check(format!("get {many}\r\n"), &[&format!("get {keys} None")]);
}

#[test]
fn no_key_is_too_long_among_many() {
    for (lengths, is_too_long) in [
        (vec![250, 250, 1], false),
        (vec![1, 251], true),
        (vec![251, 1], true),
        (vec![16; 40], false),
        (vec![100, 149, 1, 250, 17, 251, 3], true),
    ] {
        for blanks in ["", " ", "   "] {
            let keys: Vec<_> = lengths.iter().map(|&length| "k".repeat(length)).collect();
            let words = format!("{blanks} {}{blanks}", keys.join(&format!("{blanks} ")));
            assert_eq!(has_too_long(words.as_bytes()), is_too_long, "{lengths:?}");
        }
    }
}

#[test]
fn the_others() {
    check(
        "incr n 5\r\ndecr n 18446744073709551615 noreply\r\nincr n 1 foo\r\nincr n +1\r\n",
        &["Up n 5", "Down n 18446744073709551615 (silent)", "Up n 1", "Up n +1"],
    );
    check("incr n x\r\nincr n -1\r\nincr n 18446744073709551616\r\nincr n 1x\r\n", &[DELTA; 4]);
    check("incr n\r\nincr n 1 2 3\r\nincr\r\n", &[ERROR; 3]);
    check("incr n noreply\r\n", &["CLIENT_ERROR invalid numeric delta argument (silent)"]);
    check(
        "touch a 10\r\ntouch a 10 noreply\r\ntouch a 10 foo\r\n",
        &["touch a 10", "touch a 10 (silent)", "touch a 10"],
    );
    check("touch a x\r\ntouch a 99999999999999999999\r\ntouch a\r\n", &[EXPTIME, EXPTIME, ERROR]);
    check(
        "delete a\r\ndelete a 0\r\ndelete a noreply\r\ndelete a 0 noreply\r\ndelete noreply\r\n",
        &["delete a", "delete a", "delete a (silent)", "delete a (silent)", "delete noreply"],
    );
    check(
        "delete a 5\r\ndelete a 0 foo\r\ndelete\r\ndelete a b c d\r\n",
        &[USAGE, USAGE, ERROR, ERROR],
    );
    check(
        "flush_all\r\nflush_all 10\r\nflush_all noreply\r\nflush_all -1 noreply\r\n\
         flush_all 0 foo\r\n",
        &["flush 0", "flush 10", "flush 0 (silent)", "flush -1 (silent)", "flush 0"],
    );
    check("flush_all x\r\nflush_all noreply 0\r\nflush_all 1 2 3\r\n", &[EXPTIME, EXPTIME, ERROR]);
    check(
        "verbosity 1\r\nverbosity 1 2\r\nverbosity 1 noreply\r\n",
        &["verbosity", "verbosity", "verbosity (silent)"],
    );
    check(
        "verbosity x\r\nverbosity -1\r\nverbosity\r\nverbosity 1 2 3\r\n",
        &[FORMAT, FORMAT, ERROR, ERROR],
    );
    check(
        "version\r\nversion foo\r\nmn\r\nmn foo\r\nstats\r\nstats items \r\n",
        &["version", "version", "mn", "mn", "stats ", "stats items"],
    );
    check("\r\n\n\r\r\nversion\r\r\nfoo noreply\r\n", &[ERROR; 5]);
}

#[test]
fn who_quits_or_does_not_end_a_line_is_closed() {
    check("quit\r\nversion\r\n", &["closed"]);
    check("quit foo\r\n", &["closed"]);
    check("GET / HTTP/1.0\r\nversion\r\n", &["closed"]);
    check("get / HTTP/1.0\r\nfoo HTTP\r\n", &["get /,HTTP/1.0 None", ERROR]);
    check("x".repeat(LINE_BYTES), &[]);
    check("x".repeat(LINE_BYTES + 1), &["closed"]);
    check(format!("get {}", "a".repeat(LINE_BYTES)), &[]);
    check(format!("{}gets {}", " ".repeat(MOST_BLANKS), "a".repeat(LINE_BYTES)), &[]);
    check(format!("{}get {}", " ".repeat(MOST_BLANKS + 1), "a".repeat(LINE_BYTES)), &["closed"]);
    check(format!("gat 10 {}", "a ".repeat(LINE_BYTES)), &["closed"]);
    check(format!("get {}", "a ".repeat(LIMITS.line_bytes)), &["closed"]);
    check(format!("{}\r\n", "x".repeat(2000)), &[ERROR]);
}
