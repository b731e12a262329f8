//! Command line of `pantala top`: which server, and how to show it.

use std::time::Duration;

use pantala_client::{ADDRESS_HELP, Address, ToolOptions};

const HELP_BEGIN: &str = "\
pantala top [URL] [FLAGS]: what a server of this protocol does, in the terminal

";
const HELP_END: &str = "\
  -i, --interval SECONDS between two looks (1)
  --once                 prints one screen, and ends
  --help                 prints this

Keys: q ends, arrows or Tab move, s and r sort, k kills a client, h asks for hot keys.
";

/// The default pause between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// The help text.
pub fn help() -> String {
    [HELP_BEGIN, ADDRESS_HELP, HELP_END].concat()
}

/// The parsed command line of `pantala top`.
#[derive(Clone, Debug, PartialEq)]
pub struct TopOptions {
    /// The server.
    pub address: Address,
    /// The pause between two samples.
    pub interval: Duration,
    /// Prints one screen and exits.
    pub is_once: bool,
    /// Prints the help.
    pub is_help: bool,
}

impl TopOptions {
    /// Parses the words after `top`; `password` is from the environment.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn parse(words: &[String], password: Option<String>) -> Result<TopOptions, String> {
        let (mut pause, mut is_once) = (INTERVAL, false);
        let told = ToolOptions::read("top", words, password, &mut |word, value| {
            match word {
                "-i" | "--interval" => pause = interval(&value()?)?,
                "--once" => is_once = true,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(TopOptions { address: told.address, interval: pause, is_once, is_help: told.is_help })
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("{text}: not from 0.1 to 3600 seconds"))?;
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<TopOptions, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        TopOptions::parse(&words, None)
    }

    #[test]
    fn words_of_its_own_stand_beside_those_of_the_address() {
        let options = parse(&["redis://[::1]:7001", "-i", "0.5", "--once"]).expect("sound");
        assert_eq!((options.address.place().as_str(), options.is_once), ("[::1]:7001", true));
        assert_eq!(options.interval, Duration::from_millis(500));
    }

    #[test]
    fn mistakes_are_told() {
        for words in [&["-p", "x"][..], &["-i", "0"], &["-i"], &["what"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
