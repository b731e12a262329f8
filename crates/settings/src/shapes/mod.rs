//! Values with a grammar of their own: output limits, save points, percentiles, event classes,
//! shutdown words, addresses. Each check returns the canonical text or a refusal in Redis's words.
//!
//! Invariants
//! 1. Canonical text holds single spaces and no others.
//! 2. The current value passed to `output_limits` is canonical.
//!
//! Not here: plain kinds (`kind`), the typed forms (`field`). Tests: at the foot.

pub(crate) mod title;

use crate::kind::{self, ValueRefusal, one_of};
use pantala_base::size::parse_bytes;

type Canonical = Result<String, ValueRefusal>;

/// The classes of client-output-buffer-limit in the order of CONFIG GET.
pub(crate) const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// `class hard soft seconds`, once or more; classes not named keep their present limits.
pub(crate) fn output_limits(text: &str, present: &str) -> Canonical {
    const WRONG: ValueRefusal = ValueRefusal::of(
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    );
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    if !words.len().is_multiple_of(4) {
        return Err(ValueRefusal::of("Wrong number of arguments in buffer limit configuration."));
    }
    let mut limits: Vec<String> = present.split(' ').map(String::from).collect();
    for group in words.chunks_exact(4) {
        let name = if group[0].eq_ignore_ascii_case("replica") { "slave" } else { group[0] };
        let class =
            OUTPUT_CLASSES.iter().position(|class| class.eq_ignore_ascii_case(name)).ok_or(
                ValueRefusal::of("Invalid client class specified in buffer limit configuration."),
            )?;
        let hard = parse_bytes(group[1].as_bytes()).ok_or(WRONG)?;
        let soft = parse_bytes(group[2].as_bytes()).ok_or(WRONG)?;
        let seconds: u32 = group[3].parse().map_err(|_| WRONG)?;
        limits.splice(
            class * 4 + 1..class * 4 + 4,
            [hard.to_string(), soft.to_string(), seconds.to_string()],
        );
    }
    Ok(limits.join(" "))
}

/// Pairs of seconds (1 or more) and changes (0 or more); the empty text means never.
pub(crate) fn save_points(text: &str, _: &str) -> Canonical {
    const WRONG: ValueRefusal = ValueRefusal::of("Invalid save parameters");
    if text.is_empty() {
        return Ok(String::new());
    }
    let words: Vec<&str> = text.split(' ').collect();
    let fit = words.chunks(2).all(|pair| {
        let [seconds, changes] = pair else { return false };
        seconds.parse::<u32>().is_ok_and(|n| n >= 1 && n.to_string() == *seconds)
            && changes.parse::<u32>().is_ok_and(|n| n.to_string() == *changes)
    });
    if fit { Ok(text.into()) } else { Err(WRONG) }
}

/// Hours and minutes, `HH:MM`, with wildcards; the empty text means never.
pub(crate) fn times_of_day(text: &str, _: &str) -> Canonical {
    let is_time = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit() || b"*?[]-^".contains(&byte))
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [""] => Ok(String::new()),
        [hours, minutes] if is_time(hours) && is_time(minutes) => Ok(text.into()),
        _ => Err(ValueRefusal::of("argument must be a time of day, HH:MM")),
    }
}

/// A line as in a crontab; the empty text means never.
pub(crate) fn cron_line(text: &str, _: &str) -> Canonical {
    if text.is_empty() || text.parse::<croner::Cron>().is_ok() {
        return Ok(text.into());
    }
    Err(ValueRefusal::of("argument must be a cron line: minute hour day month weekday"))
}

/// A file's name, without a path.
pub(crate) fn file_name(text: &str, _: &str) -> Canonical {
    match text {
        "" | "." | ".." => Err(ValueRefusal::of("dbfilename can't be empty, . or ..")),
        _ if text.contains('/') => {
            Err(ValueRefusal::of("dbfilename can't be a path, just a filename"))
        }
        _ => Ok(text.into()),
    }
}

