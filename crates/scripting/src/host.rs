//! What a script may ask of the server it runs in.
//!
//! 1. The interpreter knows no keyspace, session or clock: all it may touch goes through here.
//! 2. The answer `Abort` ends the script: nothing inside the interpreter can catch it.
//!
//! Not here: how the server answers (engine, `scripts`). Tests: crates/scripting/tests, with a host
//! made for them.

use pantala_protocol::Version;

/// The server, as one run of a script sees it.
pub trait Host {
    /// Runs a command and appends its reply as RESP of `version`; an error reply begins with `-`.
    /// `Err`: the script ends at once, and nothing can catch it.
    fn call(&mut self, args: &[&[u8]], version: Version, reply: &mut Vec<u8>) -> Result<(), Abort>;

    /// Whether the script's user may run this command (`redis.acl_check_cmd`). `Err`: the text of
    /// an error, its code first, without `-`.
    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, Vec<u8>>;

    /// `redis.log`.
    fn log(&mut self, level: Level, message: &[u8]);

    /// `redis.set_repl`: whether files and replicas are told of what the script does from here on.
    fn tell(&mut self, files: bool, replicas: bool);

    /// Called while the script runs, after about `instructions` of work since the last time (see
    /// [`crate::TICK_INSTRUCTIONS`]).
    fn tick(&mut self, instructions: u64) -> Result<(), Abort>;
}

/// The script must end now. The host keeps the reason, and says it to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

/// How loud a script's own line in the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `redis.LOG_DEBUG`, 0.
    Debug,
    /// `redis.LOG_VERBOSE`, 1.
    Verbose,
    /// `redis.LOG_NOTICE`, 2.
    Notice,
    /// `redis.LOG_WARNING`, 3.
    Warning,
}
