//! A server that stops: commands that its workers acknowledge until then are in the append-only
//! file.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Barrier, OnceLock};

use pantala_commands::{Call, Command, CommandResult, Group, Registry};
use pantala_server::commands::families;
use pantala_server::process::start::start_with;
use pantala_server::shared::Shared;
use pantala_settings::{Disk, Settings, Start};

const ROWS: &[Command] = &[Command::new("HOLD", hold, Group::Server).arity(1)];

static SERVER: OnceLock<Arc<Shared>> = OnceLock::new();
static IS_HELD: OnceLock<Barrier> = OnceLock::new();
static HAS_OUTLIVED_JOURNAL: OnceLock<SyncSender<bool>> = OnceLock::new();

/// Holds its worker until the first worker has left, and for as long as the journal would take to
/// end if it did not wait for this worker.
fn hold(call: &mut Call<'_, '_>) -> CommandResult {
    const LOOKS: usize = 2_000;
    let shared = SERVER.get().expect("it has started");
    IS_HELD.get().expect("it has started").wait();
    shared.engine.condition.shutdown.wait();
    while !shared.workers.is_vacant(0) {
        std::thread::yield_now();
    }
    let mut looks = 0;
    while looks < LOOKS && shared.durability.appending.is_running() {
        std::thread::yield_now();
        looks += 1;
    }
    let told = HAS_OUTLIVED_JOURNAL.get().expect("it has started");
    told.send(looks < LOOKS).expect("the test waits for it");
    call.reply.ok();
    Ok(())
}

fn settings(directory: &Path, socket: &Path) -> Settings {
    let (dir, socket) = (directory.display(), socket.display());
    let args = [
        format!("--dir={dir}"),
        format!("--unixsocket={socket}"),
        "--port=0".into(),
        "--threads=1".into(),
        "--save=".into(),
        "--appendonly=yes".into(),
    ];
    let Ok(Start::Run(launch)) = Settings::from_args(&args, Vec::new(), &mut Disk) else {
        panic!("good words");
    };
    launch.settings
}

#[test]
fn the_journal_ends_after_workers_that_were_added() {
    let directory = std::env::temp_dir().join(format!("pantala-stopping-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    let socket = directory.join("s");
    let mut families = families();
    families.push(ROWS);
    let registry = Registry::new(&families);
    let mut running = start_with(settings(&directory, &socket), None, registry).expect("it starts");
    running.load().expect("it loads");
    assert!(SERVER.set(Arc::clone(running.shared())).is_ok());
    let (told, has_outlived_journal) = sync_channel(1);
    assert!(HAS_OUTLIVED_JOURNAL.set(told).is_ok());
    let is_held = IS_HELD.get_or_init(|| Barrier::new(2));
    let mut client = UnixStream::connect(&socket).expect("it listens");
    client.write_all(b"CONFIG SET threads 2\r\n").expect("it reads");
    client.read_exact(&mut [0; 5]).expect("it answers");
    // The added worker has no connection yet.
    let mut of_added = UnixStream::connect(&socket).expect("it listens");
    of_added.write_all(b"HOLD\r\n").expect("it reads");
    is_held.wait();
    running.stop();
    running.wait();
    assert_eq!(has_outlived_journal.recv(), Ok(false));
    // No test depends on the removal.
    let _best_effort = std::fs::remove_dir_all(&directory);
}
