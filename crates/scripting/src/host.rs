//! The interface of a script to its server.
//!
//! 1. The interpreter knows no keyspace, session or clock: it reaches everything through this
//!    trait.
//! 2. The answer `Abort` ends the script: nothing inside the interpreter can catch it.
//!
//! Not here: the server's implementation (engine, `scripts`). Tests: crates/scripting/tests, with a
//! host made for them.

use pantala_protocol::Version;

/// The server, for one run of a script.
pub trait ScriptHost {
    /// Runs a command and appends its reply as RESP of `version`; an error reply begins with `-`.
    /// `Err`: the script must end at once, and nothing can catch that.
    fn call(&mut self, args: &[&[u8]], version: Version, reply: &mut Vec<u8>) -> Result<(), Abort>;

    /// Whether the script's user may run this command (`redis.acl_check_cmd`). `Err`: an error
    /// text, its code first, without `-`.
    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, Vec<u8>>;

    /// `redis.log`.
    fn log(&mut self, level: LogLevel, message: &[u8]);

    /// `redis.set_repl`: sets whether the append-only file and replicas receive the script's
    /// further changes.
    fn tell(&mut self, files: bool, replicas: bool);

    /// Called while the script runs, after about `instructions` of work since the last call (see
    /// [`crate::TICK_INSTRUCTIONS`]).
    fn tick(&mut self, instructions: u64) -> Result<(), Abort>;
}

/// The script must end now. The host knows the reason, and tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

/// The level of a script's log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`, 0.
    Debug,
    /// `redis.LOG_VERBOSE`, 1.
    Verbose,
    /// `redis.LOG_NOTICE`, 2.
    Notice,
    /// `redis.LOG_WARNING`, 3.
    Warning,
}
