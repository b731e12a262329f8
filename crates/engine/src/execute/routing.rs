//! Admission by slot, where a cluster is served: whether the keys of a command are here, and the
//! error that sends its client elsewhere.
//!
//! ```text
//! parse     one key of a slot that is served here: no further question         (workers)
//! admit     any other command                                                  `route`
//! lock      keys of a slot that is being moved: are they here?                  `find_keys`
//! ```
//!
//! Not here: what a node does with each slot (`pantala_cluster::SlotTable`). Tests: the server's
//! `tests/cluster.rs`; `compat/clients/cluster.py`.

use pantala_base::crc::slot_of;
use pantala_cluster::{Route, RouteError, RoutedCommand, SlotState, SlotTable};
use pantala_commands::{ClientError, CommandRef, Flags, Session, slot_positions};
use pantala_keyspace::Locked;
use smallvec::SmallVec;

use super::{Refusal, Turn, is_exec};

/// The slots of a command's keys.
type Slots = SmallVec<[u16; 8]>;

const NOT_LOCAL: &str = "ERR Attempted to access a non local key in a cluster node";
const DOWN: &str = "ERR Script attempted to execute a command while the cluster is down";
const DOWN_FOR_WRITES: &str = "ERR Script attempted to execute a write command while the cluster \
    is down and readonly";
const CROSS_SLOT: &str = "ERR Script attempted to access keys that do not hash to the same slot";

