//! The command line: every flag is declared once, in [`FLAGS`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use pantala_load::Fault;
use pantala_load::wire::Protocol;

use crate::Request;
use crate::files::{oracle_general, twitter};
use crate::limits::Rules;
use crate::play::Manner;
use crate::synthetic::{Pattern, Shape, make};

/// A flag: name, default (None: required where it is used), meaning.
struct Flag(&'static str, Option<&'static str>, &'static str);

const FLAGS: &[Flag] = &[
    Flag("trace", Some("zipf"), "zipf, shift, scan, loop, mixed, oracle:FILE or twitter:FILE"),
    Flag("keys", Some("1000000"), "number of keys of a made trace"),
    Flag("requests", Some("1000000"), "how many requests, of a file at most"),
    Flag("zipf", Some("0.9"), "Zipf's exponent"),
    Flag("value-bytes", Some("200"), "length of a value of a made trace"),
    Flag("seed", Some("1"), "another seed, another trace"),
    Flag("warm-up", Some("50"), "percent of the requests that do not count"),
    Flag("rate", Some("0"), "requests a second; 0: as fast as it goes, and deadlines do not pass"),
    Flag("host", Some("127.0.0.1"), "play: where the server listens"),
    Flag("port", None, "play: its port"),
    Flag("protocol", Some("resp"), "play: resp or memcached (text)"),
    Flag("items", None, "limits: room for so many items; several with commas"),
];

/// The requested job.
#[derive(Debug)]
pub enum Job {
    /// The help text.
    Help,
    /// Play a trace against a server.
    Play(Source, Manner),
    /// Compute LRU and the optimum.
    Limits(Source, Vec<Rules>),
}

/// The source of a trace.
#[derive(Clone, Debug)]
pub enum Source {
    /// Generated.
    Made(Shape),
    /// A file in libCacheSim's format; at most this many requests.
    Oracle(PathBuf, u64),
    /// A file in Twitter's format; at most this many requests.
    Twitter(PathBuf, u64),
}

impl Source {
    /// The trace.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn trace(&self) -> Result<Vec<Request>, Fault> {
        match self {
            Source::Made(shape) => Ok(make(shape)),
            Source::Oracle(path, most) => oracle_general(path, *most),
            Source::Twitter(path, most) => twitter(path, *most),
        }
    }

    /// How many requests at the start do not count, of a trace with `length` requests: a file may
    /// have fewer than were asked for, of which `of_all` would not have counted.
    pub fn warm_up(&self, of_all: usize, length: usize) -> usize {
        (of_all as u64 * length as u64).checked_div(self.requests()).unwrap_or(0) as usize
    }

    fn requests(&self) -> u64 {
        match self {
            Source::Made(shape) => shape.requests,
            Source::Oracle(_, most) | Source::Twitter(_, most) => *most,
        }
    }
}

