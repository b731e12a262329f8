//! An engine without connections, and its replies.

use std::io::Read;
use std::sync::Arc;

use pantala_base::UnixMs;
use pantala_base::clock::unix_ms;
use pantala_base::hash::HashSeed;
use pantala_commands::families::generic::rdb_limits;
use pantala_commands::{Lane, Registry, Session, families, key_positions};
use pantala_engine::Engine;
use pantala_engine::clients::mailbox::NoWorkers;
use pantala_engine::engine::assemble::Parts;
use pantala_engine::engine::limits::Limited;
use pantala_engine::execute::{CommandRequest, Turn};
use pantala_engine::functions::load_libraries;
use pantala_keyspace::{DbIndex, LockPlan, Tally};
use pantala_persistence::aof::load::LoadSnapshot;
use pantala_persistence::loading::{Inserter, Part, read_file};
use pantala_rdb::file::ReadOptions;
use pantala_rdb::payload::Versions;
use pantala_settings::Settings;

/// An engine without keys.
pub fn engine() -> Arc<Engine> {
    Engine::new(Parts {
        settings: Settings::defaults(),
        file: None,
        seed: HashSeed::from_words(1, 2),
        registry: Registry::new(&[
            families::connection::ROWS,
            families::databases::ROWS,
            families::generic::ROWS,
            families::string::ROWS,
            families::list::ROWS,
            families::set::ROWS,
            families::zset::ROWS,
            families::hash::ROWS,
            families::stream::ROWS,
            families::hyperloglog::ROWS,
            families::bitmap::ROWS,
            pantala_engine::functions::ROWS,
            pantala_engine::scripts::ROWS,
        ]),
        workers: Arc::new(NoWorkers),
        change_sink: None,
    })
}

/// Runs a command in a database and returns the reply, its lines joined.
pub fn ask(engine: &Engine, db: u32, line: &str) -> String {
    let limited = Limited::new(engine.settings.current());
    let (tally, recorder) = (engine.stats.tallies.join(), engine.journal.join());
    let turn = Turn::new(engine, (&tally, &recorder), &limited, Lane::Slow, (unix_ms(), 0));
    let mut session = Session::new(1);
    session.db = DbIndex(db);
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let found = engine.registry.resolve(&args).expect("it is known");
    let hashes = turn.hashes(&args, &key_positions(found.row, &args).expect("its keys"));
    let mut locked = engine.space.lock_none(turn.scope(&session));
    locked.take(&LockPlan::of_command(&hashes)).expect("nobody else is here");
    let request = CommandRequest { found, args: &args, hashes: &hashes, frame: &[] };
    let mut output = Vec::new();
    turn.run_locked(&mut session, request, &mut locked, &mut output);
    String::from_utf8_lossy(&output).trim_end().replace("\r\n", " ")
}

/// Loads a snapshot into the engine, on this thread.
pub struct SnapshotInto<'e>(pub &'e Engine);

impl LoadSnapshot for SnapshotInto<'_> {
    fn load(&mut self, file: &mut dyn Read, file_bytes: u64) -> Result<u64, String> {
        let limits = rdb_limits(&Settings::defaults());
        let (space, tally) = (&self.0.space, Tally::default());
        let now = UnixMs(0);
        let inserter = Inserter {
            space,
            limits: &limits,
            now,
            skips_modules: false,
            replaces: false,
            on_empty: &|_| {},
            on_expired: &|_, _| {},
        };
        let options =
            ReadOptions { versions: Versions::Known, checks: true, file_bytes: Some(file_bytes) };
        let mut functions = Vec::new();
        let read = read_file(file, options, &mut |part| {
            match part {
                Part::Batch(batch) => drop(inserter.insert(&batch, &tally).expect("it is whole")),
                Part::Function(code) => functions.push(code),
                Part::Aux(..) | Part::Module(..) => {}
            }
            true
        });
        load_libraries(self.0, &functions, false).map_err(|_| "a library is refused")?;
        read.map_err(|fault| fault.to_string())
    }
}