impl Turn<'_> {
    /// Whether a command about this key, of a client with this session, needs no question but this
    /// one. Never inline: without a cluster the parser does not pay for it.
    #[inline(never)]
    pub fn is_served(
        &self,
        slots: &SlotTable,
        session: &Session,
        writes: bool,
        key: &[u8],
    ) -> bool {
        match slots.state(slot_of(key)) {
            SlotState::Served => !session.asks,
            SlotState::Followed => session.reads_replicas && !writes,
            _ => false,
        }
    }

    /// Decides whether a command runs here by the slots of its keys.
    ///
    /// # Errors
    /// It does not.
    #[cold]
    pub(crate) fn route(
        &self,
        slots: &SlotTable,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Result<(), Refusal> {
        self.find_route(slots, session, found, args)
            .map(drop)
            .map_err(|error| Refusal::Error(Some(found), self.route_error(slots, session, error)))
    }

    /// Like [`Turn::route`]: how it runs.
    fn find_route(
        &self,
        slots: &SlotTable,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
    ) -> Result<Route, RouteError> {
        let mut of_keys = Slots::new();
        let command = match &session.multi {
            Some(queue) if is_exec(found) => {
                for one in &queue.commands {
                    slots_of(one.found, &one.args.slices(), &mut of_keys);
                }
                routed(session, found, self.flags_of_queue(queue))
            }
            _ => {
                slots_of(found, args, &mut of_keys);
                let flags = found.row.flags;
                let is_script = !of_keys.is_empty() && flags.intersects(Flags::SCRIPT);
                let flags = if is_script { self.flags_of_script(found, args) } else { flags };
                routed(session, found, flags)
            }
        };
        slots.route(of_keys.into_iter(), command)
    }

    /// The error for this client.
    fn route_error(&self, slots: &SlotTable, session: &Session, error: RouteError) -> ClientError {
        error_for(slots, session, error, self.limited.settings.tls_port)
    }

    /// Whether the keys of a command are here, where their slot is being moved: all its partitions
    /// are held.
    ///
    /// # Errors
    /// It does not run here.
    #[inline]
    pub(crate) fn find_keys(
        &self,
        session: &Session,
        found: CommandRef,
        args: &[&[u8]],
        locked: &mut Locked<'_>,
    ) -> Result<(), ClientError> {
        match self.slots {
            Some(slots) if slots.has_open() => {
                self.find_open_keys(slots, session, (found, args), locked)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn find_open_keys(
        &self,
        slots: &SlotTable,
        session: &Session,
        (found, args): (CommandRef, &[&[u8]]),
        locked: &mut Locked<'_>,
    ) -> Result<(), ClientError> {
        let judged = self.find_route(slots, session, found, args).and_then(|route| {
            if route == Route::Here {
                return Ok(());
            }
            let (mut here, mut absent) = (0, 0);
            let mut count = |found: CommandRef, args: &[&[u8]]| {
                for position in slot_positions(found.row, args).unwrap_or_default() {
                    let key = self.engine.space.key(args[position]);
                    match locked.peek_in(session.db, key).exists() {
                        true => here += 1,
                        false => absent += 1,
                    }
                }
            };
            match &session.multi {
                Some(queue) if is_exec(found) => {
                    queue.commands.iter().for_each(|one| count(one.found, &one.args.slices()));
                }
                _ => count(found, args),
            }
            SlotTable::judge_keys(route, (here, absent))
        });
        judged.map_err(|error| self.route_error(slots, session, error))
    }

    /// Whether a script of this client may run a command about these keys.
    ///
    /// # Errors
    /// A key is not here, or of another slot, or the cluster is down.
    pub(crate) fn judge_call(
        &self,
        session: &Session,
        (found, args): (CommandRef, &[&[u8]]),
        bound: &mut SlotBound,
    ) -> Result<(), ClientError> {
        let Some(slots) = self.slots else { return Ok(()) };
        let mut of_keys = Slots::new();
        slots_of(found, args, &mut of_keys);
        let command = routed(session, found, found.row.flags);
        let Some(slot) = of_keys.first().copied() else {
            return slots.judge_keyless(command).map_err(script_error);
        };
        if of_keys.iter().any(|other| *other != slot) {
            return Err(ClientError::text(NOT_LOCAL));
        }
        slots.judge_local(slot, command).map_err(script_error)?;
        if !bound.crosses && *bound.slot.get_or_insert(slot) != slot {
            return Err(ClientError::text(CROSS_SLOT));
        }
        Ok(())
    }
}

/// The error for a script whose command does not run here.
fn script_error(error: RouteError) -> ClientError {
    ClientError::text(match error {
        RouteError::Down => DOWN,
        RouteError::DownForWrites => DOWN_FOR_WRITES,
        _ => NOT_LOCAL,
    })
}

/// What matters of a command with these flags.
fn routed(session: &Session, found: CommandRef, flags: Flags) -> RoutedCommand {
    let name = found.row.name;
    RoutedCommand {
        writes: flags.intersects(Flags::WRITE),
        is_about_channels: flags.intersects(Flags::PUBSUB),
        is_migrate: name == "MIGRATE",
        asks: session.asks || name == "RESTORE-ASKING",
        reads_replicas: session.reads_replicas,
    }
}

/// The error for a client, which may use TLS.
fn error_for(
    slots: &SlotTable,
    session: &Session,
    error: RouteError,
    tls_port: u16,
) -> ClientError {
    let port = session.local.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    ClientError::new(slots.error(error, tls_port != 0 && port == Some(tls_port)))
}

/// The error for a client that is blocked on keys, if these are not at this node any more. Keys of
/// a slot that is being moved are waited for here.
pub(crate) fn redirection(
    slots: &SlotTable,
    session: &Session,
    (found, args): (CommandRef, &[&[u8]]),
    tls_port: u16,
) -> Option<ClientError> {
    let mut of_keys = Slots::new();
    slots_of(found, args, &mut of_keys);
    of_keys.retain(|slot| slots.state(*slot) != SlotState::Arriving);
    let routed = slots.route(of_keys.into_iter(), routed(session, found, found.row.flags));
    routed.err().map(|error| error_for(slots, session, error, tls_port))
}

/// The slots whose keys a script may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotBound {
    /// It may use any that are at this node.
    crosses: bool,
    /// Else only this one: that of the keys that it was called with, or of the first that it used.
    slot: Option<u16>,
}

impl SlotBound {
    /// The bound of a script that is called by this command.
    pub fn new(crosses: bool, found: CommandRef, args: &[&[u8]]) -> SlotBound {
        let mut slots = Slots::new();
        if !crosses {
            slots_of(found, args, &mut slots);
        }
        SlotBound { crosses, slot: slots.first().copied() }
    }
}

/// Appends the slots of a command's keys.
fn slots_of(found: CommandRef, args: &[&[u8]], to: &mut Slots) {
    let positions = slot_positions(found.row, args).unwrap_or_default();
    to.extend(
        positions.into_iter().filter_map(|position| args.get(position)).map(|key| slot_of(key)),
    );
}
