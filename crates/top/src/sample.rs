//! A sample of what a server reports, and the difference between two samples.
//!
//! From INFO, LATENCY HISTOGRAM, CLIENT LIST and HOTKEYS GET, as Pantala, Valkey and Redis answer
//! them. What a server does not know is absent: a column stays empty, and nothing fails.

use std::collections::BTreeMap;
use std::time::Instant;

use pantala_client::{Connection, Value, fields_of, pairs_of, text_of};

/// What is sampled beside INFO, at some cost for the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleOptions {
    /// Whether to list all clients.
    pub clients: bool,
    /// Whether to fetch the hot keys.
    pub hot_keys: bool,
}

/// Counters of one command, since the server started counting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Executed calls.
    pub calls: u64,
    /// Execution time, in microseconds.
    pub us: u64,
    /// Calls that were refused or ended with an error.
    pub failed: u64,
    /// Upper bounds in microseconds, each with the number of calls up to it.
    pub histogram: BTreeMap<u64, u64>,
}

/// A hot key.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key, without control characters.
    pub key: String,
    /// Execution time of its commands, in microseconds.
    pub us: u64,
    /// Bytes of its commands.
    pub bytes: u64,
}

/// The result of HOTKEYS GET.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HotKeys {
    /// It was not asked for.
    #[default]
    Unasked,
    /// The server does not know the command, or refuses it.
    Unknown(String),
    /// There is no session.
    Off,
    /// Whether the session is running, and its keys.
    Told(bool, Vec<HotKey>),
}

/// What a server reported at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When it was taken.
    pub at: Instant,
    /// Fields of INFO.
    pub info: BTreeMap<String, String>,
    /// Counters by command name.
    pub commands: BTreeMap<String, Counts>,
    /// Lines of CLIENT LIST, each as its fields.
    pub clients: Vec<BTreeMap<String, String>>,
    /// Its hot keys; see [`HotKeys`].
    pub hot_keys: HotKeys,
}

impl Sample {
    /// Takes a sample from a server.
    ///
    /// # Errors
    /// The connection is lost, or the server refuses INFO: a text for the operator.
    pub fn take(client: &mut Connection, asked: SampleOptions) -> Result<Sample, String> {
        let info = match client.ask(&["INFO", "everything"])? {
            Value::Error(why) => return Err(text_of(&Value::Error(why))),
            info => text_of(&info),
        };
        let mut sample = Sample::of_info(&info);
        let histograms = client.ask(&["LATENCY", "HISTOGRAM"])?;
        sample.add_histograms(&histograms);
        if asked.clients {
            let clients = text_of(&client.ask(&["CLIENT", "LIST"])?);
            sample.clients = clients.lines().map(fields_of).collect();
        }
        if asked.hot_keys {
            sample.hot_keys = hot_keys(&client.ask(&["HOTKEYS", "GET"])?);
        }
        Ok(sample)
    }

    /// A sample from the text of INFO.
    pub fn of_info(text: &str) -> Sample {
        let (mut info, mut commands) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in text.lines().filter_map(|line| line.trim_end().split_once(':')) {
            match name.strip_prefix("cmdstat_") {
                Some(command) => drop(commands.insert(command.to_owned(), counts_of(value))),
                None => drop(info.insert(name.to_owned(), value.to_owned())),
            }
        }
        let (clients, hot_keys) = (Vec::new(), HotKeys::Unasked);
        Sample { at: Instant::now(), info, commands, clients, hot_keys }
    }

    /// Adds the reply of LATENCY HISTOGRAM; an error adds nothing.
    pub fn add_histograms(&mut self, reply: &Value) {
        for (name, told) in pairs_of(reply) {
            let told = pairs_of(told);
            let rows = told.iter().find(|(name, _)| text_of(name) == "histogram_usec");
            let Some((_, rows)) = rows else { continue };
            let rows =
                pairs_of(rows).into_iter().map(|(us, count)| (number_of(us), number_of(count)));
            self.commands.entry(text_of(name)).or_default().histogram = rows.collect();
        }
    }

