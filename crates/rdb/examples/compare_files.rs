//! `compare_files ONE OTHER`: whether two snapshot files hold the same data. Prints the
//! differences. For `compat/clients/rdb_files.py`.

#[allow(dead_code, reason = "nothing random is needed here")]
#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::FileContents;
use pantala_base::Rng;

const WINDOW_BYTES: u64 = 1 << 20;

fn read(path: &str) -> FileContents {
    let bytes = std::fs::read(path).expect("it can be read");
    let found = common::read_file(&bytes, WINDOW_BYTES, &mut Rng::from_seed(0));
    found.unwrap_or_else(|damage| panic!("{path}: {damage}"))
}

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [one, other] = &paths[..] else {
        eprintln!("usage: compare_files ONE OTHER");
        return ExitCode::from(2);
    };
    let (one, other) = (read(one), read(other));
    let mut wrong = usize::from(one.functions != other.functions);
    for (at, contents) in &one.keys {
        let there = other.keys.get(at);
        if there != Some(contents) {
            let key = at.1.escape_ascii();
            println!("database {}, {key}: {contents:.300}\nthere: {there:.300?}", at.0);
            wrong += 1;
        }
    }
    wrong += other.keys.keys().filter(|at| !one.keys.contains_key(*at)).count();
    println!("{} keys and {}, {wrong} wrong", one.keys.len(), other.keys.len());
    ExitCode::from(u8::from(wrong > 0))
}
