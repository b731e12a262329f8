//! The address of a server and the credentials for it: from a URL, or flags like redis-cli's.

use std::path::PathBuf;

/// The help text for these flags.
pub const ADDRESS_HELP: &str = "\
  URL                    redis://[user:password@]host[:port], rediss:// for TLS, unix:///path
  /path                  its Unix socket
  -h, --host HOST        where it is (127.0.0.1)
  -p, --port PORT        its port (6379)
  -s, --socket PATH      its Unix socket, in place of both
  --user NAME            who asks (default)
  -a, --pass PASSWORD    with this password; better in the environment, as REDISCLI_AUTH
  --tls                  over TLS
  --cacert FILE          whom to trust (the system's certificates)
  --sni NAME             the name in its certificate (HOST)
";

/// A server's address, the credentials, and TLS options.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path of a Unix socket, used instead of host and port.
    pub socket: Option<PathBuf>,
    /// The user name; `None`: the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// Whether TLS is used.
    pub tls: bool,
    /// File of certificates to trust.
    pub cacert: Option<PathBuf>,
    /// The name that the certificate must have, if not the host's.
    pub name: Option<String>,
}

/// Where systems keep their trusted certificates.
const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

impl Default for Address {
    fn default() -> Self {
        Address {
            host: "127.0.0.1".into(),
            port: 6379,
            socket: None,
            user: None,
            password: None,
            tls: false,
            cacert: None,
            name: None,
        }
    }
}

impl Address {
    /// Takes a word of the command line, and the next one by `value`; returns whether the word is
    /// one of these flags.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn take(
        &mut self,
        word: &str,
        value: &mut dyn FnMut() -> Result<String, String>,
    ) -> Result<bool, String> {
        match word {
            "-h" | "--host" => self.host = value()?,
            "-p" | "--port" => self.port = port(&value()?)?,
            "-s" | "--socket" => self.socket = Some(value()?.into()),
            "--user" => self.user = Some(value()?),
            "-a" | "--pass" => self.password = Some(value()?),
            "--tls" => self.tls = true,
            "--cacert" => self.cacert = Some(value()?.into()),
            "--sni" => self.name = Some(value()?),
            url if url.contains("://") => self.read_url(url)?,
            path if path.starts_with('/') => self.socket = Some(path.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn read_url(&mut self, url: &str) -> Result<(), String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        self.tls = match scheme {
            "redis" | "valkey" | "pantala" => false,
            "rediss" | "valkeys" | "pantalas" => true,
            "unix" => return self.read_path(rest),
            _ => return Err(format!("{scheme}://: none of redis://, rediss:// and unix://")),
        };
        let rest = rest.split(['/', '?']).next().unwrap_or_default();
        let place = self.read_login(rest)?;
        // An IPv6 address is in brackets.
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

    /// Parses the rest after `unix://`.
    fn read_path(&mut self, rest: &str) -> Result<(), String> {
        let rest = rest.split('?').next().unwrap_or_default();
        let begin = rest.find('/').ok_or("unix://: a path is missing")?;
        let (login, path) = rest.split_at(begin);
        self.read_login(login)?;
        self.socket = Some(decoded(path)?.into());
        Ok(())
    }

    /// Parses `user:password@`, if present; returns the rest.
    fn read_login<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let (login, place) = text.rsplit_once('@').unwrap_or(("", text));
        if let Some((user, password)) = login.split_once(':') {
            self.user = (!user.is_empty()).then(|| decoded(user)).transpose()?;
            self.password = Some(decoded(password)?);
        } else if !login.is_empty() {
            self.user = Some(decoded(login)?);
        }
        Ok(place)
    }

    /// The file of trusted certificates.
    pub fn certificates(&self) -> Option<PathBuf> {
        let of_system = || SYSTEM_CERTIFICATES.iter().map(PathBuf::from).find(|path| path.exists());
        self.cacert.clone().or_else(of_system)
    }

    /// The address in readable form.
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

/// Decodes percent-encoding: `%41` is `A`.
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

    fn parse(words: &[&str]) -> Result<Address, String> {
        let mut address = Address::default();
        let mut words = words.iter().map(|word| (*word).to_owned());
        while let Some(word) = words.next() {
            let value = &mut || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            if !address.take(&word, value)? {
                return Err(format!("{word}: unknown"));
            }
        }
        Ok(address)
    }

    #[test]
    fn flags_and_urls_say_the_same() {
        let expected = Address {
            host: "example".into(),
            port: 7000,
            user: Some("me".into()),
            password: Some("a:b".into()),
            tls: true,
            ..Address::default()
        };
        let flags = ["-h", "example", "-p", "7000", "--user", "me", "-a", "a:b", "--tls"];
        assert_eq!(parse(&flags), Ok(expected.clone()));
        assert_eq!(parse(&["rediss://me:a%3Ab@example:7000/3"]), Ok(expected));
        let address = parse(&["redis://[::1]:7001"]).expect("sound");
        assert_eq!(address.place(), "[::1]:7001");
        assert_eq!(parse(&["redis://example"]).map(|it| it.place()), Ok("example:6379".into()));
    }

    #[test]
    fn a_path_may_have_a_login_before_it() {
        let address = parse(&["unix://me:p%40ss@/run/a%20b?db=1"]).expect("sound");
        assert_eq!(address.socket, Some("/run/a b".into()));
        assert_eq!((address.user, address.password), (Some("me".into()), Some("p@ss".into())));
        assert_eq!(parse(&["unix:///run/s"]).map(|it| it.place()), Ok("/run/s".into()));
        assert_eq!(parse(&["-s", "/run/s"]), parse(&["unix:///run/s"]));
        assert_eq!(parse(&["/run/s"]), parse(&["unix:///run/s"]));
    }

    #[test]
    fn mistakes_are_told() {
        for words in
            [&["-p", "x"][..], &["-p"], &["http://a"], &["redis://a%2@b"], &["unix://x"], &["what"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
