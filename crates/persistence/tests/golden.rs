//! Append-only files written by redis-server 7.0.15 and valkey-server 9.1.2, each after a rewrite,
//! with `aof-use-rdb-preamble` yes and no. They are loaded, and their contents are checked.
//!
//! They were made by the commands in `golden/commands.txt`, BGREWRITEAOF, and those in
//! `golden/commands_after.txt` with timestamps on.

mod common;

use std::path::Path;

use common::{SnapshotInto, ask, engine};
use pantala_persistence::aof::files::part_files;
use pantala_persistence::aof::load::load;
use pantala_persistence::aof::replay::replay_on;
use pantala_persistence::aof::{AofLayout, AofWriter};
use pantala_persistence::disk::{Disk, RealDisk};

const WRITTEN_BY: [&str; 4] = ["redis-rdb", "redis-aof", "valkey-rdb", "valkey-aof"];

fn golden() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

fn layout(name: &str) -> AofLayout {
    AofLayout::new(golden(), name, "appendonly.aof")
}

#[test]
fn files_of_other_servers_are_loaded() {
    for name in WRITTEN_BY {
        let engine = engine();
        let layout = layout(name);
        let manifest = layout.open(&RealDisk).expect("it opens").expect("there is one");
        let files = part_files(&RealDisk, &layout, &manifest).expect("all are there");
        let loaded = replay_on(&*engine, 0, |replay| {
            let mut snapshots = SnapshotInto(&engine);
            let loaded = load(&RealDisk, &files, replay, &mut snapshots, false, &mut |_| {});
            assert_eq!(replay.outcome().first_error, None, "{name}");
            loaded.unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        assert!(loaded.cut.is_none() && loaded.steps >= 8, "{name}: {loaded:?}");
        for (db, command, answer) in [
            (0, "GET string", "$14 value and more"),
            (0, "GET number", "$2 43"),
            (0, "GET both", "$1 2"),
            (0, "GET script", "$1 2"),
            (0, "EXISTS list", ":0"),
            (0, "SCARD set", ":4"),
            (0, "SCARD ints", ":2"),
            (0, "ZRANGE zset 0 -1 WITHSCORES", "*4 $3 one $1 1 $3 two $3 2.5"),
            (0, "HGET hash f", "$2 42"),
            (0, "HGET hash h", "$1 3"),
            (0, "XLEN stream", ":2"),
            (0, "XPENDING stream group", "*4 :1 $3 1-1 $3 1-1 *1 *2 $8 consumer $1 1"),
            (0, "PFCOUNT hll", ":3"),
            (0, "GETBIT bits 7", ":1"),
            (0, "GET after", "$7 rewrite"),
            (3, "LRANGE queue 0 -1", "*1 $3 job"),
            (9, "GET other", "$2 db"),
            (0, "PERSIST volatile", ":1"),
            (0, "PERSIST string", ":1"),
            (0, "PERSIST number", ":0"),
            (9, "PERSIST other", ":1"),
        ] {
            assert_eq!(ask(&engine, db, command), answer, "{name}: {command}");
        }
        assert_eq!(engine.functions.current().library_count(), 1, "{name}");
    }
}

#[test]
fn their_manifests_are_written_alike() {
    for name in WRITTEN_BY {
        let text = std::fs::read_to_string(layout(name).manifest_path()).expect("it is there");
        let manifest = layout(name).open(&RealDisk).expect("it opens").expect("there is one");
        assert_eq!(manifest.text(), text, "{name}");
    }
}

#[test]
fn their_files_are_continued() {
    let place = std::env::temp_dir().join(format!("pantala-golden-{}", std::process::id()));
    for name in WRITTEN_BY {
        let copy = AofLayout::new(&place, name, "appendonly.aof");
        RealDisk.create_directory(&place).expect("made");
        copy.make_directory(&RealDisk).expect("made");
        for file in RealDisk.list(layout(name).directory()).expect("listed") {
            std::fs::copy(layout(name).path(&file), copy.path(&file)).expect("copied");
        }
        let manifest = copy.open(&RealDisk).expect("it opens");
        let mut writer = AofWriter::new(std::sync::Arc::new(RealDisk), copy.clone(), manifest, 0);
        writer.resume().expect("it resumes");
        let before = RealDisk.size(&copy.path("appendonly.aof.2.incr.aof")).expect("there");
        writer.append(b"*1\r\n$4\r\nPING\r\n", None).expect("appended");
        writer.sync().expect("synced");
        let after = RealDisk.size(&copy.path("appendonly.aof.2.incr.aof")).expect("there");
        assert_eq!(after, before + 14, "{name}");
    }
    std::fs::remove_dir_all(place).expect("removed");
}
