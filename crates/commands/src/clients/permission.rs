//! What a command needs of its user's rules: for itself, its keys, its channels, its databases.
//!
//! Invariants
//! 1. The keys that are checked are those that are locked (`rows/keys`), so a handler reaches no
//!    key that was not checked. Keys that SORT finds by patterns are checked there
//!    ([`may_read_every_key`]); commands of a script are checked on their own.
//! 2. Malformed arguments are let through: the handler refuses them.
//!
//! Not here: the rules (`pantala_acl`); when they are checked, and the errors
//! (`pantala_engine::clients::permission`).

use pantala_acl::{Access, AccessRequest, ChannelKind, CommandId, Database, Denial, User};
use pantala_base::number::parse_i64;
use pantala_keyspace::DbIndex;
use smallvec::SmallVec;

use crate::calls::call::Call;
use crate::rows::command::key_accesses;
use crate::rows::command::{Command, Databases};
use crate::rows::keys::{ChannelSpec, KeyFlags};

/// A command that is to run in a database.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its row.
    pub row: &'static Command,
    /// The command whose rules apply to it ([`crate::Registry::permission`]),
    pub id: CommandId,
    /// and another one, if any.
    pub also: Option<CommandId>,
    /// Its arguments.
    pub args: &'a [&'a [u8]],
    /// The current database.
    pub db: DbIndex,
    /// The number of databases.
    pub database_count: u32,
}

impl Asked<'_> {
    /// Checks that the user may run it.
    ///
    /// # Errors
    /// What the user's rules refuse.
    pub fn of(&self, user: &User) -> Result<(), Denial> {
        self.with_request(|request| {
            user.check(request)?;
            self.also
                .map_or(Ok(()), |also| user.check(&AccessRequest { command: also, ..*request }))
        })
    }

    /// Whether the user may run it, and may read every key besides.
    pub fn of_one_who_reads_all(&self, user: &User) -> bool {
        self.with_request(|request| user.check_with_every_key(request, Access::READ))
    }

    fn with_request<R>(&self, ask: impl FnOnce(&AccessRequest<'_>) -> R) -> R {
        let Asked { row, id, args, .. } = *self;
        let keys: SmallVec<[(usize, Access); 4]> = match row.keys {
            [] => SmallVec::new(),
            _ => key_accesses(row, args)
                .unwrap_or_default()
                .iter()
                .map(|key| (key.position, access(key.flags)))
                .collect(),
        };
        let channels: SmallVec<[(usize, ChannelKind); 2]> =
            row.channels.map_or_else(SmallVec::new, |spec| channels(spec, args.len()));
        let databases = self.databases();
        ask(&AccessRequest {
            command: id,
            args,
            keys: &keys,
            channels: &channels,
            databases: &databases,
        })
    }

    fn databases(&self) -> SmallVec<[(usize, Database); 2]> {
        let mut asked = SmallVec::new();
        let mut named = |position: usize| {
            let number = self.args.get(position).and_then(|text| parse_i64(text));
            let number = number.and_then(|number| u32::try_from(number).ok());
            // The handler refuses a number without a database.
            let known = number.filter(|number| *number < self.database_count);
            asked.extend(known.map(|number| (position, Database::One(number))));
        };
        match self.row.databases {
            Databases::Selected => {}
            Databases::Selects => named(1),
            Databases::OnlyTwo => (1..=2).for_each(named),
            Databases::Named(positions) => positions(self.args).into_iter().for_each(named),
            Databases::All => asked.push((0, Database::All)),
        }
        // If both are refused, the named database is reported.
        if self.row.is_about_data() && !matches!(self.row.databases, Databases::OnlyTwo) {
            asked.push((0, Database::One(self.db.0)));
        }
        asked
    }
}

/// Whether the user of the running command may read every key.
pub fn may_read_every_key(call: &Call<'_, '_>) -> bool {
    let Some(user) = call.session.login().user() else { return true };
    let registry = call.server.registry();
    let Some(found) = registry.find_own(call.command.name.as_bytes()) else { return false };
    let asked = Asked {
        row: call.command,
        id: registry.permission(found),
        also: registry.also(found),
        args: call.args,
        db: call.session.db,
        database_count: call.space().database_count(),
    };
    asked.of_one_who_reads_all(user)
}

/// The access that rules distinguish, from what is done with a key.
fn access(flags: KeyFlags) -> Access {
    let read = if flags.reads() { Access::READ } else { Access::NONE };
    if flags.writes() { read.and(Access::WRITE) } else { read }
}

fn channels(spec: ChannelSpec, arg_count: usize) -> SmallVec<[(usize, ChannelKind); 2]> {
    let kind = if spec.are_patterns { ChannelKind::Pattern } else { ChannelKind::Exact };
    spec.positions(arg_count).map(|position| (position, kind)).collect()
}
