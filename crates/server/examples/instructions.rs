//! Runs a number of GETs or SETs through parser, session, keyspace and reply, without sockets:
//! `instructions get|set N`. `bench/instructions` counts its instructions with callgrind.

use pantala_server::in_process::InProcess;
use pantala_settings::Settings;

#[global_allocator]
static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 100;
const PIPELINE: u64 = 30;
const BATCHES: usize = 400;

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let [_, verb, count] = args.as_slice() else {
        return Err("usage: instructions get|set N".into());
    };
    let count: u64 = count.parse().map_err(|_| "N is a number")?;
    let mut server = InProcess::new(Settings::defaults())?;
    let mut reply = Vec::new();
    for key in 0..KEYS {
        let request = command("set", key);
        server.exchange(request.as_bytes(), &mut reply);
        reply.clear();
    }
    // A fixed walk over the keys that hits each about equally often, in no order; made beforehand,
    // so that only the server is counted.
    let mut key = 1;
    let batches: Vec<String> = (0..BATCHES)
        .map(|_| {
            let next = |_| {
                key = (key * 48_271 + 11) % 1_000_003;
                command(verb, key % KEYS)
            };
            (0..PIPELINE).map(next).collect()
        })
        .collect();
    for batch in batches.iter().cycle().take((count / PIPELINE) as usize) {
        server.exchange(batch.as_bytes(), &mut reply);
        reply.clear();
    }
    Ok(())
}

fn command(verb: &str, key: u64) -> String {
    let key = format!("key:{key:012}");
    match verb {
        "get" => format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n"),
        _ => format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$100\r\n{}\r\n", "x".repeat(VALUE_BYTES)),
    }
}
