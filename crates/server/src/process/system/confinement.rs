//! `landlock yes`: the kernel lets this process, and nothing else of the machine, do less.
//!
//! | | what is left |
//! |---|---|
//! | write, make, rename, remove | beneath `dir` |
//! | read, write, make, remove files | beneath `journal-ring-dir` |
//! | write, make a file | beside `logfile` |
//! | remove | beside the Unix socket, for its end |
//! | read | beneath `dir`; beside the configuration file, `aclfile` and files of TLS; [`READ`] |
//! | listen | nowhere beyond what listens already |
//! | signals, abstract sockets | none to other processes |
//!
//! Connecting stays free: for MIGRATE, and for clouds. An attacker who gets code to run in here
//! still has the data, but no crontab, no ssh keys, no program to change.
//!
//! The first thread asks the kernel for it before it starts other threads, which inherit it. Files
//! that are open already stay open. Older kernels do as much of it as they know; one without any
//! ends the start.
//!
//! Not here: system calls and capabilities, which deploy/systemd/pantala.service takes away. Tests:
//! the bad day `landlocked`.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use pantala_settings::Settings;

use pantala_durability::journaling::ring_directory;
use pantala_durability::place;

/// What is asked for; kernels since 6.12 know all of it.
const WANTED: ABI = ABI::V6;
/// Files of the machine that libraries and the server read.
const READ: [&str; 9] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/dev/urandom",
    "/dev/null",
];

/// Confines the process, if the settings say so.
///
/// # Errors
/// A text for the operator: the kernel cannot.
pub fn begin(settings: &Settings, file: Option<&Path>) -> Result<(), String> {
    if !settings.landlock {
        return Ok(());
    }
    let status = confine(settings, file).map_err(|why| format!("--landlock yes: {why}"))?;
    match status {
        RulesetStatus::NotEnforced => Err("--landlock yes: the kernel has no Landlock".into()),
        RulesetStatus::PartiallyEnforced => {
            tracing::info!("confined by Landlock, as far as this kernel supports it");
            Ok(())
        }
        RulesetStatus::FullyEnforced => {
            tracing::info!("confined by Landlock");
            Ok(())
        }
    }
}

fn confine(settings: &Settings, file: Option<&Path>) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(WANTED);
    let sockets = parent(&settings.unixsocket);
    // The log file is created again when it was moved away.
    let logs = parent(&settings.logfile);
    let rings = ring_directory(settings).filter(|dir| dir.is_dir());
    let in_rings = AccessFs::from_file(WANTED) & !AccessFs::Execute;
    let in_rings = in_rings | AccessFs::MakeReg | AccessFs::RemoveFile;
    let confined = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(readable(settings, file), AccessFs::from_read(WANTED)))?
        .add_rules(path_beneath_rules(sockets, AccessFs::RemoveFile))?
        .add_rules(path_beneath_rules(logs, AccessFs::WriteFile | AccessFs::MakeReg))?
        .add_rules(path_beneath_rules([&settings.dir], all))?
        .add_rules(path_beneath_rules(rings, in_rings))?
        .restrict_self()?;
    Ok(confined.ruleset)
}

/// What may be read beside `dir`. Paths that do not exist are left out.
fn readable(settings: &Settings, file: Option<&Path>) -> Vec<PathBuf> {
    let named = [
        &settings.aclfile,
        &settings.tls_cert_file,
        &settings.tls_key_file,
        &settings.tls_client_cert_file,
        &settings.tls_client_key_file,
        &settings.tls_ca_cert_file,
    ];
    let mut paths: Vec<PathBuf> = READ.iter().map(PathBuf::from).collect();
    for path in named.into_iter().filter(|path| !path.is_empty()) {
        paths.extend(parent(path));
        paths.extend(parent(&place::beside_data(settings, Path::new(path)).to_string_lossy()));
    }
    paths.extend(file.and_then(|file| parent(&file.to_string_lossy())));
    paths.extend(Some(PathBuf::from(&settings.tls_ca_cert_dir)).filter(|dir| dir.is_dir()));
    paths
}

/// The directory of a file, if one is named.
fn parent(path: &str) -> Option<PathBuf> {
    let directory = Path::new(path).parent()?;
    Some(if directory.as_os_str().is_empty() { ".".into() } else { directory.into() })
}
