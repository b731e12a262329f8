//! Writes append-only files for other servers and reads theirs, for `compat/clients/aof_files.py`.
//!
//! ```text
//! aof_files write DIR SEED      writes an append-only file of random steps, with rewrites
//! aof_files read DIR            loads the one that is there
//! ```
//!
//! Both print what is in it: a line for each key, `DB KEY NUMBER`, sorted.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use common::{SnapshotInto, ask, engine};
use pantala_base::Rng;
use pantala_persistence::aof::files::part_files;
use pantala_persistence::aof::load::load;
use pantala_persistence::aof::replay::replay_on;
use pantala_persistence::aof::{AofLayout, AofWriter, BaseKind};
use pantala_persistence::disk::{Disk, RealDisk};

const STEPS: u64 = 3_000;
const KEYS: u64 = 200;
const DATABASES: u64 = 3;
/// On average one step in this many begins or ends a rewrite.
const REWRITE_EVERY: u64 = 400;

/// The expected contents of the file: numbers by database and key.
type Model = BTreeMap<(u64, String), i64>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let model = match args[..] {
        ["write", directory, seed] => match seed.parse() {
            Ok(seed) => write(&layout(directory), seed),
            Err(_) => return ExitCode::from(2),
        },
        ["read", directory] => read(&layout(directory)),
        _ => return ExitCode::from(2),
    };
    for ((db, key), number) in model {
        println!("{db} {key} {number}");
    }
    ExitCode::SUCCESS
}

fn layout(directory: &str) -> AofLayout {
    AofLayout::new(Path::new(directory), "appendonlydir", "appendonly.aof")
}

fn resp(words: &[&str]) -> String {
    let text: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{text}", words.len())
}

fn write(layout: &AofLayout, seed: u64) -> Model {
    let (mut rng, mut model, mut db) = (Rng::from_seed(seed), Model::new(), None);
    let mut writer = AofWriter::new(Arc::new(RealDisk), layout.clone(), None, 0);
    writer.resume().expect("an empty directory");
    let mut rewrite = None;
    for step in 0..STEPS {
        if rng.below(REWRITE_EVERY) == 0 {
            match rewrite.take() {
                None => {
                    rewrite = writer.begin_rewrite(BaseKind::Commands).ok();
                    let path = &rewrite.as_ref().expect("the disk has room").base_path;
                    let base = RealDisk.create(path).expect("created");
                    base.append(base_of(&model).as_bytes()).expect("appended");
                    base.sync().expect("synced");
                    db = None;
                }
                Some(begun) => {
                    writer.finish_rewrite(begun).expect("finished");
                    let gone = writer.begin_removal().map(|job| job.run());
                    writer.end_removal(&gone.unwrap_or_default()).expect("stored");
                }
            }
        }
        let steps = random_step(&mut rng, &mut model, &mut db);
        let second = i64::try_from(1_700_000_000 + step / 10).expect("it is small");
        writer
            .append(steps.as_bytes(), seed.is_multiple_of(2).then_some(second))
            .expect("appended");
    }
    // Half a transaction at the end, as after a crash.
    let torn = resp(&["MULTI"]) + &resp(&["SET", "torn", "1"]);
    writer.append(torn.as_bytes(), None).expect("appended");
    writer.sync().expect("synced");
    model
}

fn base_of(model: &Model) -> String {
    let commands = model.iter().map(|((db, key), number)| {
        resp(&["SELECT", &db.to_string()]) + &resp(&["SET", key, &number.to_string()])
    });
    commands.collect()
}

fn random_step(rng: &mut Rng, model: &mut Model, selected: &mut Option<u64>) -> String {
    let count = 1 + rng.below(3);
    let commands: String = (0..count)
        .map(|_| {
            let db = rng.below(DATABASES);
            let select = match *selected == Some(db) {
                true => String::new(),
                false => resp(&["SELECT", &db.to_string()]),
            };
            *selected = Some(db);
            let place = (db, format!("key:{}", rng.below(KEYS)));
            select + &random_command(rng, model, place)
        })
        .collect();
    match count {
        1 => commands,
        _ => resp(&["MULTI"]) + &commands + &resp(&["EXEC"]),
    }
}

fn random_command(rng: &mut Rng, model: &mut Model, place: (u64, String)) -> String {
    let (key, by) = (place.1.clone(), rng.below(1_000) as i64);
    match rng.below(4) {
        0 => {
            model.insert(place, by);
            resp(&["SET", &key, &by.to_string()])
        }
        1 => {
            model.remove(&place);
            resp(&["DEL", &key])
        }
        _ => {
            *model.entry(place).or_default() += by;
            resp(&["INCRBY", &key, &by.to_string()])
        }
    }
}

fn read(layout: &AofLayout) -> Model {
    let engine = engine();
    let manifest = layout.open(&RealDisk).expect("it opens").expect("there is one");
    let files = part_files(&RealDisk, layout, &manifest).expect("all are there");
    replay_on(&*engine, 0, |replay| {
        let mut snapshots = SnapshotInto(&engine);
        load(&RealDisk, &files, replay, &mut snapshots, false, &mut |_| {})
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(replay.outcome().first_error, None);
    });
    let mut model = Model::new();
    for db in 0..DATABASES {
        for key in (0..KEYS).map(|number| format!("key:{number}")) {
            let answer = ask(&engine, db as u32, &format!("GET {key}"));
            let number = answer.split(' ').nth(1).and_then(|number| number.parse().ok());
            model.extend(number.map(|number| ((db, key), number)));
        }
    }
    model
}
