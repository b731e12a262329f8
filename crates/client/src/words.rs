//! The command line of a tool: the words of the server's address, common to all tools, and its own.
//!
//! ```text
//! pantala top redis://example:7000 --once --help
//!             \__ address _______/ \own_/ \every tool
//! ```
//!
//! Tests: at the foot, and in the tools, with their own words.

use crate::Address;

/// Returns the value that follows a word, or an error if nothing follows.
pub type Value<'v> = &'v mut dyn FnMut() -> Result<String, String>;

/// The parsed words that all tools share.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOptions {
    /// The server.
    pub address: Address,
    /// Whether the address was given; otherwise it is the default.
    pub is_named: bool,
    /// Prints the help.
    pub is_help: bool,
}

impl ToolOptions {
    /// Parses the words after the name of `tool`; `password` is from the environment. `own` takes a
    /// word of the tool's own and its value, or returns that it is unknown.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn read(
        tool: &str,
        words: &[String],
        password: Option<String>,
        own: &mut dyn FnMut(&str, Value<'_>) -> Result<bool, String>,
    ) -> Result<ToolOptions, String> {
        let address = Address { password, ..Address::default() };
        let mut told = ToolOptions { address, is_named: false, is_help: false };
        let mut words = words.iter().cloned();
        while let Some(word) = words.next() {
            let value = &mut || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            if word == "--help" {
                told.is_help = true;
            } else if told.address.take(&word, value)? {
                told.is_named = true;
            } else if !own(&word, value)? {
                return Err(format!("{word}: unknown; see pantala {tool} --help"));
            }
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, and the tool's own words.
    fn read(words: &[&str]) -> Result<(ToolOptions, Vec<String>), String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut own = Vec::new();
        let told = ToolOptions::read("tool", &words, Some("p".into()), &mut |word, value| {
            match word {
                "--own" => own.push(value()?),
                _ => return Ok(false),
            }
            Ok(true)
        });
        told.map(|told| (told, own))
    }

    #[test]
    fn words_of_its_own_stand_between_those_of_the_address() {
        let (told, own) = read(&["--own", "-p", "-p", "7", "--own", "x", "--help"]).expect("sound");
        assert_eq!((told.address.port, told.address.password.as_deref()), (7, Some("p")));
        assert_eq!((told.is_named, told.is_help), (true, true));
        assert_eq!(own, ["-p", "x"]);
        let (told, _) = read(&["--own", "x"]).expect("sound");
        assert!(!told.is_named && !told.is_help);
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(read(&["what"]), Err("what: unknown; see pantala tool --help".into()));
        assert_eq!(read(&["--own"]), Err("--own: a value is missing".into()));
        assert_eq!(read(&["-h"]), Err("-h: a value is missing".into()));
    }
}
