//! The command line: every flag is declared once, in [`FLAGS`]; parser, defaults and help derive
//! from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Fault;
use crate::keys::Keys;
use crate::wire::Protocol;

/// The job that a flag belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Both,
    Fill,
    Run,
}

/// A flag: name, jobs, default (`None`: required; a switch has `Some("no")`), meaning.
struct Flag(&'static str, For, Option<&'static str>, &'static str);

const FLAGS: &[Flag] = &[
    Flag("host", For::Both, Some("127.0.0.1"), "where the server listens"),
    Flag("port", For::Both, None, "its port"),
    Flag("protocol", For::Both, Some("resp"), "resp or memcached (text)"),
    Flag("keys", For::Both, None, "number of keys, numbered from 0"),
    Flag("key-bytes", For::Both, Some("16"), "length of a key"),
    Flag("value-bytes", For::Both, Some("100"), "length of a value"),
    Flag("seed", For::Both, Some("1"), "other seed, other values"),
    Flag("connections", For::Both, Some("4"), "connections in all"),
    Flag("json", For::Both, Some("no"), "switch: print one line of JSON"),
    Flag("first", For::Fill, Some("0"), "fill from this key number on, up to --keys"),
    Flag("ttl-s", For::Fill, Some("0"), "seconds after which each key is gone; 0: never"),
    Flag("threads", For::Run, Some("1"), "threads; connections are dealt out among them"),
    Flag("pipeline", For::Run, Some("1"), "commands under way on each connection"),
    Flag("get-percent", For::Run, Some("100"), "share of GETs, the rest are SETs"),
    Flag("zipf", For::Run, Some("0"), "exponent of a Zipf choice of keys; 0: uniform"),
    Flag("requests", For::Run, Some("0"), "stop after so many requests"),
    Flag("seconds", For::Run, Some("0"), "or stop after so many seconds"),
    Flag("verify", For::Run, Some("no"), "switch: compare every value, not only its length"),
    Flag("multi-get", For::Run, Some("no"), "switch: a batch is one memcached get of many keys"),
    Flag("allow-misses", For::Run, Some("no"), "switch: a GET may find nothing"),
];

/// The most connections, so that a typing error does not flood the server.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Deepest pipeline: replies of one batch must fit the sockets' buffers while we still write.
pub const PIPELINE_MAX: usize = 1_000;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// The parameters of both jobs.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`.
    pub address: String,
    /// The server's language.
    pub protocol: Protocol,
    /// Shape of keys and values.
    pub keys: Keys,
    /// Connections in all.
    pub connections: usize,
    /// Print JSON and nothing else.
    pub json: bool,
}

/// The job `fill`.
#[derive(Clone, Debug)]
pub struct FillJob {
    /// Where to and what.
    pub target: Target,
    /// The first key number to write.
    pub first: u64,
    /// Seconds until each key expires; 0: never.
    pub ttl_s: u64,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// After this many requests.
    Requests(u64),
    /// After this many seconds.
    Seconds(f64),
}

/// The job `run`.
#[derive(Clone, Debug)]
pub struct RunJob {
    /// Where to and what.
    pub target: Target,
    /// Threads that drive the connections.
    pub threads: usize,
    /// Commands in flight on each connection.
    pub pipeline: usize,
    /// Share of GETs, 0 to 100.
    pub get_percent: u64,
    /// A batch is one `get` of many keys.
    pub multi_get: bool,
    /// Exponent of a Zipf choice of keys; `None`: uniform.
    pub zipf: Option<f64>,
    /// When to stop.
    pub until: Until,
    /// Compare values byte by byte.
    pub verify: bool,
    /// A GET may miss.
    pub allow_misses: bool,
}

/// What the command line asks for.
#[derive(Clone, Debug)]
pub enum Job {
    /// Print the help text.
    Help,
    /// Write every key once.
    Fill(FillJob),
    /// Put load on.
    Run(RunJob),
}