    /// A number of INFO; 0 if it is missing.
    pub fn number(&self, name: &str) -> f64 {
        self.info.get(name).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    }

    /// A text of INFO; empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    /// The workers, which only Pantala reports: name, connections, load in percent.
    pub fn workers(&self) -> Vec<(String, u64, f64)> {
        let lines = self.info.iter().filter_map(|(name, value)| {
            let number: u64 = name.strip_prefix("worker_")?.parse().ok()?;
            let fields = list_of(value);
            let field = |name: &str| fields.get(name).and_then(|text| text.parse::<f64>().ok());
            let (connections, load) = (field("connections")?, field("load_percent")?);
            Some((number, connections as u64, load))
        });
        let mut workers: Vec<_> = lines.collect();
        workers.sort_unstable_by_key(|(number, ..)| *number);
        let named = |(number, connections, load)| (format!("worker {number}"), connections, load);
        workers.into_iter().map(named).collect()
    }
}

impl Counts {
    /// The growth since `before`.
    pub fn since(&self, before: Option<&Counts>) -> Counts {
        let Some(before) = before.filter(|before| before.calls <= self.calls) else {
            return self.clone();
        };
        // A bound that was not reported had the count of the previous one.
        let count_at = |us: &u64| before.histogram.range(..=us).next_back().map_or(0, |(_, n)| *n);
        let rows = self.histogram.iter();
        Counts {
            calls: self.calls - before.calls,
            us: self.us.saturating_sub(before.us),
            failed: self.failed.saturating_sub(before.failed),
            histogram: rows.map(|(us, count)| (*us, count.saturating_sub(count_at(us)))).collect(),
        }
    }

    /// Adds the counters of another command.
    pub fn add(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.us += other.us;
        self.failed += other.failed;
        // Cumulative counts: each has at every bound its count at its own previous bound.
        let bounds: Vec<u64> =
            self.histogram.keys().chain(other.histogram.keys()).copied().collect();
        let at = |of: &BTreeMap<u64, u64>, us: u64| of.range(..=us).next_back().map_or(0, |x| *x.1);
        let sum = |us: u64| (us, at(&self.histogram, us) + at(&other.histogram, us));
        self.histogram = bounds.into_iter().map(sum).collect();
    }

    /// The bound that this percentage of calls did not exceed, in microseconds.
    pub fn percentile_us(&self, percent: f64) -> Option<u64> {
        let total = self.histogram.values().next_back().copied().filter(|total| *total > 0)?;
        let rank = ((total as f64 * percent / 100.0).ceil() as u64).max(1);
        self.histogram.iter().find(|(_, count)| **count >= rank).map(|(us, _)| *us)
    }
}

