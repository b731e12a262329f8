//! The step `needs`: what the other steps use. Packages by apt where it runs as root, wheels into
//! .venv, packages of npm and Go into target/apps. What is there already costs nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::lines::{Ending, Fault, finish, output_of, refuse, run_line};
use super::run::Run;

/// Programs that Debian has.
const APT_PACKAGES: [&str; 12] = [
    "redis-server",
    "redis-tools",
    "memcached",
    "libmemcached-tools",
    "valgrind",
    "tcl",
    "tcl-tls",
    "chromium",
    "prometheus",
    "etcd-server",
    "etcd-client",
    "python3-venv",
];
/// What Debian's tools ask whether a new server may start.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// How npm is to install, in each place.
const NPM_FLAGS: &str = "--ignore-scripts --no-audit --no-fund --loglevel=error";

/// Brings everything.
pub fn bring(run: &Run) -> Ending {
    let missing = missing_packages();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    if !Path::new(".venv/bin/python3").exists() {
        run_line(run, "python3 -m venv .venv")?;
    }
    run_line(
        run,
        ".venv/bin/pip install --quiet --disable-pip-version-check \
         --requirement .ci/requirements.txt",
    )?;
    bring_console(run)?;
    bring_applications(run)
}

/// What the console is built and tested with, once for each lock file.
fn bring_console(run: &Run) -> Ending {
    let (lock, installed) = ("console/package-lock.json", "console/node_modules/installed.json");
    if are_same(lock, installed) {
        return Ok(());
    }
    // `npm ci` wants every platform's builds in the lock file, which not every registry has.
    run_line(run, &format!("npm install --no-save --prefix console {NPM_FLAGS}"))?;
    copy(lock, installed)
}

/// What the applications in JavaScript and Go need, into target/apps.
fn bring_applications(run: &Run) -> Ending {
    if let Some(name) = ["node", "npm", "go"].iter().find(|name| !is_in_path(name)) {
        return Err(refuse(&format!("please install: {name}")));
    }
    let (asked, installed) = ("compat/apps/bullmq/package.json", "target/apps/installed.json");
    fs::create_dir_all("target/apps").map_err(|why| refuse(&why.to_string()))?;
    if !are_same(asked, installed) {
        copy(asked, "target/apps/package.json")?;
        let flags = format!("--no-package-lock --omit=optional {NPM_FLAGS}");
        run_line(run, &format!("npm install --prefix target/apps {flags}"))?;
        fs::rename("target/apps/package.json", installed)
            .map_err(|why| refuse(&format!("{installed}: {why}")))?;
    }
    let binary = crate::root().join("target/apps/asynq");
    finish(Command::new("go").args(["build", "-C", "compat/apps/asynq", "-o"]).arg(binary).arg("."))
}

fn are_same(one: &str, other: &str) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn copy(from: &str, to: &str) -> Ending {
    fs::copy(from, to).map(drop).map_err(|why| refuse(&format!("{from} to {to}: {why}")))
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The packages that Debian's tools do not have; none, where there are no such tools.
fn missing_packages() -> Vec<&'static str> {
    if !is_in_path("dpkg-query") {
        return Vec::new();
    }
    APT_PACKAGES.into_iter().filter(|name| !is_installed(name)).collect()
}

fn is_installed(package: &str) -> bool {
    let asked = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .stderr(std::process::Stdio::null())
        .output();
    let has_venv = || {
        // A Python that is not the distribution's may bring it without the package.
        let mut python = Command::new("python3");
        python.args(["-c", "import ensurepip"]).stderr(std::process::Stdio::null());
        finish(&mut python).is_ok()
    };
    asked.is_ok_and(|asked| asked.stdout == b"installed") || package == "python3-venv" && has_venv()
}

/// Installs packages without letting them start their servers: 6379 stays free.
fn install_packages(packages: &[&str]) -> Ending {
    if output_of(Command::new("id").arg("-u"))? != "0" || !is_in_path("apt-get") {
        return Err(refuse(&format!("please install: {}", packages.join(" "))));
    }
    let is_ours = !Path::new(POLICY).exists();
    if is_ours {
        forbid_starts().map_err(|why| refuse(&format!("{POLICY}: {why}")))?;
    }
    let installed = finish(Command::new("apt-get").args(["update", "-q"])).and_then(|()| {
        let mut install = Command::new("apt-get");
        install.args(["install", "-q", "-y", "--no-install-recommends"]).args(packages);
        finish(install.env("DEBIAN_FRONTEND", "noninteractive"))
    });
    if is_ours && let Err(why) = fs::remove_file(POLICY) {
        eprintln!("{POLICY}: {why}");
        return installed.and(Err(Fault::Failed));
    }
    installed
}

fn forbid_starts() -> std::io::Result<()> {
    fs::write(POLICY, "#!/bin/sh\nexit 101\n")?;
    fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))
}