/// The help text.
pub fn help() -> String {
    let mut text = String::from("pantala-load fill|run FLAGS\n\n");
    for Flag(name, job, default, meaning) in FLAGS {
        let only = match job {
            For::Both => "",
            For::Fill => "fill: ",
            For::Run => "run: ",
        };
        let default = default.map_or("required".into(), |value| format!("default {value}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  --{name:<14} {only}{meaning} ({default})");
    }
    text
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Job, Fault> {
    match arguments.split_first() {
        Some((job, rest)) if job == "fill" => Ok(Job::Fill(fill_job(&given(rest, For::Fill)?)?)),
        Some((job, rest)) if job == "run" => Ok(Job::Run(run_job(&given(rest, For::Run)?)?)),
        Some((job, _)) if job == "help" || job == "--help" => Ok(Job::Help),
        _ => Err(Fault::Usage("the first argument is fill, run or help".into())),
    }
}

type Given = BTreeMap<&'static str, String>;

/// Every flag of the job with its value, given or default.
fn given(arguments: &[String], job: For) -> Result<Given, Fault> {
    let of_job = || FLAGS.iter().filter(move |flag| flag.1 == For::Both || flag.1 == job);
    let mut values: Given =
        of_job().filter_map(|flag| Some((flag.0, flag.2?.to_string()))).collect();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let name = argument.strip_prefix("--").unwrap_or("");
        let Some(flag) = of_job().find(|flag| flag.0 == name) else {
            return Err(Fault::Usage(format!("unknown argument {argument}")));
        };
        let value = match flag.2 {
            Some("no") => "yes".to_string(),
            _ => rest.next().cloned().ok_or_else(|| Fault::Usage(format!("--{name} WHAT?")))?,
        };
        values.insert(flag.0, value);
    }
    Ok(values)
}

fn text<'a>(values: &'a Given, name: &str) -> Result<&'a str, Fault> {
    let missing = || Fault::Usage(format!("--{name} is required"));
    values.get(name).map(String::as_str).ok_or_else(missing)
}

fn number<T: std::str::FromStr>(values: &Given, name: &str) -> Result<T, Fault> {
    let value = text(values, name)?;
    value.parse().map_err(|_| Fault::Usage(format!("--{name} {value} is not a number it takes")))
}

fn switch(values: &Given, name: &str) -> bool {
    values.get(name).is_some_and(|value| value == "yes")
}

fn within(name: &str, value: usize, low: usize, high: usize) -> Result<usize, Fault> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Fault::Usage(format!("--{name} must be {low} to {high}")))
}

fn target(values: &Given) -> Result<Target, Fault> {
    let port: u16 = number(values, "port")?;
    let value_bytes = within("value-bytes", number(values, "value-bytes")?, 0, VALUE_BYTES_MAX)?;
    let connections = within("connections", number(values, "connections")?, 1, CONNECTIONS_MAX)?;
    let keys = Keys::new(
        number(values, "keys")?,
        number(values, "key-bytes")?,
        value_bytes,
        number(values, "seed")?,
    )?;
    Ok(Target {
        address: format!("{}:{port}", text(values, "host")?),
        protocol: match text(values, "protocol")? {
            "resp" => Protocol::Resp,
            "memcached" => Protocol::Memcached,
            other => return Err(Fault::Usage(format!("--protocol {other}?"))),
        },
        keys,
        connections,
        json: switch(values, "json"),
    })
}

fn fill_job(values: &Given) -> Result<FillJob, Fault> {
    let target = target(values)?;
    let first = number(values, "first")?;
    if first > target.keys.count {
        return Err(Fault::Usage("--first is beyond --keys".into()));
    }
    Ok(FillJob { target, first, ttl_s: number(values, "ttl-s")? })
}

