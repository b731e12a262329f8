//! Commands as spans, each a trace of its own: the client's context is not known here.
//!
//! A span shows the command's name and keys; other arguments are `?`, as they may be secret. Only
//! their count is told.

use pantala_base::rng::fill_secret;
use pantala_commands::{Registry, key_positions};
use pantala_engine::stats::logs::Entry;
use serde_json::{Value, json};

use super::words::{attribute, number_attribute, scope};

/// OTLP's number for a span of kind "server".
const SERVER: u32 = 2;

/// The request with these commands.
pub(super) fn request(registry: &Registry, entries: Vec<Entry>, resource: &Value) -> Value {
    let spans: Vec<Value> = entries.iter().map(|entry| span(registry, entry)).collect();
    json!({"resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{"scope": scope(), "spans": spans}],
    }]})
}

fn span(registry: &Registry, entry: &Entry) -> Value {
    let args: Vec<&[u8]> = entry.args.iter().map(Vec::as_slice).collect();
    let (name, text) = shown(registry, &args);
    let mut ids = [0; 24];
    if !fill_secret(&mut ids) {
        // An id of all zeroes would be invalid.
        ids[0] = 1;
        ids[16] = 1;
    }
    let (trace, span) = ids.split_at(16);
    let end_ns = entry.unix_us.saturating_mul(1_000);
    let start_ns = end_ns.saturating_sub(entry.value.saturating_mul(1_000));
    let mut attributes = vec![
        attribute("db.system.name", "redis"),
        attribute("db.operation.name", &name),
        attribute("db.query.text", &text),
    ];
    attributes.extend(peer(&entry.peer));
    let client = String::from_utf8_lossy(&entry.name);
    if !client.is_empty() {
        attributes.push(attribute("pantala.client.name", &client));
    }
    json!({
        "traceId": hex(trace),
        "spanId": hex(span),
        "name": name,
        "kind": SERVER,
        "startTimeUnixNano": start_ns.to_string(),
        "endTimeUnixNano": end_ns.to_string(),
        "attributes": attributes,
    })
}

/// A command's name, and its text for the span.
fn shown(registry: &Registry, args: &[&[u8]]) -> (String, String) {
    let row = registry.resolve(args).map(|found| found.row);
    let first = || String::from_utf8_lossy(args.first().copied().unwrap_or_default());
    let name = row.map_or_else(|| first().into_owned(), |row| row.full_name());
    let name = name.to_uppercase().replace('|', " ");
    let words = name.split(' ').count();
    let keys = row.and_then(|row| key_positions(row, args)).unwrap_or_default();
    let mut text = name.clone();
    for (at, argument) in args.iter().enumerate().skip(words) {
        text.push(' ');
        match keys.contains(&at) {
            true => text.push_str(&String::from_utf8_lossy(argument)),
            false => text.push('?'),
        }
    }
    (name, text)
}

fn peer(address: &str) -> Vec<Value> {
    match address.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) if port > 0 => vec![
            attribute("network.peer.address", host.trim_matches(['[', ']'])),
            number_attribute("network.peer.port", port),
        ],
        _ => vec![attribute("network.peer.address", address)],
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use pantala_commands::families;

    use super::*;

    #[test]
    fn keys_are_shown_and_values_are_not() {
        let registry = Registry::new(&[families::string::ROWS, families::stream::ROWS]);
        let check = |words: &str, wanted: (&str, &str)| {
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let (name, text) = shown(&registry, &args);
            assert_eq!((&*name, &*text), wanted);
        };
        check("mset a 1 b 2", ("MSET", "MSET a ? b ?"));
        check("xread count 1 streams s 0", ("XREAD", "XREAD ? ? ? s ?"));
        check("xgroup create s g $", ("XGROUP CREATE", "XGROUP CREATE s ? ?"));
        check("nonsense x", ("NONSENSE", "NONSENSE ?"));
    }

    #[test]
    fn addresses_have_a_host_and_a_port_unless_they_are_paths() {
        let of = |address| Value::from(peer(address)).to_string();
        assert!(of("[::1]:7").contains("\"::1\"") && of("[::1]:7").contains("\"7\""));
        assert!(of("/tmp/s:0").contains("/tmp/s:0"), "{}", of("/tmp/s:0"));
    }
}
