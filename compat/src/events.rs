//! Plays transcripts on two servers and compares their keyspace notifications.
//!
//! 1. Every case starts with `notify-keyspace-events` on for all classes and a listener on all of
//!    their channels; at its end a message of our own shows that all notifications before it were
//!    received.
//! 2. The order is compared, too. Events that depend on time or chance are compared separately
//!    (when a key expires, which one is evicted) or not at all (when a field expires, how often a
//!    repeated request, `#! wait-until`, misses).
//! 3. Intended differences are listed in [`OTHERWISE`].
//!
//! Not here: replies (`run`).

use crate::client::{Connection, Fault};
use crate::parse::{Act, Case, Send, TargetServer, Transcript};
use crate::pattern::Resp;
use crate::render;
use crate::run::{self, Options, Outcome};
use crate::target::{Target, Tcp};
use crate::value::Value;

const CLASSES: &str = "AKEmn";
const CHANNELS: &str = "__key*__:*";
const END: &str = "__keyspace@end__:end";

/// File, title and reason of cases in which the servers intentionally send different events.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("string/lcs.txt", "on a list", AFTER_ERROR),
    ("zset/zinter.txt", "a key of another type", AFTER_ERROR),
    ("zset/zunion.txt", "a key of another type", AFTER_ERROR),
    ("sort/sort.txt", "by other keys", AFTER_ERROR),
    ("string/msetex.txt", "a moment in the past", "the reference leaves the keys to be swept"),
];
const AFTER_ERROR: &str = "after an error the reference still looks at the other keys";

/// One server and its listener.
struct Side {
    tcp: Tcp,
    listener: Option<Connection>,
}

impl Side {
    fn start(command: &str) -> Result<Side, String> {
        Ok(Side { tcp: Tcp::spawned(command)?, listener: None })
    }

    /// All events received since the case began.
    fn heard(&mut self) -> Result<Vec<String>, Fault> {
        let Some(mut listener) = self.listener.take() else { return Ok(Vec::new()) };
        let mut other = Connection::open(self.tcp.address(), Resp::Two)?;
        other.command(&["PUBLISH", END, "end"])?;
        let mut heard = Vec::new();
        loop {
            let value = listener.receive()?;
            let Value::Array(parts) = &value else { continue };
            let [_, _, channel, message] = parts.as_slice() else { continue };
            if *channel == Value::Bulk(END.into()) {
                break;
            }
            heard.push(format!("{} {}", text(channel), text(message)));
        }
        other.command(&["CONFIG", "SET", "notify-keyspace-events", ""])?;
        Ok(heard)
    }
}

fn text(value: &Value) -> String {
    render::lines(value).join(" ")
}

/// Plays a case as the TCP target does, while the listener receives events.
impl Target for Side {
    fn begin(&mut self, case: &Case, resp: Resp) -> Result<(), Fault> {
        self.listener = None;
        self.tcp.begin(case, resp)?;
        let mut listener = Connection::open(self.tcp.address(), Resp::Two)?;
        listener.command(&["CONFIG", "SET", "notify-keyspace-events", CLASSES])?;
        listener.command(&["PSUBSCRIBE", CHANNELS])?;
        self.listener = Some(listener);
        Ok(())
    }

    fn send(&mut self, client: &str, args: &[Vec<u8>]) -> Result<(), Fault> {
        self.tcp.send(client, args)
    }

    fn send_bytes(&mut self, client: &str, bytes: &[u8]) -> Result<(), Fault> {
        self.tcp.send_bytes(client, bytes)
    }

    fn receive(&mut self, client: &str) -> Result<Value, Fault> {
        self.tcp.receive(client)
    }

    fn receive_bytes(&mut self, client: &str, count: usize) -> Result<Vec<u8>, Fault> {
        self.tcp.receive_bytes(client, count)
    }

    fn unread(&mut self, client: &str) -> Option<Value> {
        self.tcp.unread(client)
    }
}

/// The results of a run.
#[derive(Default)]
pub struct Compared {
    /// Cases with the same events.
    pub same: usize,
    /// Cases with different events.
    pub different: usize,
    /// The number of events compared.
    pub events: usize,
}

