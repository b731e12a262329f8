//! What is generated from the rows (such as docs/settings.md) agrees with them.

#[test]
fn the_pages_are_current() {
    for (path, text) in pantala_settings::pages() {
        let from_here = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        let found = std::fs::read_to_string(from_here).unwrap_or_default();
        assert!(found == text, "{path}: run: cargo xtask docs");
    }
}
