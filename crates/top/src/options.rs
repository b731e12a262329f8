//! What `pantala top` is told: a URL, or flags like those of redis-cli.

use std::path::PathBuf;
use std::time::Duration;

/// The help text.
pub const HELP: &str = "\
pantala top [URL] [FLAGS]: what a server of this protocol does, in the terminal

  URL                    redis://[user:password@]host[:port], or rediss:// for TLS
  -h, --host HOST        where it is (127.0.0.1)
  -p, --port PORT        its port (6379)
  -s, --socket PATH      its Unix socket, in place of both
  --user NAME            who asks (default)
  -a, --pass PASSWORD    with this password; better in the environment, as REDISCLI_AUTH
  --tls                  over TLS
  --cacert FILE          whom to trust (the system's certificates)
  --sni NAME             the name in its certificate (HOST)
  -i, --interval SECONDS between two looks (1)
  --once                 prints one screen, and ends
  --help                 prints this

Keys: q ends, arrows or Tab move, s and r sort, k kills a client, h asks for hot keys.
";

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Host and port.
    pub host: String,
    /// See `host`.
    pub port: u16,
    /// A Unix socket, in place of both.
    pub socket: Option<PathBuf>,
    /// The user; `None`: the default one.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// TLS.
    pub tls: bool,
    /// File of certificates to trust.
    pub cacert: Option<PathBuf>,
    /// The name that the certificate is to have.
    pub name: Option<String>,
    /// Between two looks.
    pub interval: Duration,
    /// Prints one screen.
    pub is_once: bool,
    /// Prints the help.
    pub is_help: bool,
}

/// Where the system keeps whom to trust.
const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

impl Default for Options {
    fn default() -> Self {
        Options {
            host: "127.0.0.1".into(),
            port: 6379,
            socket: None,
            user: None,
            password: None,
            tls: false,
            cacert: None,
            name: None,
            interval: Duration::from_secs(1),
            is_once: false,
            is_help: false,
        }
    }
}

impl Options {
    /// What the words after `top` say; `password` is that of the environment.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn parse(words: &[String], password: Option<String>) -> Result<Options, String> {
        let mut options = Options { password, ..Options::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().cloned().ok_or_else(|| format!("{word}: a value is missing"));
            match word.as_str() {
                "-h" | "--host" => options.host = value()?,
                "-p" | "--port" => options.port = port(&value()?)?,
                "-s" | "--socket" => options.socket = Some(value()?.into()),
                "--user" => options.user = Some(value()?),
                "-a" | "--pass" => options.password = Some(value()?),
                "--tls" => options.tls = true,
                "--cacert" => options.cacert = Some(value()?.into()),
                "--sni" => options.name = Some(value()?),
                "-i" | "--interval" => options.interval = interval(&value()?)?,
                "--once" => options.is_once = true,
                "--help" => options.is_help = true,
                url if url.contains("://") => options.read_url(url)?,
                other => return Err(format!("{other}: unknown; see pantala top --help")),
            }
        }
        Ok(options)
    }

    fn read_url(&mut self, url: &str) -> Result<(), String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        self.tls = match scheme {
            "redis" | "valkey" | "pantala" => false,
            "rediss" | "valkeys" | "pantalas" => true,
            _ => return Err(format!("{scheme}://: neither redis:// nor rediss://")),
        };
        let rest = rest.split(['/', '?']).next().unwrap_or_default();
        let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        if let Some((user, password)) = login.split_once(':') {
            self.user = (!user.is_empty()).then(|| decoded(user)).transpose()?;
            self.password = Some(decoded(password)?);
        } else if !login.is_empty() {
            self.user = Some(decoded(login)?);
        }
        // An address of IPv6 stands in brackets.
        let (host, port_text) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            Some((host, after)) => (host, after.strip_prefix(':')),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if !host.is_empty() {
            self.host = host.into();
        }
        if let Some(text) = port_text {
            self.port = port(text)?;
        }
        Ok(())
    }

    /// The file of certificates to trust.
    pub fn certificates(&self) -> Option<PathBuf> {
        let of_system = || SYSTEM_CERTIFICATES.iter().map(PathBuf::from).find(|path| path.exists());
        self.cacert.clone().or_else(of_system)
    }

    /// Where the server is, for people.
    pub fn place(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text}: no port"))
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("{text}: not from 0.1 to 3600 seconds"))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// What stands for itself, and `%41` for `A`.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "what follows % in a URL are two hexadecimal digits".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| "a URL is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Options::parse(&words, None)
    }

    #[test]
    fn flags_and_urls_say_the_same() {
        let expected = Options {
            host: "example".into(),
            port: 7000,
            user: Some("me".into()),
            password: Some("a:b".into()),
            tls: true,
            ..Options::default()
        };
        let flags = ["-h", "example", "-p", "7000", "--user", "me", "-a", "a:b", "--tls"];
        assert_eq!(parse(&flags), Ok(expected.clone()));
        assert_eq!(parse(&["rediss://me:a%3Ab@example:7000/3"]), Ok(expected));
        let options = parse(&["redis://[::1]:7001", "-i", "0.5", "--once"]).expect("sound");
        assert_eq!((options.place().as_str(), options.is_once), ("[::1]:7001", true));
        assert_eq!(parse(&["redis://example"]).map(|it| it.place()), Ok("example:6379".into()));
    }

    #[test]
    fn mistakes_are_told() {
        for words in
            [&["-p", "x"][..], &["-p"], &["http://a"], &["redis://a%2@b"], &["-i", "0"], &["what"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