/// Plays all cases that both servers can play; reports differences to `tell`.
pub fn compare(
    transcripts: &[Transcript],
    filter: &str,
    commands: &[String; 2],
    options: &Options,
    tell: &mut dyn FnMut(&str),
) -> Result<Compared, String> {
    let mut sides = [Side::start(&commands[0])?, Side::start(&commands[1])?];
    let mut compared = Compared::default();
    for transcript in transcripts {
        let path = transcript.path.display().to_string();
        if !path.contains(filter) {
            continue;
        }
        let is_otherwise = |case: &Case| {
            let mut rows = OTHERWISE.iter();
            rows.any(|(file, title, _)| path.ends_with(file) && case.title == *title)
        };
        let cases = transcript.cases.iter();
        for case in cases.filter(|case| can_be_compared(case) && !is_otherwise(case)) {
            let Some([there, here]) = play(case, &mut sides, options)? else { continue };
            compared.events += there.len();
            let is_repeated = case.steps.iter().any(|step| is_repeated(&step.act));
            let fields_go = |heard: &[String]| heard.iter().any(|line| line.contains("hexpired"));
            if is_repeated && (fields_go(&there) || fields_go(&here)) {
                // The case waits until a field has expired; which server action removes it first is
                // not defined.
                continue;
            }
            if is_same(told(&there, is_repeated), told(&here, is_repeated)) {
                compared.same += 1;
                continue;
            }
            compared.different += 1;
            tell(&format!("{path}: {}\n{}", case.title, difference(&there, &here)));
        }
    }
    Ok(compared)
}

/// The events of one case from both servers; `None` if one of them does not play it.
fn play(
    case: &Case,
    sides: &mut [Side; 2],
    options: &Options,
) -> Result<Option<[Vec<String>; 2]>, String> {
    let mut heard = [Vec::new(), Vec::new()];
    for (side, whose) in [(0, TargetServer::Reference), (1, TargetServer::Pantala)] {
        let options = Options { whose, starts_servers: false, ..options.clone() };
        if let Outcome::Skipped(_) = run::case(case, Resp::Two, &mut sides[side], &options) {
            return Ok(None);
        }
        heard[side] = sides[side].heard().map_err(|fault| format!("{}: {fault:?}", case.title))?;
    }
    Ok(Some(heard))
}

/// Whether a case can be compared: not if it turns the events off.
fn can_be_compared(case: &Case) -> bool {
    let is_setting = |arg: &Vec<u8>| {
        let words: [&[u8]; 4] = [b"notify-keyspace-events", b"RESETSTAT", b"KILL", b"SHUTDOWN"];
        words.iter().any(|word| arg.eq_ignore_ascii_case(word))
    };
    case.only.is_none()
        && case.server.is_none()
        && !case.steps.iter().any(|step| match &step.act {
            Act::Send(Send { args, .. }) => args.iter().any(is_setting),
            _ => false,
        })
}

fn is_repeated(act: &Act) -> bool {
    matches!(act, Act::Send(Send { wait_until: true, .. }))
}

/// Whether the events agree. Events that depend on time may be further along on one server than on
/// the other when the case ends.
fn is_same(there: (Vec<&str>, Vec<&str>), here: (Vec<&str>, Vec<&str>)) -> bool {
    let holds = |all: &[&str], some: &[&str]| some.iter().all(|line| all.contains(line));
    there.0 == here.0 && (holds(&there.1, &here.1) || holds(&here.1, &there.1))
}

/// The events to compare: all others in order; and, sorted, those that depend on time.
fn told(heard: &[String], is_repeated: bool) -> (Vec<&str>, Vec<&str>) {
    let by_time = |line: &&str| line.contains("expired") || line.contains("evicted");
    let is_left_out =
        |line: &&str| line.contains("hexpired") || is_repeated && line.contains("keymiss");
    let lines = heard.iter().map(String::as_str).filter(|line| !is_left_out(line));
    let (mut timed, rest): (Vec<&str>, Vec<&str>) = lines.partition(by_time);
    timed.sort_unstable();
    (rest, timed)
}

fn difference(there: &[String], here: &[String]) -> String {
    let same = there.iter().zip(here).take_while(|(there, here)| there == here).count();
    let show = |mark: &str, lines: &[String]| {
        let shown = lines[same..].iter().take(6).map(|line| format!("    {mark} {line}\n"));
        shown.collect::<String>()
    };
    format!("    {same} events are the same\n{}{}", show("-", there), show("+", here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(there: &[&str], here: &[&str], is_repeated: bool, expected: bool) {
        let lines = |texts: &[&str]| -> Vec<String> {
            texts.iter().map(|text| (*text).to_string()).collect()
        };
        let (there, here) = (lines(there), lines(here));
        let same = is_same(told(&there, is_repeated), told(&here, is_repeated));
        assert_eq!(same, expected, "{there:?} {here:?}");
    }

    #[test]
    fn the_order_counts_but_for_what_time_decides() {
        check(&["a set", "b del"], &["a set", "b del"], false, true);
        check(&["a set", "b del"], &["b del", "a set"], false, false);
        check(&["a set"], &["a set", "b del"], false, false);
        check(&["a expired", "b del"], &["b del", "a expired"], false, true);
        check(&["b del"], &["b del", "a expired"], false, true);
        check(&["a evicted", "b evicted"], &["b evicted", "a evicted"], false, true);
        check(&["c expired", "b del"], &["b del", "a expired"], false, false);
        check(&["a keymiss", "b del"], &["b del"], false, false);
        check(&["a keymiss", "b del"], &["b del"], true, true);
    }
}
