//! Command line of `pantala doctor`: which server, and the form of the report.

use pantala_client::{ADDRESS_HELP, Address, ToolOptions};

const HELP_BEGIN: &str = "\
pantala doctor [URL] [FLAGS]: what would differ for whom moves here from a server that runs now
                       (Redis, Valkey, KeyDB, Dragonfly, Garnet); it is only read

";
const HELP_END: &str = "\
  --sample N             so many keys are looked at for the estimate of memory (200)
  --json                 prints JSON
  --help                 prints this

Exit status: 0 if nothing stops the move, 1 if something does, 2 if the server could not be asked.
";

/// The default number of sampled keys.
const SAMPLE: usize = 200;
/// The limit: more keys would take the other server's time, and tell no more.
const SAMPLE_MOST: usize = 10_000;

/// The help text.
pub fn help() -> String {
    [HELP_BEGIN, ADDRESS_HELP, HELP_END].concat()
}

/// The parsed command line of `pantala doctor`.
#[derive(Clone, Debug, PartialEq)]
pub struct DoctorOptions {
    /// The server.
    pub address: Address,
    /// How many keys are sampled.
    pub sample: usize,
    /// Prints JSON.
    pub is_json: bool,
    /// Prints the help.
    pub is_help: bool,
}

impl DoctorOptions {
    /// Parses the words after `doctor`; `password` is from the environment.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn parse(words: &[String], password: Option<String>) -> Result<DoctorOptions, String> {
        let (mut sample, mut is_json) = (SAMPLE, false);
        let told = ToolOptions::read("doctor", words, password, &mut |word, value| {
            match word {
                "--sample" => sample = count(&value()?)?,
                "--json" => is_json = true,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(DoctorOptions { address: told.address, sample, is_json, is_help: told.is_help })
    }
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= SAMPLE_MOST);
    count.ok_or_else(|| format!("--sample {text}: not from 0 to {SAMPLE_MOST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<DoctorOptions, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        DoctorOptions::parse(&words, None)
    }

    #[test]
    fn words_are_understood() {
        let options = parse(&["redis://old:7000", "--json", "--sample", "5"]).expect("sound");
        assert_eq!(options.address.place(), "old:7000");
        assert_eq!((options.is_json, options.sample), (true, 5));
        assert_eq!(parse(&["/run/s"]).map(|it| it.address.place()), Ok("/run/s".into()));
        for words in [&["--sample"][..], &["--sample", "99999"], &["what"], &["http://x"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
