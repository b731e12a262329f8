//! The steps of `cargo xtask test`: one row each. They begin in this order: what others wait for
//! first, then what takes long.
//!
//! A row that is lines runs them one after the other, until one fails; `lines` tells what may stand
//! in them. Invariants (tests at the foot): names differ, and a step waits for one above it.

use super::calls;
use super::lines::Ending;
use super::needs;
use super::run::Run;

/// One step.
pub struct Step {
    /// Its name on the command line, and that of its log.
    pub name: &'static str,
    /// The step that must have ended well before it begins.
    pub after: Option<&'static str>,
    /// What it does, for `--list`.
    pub purpose: &'static str,
    /// Part of `quick`.
    pub is_quick: bool,
    /// Runs with --long only, or when it is named.
    pub is_long: bool,
    /// Depends on when things happen. If it fails it is tried once more, alone, when all others
    /// have ended: a failure that does not return is printed as `unsteady`, with its first log
    /// kept, and is to be looked into, but a machine that was too busy keeps no change out.
    pub is_timed: bool,
    /// What it runs.
    pub act: Act,
}

/// What a step runs.
pub enum Act {
    /// These lines.
    Lines(&'static [&'static str]),
    /// This function.
    Call(fn(&Run) -> Ending),
}

use Act::{Call, Lines};

impl Step {
    /// A step that waits for what brings its tools.
    const fn new(name: &'static str, purpose: &'static str, act: Act) -> Self {
        let after = Some("needs");
        Self { name, after, purpose, is_quick: false, is_long: false, is_timed: false, act }
    }

    /// A step that waits for the server's binary.
    const fn built(name: &'static str, purpose: &'static str, act: Act) -> Self {
        Self { after: Some("build"), ..Self::new(name, purpose, act) }
    }

    const fn first(self) -> Self {
        Self { after: None, ..self }
    }

    const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    const fn long(self) -> Self {
        Self { is_long: true, ..self }
    }

    const fn timed(self) -> Self {
        Self { is_timed: true, ..self }
    }

    /// The step of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STEPS.iter().find(|step| step.name == name)
    }

    /// Its line of `--list`.
    pub fn row(&self) -> String {
        format!("{:<12} {:<6} {}", self.name, self.after.unwrap_or("-"), self.purpose)
    }
}

