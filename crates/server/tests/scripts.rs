//! A script that turns out slow on a worker is undone and runs again on the lane: that it ran twice
//! shows neither in the data nor in the events.

use std::sync::Arc;

use pantala_keyspace::event::EventClass;
use pantala_keyspace::{ChangeSink, Effect, EventMask, Ticket};
use pantala_server::in_process::LocalServer;
use pantala_settings::Settings;
use parking_lot::Mutex;

/// Changes keys of several kinds, also by removing one, and then loops as often as its argument
/// says.
const SCRIPT: &str = "redis.call('INCR', 'n') redis.call('APPEND', 's', 'x') \
    redis.call('HINCRBY', 'h', 'f', 1) redis.call('RPUSH', 'l', redis.call('GET', 'n')) \
    redis.call('DEL', 'gone') redis.call('SET', 'came' .. redis.call('GET', 'n'), 1) \
    for i = 1, tonumber(ARGV[1]) do end return redis.call('GET', 'n')";
/// More loops than a worker waits for, on any machine.
const LONG: &str = "5000000";

struct Ear(Arc<Mutex<Vec<String>>>);

impl ChangeSink for Ear {
    fn hear(&self, happened: Vec<Effect>, _tickets: &mut Vec<Ticket>) {
        for effect in happened {
            let Effect::Happened { event, key, .. } = effect else { continue };
            let line = format!("{} {}", event.name, String::from_utf8_lossy(&key));
            self.0.lock().push(line);
        }
    }

    fn forget_all(&self, _tickets: &mut Vec<Ticket>) {}
}

fn ask(server: &mut LocalServer, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let mut reply = Vec::new();
    server.exchange(request.as_bytes(), &mut reply);
    String::from_utf8_lossy(&reply).replace("\r\n", " ").trim_end().to_owned()
}

/// `calls`, `rejected_calls` and `failed_calls` of a command, and its executions in LATENCY
/// HISTOGRAM.
fn counts(server: &mut LocalServer, command: &str) -> [String; 4] {
    let info = ask(server, &["INFO", "commandstats"]);
    let line = info.split_once(&format!("cmdstat_{command}:")).map_or("", |(_, line)| line);
    let line = line.split(' ').next().unwrap_or_default();
    let of = |name: &str| {
        let count = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        count.unwrap_or_default().to_owned()
    };
    let histogram = ask(server, &["LATENCY", "HISTOGRAM", command]);
    let calls = histogram.split_once("calls :").map_or("", |(_, rest)| rest);
    let calls = calls.split(' ').next().unwrap_or_default();
    [of("calls"), of("rejected_calls"), of("failed_calls"), calls.to_owned()]
}

#[test]
fn who_is_undone_is_counted_once() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let script = "redis.call('SET', 'k', 'text') redis.pcall('INCR', 'k') redis.pcall('GET') \
        redis.call('KEYS', 'none') redis.call('GET', 'k') redis.call('GET', 'missing') \
        for i = 1, tonumber(ARGV[1]) do end";
    let without_keys = script.replace("redis.call('KEYS', 'none')", "");
    for script in [script, &without_keys] {
        ask(&mut server, &["EVAL", script, "0", "1"]);
        ask(&mut server, &["CONFIG", "RESETSTAT"]);
        // Too slow for the worker in its first run.
        for loops in [LONG, "1"] {
            ask(&mut server, &["EVAL", script, "0", loops]);
        }
        assert_eq!(counts(&mut server, "set"), ["2", "0", "0", "2"]);
        assert_eq!(counts(&mut server, "incr"), ["2", "0", "2", "2"]);
        assert_eq!(counts(&mut server, "get"), ["4", "2", "0", "4"]);
        assert_eq!(counts(&mut server, "eval"), ["2", "0", "0", "2"]);
        let stats = ask(&mut server, &["INFO", "stats"]);
        for line in ["keyspace_hits:2", "keyspace_misses:2", "total_error_replies:4"] {
            assert!(stats.contains(&format!(" {line} ")), "{line}: {stats}");
        }
        let errors = ask(&mut server, &["INFO", "errorstats"]);
        assert!(errors.ends_with(" errorstat_ERR:count=4"), "{errors}");
    }
}

