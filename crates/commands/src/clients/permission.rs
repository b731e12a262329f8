//! What a command asks of its user's rules: itself, its keys, its channels, its databases.
//!
//! Invariants
//! 1. The keys that are asked about are those that are locked (`rows/keys`), so a handler reaches
//!    no key that its user was not asked about. What SORT finds by patterns is asked about there
//!    ([`may_read_every_key`]); what a script calls is a command of its own.
//! 2. Arguments that do not fit together are let through: the handler refuses them.
//!
//! Not here: the rules (`pantala_acl`); when they are asked, and what a client is told
//! (`pantala_engine::clients::permission`).

use pantala_acl::{Access, ChannelKind, CommandId, Database, Denied, Request, User};
use pantala_base::number::parse_i64;
use pantala_keyspace::DbIndex;
use smallvec::SmallVec;

use crate::calls::call::Call;
use crate::rows::command::{Command, Databases};
use crate::rows::keys::{ChannelSpec, KeyFlags, key_accesses};

/// A command that somebody wants to run, in a database.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its row.
    pub row: &'static Command,
    /// The command whose rules hold for it ([`crate::Registry::permission`]),
    pub id: CommandId,
    /// and one more, if there is.
    pub also: Option<CommandId>,
    /// Its arguments.
    pub args: &'a [&'a [u8]],
    /// The database at hand.
    pub db: DbIndex,
    /// How many there are.
    pub database_count: u32,
}

impl Asked<'_> {
    /// Whether the user may run it.
    ///
    /// # Errors
    /// What its rules refuse.
    pub fn of(&self, user: &User) -> Result<(), Denied> {
        self.with_request(|request| {
            user.check(request)?;
            self.also.map_or(Ok(()), |also| user.check(&Request { command: also, ..*request }))
        })
    }

    /// Whether it may, and may read every key there is beside that.
    pub fn of_one_who_reads_all(&self, user: &User) -> bool {
        self.with_request(|request| user.check_with_every_key(request, Access::READ))
    }

    fn with_request<R>(&self, ask: impl FnOnce(&Request<'_>) -> R) -> R {
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
        ask(&Request { command: id, args, keys: &keys, channels: &channels, databases: &databases })
    }

    fn databases(&self) -> SmallVec<[(usize, Database); 2]> {
        let mut asked = SmallVec::new();
        let mut named = |position: usize| {
            let number = self.args.get(position).and_then(|text| parse_i64(text));
            let number = number.and_then(|number| u32::try_from(number).ok());
            // What is no database is refused by the handler.
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
        // Of two that are refused the one that is named is told.
        if self.row.is_about_data() && !matches!(self.row.databases, Databases::OnlyTwo) {
            asked.push((0, Database::One(self.db.0)));
        }
        asked
    }
}

/// Whether the user of a command that runs may read every key there is.
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

/// What rules tell apart of what is done with a key.
fn access(flags: KeyFlags) -> Access {
    let read = if flags.reads() { Access::READ } else { Access::NONE };
    if flags.writes() { read.and(Access::WRITE) } else { read }
}

fn channels(spec: ChannelSpec, arg_count: usize) -> SmallVec<[(usize, ChannelKind); 2]> {
    let kind = if spec.are_patterns { ChannelKind::Pattern } else { ChannelKind::Exact };
    spec.positions(arg_count).map(|position| (position, kind)).collect()
}
