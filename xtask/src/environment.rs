//! Environment variables in which cargo describes this program, and which its child processes must
//! not inherit: build scripts that read such variables (ring's) would run again, and everything
//! that depends on them would be built again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Where a program looks for libraries; cargo adds its own folders.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// Lets a program begin with the variables that this one would have without `cargo run`.
pub fn forget_cargo(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_program) {
            command.env_remove(name);
        }
    }
    match std::env::var_os(LIBRARIES).map(|folders| without_cargo(&folders)) {
        Some(folders) if !folders.is_empty() => command.env(LIBRARIES, folders),
        _ => command.env_remove(LIBRARIES),
    }
}

fn is_of_program(name: &str) -> bool {
    ["CARGO_MANIFEST", "CARGO_PKG_"].iter().any(|begin| name.starts_with(begin))
}

/// The folders that are neither below `target` nor of the toolchain.
fn without_cargo(folders: &OsString) -> OsString {
    let is_of_cargo = |folder: &PathBuf| {
        let parts = || folder.iter().filter_map(|part| part.to_str());
        parts().any(|part| ["rustlib", "toolchains"].contains(&part))
            || folder.starts_with(crate::root().join("target"))
    };
    let kept = std::env::split_paths(folders).filter(|folder| !is_of_cargo(folder));
    std::env::join_paths(kept).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_has_added_is_left_out() {
        let own = crate::root().join("target/debug/deps");
        let own = own.to_str().expect("a path in Unicode");
        let toolchain = "/r/toolchains/stable/lib";
        let folders = format!("{own}:/opt/lib:{toolchain}:{toolchain}/rustlib/x/lib");
        assert_eq!(without_cargo(&folders.into()), "/opt/lib");
        assert!(is_of_program("CARGO_PKG_NAME") && is_of_program("CARGO_MANIFEST_DIR"));
        assert!(!is_of_program("CARGO_HOME") && !is_of_program("CARGO_TERM_COLOR"));
    }
}