/// All of them.
pub static STEPS: [Step; 44] = [
    Step::new("needs", "brings what the other steps use", Call(needs::bring)).first(),
    Step::new("build", "the release build", Call(calls::build)).quick(),
    Step::new("format", "cargo fmt --check", Lines(&["cargo fmt --all --check"])).quick(),
    Step::new(
        "lint",
        "clippy without a warning",
        Lines(&["cargo clippy --workspace --all-targets -- -D warnings"]),
    )
    .quick(),
    Step::new("tidy", "the house rules", Lines(&["{xtask} tidy"])).quick(),
    Step::built(
        "hardened",
        "the binary: position independent, relocations read-only, stacks guarded",
        Lines(&["{xtask} hardened {server}"]),
    ),
    Step::new(
        "pages",
        "the pages that derive from the code are current",
        Lines(&["{xtask} docs --check"]),
    )
    .quick(),
    Step::new(
        "unit",
        "the tests of every crate",
        Lines(&["cargo test --workspace --no-fail-fast"]),
    )
    .quick()
    .timed(),
    Step::built(
        "bad_days",
        "bad input, bad circumstances: limits, crowds, signals, no memory or descriptors",
        Lines(&["python3 compat/bad_days/run.py --server {server} {long}"]),
    )
    .timed(),
    Step::built(
        "transcripts",
        "what the server answers: by both protocols and engines, in MULTI, in Lua",
        Call(calls::transcripts),
    )
    .quick()
    .timed(),
    Step::built(
        "reload",
        "the transcripts with a save and a load between any two lines",
        Lines(&["TMPDIR={memory} {compat} run --inside reload --resp {resp} \
                 --spawn '{spawn} --threads=2'"]),
    )
    .timed(),
    Step::built(
        "records",
        "what both keep in append-only files while the transcripts are played",
        Lines(&["TMPDIR={memory} {compat} records --spawn '{spawn} --threads=2'"]),
    )
    .timed(),
    Step::built(
        "apps",
        "applications at work: BullMQ, RQ, Celery, asynq, redis-py, ioredis, go-redis",
        Call(calls::apps),
    )
    .timed(),
    Step::new("fuzz", "each fuzz target for some seconds", Call(calls::fuzz)),
    Step::built(
        "serial",
        "recorded histories are strictly serialisable: 1, 2 and 16 workers",
        Lines(&["{serial} --seconds 15 --spawn '{spawn} --threads {threads}'"]),
    )
    .timed(),
    Step::built(
        "bench",
        "the bench runs (its figures mean nothing here)",
        Lines(&["bench/run --quick --servers pantala,valkey --only get*,set* --topic smoke \
                 --pantala {server} --out target/test/bench"]),
    ),
    // A build of its own: --cfg loom changes every crate below.
    Step::new(
        "loom",
        "every interleaving of the lock-free code",
        Lines(&["RUSTFLAGS='--cfg loom' cargo test --package pantala-sync \
                 --package pantala-journal --package pantala-psync --lib \
                 --target-dir target/loom"]),
    ),
    Step::new("oracle", "the transcripts against the reference server", Call(calls::oracle)),
    Step::built(
        "events",
        "what both tell of their keys while the transcripts are played",
        Lines(&["{compat} events --spawn {spawn}"]),
    )
    .timed(),
    Step::built(
        "differ",
        "random commands to the server and to the reference",
        Lines(&["{differ} --seconds 20 --a {spawn}"]),
    ),
    Step::built(
        "instructions",
        "instructions per GET and SET, against the committed figures",
        Lines(&["bench/instructions"]),
    ),
    Step::built(
        "replication",
        "primaries and replicas of three kinds: links cut, servers killed, roles swapped",
        Lines(&["python3 compat/replication/run.py --server {server} {long}"]),
    )
    .timed(),
    Step::built(
        "exchange",
        "values by DUMP, RESTORE, MIGRATE, and files, to other servers and back",
        Call(calls::exchange),
    )
    .timed(),
    Step::built("clients", "a real client's checks", Call(calls::clients)).timed(),
    Step::built(
        "book",
        "the pages: links lead somewhere, examples work, mdbook (if there) builds them",
        Lines(&["python3 compat/book/run.py --server {server}"]),
    ),
    Step::built(
        "memcached",
        "Memcached's protocols: transcripts, random sessions beside it, its clients",
        Call(calls::memcached),
    )
    .timed(),
    Step::built(
        "tls",
        "TLS: tricks by openssl, transcripts, clients with certificates",
        Call(calls::tls),
    )
    .timed(),
    Step::built(
        "packages",
        "the unit, the manual page, completions, the Python package, the Dockerfile",
        Lines(&["python3 deploy/check/run.py --server {server}"]),
    ),
    Step::built(
        "metrics",
        "metrics, alerts, the dashboard, with Prometheus itself; OTLP",
        Lines(&[
            "python3 compat/metrics/run.py --server '{local} --threads=2'",
            "python3 compat/metrics/otlp.py --server '{local} --threads=2'",
        ]),
    )
    .timed(),
    // Advisories are left out: their database comes from elsewhere and changes under a commit.
    Step::new(
        "licences",
        "licences, sources and doubles of the dependencies",
        Lines(&["cargo-deny check licenses bans sources"]),
    ),
    Step::new("advisories", "published holes of the dependencies", Call(calls::advisories)).long(),
    Step::new(
        "harness",
        "the bench's own tests",
        Lines(&["env --chdir=bench python3 -m unittest"]),
    ),
    Step::new(
        "console",
        "the web console: types, lint, tests, what is embedded is what is built",
        Lines(&[
            "npm run --silent --prefix console types",
            "npm run --silent --prefix console lint",
            "npm test --silent --prefix console",
            "npm run --silent --prefix console check",
        ]),
    ),
    Step::built(
        "browser",
        "the web console in Chromium, before a server; axe finds nothing serious",
        Lines(&["PANTALA={server} npm run --silent --prefix console e2e"]),
    )
    .timed(),
    Step::built("objects", "snapshots in object storage, against emulators", Call(calls::objects))
        .long(),
    // Programs of Go and cargo-deb are built once, into target/tools; a fresh root needs root.
    Step::built(
        "installs",
        "the Debian package in a fresh root, the chart, compose, cargo install",
        Lines(&["python3 deploy/check/run.py --server {server} --long"]),
    )
    .long(),
    Step::built(
        "soak_serial",
        "histories for an hour",
        Lines(&["{serial} --seconds 1200 --spawn '{spawn} --threads {threads}'"]),
    )
    .long(),
    Step::built(
        "soak_differ",
        "random commands for ten minutes",
        Lines(&["{differ} --seconds 600 --a {spawn}"]),
    )
    .long(),
    Step::new("soak_fuzz", "each fuzz target for five minutes", Call(calls::soak_fuzz)).long(),
    Step::new(
        "soak_nodes",
        "primaries and replicas, simulated, by twenty thousand seeds",
        Lines(&["PANTALA_SIMULATOR=0..20000 cargo test --package pantala-simulator \
                 -- --nocapture"]),
    )
    .long(),
    Step::built(
        "suites",
        "other people's test suites: of Redis, memcached, RQ, kombu, asynq, two clients",
        Call(calls::suites),
    )
    .long(),
    // What fails there that the real servers pass is listed, each with its reason; 97 % must pass.
    Step::built(
        "replaced",
        "Redis's and Valkey's suites with our program in the place of theirs, unchanged",
        Lines(&["python3 compat/suites/run.py --server {server} redis_replaced valkey_replaced"]),
    )
    .long(),
    // The crates that hold the SIMD, or numbers of the machine: pages, words, atomics.
    Step::new(
        "aarch64",
        "the lower floors, built for aarch64 and tested in an emulator",
        Lines(&[".ci/aarch64 cargo test --no-fail-fast --lib --package pantala-base \
                 --package pantala-memory --package pantala-sync --package pantala-protocol \
                 --package pantala-table"]),
    )
    .long(),
    Step::new(
        "asan",
        "the address sanitizer: the lower floors, the fuzz targets, a server under load",
        Call(calls::asan),
    )
    .long(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_a_step_waits_for_one_above_it() {
        for (index, step) in STEPS.iter().enumerate() {
            let above = &STEPS[..index];
            assert!(above.iter().all(|other| other.name != step.name), "{}", step.name);
            if let Some(after) = step.after {
                assert!(above.iter().any(|other| other.name == after), "{}", step.name);
            }
        }
    }

    #[test]
    fn a_row_of_the_list_has_name_what_it_waits_for_and_purpose() {
        let row = |name| Step::named(name).expect("a step").row();
        assert_eq!(row("needs"), "needs        -      brings what the other steps use");
        assert_eq!(row("reload").split_whitespace().nth(1), Some("build"));
    }
}
