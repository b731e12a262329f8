//! `inspect_file FILE`: prints the contents of a snapshot file. For development; users have
//! `pantala check`.

#[allow(dead_code, reason = "nothing random is needed here")]
#[path = "../tests/common/mod.rs"]
mod common;

use pantala_rdb::file::{Inspection, ReadOptions};
use pantala_rdb::payload::Versions;

fn main() {
    let path = std::env::args().nth(1).expect("usage: inspect_file FILE");
    let bytes = std::fs::read(path).expect("it can be read");
    let options = ReadOptions { versions: Versions::All, checks: true, file_bytes: None };
    let mut inspection = Inspection::new(options, common::limits());
    let found = inspection.feed(&bytes, true);
    println!("{:#?}", inspection.summary());
    match found {
        Ok(()) => println!("sound, {} bytes behind the end", inspection.rest().len()),
        Err(damage) => println!("{damage}"),
    }
}
