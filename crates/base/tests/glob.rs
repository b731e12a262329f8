//! Patterns against answers of KEYS, read off valkey-server 9.1.2 (tests/data/glob.txt).
#![allow(clippy::unwrap_used)]

use pantala_base::glob;

/// Lines "pattern-in-hex text-in-hex 0|1"; "-" is the empty string.
#[test]
fn the_servers_answers() {
    let bytes = |hex: &str| -> Vec<u8> {
        let hex = hex.trim_matches('-');
        (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    };
    let mut count = 0;
    for line in include_str!("data/glob.txt").lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (pattern, text) = (bytes(fields[0]), bytes(fields[1]));
        let expected = fields[2] == "1";
        let shown = (String::from_utf8_lossy(&pattern), String::from_utf8_lossy(&text));
        assert_eq!(glob::matches(&pattern, &text), expected, "{shown:?}");
        if expected {
            assert!(text.starts_with(glob::literal_prefix(&pattern)), "{shown:?}");
        }
        count += 1;
    }
    assert!(count > 1000);
}
