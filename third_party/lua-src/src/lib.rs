//! Builds the patched Lua 5.1.5 beside this file: the part of the registry's `lua-src` interface
//! that `mlua-sys` calls, `Build::new().build(Lua51)` and `Artifacts::print_cargo_metadata`.
//!
//! Runs inside build scripts only: a failure to build panics, as Cargo expects.
//! Not here: what was changed in Lua and why (PATCHES.md). Tests: crates/scripting/tests.

#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};

/// The versions of Lua that `mlua-sys` may ask for by feature; this crate has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Lua 5.1.5, patched.
    Lua51,
}
pub use self::Version::*;

/// How to build; takes all it needs from Cargo's variables.
#[derive(Debug, Default)]
pub struct Build;

/// What was built.
#[derive(Clone, Debug)]
pub struct Artifacts {
    lib_dir: PathBuf,
}

const SOURCE_DIR: &str = "lua-5.1.5";
const LIBRARY: &str = "lua5.1";

impl Build {
    /// With Cargo's variables.
    pub fn new() -> Build {
        Build
    }

    /// Compiles the sources into a static library below OUT_DIR.
    pub fn build(&self, _version: Version) -> Artifacts {
        let source_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE_DIR);
        let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).expect("Cargo sets OUT_DIR");
        let lib_dir = out_dir.join("lib");
        println!("cargo:rerun-if-changed={}", source_dir.display());
        cc::Build::new()
            .define("LUA_USE_POSIX", None)
            .include(&source_dir)
            .warnings(false)
            .cargo_metadata(false)
            // Scripts run inside the server's latency: never a slow interpreter in a dev build.
            .opt_level(2)
            .flag_if_supported("-fno-common")
            // Scripts come from strangers: what a hole in the C code overwrites is noticed.
            .flag_if_supported("-fstack-protector-strong")
            .flag_if_supported("-fstack-clash-protection")
            .define("_FORTIFY_SOURCE", "2")
            .files(sources(&source_dir))
            .out_dir(&lib_dir)
            .compile(LIBRARY);
        Artifacts { lib_dir }
    }
}

impl Artifacts {
    /// Tells Cargo what to link.
    pub fn print_cargo_metadata(&self) {
        println!("cargo:rustc-link-search=native={}", self.lib_dir.display());
        println!("cargo:rustc-link-lib=static={LIBRARY}");
    }
}

/// The C files, in order of name so that builds are the same.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the sources lie beside this crate");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    files
}