fn run_job(values: &Given) -> Result<RunJob, Fault> {
    let target = target(values)?;
    let exponent: f64 = number(values, "zipf")?;
    if !(0.0..=10.0).contains(&exponent) {
        return Err(Fault::Usage("--zipf must be 0 to 10".into()));
    }
    let threads = within("threads", number(values, "threads")?, 1, target.connections)?;
    let multi_get = switch(values, "multi-get");
    let get_percent = within("get-percent", number(values, "get-percent")?, 0, 100)? as u64;
    if multi_get && (target.protocol != Protocol::Memcached || get_percent != 100) {
        return Err(Fault::Usage("--multi-get is for --protocol memcached, and only GETs".into()));
    }
    Ok(RunJob {
        threads,
        pipeline: within("pipeline", number(values, "pipeline")?, 1, PIPELINE_MAX)?,
        get_percent,
        multi_get,
        zipf: (exponent > 0.0).then_some(exponent),
        until: until(number(values, "requests")?, number(values, "seconds")?)?,
        verify: switch(values, "verify"),
        allow_misses: switch(values, "allow-misses"),
        target,
    })
}

fn until(requests: u64, seconds: f64) -> Result<Until, Fault> {
    match (requests, seconds) {
        (1.., 0.0) => Ok(Until::Requests(requests)),
        (0, s) if s > 0.0 && s <= 86_400.0 => Ok(Until::Seconds(s)),
        _ => Err(Fault::Usage("give --requests or --seconds (up to a day), one of them".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Job, Fault> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        parse(&arguments)
    }

    fn refused(line: &str, because: &str) {
        match parsed(line) {
            Err(Fault::Usage(text)) => assert!(text.contains(because), "{line}: {text}"),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_run_with_everything() {
        let line = "run --port 7 --keys 10 --protocol memcached --connections 50 --threads 2 \
                    --pipeline 30 --get-percent 90 --zipf 0.99 --seconds 1.5 --verify --json";
        let Ok(Job::Run(job)) = parsed(line) else { panic!("not a run") };
        assert_eq!(job.target.address, "127.0.0.1:7");
        assert_eq!(job.target.protocol, Protocol::Memcached);
        assert_eq!((job.target.connections, job.threads, job.pipeline), (50, 2, 30));
        assert_eq!((job.get_percent, job.zipf), (90, Some(0.99)));
        assert_eq!(job.until, Until::Seconds(1.5));
        assert!(job.verify && job.target.json && !job.allow_misses);
    }

    #[test]
    fn a_fill_has_defaults() {
        let Ok(Job::Fill(job)) = parsed("fill --port 7 --keys 10") else { panic!("not a fill") };
        assert_eq!(
            (job.first, job.ttl_s, job.target.keys.key_bytes, job.target.keys.value_bytes),
            (0, 0, 16, 100)
        );
        assert_eq!((job.target.protocol, job.target.json), (Protocol::Resp, false));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        refused("", "fill, run or help");
        refused("fill --keys 1", "--port is required");
        refused("fill --port 1 --keys", "WHAT?");
        refused("fill --port 1 --keys 10 --pipeline 3", "unknown argument --pipeline");
        refused("fill --port 1 --keys 10 --first 11", "beyond");
        refused("run --port 1 --keys 10", "one of them");
        refused("run --port 1 --keys 10 --requests 1 --seconds 1", "one of them");
        refused("run --port 1 --keys 10 --seconds NaN", "one of them");
        refused("run --port 1 --keys 10 --requests 1 --threads 5", "--threads must be 1 to 4");
        refused("run --port 1 --keys 10 --requests 1 --get-percent 101", "get-percent");
        refused("run --port 1 --keys x --requests 1", "--keys x");
        refused("run --port 1 --keys 10 --requests 1 --multi-get", "memcached");
    }

    #[test]
    fn the_help_names_every_flag() {
        let text = help();
        assert!(FLAGS.iter().all(|flag| text.contains(&format!("--{} ", flag.0))), "{text}");
        assert!(matches!(parsed("help"), Ok(Job::Help)));
    }
}
