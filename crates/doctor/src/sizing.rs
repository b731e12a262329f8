//! `pantala sizing`: how much memory and how many cores a number of keys and requests need.
//!
//! Its figures are from bench/reports; docs/sizing.md tells which.

use pantala_base::size::{human, parse_bytes};

use crate::estimate::string_key_bytes;
use crate::print::grouped;

const HELP: &str = "\
pantala sizing --keys N [FLAGS]: how much memory and how many cores are needed

  --keys N           so many keys (10m, 2000000)
  --key-bytes N      of so many bytes each (16)
  --value-bytes N    with strings of so many bytes (100)
  --expire           each with a deadline
  --rate N           so many requests a second
  --pipeline         which clients send in pipelines of 30
  --help             prints this
";

/// The memory of an empty server, by `used_memory` (bench/reports/2026-11-21-baseline, rounded up).
const EMPTY_BYTES: u128 = 8 << 20;
/// Core time of a request in microseconds: alone, and in a pipeline
/// (bench/reports/2026-11-21-baseline, rounded up).
const REQUEST_US: f64 = 9.0;
const PIPELINED_US: f64 = 0.75;
/// The highest load of a core that still answers in time.
const BUSY: f64 = 0.7;
/// Resident memory in relation to the data, as in docs/memory.md.
const RESIDENT_FACTOR: (u128, u128) = (6, 5);
const RESIDENT_BYTES: u128 = 48 << 20;
/// The room that `maxmemory` should leave above today's data.
const ROOM_FACTOR: (u128, u128) = (11, 10);

/// The inputs of the calculator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    expires: bool,
    rate: Option<u64>,
    is_pipelined: bool,
}

/// The output for the words after `sizing`.
///
/// # Errors
/// A text for the operator: invalid words.
pub fn run(words: &[String]) -> Result<String, String> {
    if words.iter().any(|word| word == "--help") {
        return Ok(HELP.into());
    }
    Plan::parse(words).map(|plan| plan.text())
}

impl Plan {
    fn parse(words: &[String]) -> Result<Plan, String> {
        let mut keys = None;
        let mut plan = Plan {
            keys: 0,
            key_bytes: 16,
            value_bytes: 100,
            expires: false,
            rate: None,
            is_pipelined: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let mut number = || {
                let text = value.take().or_else(|| words.next().map(String::as_str));
                let text = text.ok_or_else(|| format!("{name}: a value is missing"))?;
                parse_bytes(text.as_bytes()).ok_or_else(|| format!("{name} {text}: no number"))
            };
            let length = |number: u64| {
                let fits = u32::try_from(number).map(|number| number as usize);
                fits.map_err(|_| format!("{name} {number}: no string is longer than 4 GiB"))
            };
            match name {
                "--keys" => keys = Some(number()?),
                "--key-bytes" => plan.key_bytes = length(number()?)?,
                "--value-bytes" => plan.value_bytes = length(number()?)?,
                "--rate" => plan.rate = Some(number()?),
                "--expire" => plan.expires = true,
                "--pipeline" => plan.is_pipelined = true,
                _ => return Err(format!("{word}: unknown; see pantala sizing --help")),
            }
        }
        plan.keys = keys.ok_or("--keys is missing; see pantala sizing --help")?;
        Ok(plan)
    }

    fn text(&self) -> String {
        let each = string_key_bytes(self.key_bytes, self.value_bytes, self.expires);
        let used = each as u128 * u128::from(self.keys) + EMPTY_BYTES;
        let limit = used * ROOM_FACTOR.0 / ROOM_FACTOR.1;
        let resident = limit * RESIDENT_FACTOR.0 / RESIDENT_FACTOR.1 + RESIDENT_BYTES;
        let size = |bytes: u128| human(u64::try_from(bytes).unwrap_or(u64::MAX));
        let mut text = format!(
            "bytes a key   {}\nused_memory   {}\nmaxmemory     {} (a tenth more)\n\
             machine       {} for the process (1.2 x maxmemory + 48 MB)\n",
            grouped(each as u64),
            size(used),
            size(limit),
            size(resident),
        );
        if let Some(rate) = self.rate {
            let us = if self.is_pipelined { PIPELINED_US } else { REQUEST_US };
            let cores = (rate as f64 * us / 1e6 / BUSY).ceil().max(1.0);
            text += &format!(
                "cores         {cores} ({us} us a request, each core at most 70 % busy)\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str) -> Result<String, String> {
        run(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn it_multiplies() {
        let text = told("--keys 10m --value-bytes=8 --rate 200k").expect("sound");
        assert!(text.contains("bytes a key   44\n"), "{text}");
        assert!(text.contains("used_memory   427.62M\n"), "{text}");
        assert!(text.contains("cores         3 "), "{text}");
        let most = u64::MAX;
        assert!(told(&format!("--keys {most} --value-bytes 4294967295 --rate {most}")).is_ok());
    }

    #[test]
    fn mistakes_are_told() {
        for words in ["", "--keys", "--keys x", "--keys 5 --key-bytes 5gb", "--keys 5 what"] {
            assert!(told(words).is_err(), "{words}");
        }
    }
}
