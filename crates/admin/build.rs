//! Makes the list of the console's files from the contents of `assets/`: `path.gz` is served as
//! `path`, gzip-encoded.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("assets");
    println!("cargo::rerun-if-changed=assets");
    let mut files = Vec::new();
    gather(&root, &mut files)?;
    files.sort();
    let mut text = String::from("/// All files.\npub(crate) const ASSETS: &[Asset] = &[\n");
    // The built console replaces the page that says there is none.
    let packed: Vec<PathBuf> = files.iter().map(|file| file.with_added_extension("gz")).collect();
    let is_replaced = |at: usize| files.contains(&packed[at]);
    for (_, file) in files.iter().enumerate().filter(|(at, _)| !is_replaced(*at)) {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name = name.to_str().ok_or_else(|| io::Error::other("a name that is no UTF-8"))?;
        let path = name.strip_suffix(".gz").unwrap_or(name);
        let (kind, is_gzip, tag) = (kind_of(path), path != name, tag_of(file)?);
        let line = format!(
            "    Asset {{ path: {:?}, kind: {kind:?}, bytes: include_bytes!({file:?}), \
             is_gzip: {is_gzip}, tag: {tag:?} }},",
            format!("/{path}")
        );
        writeln!(text, "{line}").map_err(io::Error::other)?;
    }
    text.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("assets.rs"), text)
}

fn gather(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json" | "map") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

fn tag_of(file: &Path) -> io::Result<String> {
    // The same for the same bytes, by whatever compiler: it only has to change with them.
    let mut hasher = DefaultHasher::new();
    fs::read(file)?.hash(&mut hasher);
    Ok(format!("\"{:016x}\"", hasher.finish()))
}
