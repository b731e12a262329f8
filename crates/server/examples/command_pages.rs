//! Writes the pages of docs/commands: `cargo xtask docs commands` calls it, since it knows no
//! command itself.

use std::io;
use std::path::Path;

use pantala_server::commands::pages::pages;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in pages() {
        let place = root.join(&path);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&place, text)?;
        println!("wrote {path}");
    }
    Ok(())
}