#[test]
fn who_is_undone_has_run_once() {
    let heard = Arc::default();
    let sink = Box::new(Ear(Arc::clone(&heard)));
    let mut server = LocalServer::observed(Settings::defaults(), Some(sink)).expect("descriptors");
    server.space().want(EventMask::events(EventClass::STRING));
    for (run, loops) in ["1", "1", "1", LONG, "1", LONG].into_iter().enumerate() {
        ask(&mut server, &["SET", "gone", "v"]);
        heard.lock().clear();
        let run = run + 1;
        let reply = ask(&mut server, &["EVAL", SCRIPT, "0", loops]);
        assert_eq!(reply, format!("${} {run}", run.to_string().len()));
        assert_eq!(ask(&mut server, &["STRLEN", "s"]), format!(":{run}"));
        assert_eq!(ask(&mut server, &["LLEN", "l"]), format!(":{run}"));
        assert_eq!(ask(&mut server, &["HGET", "h", "f"]), reply);
        assert_eq!(ask(&mut server, &["EXISTS", "gone"]), ":0");
        assert_eq!(ask(&mut server, &["DBSIZE"]), format!(":{}", 4 + run));
        let events = heard.lock().join(", ");
        assert_eq!(events, format!("incrby n, append s, set came{run}"));
    }
}

#[test]
fn who_has_very_much_to_tell_tells_it_once() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Box::new(Ear(Arc::clone(&heard)));
    let mut server = LocalServer::observed(Settings::defaults(), Some(sink)).expect("descriptors");
    ask(&mut server, &["SET", "large", &"x".repeat(1 << 20)]);
    server.space().want(EventMask::events(EventClass::STRING));
    let script = "for i = 1, 70000 do redis.call('SET', 'k', i) end \
        redis.call('APPEND', 'large', 'y') return redis.call('GET', 'k')";
    // It cannot change a large value without the token, so it is undone.
    let reply = server.with_token_taken(|server| ask(server, &["EVAL", script, "0"]));
    assert_eq!(reply, "");
    assert_eq!(heard.lock().len(), 0);
    let mut reply = Vec::new();
    server.exchange(b"", &mut reply);
    assert_eq!(String::from_utf8_lossy(&reply), "$5\r\n70000\r\n");
    let heard = std::mem::take(&mut *heard.lock());
    assert_eq!(heard.len(), 70_001);
    assert_eq!(heard.last().map(String::as_str), Some("append large"));
}

/// A script that waits for time to pass does end: once it has run for too long, TIME advances.
#[test]
fn time_goes_on_in_a_script_that_takes_too_long() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    ask(&mut server, &["CONFIG", "SET", "busy-reply-threshold", "5"]);
    let waits = "local function us() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end \
        local began, later = us(), 0 \
        for i = 1, 10 do later = later + us() - began end \
        while us() < began + 20000 do end return later";
    assert_eq!(ask(&mut server, &["EVAL", waits, "0"]), ":0");
    ask(&mut server, &["MULTI"]);
    ask(&mut server, &["EVAL", waits, "0"]);
    assert_eq!(ask(&mut server, &["EXEC"]), "*1 :0");
}

/// Lines that went to the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_is_undone_logs_once() {
    let mut server = LocalServer::new(Settings::defaults()).expect("descriptors");
    let script = "redis.log(redis.LOG_WARNING, 'begun') redis.call('SET', 'k', 1) \
        for i = 1, tonumber(ARGV[1]) do end redis.log(redis.LOG_WARNING, 'ended')";
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().without_time().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(log, || {
        // The second time it is undone on the worker, and runs again.
        for loops in ["1", LONG] {
            assert_eq!(ask(&mut server, &["EVAL", script, "0", loops]), "$-1");
        }
    });
    let text = String::from_utf8_lossy(&lines.0.lock()).into_owned();
    let said: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(said, ["begun", "ended", "begun", "ended"], "{text}");
}
