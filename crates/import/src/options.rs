//! Command line of `pantala import`.

use std::time::Duration;

use pantala_client::{ADDRESS_HELP, Address, ToolOptions};

const HELP_BEGIN: &str = "\
pantala import OLD [FLAGS]: moves the data of a running server to a Pantala that runs, while it is
                            written to; OLD is a Redis, Valkey or Pantala, as a URL or flags:

";
const HELP_END: &str = "\
  --to URL               the Pantala that is to have the data (redis://127.0.0.1:6379)
  --from HOST:PORT       where the new server reaches the old one, if not as this tool does
  --back HOST:PORT       where the old server reaches the new one, if not as this tool does
  --switch               changes over when all is copied; else the new server only follows
  --pause-ms N           writes at the old server wait so long at most, until the new one has all
                         of them (5000); from then on 30 s at most, until the roles have changed
  --replace              what the new server has may go
  --help                 prints this

The new server's primaryauth, primaryuser and tls-replication are set if the old one asks for them.
--switch needs an old server that can hold writes alone: Redis 6.2, or any Valkey or Pantala.
Exit status: 0 if it was done, 2 if not; then the old server is as it was, unless it says else.
";

/// The default limit for the pause of writes at the old server.
const PAUSE: Duration = Duration::from_millis(5_000);

/// The help text.
pub fn help() -> String {
    [HELP_BEGIN, ADDRESS_HELP, HELP_END].concat()
}

/// The parsed command line of `pantala import`.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportOptions {
    /// The server to import from.
    pub old: Address,
    /// The server to import into.
    pub new: Address,
    /// Host and port at which the new server reaches the old one.
    pub from: Option<(String, u16)>,
    /// Host and port at which the old server reaches the new one.
    pub back: Option<(String, u16)>,
    /// Whether to switch over.
    pub switches: bool,
    /// The limit for the pause of writes at the old server.
    pub pause: Duration,
    /// Whether the new server's data may be replaced.
    pub replaces: bool,
    /// Prints the help.
    pub is_help: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            old: Address::default(),
            new: Address::default(),
            from: None,
            back: None,
            switches: false,
            pause: PAUSE,
            replaces: false,
            is_help: false,
        }
    }
}

impl ImportOptions {
    /// Parses the words after `import`; `password` is from the environment.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn parse(words: &[String], password: Option<String>) -> Result<ImportOptions, String> {
        let mut options = ImportOptions::default();
        let told = ToolOptions::read("import", words, password, &mut |word, value| {
            match word {
                "--to" => options.new = url(&value()?)?,
                "--from" => options.from = Some(place(&value()?)?),
                "--back" => options.back = Some(place(&value()?)?),
                "--pause-ms" => options.pause = pause(&value()?)?,
                "--switch" => options.switches = true,
                "--replace" => options.replaces = true,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if !told.is_named && !told.is_help {
            return Err("which server is to be moved? See pantala import --help".into());
        }
        Ok(ImportOptions { old: told.address, is_help: told.is_help, ..options })
    }

    /// Where the new server reaches the old one.
    pub fn way_to_old(&self) -> Result<(String, u16), String> {
        way(&self.from, &self.old, "--from")
    }

    /// Where the old server reaches the new one.
    pub fn way_to_new(&self) -> Result<(String, u16), String> {
        way(&self.back, &self.new, "--back")
    }
}

fn way(
    said: &Option<(String, u16)>,
    address: &Address,
    flag: &str,
) -> Result<(String, u16), String> {
    match said {
        Some(place) => Ok(place.clone()),
        None if address.socket.is_some() => {
            Err(format!("{}: {flag} HOST:PORT is needed, too", address.place()))
        }
        None => Ok((address.host.clone(), address.port)),
    }
}

fn url(text: &str) -> Result<Address, String> {
    let mut address = Address::default();
    match address.take(text, &mut || Err(format!("{text}: no URL"))) {
        Ok(true) if text.contains("://") => Ok(address),
        Err(why) => Err(why),
        Ok(_) => Err(format!("{text}: no URL such as redis://127.0.0.1:6379")),
    }
}

fn place(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("{text}: not HOST:PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    if host.is_empty() { Err(wrong()) } else { Ok((host.to_owned(), port)) }
}

fn pause(text: &str) -> Result<Duration, String> {
    let ms = text.parse().ok().filter(|ms| (1..=600_000).contains(ms));
    ms.map(Duration::from_millis).ok_or_else(|| format!("{text}: not from 1 to 600000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<ImportOptions, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        ImportOptions::parse(&words, None)
    }

    #[test]
    fn words_are_understood() {
        let options = parse(&[
            "redis://old:7000",
            "--to",
            "redis://new:7001",
            "--switch",
            "--pause-ms",
            "900",
            "--from",
            "[::1]:7",
        ])
        .expect("sound");
        assert_eq!(
            (options.old.place(), options.new.place()),
            ("old:7000".into(), "new:7001".into())
        );
        assert_eq!(options.pause, Duration::from_millis(900));
        assert_eq!(options.way_to_old(), Ok(("::1".into(), 7)));
        assert_eq!(options.way_to_new(), Ok(("new".into(), 7001)));
        assert!(options.switches && !options.replaces);
    }

    #[test]
    fn mistakes_are_told() {
        for words in [
            &[][..],
            &["--switch"],
            &["redis://a", "--to", "b"],
            &["redis://a", "--to"],
            &["redis://a", "--back", "b"],
            &["redis://a", "--back", ":5"],
            &["redis://a", "--pause-ms", "0"],
            &["redis://a", "what"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
        let by_socket = parse(&["unix:///run/s"]).expect("sound");
        assert!(by_socket.way_to_old().is_err());
    }
}
