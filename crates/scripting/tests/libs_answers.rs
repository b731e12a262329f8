//! The libraries against answers recorded from valkey-server 9.1.2: tests/libs/*.txt. A line `>` is
//! a script, `<` what it returned, or its error's text after "ERR ". Addresses are left out.

mod fake;
#[path = "libs/scripts.rs"]
mod scripts;

use fake::Bench;

fn check(recorded: &str) {
    let mut bench = Bench::new();
    let mut script = "";
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in recorded.lines() {
        if let Some(text) = line.strip_prefix("> ") {
            script = text;
        } else if let Some(expected) = line.strip_prefix("< ") {
            let found = shown(&scripts::answer(&mut bench, script, &[]));
            if found != *expected {
                wrong.push(format!("> {script}\n- {expected}\n+ {found}"));
            }
            count += 1;
        }
    }
    assert!(count > 20, "{count} answers");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[test]
fn cjson() {
    check(include_str!("libs/cjson.txt"));
}

#[test]
fn cmsgpack() {
    check(include_str!("libs/cmsgpack.txt"));
}

#[test]
fn structs() {
    check(include_str!("libs/struct.txt"));
}

#[test]
fn bits() {
    check(include_str!("libs/bit.txt"));
}