/// The help text.
pub fn help() -> String {
    let mut text = String::from("pantala-traces play|limits FLAGS\n\n");
    for Flag(name, default, meaning) in FLAGS {
        let default = default.map_or("required".into(), |value| format!("default {value}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  --{name:<12} {meaning} ({default})");
    }
    text
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// They are invalid.
pub fn parse(arguments: &[String]) -> Result<Job, Fault> {
    let Some((job, rest)) = arguments.split_first() else {
        return Err(Fault::Usage("the first argument is play, limits or help".into()));
    };
    if job == "help" || job == "--help" {
        return Ok(Job::Help);
    }
    let given = Given::read(rest)?;
    let source = given.source()?;
    let warm_up = source.requests() * given.number::<u64>("warm-up")?.min(100) / 100;
    let (warm_up, rate) = (warm_up as usize, given.number("rate")?);
    match job.as_str() {
        "play" => {
            let address = format!("{}:{}", given.text("host")?, given.number::<u16>("port")?);
            let protocol = given.protocol()?;
            Ok(Job::Play(source, Manner { address, protocol, warm_up, rate }))
        }
        "limits" => {
            let rules = |text: &str| {
                let items = text.parse().map_err(|_| Fault::Usage(format!("--items {text}?")))?;
                Ok(Rules { items, warm_up, rate })
            };
            let rules = given.text("items")?.split(',').map(rules).collect::<Result<_, Fault>>()?;
            Ok(Job::Limits(source, rules))
        }
        other => Err(Fault::Usage(format!("{other} is not play, limits or help"))),
    }
}

struct Given(BTreeMap<&'static str, String>);

impl Given {
    fn read(arguments: &[String]) -> Result<Given, Fault> {
        let defaults = FLAGS.iter().filter_map(|flag| Some((flag.0, flag.1?.to_string())));
        let mut values: BTreeMap<_, _> = defaults.collect();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let name = argument.strip_prefix("--").unwrap_or("");
            let Some(flag) = FLAGS.iter().find(|flag| flag.0 == name) else {
                return Err(Fault::Usage(format!("unknown argument {argument}")));
            };
            let value = rest.next().ok_or_else(|| Fault::Usage(format!("--{name} WHAT?")))?;
            values.insert(flag.0, value.clone());
        }
        Ok(Given(values))
    }

    fn text(&self, name: &str) -> Result<&str, Fault> {
        let missing = || Fault::Usage(format!("--{name} is required"));
        self.0.get(name).map(String::as_str).ok_or_else(missing)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Fault> {
        let value = self.text(name)?;
        value.parse().map_err(|_| Fault::Usage(format!("--{name} {value} is not what it takes")))
    }

    fn protocol(&self) -> Result<Protocol, Fault> {
        match self.text("protocol")? {
            "resp" => Ok(Protocol::Resp),
            "memcached" => Ok(Protocol::Memcached),
            other => Err(Fault::Usage(format!("--protocol {other}?"))),
        }
    }

    fn source(&self) -> Result<Source, Fault> {
        let (name, requests) = (self.text("trace")?, self.number("requests")?);
        match name.split_once(':') {
            Some(("oracle", path)) => return Ok(Source::Oracle(path.into(), requests)),
            Some(("twitter", path)) => return Ok(Source::Twitter(path.into(), requests)),
            _ => {}
        }
        let pattern =
            Pattern::named(name).ok_or_else(|| Fault::Usage(format!("--trace {name}?")))?;
        let exponent: f64 = self.number("zipf")?;
        let (keys, value_bytes) = (self.number("keys")?, self.number::<u32>("value-bytes")?);
        if keys == 0 || !(exponent > 0.0 && exponent <= 10.0) {
            return Err(Fault::Usage("--keys must be above 0, --zipf up to 10".into()));
        }
        if value_bytes > crate::MOST_VALUE_BYTES {
            return Err(Fault::Usage("--value-bytes is too large".into()));
        }
        let seed = self.number("seed")?;
        Ok(Source::Made(Shape { pattern, keys, requests, exponent, value_bytes, seed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Job, Fault> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn jobs_are_read() {
        let Ok(Job::Play(Source::Made(shape), manner)) =
            parsed("play --port 7 --trace scan --requests 200 --warm-up 25 --protocol memcached")
        else {
            panic!("not a play")
        };
        assert_eq!((shape.pattern, shape.requests), (Pattern::Scan, 200));
        assert_eq!((manner.warm_up, manner.protocol), (50, Protocol::Memcached));
        let Ok(Job::Limits(Source::Oracle(path, _), rules)) =
            parsed("limits --trace oracle:a:b --items 5,9")
        else {
            panic!("not limits")
        };
        assert_eq!(path, PathBuf::from("a:b"));
        assert_eq!(rules.iter().map(|rules| rules.items).collect::<Vec<_>>(), [5, 9]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in ["", "play", "limits --items x", "play --port 1 --trace what", "sing --port 1"]
        {
            assert!(matches!(parsed(line), Err(Fault::Usage(_))), "{line}");
        }
        assert!(matches!(parsed("play --port 1 --zipf NaN"), Err(Fault::Usage(_))));
    }

    #[test]
    fn the_help_names_every_flag() {
        let text = help();
        assert!(FLAGS.iter().all(|flag| text.contains(&format!("--{} ", flag.0))), "{text}");
    }
}
