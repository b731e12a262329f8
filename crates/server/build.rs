//! Has the linker keep functions of the same code once (generics of several types, drops of the
//! same fields): one byte of eighty. Nothing here asks whether two functions are one; data
//! keeps its addresses. A backtrace may show the name of another function with the same code.
//!
//! Only LLD can do it, which is what this compiler links with where it brings it; with another
//! linker the program is larger, and all else is the same.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The target whose programs the compiler links with its own LLD.
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if var("PROFILE") == "release" && links_with_its_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

fn links_with_its_lld() -> bool {
    // `-C linker=`, `-C linker-features=`, `-C link-arg=-fuse-ld=`.
    let is_told_other =
        !var("RUSTC_LINKER").is_empty() || var("CARGO_ENCODED_RUSTFLAGS").contains("link");
    let is_native = var("TARGET") == TARGET && var("HOST") == TARGET;
    is_native && !is_told_other && has_lld()
}

fn has_lld() -> bool {
    let asked = Command::new(var("RUSTC")).args(["--print", "sysroot"]).output();
    let root = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned());
    let root = root.unwrap_or_default();
    let place = Path::new(root.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld");
    fs::exists(place).unwrap_or(false)
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
