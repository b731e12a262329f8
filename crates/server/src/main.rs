//! `pantala`: reads the settings, starts the server and waits for its end; or runs one of the
//! tools.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use pantala_base::os::SignalStack;
use pantala_durability::place;
use pantala_persistence::check::{self, Surroundings};
use pantala_persistence::disk::RealDisk;
use pantala_server::commands::registry;
use pantala_server::ping;
use pantala_server::process::system::{crash, limits, title};
use pantala_server::process::{logging, signals, start};
use pantala_settings::{Disk, Launch, Settings, Start};

#[global_allocator]
static ALLOCATOR: pantala_memory::Counting = pantala_memory::Counting;

/// The pause of `pantala journal --follow` between two looks.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    if let Some(status) = inspect(&args) {
        return status;
    }
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let outcome = match Settings::from_args(&args, env, &mut Disk) {
        Ok(Start::Run(launch)) => run(*launch),
        Ok(Start::Print(text)) => {
            // An error means that the reader has gone (`pantala --help | head`).
            let _reader_has_gone = std::io::stdout().write_all(text.as_bytes());
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _unread = writeln!(std::io::stderr(), "pantala: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a tool that starts no server: `pantala check`, `journal`, `ping`, `top`, `doctor`, `sizing`
/// or `import`.
fn inspect(args: &[String]) -> Option<ExitCode> {
    if let [name, words @ ..] = args {
        match name.as_str() {
            "top" => return Some(top(words)),
            "doctor" => return Some(doctor(words)),
            "sizing" => return Some(sizing(words)),
            "import" => return Some(import(words)),
            _ => {}
        }
    }
    if let Some(status) = ping::run(args, std::env::var("PANTALA_port").ok().as_deref()) {
        return Some(status);
    }
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut around = Surroundings {
        disk: &RealDisk,
        input: &mut input,
        output: &mut output,
        pause: &mut || {
            std::thread::sleep(FOLLOW_PAUSE);
            true
        },
    };
    let status = check::run(args, &mut around)?;
    // An error means that the reader has gone (`pantala journal FILE | head`).
    Some(status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(status as u8)))
}

/// Runs `pantala top`, which watches a server.
fn top(words: &[String]) -> ExitCode {
    let registry = registry();
    let family_of = |name: &str| {
        let name = name.split('|').next().unwrap_or_default();
        registry.find(name.as_bytes()).map(|found| found.row.group.name())
    };
    match pantala_top::run(words, password(), &family_of, &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure("top", &error),
    }
}

/// Runs `pantala doctor`, which examines another server. Its status is 1 if something prevents the
/// move, and 2 if the server could not be asked.
fn doctor(words: &[String]) -> ExitCode {
    let registry = registry();
    let has = |name: &str| registry.find_full(name.as_bytes()).is_some();
    match pantala_doctor::run(words, password(), &has, &mut std::io::stdout()) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            failure("doctor", &error);
            ExitCode::from(2)
        }
    }
}

/// Runs `pantala sizing`, which calculates.
fn sizing(words: &[String]) -> ExitCode {
    match pantala_doctor::sizing::run(words) {
        Ok(text) => {
            let _reader_has_gone = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => failure("sizing", &error),
    }
}

/// Runs `pantala import`, which moves a server's data to another one.
fn import(words: &[String]) -> ExitCode {
    match pantala_import::run(words, password(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            failure("import", &error);
            ExitCode::from(2)
        }
    }
}

/// The password for tools, from the environment.
fn password() -> Option<String> {
    std::env::var("REDISCLI_AUTH").ok().filter(|password| !password.is_empty())
}

fn failure(tool: &str, error: &str) -> ExitCode {
    let _unread = writeln!(std::io::stderr(), "pantala {tool}: {error}");
    ExitCode::FAILURE
}

/// Why the server does not start, or does not go on, is in its log, too: the last line there.
fn run(launch: Launch) -> Result<(), String> {
    logging::begin(&launch.settings)?;
    serve(launch).inspect_err(|why| tracing::error!("{why}"))
}

/// Loads the data, and logs that the server is there: in the words for which the test harness of
/// Redis and Valkey waits. It then sends commands; a load that is soon over should not refuse them,
/// so the words wait for it.
fn load(running: &mut start::Running, pid: u32) -> Result<(), String> {
    const PATIENCE: Duration = Duration::from_secs(1);
    std::thread::scope(|scope| {
        let (loaded, until_loaded) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let _over_or_late = until_loaded.recv_timeout(PATIENCE);
            tracing::info!("PID: {pid}. Server initialized");
        });
        let result = running.load();
        drop(loaded);
        result
    })
}

fn serve(launch: Launch) -> Result<(), String> {
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(version, pid, "Pantala starts");
    for warning in &launch.warnings {
        tracing::warn!("{warning}");
    }
    limits::forbid_core_files(&launch.settings);
    // Checked at the start, because files are written there only much later.
    let dir = &launch.settings.dir;
    place::check(dir).map_err(|why| format!("--dir {dir}: {why}"))?;
    place::check_append_only(&launch.settings).map_err(|why| format!("--appendonly yes: {why}"))?;
    let file = launch.config_file.map(std::path::PathBuf::from);
    let registry = registry().renamed(&launch.renames)?;
    let mut running = start::start_with(launch.settings, file, registry)?;
    pantala_base::os::title::begin();
    title::show(running.shared());
    signals::stop_on_signals(running.shared())?;
    crash::begin(running.shared())?;
    let _stack = SignalStack::take();
    if let Err(error) = load(&mut running, pid) {
        running.stop();
        running.wait();
        return Err(error);
    }
    running.announce();
    running.wait_and_end();
    Ok(())
}