/// The name of a file, without a folder; empty for none.
pub(crate) fn file_to_load(text: &str, _: &str) -> Canonical {
    match text {
        "." | ".." => Err(ValueRefusal::of("argument must be a file's name, or latest")),
        _ if text.contains('/') => {
            Err(ValueRefusal::of("argument can't be a path, just a filename"))
        }
        _ => Ok(text.into()),
    }
}

/// Up to sixteen percentiles from 0 to 100.
pub(crate) fn percentiles(text: &str, _: &str) -> Canonical {
    const MOST: usize = 16;
    let mut shown = Vec::new();
    for word in text.split(' ').filter(|_| !text.is_empty()) {
        let percentile: f64 = word.parse().map_err(|_| {
            ValueRefusal::of("Invalid latency-tracking-info-percentiles parameters")
        })?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err(ValueRefusal::of(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ));
        }
        shown.push(percentile_text(percentile));
    }
    if shown.len() > MOST {
        return Err(ValueRefusal::of("Invalid latency-tracking-info-percentiles parameters"));
    }
    Ok(shown.join(" "))
}

/// Six digits after the point at most, without trailing zeros.
pub(crate) fn percentile_text(percentile: f64) -> String {
    let text = format!("{percentile:.6}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The event classes that `A` stands for, in the order of CONFIG GET.
const ALL_CLASSES: &str = "g$lshzxetd";
/// Classes beside those of `A`, in the order of CONFIG GET.
const OTHER_CLASSES: &str = "KEm";

/// The letters of notify-keyspace-events, in the order CONFIG GET gives them.
pub(crate) fn event_classes(text: &str, _: &str) -> Canonical {
    let known = |c: char| c == 'A' || c == 'n' || ALL_CLASSES.contains(c) || "KEm".contains(c);
    if !text.chars().all(known) {
        return Err(ValueRefusal::of("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."));
    }
    let has = |c: char| text.contains(c);
    let mut shown = String::new();
    if has('A') || ALL_CLASSES.chars().all(has) {
        shown.push('A');
    } else {
        shown.extend(ALL_CLASSES.chars().filter(|&c| has(c)));
    }
    shown.extend(has('n').then_some('n'));
    shown.extend(OTHER_CLASSES.chars().filter(|&c| has(c)));
    Ok(shown)
}

/// Words for SHUTDOWN, in the order of CONFIG GET.
pub(crate) const SHUTDOWN_WORDS: [&str; 7] =
    ["default", "save", "nosave", "now", "force", "safe", "failover"];

/// What SIGINT or SIGTERM asks for: `default`, or several of the other words.
pub(crate) fn shutdown_words(text: &str, _: &str) -> Canonical {
    let mut chosen = [false; SHUTDOWN_WORDS.len()];
    for word in text.split(' ') {
        let index = SHUTDOWN_WORDS
            .iter()
            .position(|known| known.eq_ignore_ascii_case(word))
            .ok_or_else(|| one_of(&SHUTDOWN_WORDS))?;
        chosen[index] = true;
    }
    if chosen[1] && chosen[2] {
        return Err(ValueRefusal::of(
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ));
    }
    let words: Vec<&str> =
        (1..chosen.len()).filter(|&i| chosen[i]).map(|i| SHUTDOWN_WORDS[i]).collect();
    Ok(if words.is_empty() { "default".into() } else { words.join(" ") })
}

/// Whether, and how, the score is set by which the kernel chooses whom to end.
pub(crate) fn oom_score_adj(text: &str, _: &str) -> Canonical {
    const WORDS: [&str; 4] = ["no", "yes", "relative", "absolute"];
    let word = WORDS.iter().find(|word| word.eq_ignore_ascii_case(text));
    match *word.ok_or_else(|| one_of(&WORDS))? {
        "relative" => Ok("yes".into()),
        word => Ok(word.into()),
    }
}

/// Three numbers from -2000 to 2000.
pub(crate) fn oom_scores(text: &str, _: &str) -> Canonical {
    let words: Vec<&str> = text.split(' ').collect();
    if words.len() != 3 {
        return Err(ValueRefusal::of("wrong number of arguments"));
    }
    let score = |word: &&str| word.parse::<i32>().ok().filter(|n| (-2000..=2000).contains(n));
    let scores: Option<Vec<String>> =
        words.iter().map(|word| score(word).map(|score| score.to_string())).collect();
    let scores = scores.ok_or(ValueRefusal::of(
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ))?;
    Ok(scores.join(" "))
}

/// Up to sixteen addresses to listen on; a leading `-` means that its absence is no error.
pub(crate) fn addresses(text: &str, _: &str) -> Canonical {
    const MOST: usize = 16;
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let mut sorted = words.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if words.len() > MOST {
        return Err(ValueRefusal::of("Too many bind addresses specified."));
    }
    if sorted.len() < words.len() {
        return Err(ValueRefusal::of("Failed to bind to specified addresses."));
    }
    Ok(words.join(" "))
}

/// Some of the kinds of names that metrics have, at least one.
pub(crate) fn metrics_names(text: &str, _: &str) -> Canonical {
    const KINDS: [&str; 3] = ["pantala", "dragonfly", "redis_exporter"];
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    if words.is_empty() || words.iter().any(|word| !KINDS.contains(word)) {
        return Err(ValueRefusal::of(
            "names are pantala, dragonfly, redis_exporter, with spaces between",
        ));
    }
    Ok(words.join(" "))
}

/// Nothing, or where HTTP is spoken.
pub(crate) fn http_address(text: &str, _: &str) -> Canonical {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let is_address = host.is_some_and(|host| {
        !host.starts_with(['/', ':'])
            && !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_graphic())
    });
    match text.is_empty() || is_address {
        true => Ok(text.into()),
        false => Err(ValueRefusal::of("an address is http://host:port or https://host")),
    }
}

/// `name=value`, commas between; names and values of headers.
pub(crate) fn header_list(text: &str, _: &str) -> Canonical {
    let is_name =
        |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let is_value = |value: &str| value.bytes().all(|b| (b' '..0x7f).contains(&b));
    named_values(text, |name, value| is_name(name) && is_value(value))
}

/// `name=value`, commas between; names and values of any text.
pub(crate) fn attribute_list(text: &str, _: &str) -> Canonical {
    named_values(text, |_, _| true)
}

fn named_values(text: &str, is_good: impl Fn(&str, &str) -> bool) -> Canonical {
    let is_pair = |word: &str| {
        word.split_once('=').is_some_and(|(name, value)| {
            let name = name.trim();
            !name.is_empty() && is_good(name, value.trim())
        })
    };
    match text.is_empty() || text.split(',').all(is_pair) {
        true => Ok(text.into()),
        false => Err(ValueRefusal::of("a list is name=value, with commas between")),
    }
}

/// `host port`, or `no one`, or nothing.
pub(crate) fn primary(text: &str, _: &str) -> Canonical {
    if text.is_empty() || text.eq_ignore_ascii_case("no one") {
        return Ok(String::new());
    }
    // Dragonfly joins them by a colon.
    let (host, port) = text
        .split_once(' ')
        .or_else(|| text.rsplit_once(':'))
        .ok_or(ValueRefusal::of("wrong number of arguments"))?;
    match port.parse::<u16>() {
        Ok(port) => Ok(format!("{host} {port}")),
        Err(_) => Err(ValueRefusal::of("Invalid primary port")),
    }
}

/// Letters, digits, hyphens and dots, at most 255.
pub(crate) fn host_name(text: &str, _: &str) -> Canonical {
    if text.len() > 255 {
        return Err(ValueRefusal::of("Hostnames must be less than 256 characters"));
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.') {
        return Err(ValueRefusal::of(
            "Hostnames may only contain alphanumeric characters, hyphens or dots",
        ));
    }
    Ok(text.into())
}

/// Letters, digits, `-./:_` and the back quote, and whatever is not ASCII.
fn is_node_text(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || !b.is_ascii() || b"-./:_`".contains(&b))
}

