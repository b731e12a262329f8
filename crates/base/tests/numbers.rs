//! Number texts against answers read off valkey-server 9.1.2 (tests/data).
#![allow(clippy::unwrap_used)]

use pantala_base::number::{LongDouble, parse_f64, push_f64};

/// Lines "bits-in-hex text": the reply to a script that returns `{double=...}` under RESP3.
#[test]
fn doubles_are_sent_as_the_server_sends_them() {
    let mut count = 0;
    for line in include_str!("data/doubles.txt").lines() {
        let (bits, text) = line.split_once(' ').unwrap();
        let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        let mut out = Vec::new();
        push_f64(&mut out, value);
        assert_eq!(String::from_utf8_lossy(&out), text, "{value:e}");
        assert_eq!(parse_f64(&out), Some(value));
        count += 1;
    }
    assert!(count > 1000);
}

/// Lines "value increment answer": SET, then INCRBYFLOAT.
#[test]
fn sums_are_the_servers() {
    let mut count = 0;
    for line in include_str!("data/incrbyfloat.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [value, increment, answer] = fields[..] else { panic!("{line}") };
        let parse = |text: &str| LongDouble::parse(text.as_bytes());
        let ours = match (parse(value), parse(increment)) {
            (Some(value), Some(increment)) => {
                let sum = value + increment;
                let mut out = Vec::new();
                sum.push_human(&mut out);
                match sum.is_nan() || sum.is_infinite() {
                    true => "-ERR increment would produce NaN or Infinity".to_owned(),
                    false => String::from_utf8(out).unwrap(),
                }
            }
            _ => "-ERR value is not a valid float".to_owned(),
        };
        assert_eq!(ours, answer, "{value} + {increment}");
        count += 1;
    }
    assert!(count > 500);
}
