//! Permission: whether a client's user may run a command, and the error if not.
//!
//! ```text
//! admit      a command as it comes, also between MULTI and EXEC         --+
//! lane       one whose arguments were not all at hand, or that waited     |
//! EXEC       each command again: rules may have changed                   +--> ask --> the user
//! a script   each call, as the client that runs it                        |
//! serve_one  a blocked command that is served                           --+
//! ```
//!
//! Invariants
//! 1. An unrestricted user is not asked: `Session::is_unrestricted`, one look.
//! 2. A session is brought up to date before its user is asked ([`Engine::renew`]).
//! 3. Commands that the server runs by itself (files, its own jobs) have a session without a user,
//!    which may do everything.
//!
//! Not here: rules (`pantala_acl`), what a command asks of them (`pantala_commands::permission`).
//! Tests: crates/server/tests/acl.rs, compat/transcripts/acl.

use pantala_acl::{AclRefusal, Context, Denial, Reason, TEXT_BYTES, Users};
use pantala_base::clock::monotonic_us;
use pantala_commands::permission::Asked;
use pantala_commands::{ClientError, Command, CommandRef, Session, client_line};
use pantala_keyspace::DbIndex;

use crate::clients::mailbox::Message;
use crate::engine::Engine;
use crate::execute::{Refusal, Turn};

/// A command that the client's user may not run.
#[derive(Clone, Copy, Debug)]
pub struct NotAllowed<'a> {
    found: CommandRef,
    args: &'a [&'a [u8]],
    denied: Denial,
}

impl NotAllowed<'_> {
    fn reason(&self) -> Reason {
        match self.denied {
            Denial::Command => Reason::Command,
            Denial::Key(_) => Reason::Key,
            Denial::Channel(_) => Reason::Channel,
            Denial::Database(_) => Reason::Database,
        }
    }

    /// The object in ACL LOG: the command, the key, the channel or the database.
    fn object(&self) -> Vec<u8> {
        let position = match self.denied {
            Denial::Command => 0,
            Denial::Key(at) | Denial::Channel(at) | Denial::Database(at) => at,
        };
        match self.args.get(position) {
            Some(object) if position > 0 => object.to_vec(),
            _ => self.found.row.full_name().into_bytes(),
        }
    }

    /// The entry for ACL LOG.
    pub(crate) fn told(&self, client: &Session, context: Context, runs: &Command) -> AclRefusal {
        let line = describe(client, runs);
        AclRefusal::new(self.reason(), context, (&self.object(), client.user_name()), line)
    }
    /// The error text without its code.
    fn text(&self, session: &Session) -> Vec<u8> {
        match self.denied {
            Denial::Command => {
                let name = self.found.row.full_name();
                let what = format!(" has no permissions to run the '{name}' command");
                [b"User ", session.user_name(), what.as_bytes()].concat()
            }
            Denial::Key(_) => b"No permissions to access a key".to_vec(),
            Denial::Channel(_) => b"No permissions to access a channel".to_vec(),
            Denial::Database(_) => b"No permissions to access database".to_vec(),
        }
    }

    /// The error for a command that a client has sent.
    pub fn error(&self, session: &Session) -> ClientError {
        ClientError::bytes([b"NOPERM ", &*self.text(session)].concat())
    }

    /// The error for a command that a script has called.
    pub fn script_error(&self, session: &Session) -> ClientError {
        ClientError::bytes([b"ERR ACL failure in script: ", &*self.text(session)].concat())
    }

    /// The error for a queued command that was allowed before EXEC.
    pub fn exec_error(&self) -> ClientError {
        let reason = match self.denied {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => "no permission to access one of the channels used as arguments",
            Denial::Database(_) => "no permission",
        };
        ClientError::new(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
             EXEC call. This command is no longer allowed for the following reason: {reason}"
        ))
    }
}

impl Engine {
    /// Brings a session's user up to date; false if the user is gone.
    #[inline]
    pub fn renew(&self, session: &mut Session) -> bool {
        session.login().version() == self.acl.version() || session.renew_login(&self.acl.in_force())
    }

    /// Replaces the users by what `change` makes of them, and tells all workers. Nothing changes on
    /// an error.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn change_users<E>(
        &self,
        change: impl FnOnce(&Users) -> Result<Users, E>,
    ) -> Result<(), E> {
        self.acl.change(change)?;
        self.workers.post_all(&|| Message::UsersChanged);
        Ok(())
    }

    /// Whether the client's user may run this in a database.
    ///
    /// # Errors
    /// It may not.
    pub fn ask<'a>(
        &self,
        client: &Session,
        db: DbIndex,
        (found, args): (CommandRef, &'a [&'a [u8]]),
    ) -> Result<(), NotAllowed<'a>> {
        let Some(user) = client.login().user() else { return Ok(()) };
        let asked = Asked {
            row: found.row,
            id: self.registry.permission(found),
            also: self.registry.also(found),
            args,
            db,
            database_count: self.space.database_count(),
        };
        asked.of(user).map_err(|denied| NotAllowed { found, args, denied })
    }
}

impl Turn<'_> {
    /// Whether the client's user may run a command, now or at EXEC. All its arguments are at hand.
    ///
    /// # Errors
    /// It may not: the error reply.
    #[cold]
    pub fn permit(
        &self,
        session: &Session,
        command: (CommandRef, &[&[u8]]),
    ) -> Result<(), ClientError> {
        let queue = session.multi.as_ref();
        let db = queue.and_then(|queue| queue.selected).unwrap_or(session.db);
        self.engine.ask(session, db, command).map_err(|refused| {
            let context = if queue.is_some() { Context::Multi } else { Context::TopLevel };
            self.note_refusal(session, context, &refused);
            refused.error(session)
        })
    }

    /// Refuses a command that the client's user may not run; false if the user may.
    pub fn refuses(
        &self,
        session: &mut Session,
        (found, args): (CommandRef, &[&[u8]]),
        output: &mut Vec<u8>,
    ) -> bool {
        if let Some(slots) = self.slots
            && let Err(Refusal::Error(_, error)) = self.route(slots, session, found, args)
        {
            self.refuse(session, (Some(found), args), &error, output);
            return true;
        }
        if !session.has_rules() {
            return false;
        }
        let permitted = self.permit(session, (found, args));
        if let Err(error) = &permitted {
            self.refuse(session, (Some(found), args), error, output);
        }
        permitted.is_err()
    }

    /// Counts and logs a refusal.
    #[cold]
    fn note_refusal(&self, client: &Session, context: Context, refused: &NotAllowed<'_>) {
        self.engine.log_refusal(refused.told(client, context, refused.found.row));
    }
}

/// The client as a line of CLIENT LIST that runs this command, for [`AclRefusal`].
pub fn describe(client: &Session, row: &Command) -> String {
    let meters = client.meters.as_deref().copied().unwrap_or_default();
    client_line::line(client, &meters, &row.full_name(), monotonic_us(), TEXT_BYTES)
}
