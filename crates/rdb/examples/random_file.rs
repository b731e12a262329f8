//! `random_file SEED KEYS plain|compressed redis|old|new`: a snapshot file of random values, on
//! standard output. `redis` and `old` leave out what Redis 7.0 does not know, `new` what Valkey 9
//! does not; `redis` has long entries of listpacks as Redis has them, which Valkey refuses.
//! For `compat/clients/rdb_files.py`.

#[allow(dead_code, reason = "nothing is compared here")]
#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{Write, stdout};

use common::NOW;
use pantala_base::{Rng, UnixMs};
use pantala_rdb::file::{HEAD_BYTES, RdbWriter, write_entry};
use pantala_rdb::{Strings, Style};

const DATABASES: u32 = 3;
/// A deadline after the year 2200.
const DEADLINE: UnixMs = UnixMs(8_000_000_000_000);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [seed, keys, strings, age] = &args[..] else {
        eprintln!("usage: random_file SEED KEYS plain|compressed redis|old|new");
        std::process::exit(2);
    };
    let mut rng = Rng::from_seed(seed.parse().expect("a number"));
    let strings = if strings == "plain" { Strings::Plain } else { Strings::Compressed };
    let newest = if age == "new" { 80 } else { 10 };
    let style = Style { strings, is_portable: false, is_old: age == "redis" };
    let mut out = Vec::new();
    let mut writer = RdbWriter::begin(0, true, &mut out);
    writer.aux(b"redis-ver", b"7.0.15", &mut out);
    let code = b"#!lua name=lib\nredis.register_function('f', function() return 42 end)";
    writer.function(code, strings, &mut out);
    for number in 0..keys.parse().expect("a number") {
        let value = common::value(&mut rng);
        let kind = pantala_rdb::kind_of(&value.view(), NOW);
        if kind.0 >= 112 || kind.version().is_none_or(|version| version > newest) {
            continue;
        }
        let deadline = (rng.below(4) == 0).then_some(DEADLINE);
        let key = format!("key:{number}:{}", "x".repeat(rng.below(40) as usize));
        writer.database(rng.below(u64::from(DATABASES)) as u32, &mut out);
        let begin = out.len();
        let view = value.view();
        let version = write_entry(key.as_bytes(), deadline, &view, NOW, style, &mut out);
        writer.entries(&out[begin..], version);
    }
    if let Some(head) = writer.end(&mut out) {
        out[..HEAD_BYTES].copy_from_slice(&head);
    }
    stdout().write_all(&out).expect("standard output takes it");
}
