//! The documentation page is what the rows say.

#[test]
fn the_settings_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == pantala_settings::page(), "run: cargo xtask docs");
}