/// The name of a node in logs.
pub(crate) fn node_name(text: &str, _: &str) -> Canonical {
    match is_node_text(text) {
        true => Ok(text.into()),
        false => Err(ValueRefusal::of("Announced human node name contained invalid character")),
    }
}

/// The address a node tells.
pub(crate) fn node_address(text: &str, _: &str) -> Canonical {
    match is_node_text(text) {
        true => Ok(text.into()),
        false => Err(ValueRefusal::of("cluster-announce-ip contains invalid character")),
    }
}

/// Bytes of the replication backlog; less than 16 KB is taken as 16 KB.
pub(crate) fn backlog_bytes(text: &str, present: &str) -> Canonical {
    const LEAST: u64 = 16 << 10;
    let kind = kind::Kind::Memory(1, i64::MAX as u64);
    let bytes: u64 =
        kind.canonical(text, present, kind::BoolStyle::Strict)?.parse().unwrap_or(LEAST);
    Ok(bytes.max(LEAST).to_string())
}

/// An IPv4 address or nothing.
pub(crate) fn ipv4(text: &str, _: &str) -> Canonical {
    match text.is_empty() || text.parse::<std::net::Ipv4Addr>().is_ok() {
        true => Ok(text.into()),
        false => Err(ValueRefusal::of("Invalid IPv4 address")),
    }
}