fn counts_of(value: &str) -> Counts {
    let fields = list_of(value);
    let field =
        |name: &str| fields.get(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    Counts {
        calls: field("calls"),
        us: field("usec"),
        failed: field("rejected_calls") + field("failed_calls"),
        histogram: BTreeMap::new(),
    }
}

/// Parses `a=1,b=2`.
fn list_of(text: &str) -> BTreeMap<&str, &str> {
    text.split(',').filter_map(|field| field.split_once('=')).collect()
}

fn hot_keys(reply: &Value) -> HotKeys {
    let report = match reply {
        Value::Error(why) => return HotKeys::Unknown(String::from_utf8_lossy(why).into_owned()),
        Value::Array(nodes) if nodes.len() == 1 => &nodes[0],
        Value::Array(_) | Value::Map(_) => reply,
        _ => return HotKeys::Off,
    };
    let (mut is_running, mut keys) = (false, BTreeMap::<String, HotKey>::new());
    for (name, value) in pairs_of(report) {
        let name = text_of(name);
        is_running |= name == "tracking-active" && number_of(value) > 0;
        if !matches!(name.as_str(), "by-cpu-time-us" | "by-net-bytes") {
            continue;
        }
        for (key, weight) in pairs_of(value) {
            let key = text_of(key);
            let hot = keys.entry(key.clone()).or_insert(HotKey { key, us: 0, bytes: 0 });
            match name.as_str() {
                "by-cpu-time-us" => hot.us = number_of(weight),
                _ => hot.bytes = number_of(weight),
            }
        }
    }
    HotKeys::Told(is_running, keys.into_values().collect())
}

fn number_of(value: &Value) -> u64 {
    match value {
        Value::Int(number) => number.unsigned_abs(),
        other => text_of(other).parse().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Value {
        parse_one(text.as_bytes())
    }

    fn parse_one(bytes: &[u8]) -> Value {
        let parsed = pantala_protocol::value::parse(bytes).expect("sound");
        parsed.expect("whole").0
    }

    #[test]
    fn info_is_read() {
        let sample = Sample::of_info(
            "# Server\r\nserver_name:valkey\r\ninstantaneous_ops_per_sec:12\r\n\
             cmdstat_get:calls=3,usec=9,usec_per_call=3.00,rejected_calls=1,failed_calls=2\r\n\
             worker_10:connections=1,load_percent=2.5\r\nworker_2:connections=0,load_percent=0\r\n",
        );
        assert_eq!(
            (sample.text("server_name"), sample.number("instantaneous_ops_per_sec")),
            ("valkey", 12.0)
        );
        let get = &sample.commands["get"];
        assert_eq!((get.calls, get.us, get.failed), (3, 9, 3));
        assert_eq!(
            sample.workers(),
            [("worker 2".to_owned(), 0, 0.0), ("worker 10".to_owned(), 1, 2.5)]
        );
    }

    #[test]
    fn histograms_are_compared_and_added() {
        let mut sample = Sample::of_info("");
        let text = "*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:9\r\n$14\r\nhistogram_usec\r\n\
                    *4\r\n:1\r\n:4\r\n:8\r\n:9\r\n";
        sample.add_histograms(&reply(text));
        let now = sample.commands["get"].clone();
        assert_eq!(now.histogram, BTreeMap::from([(1, 4), (8, 9)]));
        let before = Counts { histogram: BTreeMap::from([(1, 4), (2, 6)]), ..Counts::default() };
        let since = now.since(Some(&before));
        assert_eq!(since.histogram, BTreeMap::from([(1, 0), (8, 3)]));
        assert_eq!((since.percentile_us(50.0), since.percentile_us(99.0)), (Some(8), Some(8)));
        let mut both = before.clone();
        both.add(&now);
        assert_eq!(both.histogram, BTreeMap::from([(1, 8), (2, 10), (8, 15)]));
        assert_eq!((both.percentile_us(50.0), both.percentile_us(99.9)), (Some(1), Some(8)));
        assert_eq!(Counts::default().percentile_us(50.0), None);
    }

    #[test]
    fn hot_keys_are_read_in_either_form() {
        let flat = "*4\r\n$15\r\ntracking-active\r\n:1\r\n$12\r\nby-net-bytes\r\n\
                    *2\r\n$2\r\n\x1bk\r\n:7\r\n";
        let key = HotKey { key: "?k".into(), us: 0, bytes: 7 };
        assert_eq!(hot_keys(&reply(flat)), HotKeys::Told(true, vec![key.clone()]));
        let map = "*1\r\n%1\r\n$12\r\nby-net-bytes\r\n*2\r\n$2\r\n\x1bk\r\n:7\r\n";
        assert_eq!(hot_keys(&reply(map)), HotKeys::Told(false, vec![key]));
        assert_eq!(hot_keys(&reply("$-1\r\n")), HotKeys::Off);
        assert_eq!(hot_keys(&reply("-ERR no\r\n")), HotKeys::Unknown("ERR no".into()));
    }
}
