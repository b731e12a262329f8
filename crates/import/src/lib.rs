//! `pantala import`: moves the data of a running server here, while it is written to.
//!
//! ```text
//! follow    NEW: REPLICAOF OLD            until the copy is there and the link is up
//! switch    OLD: CLIENT PAUSE WRITE       clients that write there wait
//!           until NEW has all of OLD's stream
//!           OLD: CLIENT PAUSE WRITE       for longer: from here on nothing may be written there
//!           NEW: REPLICAOF NO ONE         writes are taken here
//!           OLD: REPLICAOF NEW, CLIENT UNPAUSE: who still writes there is refused, not lost
//! ```
//!
//! Both servers are running; the tool only sends them commands, over its own connections.
//!
//! Invariants
//! 1. Before the switch nothing changes at OLD.
//! 2. Whatever fails during the switch, either OLD or NEW takes writes: never both, never none. If
//!    a lost reply leaves that open, or it takes too long, the operator is told.
//!
//! | file | what |
//! |---|---|
//! | `options` | the command line |
//! | `server` | the two servers, as the tool sees them |
//! | `copy` | until NEW follows OLD |
//! | `switch` | the change of roles |
//!
//! Tests: at the foot of `switch`, and compat/replication (import).

#![forbid(unsafe_code)]

mod copy;
mod options;
mod server;
mod switch;

use std::io::Write;

use self::options::ImportOptions;
use self::server::{ManagedServer, MoveParties, SystemClock};

pub use self::options::help;

/// Runs the tool. `words` are those after `import`; `password` is from the environment, for OLD.
///
/// # Errors
/// A text for the operator.
pub fn run(words: &[String], password: Option<String>, out: &mut dyn Write) -> Result<(), String> {
    let options = ImportOptions::parse(words, password)?;
    let mut say = |line: String| {
        // Nobody reads any more: the work continues.
        let _unread = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    if options.is_help {
        say(help().trim_end().to_owned());
        return Ok(());
    }
    let mut old = ManagedServer::open("the old server", &options.old)?;
    let mut new = ManagedServer::open("the new server", &options.new)?;
    let mut steady = SystemClock;
    let mut of_all = MoveParties {
        old: &mut old,
        new: &mut new,
        options: &options,
        clock: &mut steady,
        say: &mut say,
    };
    if options.switches {
        switch::check(&mut of_all)?;
    }
    copy::follow(&mut of_all)?;
    if options.switches {
        switch::switch(&mut of_all)?;
    } else {
        say(format!(
            "{} follows {}. To change over: pantala import ... --switch",
            options.new.place(),
            options.old.place()
        ));
    }
    Ok(())
}