/// An IPv6 address or nothing.
pub(crate) fn ipv6(text: &str, _: &str) -> Canonical {
    match text.is_empty() || text.parse::<std::net::Ipv6Addr>().is_ok() {
        true => Ok(text.into()),
        false => Err(ValueRefusal::of("Invalid IPv6 address")),
    }
}

/// Runs of the main timer in a second: any count is taken and bent into 1 to 500.
pub(crate) fn timer_hz(text: &str, present: &str) -> Canonical {
    let hz = kind::COUNT.canonical(text, present, kind::BoolStyle::Strict)?;
    let hz: u32 = hz.parse().unwrap_or(500);
    Ok(hz.clamp(1, 500).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shape: kind::Check, cases: &[(&str, &str)]) {
        for (text, want) in cases {
            assert_eq!(shape(text, "").as_deref(), Ok(*want), "{text}");
            assert_eq!(shape(want, "").as_deref(), Ok(*want), "canonical twice: {want}");
        }
    }

    fn check_refused(shape: kind::Check, cases: &[(&str, &str)]) {
        for (text, why) in cases {
            assert_eq!(shape(text, "").map_err(|r| r.0.into_owned()), Err((*why).into()), "{text}");
        }
    }

    #[test]
    fn output_limits_amend_the_present_ones() {
        let present = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        let set = |text| output_limits(text, present).map_err(|r| r.0.into_owned());
        assert_eq!(
            set("REPLICA 1mb 2 3 normal 1 2 3").as_deref(),
            Ok("normal 1 2 3 slave 1048576 2 3 pubsub 33554432 8388608 60")
        );
        assert_eq!(set("").as_deref(), Ok(present));
        assert!(set("normal 1 2").unwrap_err().starts_with("Wrong number"));
        assert!(set("master 1 2 3").unwrap_err().starts_with("Invalid client class"));
        assert!(set("normal 1 2 -3").unwrap_err().starts_with("Error in hard"));
        assert!(set("normal a 1 1").unwrap_err().starts_with("Error in hard"));
    }

    #[test]
    fn save_points_come_in_pairs() {
        check(save_points, &[("", ""), ("60 1", "60 1"), ("60 1 300 10", "60 1 300 10")]);
        for text in ["60", "a b", "-1 1", "0 1", "60 -1", "60  1", " 60 1 "] {
            check_refused(save_points, &[(text, "Invalid save parameters")]);
        }
    }

    #[test]
    fn times_are_of_a_day_or_of_a_crontab() {
        check(times_of_day, &[("", ""), ("23:45", "23:45"), ("*:0?", "*:0?")]);
        for text in ["23", "23:45:01", ":", "a:00", " 1:00"] {
            assert!(times_of_day(text, "").is_err(), "{text}");
        }
        check(
            cron_line,
            &[("", ""), ("*/30 * * * *", "*/30 * * * *"), ("0 3 * * 1-5", "0 3 * * 1-5")],
        );
        for text in ["* * *", "61 * * * *", "a"] {
            assert!(cron_line(text, "").is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_is_no_path() {
        check(file_name, &[("dump.rdb", "dump.rdb"), ("a-{timestamp}", "a-{timestamp}")]);
        for text in ["", ".", "..", "a/b", "/"] {
            assert!(file_name(text, "").is_err(), "{text}");
        }
    }

    #[test]
    fn event_classes_have_one_order() {
        check(
            event_classes,
            &[
                ("", ""),
                ("KEA", "AKE"),
                ("Kg$lshzxetd", "AK"),
                ("E$", "$E"),
                ("KEn", "nKE"),
                ("AKEmn", "AnKEm"),
                ("tA", "A"),
                ("KEKE", "KE"),
            ],
        );
        assert!(event_classes("KQ", "").is_err());
    }

    #[test]
    fn percentiles_lose_trailing_zeros() {
        check(
            percentiles,
            &[("", ""), ("50 99.95 100", "50 99.95 100"), ("1e1 099.900", "10 99.9"), ("0", "0")],
        );
        check_refused(
            percentiles,
            &[
                ("x", "Invalid latency-tracking-info-percentiles parameters"),
                (
                    "101",
                    "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
                ),
            ],
        );
        assert!(percentiles("nan", "").is_err());
    }

    #[test]
    fn shutdown_words_have_one_order() {
        check(
            shutdown_words,
            &[("default save", "save"), ("force NOW", "now force"), ("default", "default")],
        );
        assert!(shutdown_words("nosave save", "").is_err());
        assert!(shutdown_words("", "").is_err());
    }

    #[test]
    fn telemetry_goes_to_an_address_with_names_and_values() {
        for good in ["", "http://collector:4318", "https://[::1]/otlp"] {
            check(http_address, &[(good, good)]);
        }
        for bad in ["collector:4318", "http://", "http:///x", "http://:1", "http://a b"] {
            assert!(http_address(bad, "").is_err(), "{bad}");
        }
        check(header_list, &[("", ""), ("a-b=c d,e=f=g", "a-b=c d,e=f=g")]);
        check(attribute_list, &[("service.name=\u{e9}t\u{e9}", "service.name=\u{e9}t\u{e9}")]);
        for bad in ["a", "=b", "a=b,", "a b=c", "a=x\r\nb:c"] {
            assert!(header_list(bad, "").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_primary_is_a_host_and_a_port() {
        check(
            primary,
            &[("", ""), ("no one", ""), ("h 0", "h 0"), ("h 1", "h 1"), ("h:6379", "h 6379")],
        );
        check_refused(
            primary,
            &[("h x", "Invalid primary port"), ("h", "wrong number of arguments")],
        );
    }

    #[test]
    fn addresses_are_not_given_twice() {
        check(addresses, &[("", ""), ("* -::*", "* -::*"), ("127.0.0.1 -::1", "127.0.0.1 -::1")]);
        assert!(addresses("127.0.0.1 127.0.0.1", "").is_err());
    }

    #[test]
    fn metrics_have_names_of_known_kinds() {
        let both = "dragonfly,pantala";
        check(metrics_names, &[("pantala", "pantala"), (both, "dragonfly pantala")]);
        assert!(metrics_names("", "").is_err() && metrics_names("pantala x", "").is_err());
    }

    #[test]
    fn names_of_nodes_hold_no_marks() {
        check(node_name, &[("", ""), ("a-b.c:1/`_", "a-b.c:1/`_"), ("é", "é")]);
        check(node_address, &[("::1", "::1")]);
        for text in ["a b", "10%", "\"", "Ag$", "\n"] {
            assert!(node_name(text, "").is_err() && node_address(text, "").is_err(), "{text}");
        }
    }

    #[test]
    fn the_backlog_has_a_least_size() {
        check(backlog_bytes, &[("1", "16384"), ("1mb", "1048576")]);
        assert!(backlog_bytes("0", "").is_err());
    }

    #[test]
    fn the_timer_is_bent_into_its_range() {
        check(timer_hz, &[("0", "1"), ("501", "500"), ("10", "10")]);
    }
}
