//! The two servers as the tool sees them, and the clock and operator of a move.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pantala_client::{Address, Connection, text_of};
use pantala_protocol::value::Value;

use crate::options::ImportOptions;

/// A server that takes commands.
pub trait CommandClient {
    /// Sends a command; returns its reply, which is not an error.
    ///
    /// # Errors
    /// A text for the operator: the server's error, or that the connection is lost.
    fn ask(&mut self, words: &[&str]) -> Result<Value, String>;

    /// Whether the last reply did not come: the command may have run all the same.
    fn is_lost(&self) -> bool;

    /// Reconnects.
    ///
    /// # Errors
    /// As for [`CommandClient::ask`].
    fn reopen(&mut self) -> Result<(), String>;

    /// The fields of a section of INFO.
    ///
    /// # Errors
    /// As for [`CommandClient::ask`].
    fn info(&mut self, section: &str) -> Result<BTreeMap<String, String>, String> {
        let text = text_of(&self.ask(&["INFO", section])?);
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    /// A number of INFO's replication section.
    ///
    /// # Errors
    /// As for [`CommandClient::ask`], or it is missing.
    fn offset(&mut self, name: &str) -> Result<u64, String> {
        let fields = self.info("replication")?;
        let value = fields.get(name).and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("INFO replication has no {name}"))
    }
}

/// Time and waiting.
pub trait Clock {
    /// The time since an arbitrary moment.
    fn now(&mut self) -> Duration;

    /// Lets this much time pass.
    fn pause(&mut self, pause: Duration);
}

/// The participants of a move.
pub struct MoveParties<'m> {
    /// The server that has the data.
    pub old: &'m mut dyn CommandClient,
    /// The server that will have the data.
    pub new: &'m mut dyn CommandClient,
    /// The command line.
    pub options: &'m ImportOptions,
    /// The time.
    pub clock: &'m mut dyn Clock,
    /// Shows a line to the operator.
    pub say: &'m mut dyn FnMut(String),
}

/// A server over a connection.
pub struct ManagedServer {
    name: &'static str,
    address: Address,
    connection: Connection,
    is_lost: bool,
}

impl ManagedServer {
    /// Connects.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn open(name: &'static str, address: &Address) -> Result<ManagedServer, String> {
        let connection = Connection::open(address).map_err(|why| format!("{name}: {why}"))?;
        Ok(ManagedServer { name, address: address.clone(), connection, is_lost: false })
    }
}

impl CommandClient for ManagedServer {
    fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let said = |why: String| format!("{}, {}: {why}", self.name, words.join(" "));
        let answer = self.connection.ask(words);
        self.is_lost = answer.is_err();
        match answer.map_err(&said)? {
            Value::Error(why) => Err(said(String::from_utf8_lossy(&why).into_owned())),
            value => Ok(value),
        }
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn reopen(&mut self) -> Result<(), String> {
        *self = ManagedServer::open(self.name, &self.address)?;
        Ok(())
    }
}

/// The system's monotonic clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&mut self) -> Duration {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed()
    }

    fn pause(&mut self, pause: Duration) {
        std::thread::sleep(pause);
    }
}
