//! What a node does with the commands of each slot: one byte a slot, made from the membership each
//! time that changes, and replaced as a whole.
//!
//! The order of the questions is Valkey's (`getNodeByQuery`), so that a command that could be
//! refused for two reasons is refused for the same one.
//!
//! Invariant: a slot that is `Served` needs no other question than this one, so that the path of
//! most commands is one look.
//!
//! Not here: whether keys are there (the caller looks, holding their partitions). Tests: at the
//! foot.

use std::fmt::{self, Display, Formatter};

use pantala_base::crc::SLOT_COUNT;

use crate::membership::{Membership, OpenSlot};
use crate::node::{Health, NodeId};

/// What is done with the commands of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotState {
    /// It has no owner.
    #[default]
    Unowned,
    /// They run here, while the cluster is up.
    Served,
    /// They run here, while the cluster is down: reads only, if at all.
    ServedDown,
    /// The primary of this node has it: reads of READONLY clients run here.
    Followed,
    /// Another node has it.
    Foreign,
    /// It is being moved away: commands run here whose keys are still here.
    Leaving,
    /// It is being moved here: commands of clients that sent ASKING run here.
    Arriving,
}

/// Where a client is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTarget {
    /// The name of the host; empty: the one that the client has.
    pub host: String,
    /// Its port without TLS.
    pub port: u16,
    /// Its port with TLS.
    pub tls_port: u16,
}

/// What matters of a command, beside its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutedCommand {
    /// It may write.
    pub writes: bool,
    /// It is about channels, not about keys.
    pub is_about_channels: bool,
    /// It is MIGRATE, which is about the keys that are here.
    pub is_migrate: bool,
    /// ASKING came before it, or it implies that.
    pub asks: bool,
    /// The client has sent READONLY.
    pub reads_replicas: bool,
}

/// Why a command does not run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// Its keys are of several slots.
    CrossSlot,
    /// Its slot has no owner.
    Unowned,
    /// The cluster is down.
    Down,
    /// The cluster is down, and only reads are served.
    DownForWrites,
    /// Another node has the slot, for good.
    Moved(u16),
    /// Another node has the keys of this slot that are not here.
    Ask(u16),
    /// Some of the keys are here, others are not.
    TryAgain,
}

/// How a command that may run here is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// It runs.
    Here,
    /// It runs if its keys are here: see [`SlotTable::judge_keys`].
    IfPresent(u16),
    /// It runs if it has one key, or if all of them are here.
    IfWhole,
}

/// What is done while the cluster is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownRules {
    /// Whether a slot without an owner means that the cluster is down.
    pub needs_full_coverage: bool,
    /// Whether reads are served.
    pub allows_reads: bool,
    /// Whether channels of slots are served.
    pub allows_channels: bool,
}

/// What this node does with the commands of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotTable {
    states: Box<[SlotState]>,
    /// For each slot: the index of the node that a client is sent to.
    targets: Box<[u16]>,
    nodes: Vec<RedirectTarget>,
    is_up: bool,
    /// The permission of this node has ended: see [`SlotTable::fenced`].
    is_fenced: bool,
    has_open: bool,
    rules: DownRules,
}

impl SlotTable {
    /// The table of a membership. `target` tells where clients reach a node.
    pub fn new(
        all: &Membership,
        rules: DownRules,
        target: impl Fn(NodeId) -> RedirectTarget,
    ) -> SlotTable {
        let mut table = SlotTable {
            states: vec![SlotState::Unowned; SLOT_COUNT.into()].into(),
            targets: vec![0; SLOT_COUNT.into()].into(),
            nodes: Vec::with_capacity(all.members().len()),
            is_up: true,
            is_fenced: false,
            has_open: !all.open_slots().is_empty(),
            rules,
        };
        let ids: Vec<NodeId> = all.members().keys().copied().collect();
        table.nodes.extend(ids.iter().map(|id| target(*id)));
        let (mut owned, mut served) = (0, 0);
        for (at, (id, member)) in all.members().iter().enumerate() {
            let state = if *id == all.my_id() {
                SlotState::Served
            } else if all.me().primary == Some(*id) {
                SlotState::Followed
            } else {
                SlotState::Foreign
            };
            for slot in member.slots.iter() {
                table.states[usize::from(slot)] = state;
                table.targets[usize::from(slot)] = at as u16;
                owned += 1;
                served += usize::from(member.health != Health::Failed);
            }
        }
        debug_assert!(owned <= usize::from(SLOT_COUNT), "a slot has one owner");
        table.is_up = served == usize::from(SLOT_COUNT) || !rules.needs_full_coverage && owned > 0;
        if !table.is_up {
            let served = table.states.iter_mut().filter(|state| **state == SlotState::Served);
            served.for_each(|state| *state = SlotState::ServedDown);
        }
        for (slot, open) in all.open_slots() {
            let (state, partner) = match open {
                OpenSlot::LeavingTo(partner) => (SlotState::Leaving, Some(partner)),
                // Who has no ASKING is sent to the owner.
                OpenSlot::ArrivingFrom(_) => (SlotState::Arriving, None),
            };
            table.states[usize::from(*slot)] = state;
            let at = partner.and_then(|partner| ids.iter().position(|id| id == partner));
            if let Some(at) = at {
                table.targets[usize::from(*slot)] = at as u16;
            }
        }
        table
    }

    /// This table for a time in which the node may not write, and serves reads only where that is
    /// allowed while the cluster is down: as in Valkey, for this node it is. Commands without a key
    /// that write are refused too. `None`: no slot is served here, so nothing has to be refused.
    pub fn fenced(&self) -> Option<SlotTable> {
        let is_ours = |state: &SlotState| {
            use SlotState::{Arriving, Leaving, Served, ServedDown};
            matches!(state, Served | ServedDown | Leaving | Arriving)
        };
        if !self.states.iter().any(is_ours) {
            return None;
        }
        let mut fenced = SlotTable { is_up: false, is_fenced: true, ..self.clone() };
        let served = fenced.states.iter_mut().filter(|state| **state == SlotState::Served);
        served.for_each(|state| *state = SlotState::ServedDown);
        Some(fenced)
    }

    /// What is done with the commands of this slot.
    #[inline]
    pub fn state(&self, slot: u16) -> SlotState {
        self.states[usize::from(slot % SLOT_COUNT)]
    }

    /// Whether a slot is being moved from or to this node.
    #[inline]
    pub fn has_open(&self) -> bool {
        self.has_open
    }

    /// Whether the cluster is up, as this node sees it.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether the keys and channels of this slot are here, up or down.
    pub fn is_local(&self, slot: u16, command: RoutedCommand) -> bool {
        match self.state(slot) {
            SlotState::Unowned | SlotState::Foreign => false,
            SlotState::Served | SlotState::ServedDown | SlotState::Leaving => true,
            SlotState::Followed => command.reads_replicas && !command.writes,
            SlotState::Arriving => command.asks,
        }
    }

    /// Decides whether a command about keys of this slot may run here, inside a script, where
    /// nothing can be redirected.
    ///
    /// # Errors
    /// It does not run here.
    pub fn judge_local(&self, slot: u16, command: RoutedCommand) -> Result<(), RouteError> {
        if self.state(slot) == SlotState::Unowned {
            return Err(RouteError::Unowned);
        }
        self.refuse_while_down(command)?;
        if self.is_local(slot, command) { Ok(()) } else { Err(RouteError::Moved(slot)) }
    }

    /// Decides whether a command without keys runs here.
    ///
    /// # Errors
    /// It would write, and this node may not.
    pub fn judge_keyless(&self, command: RoutedCommand) -> Result<(), RouteError> {
        match self.is_fenced && command.writes {
            true => self.refuse_while_down(command),
            false => Ok(()),
        }
    }

    /// How a command about keys or channels of these slots is admitted; without any, it runs,
    /// unless [`SlotTable::judge_keyless`] forbids that.
    ///
    /// # Errors
    /// It does not run here.
    pub fn route(
        &self,
        mut slots: impl Iterator<Item = u16>,
        command: RoutedCommand,
    ) -> Result<Route, RouteError> {
        let Some(slot) = slots.next() else {
            return self.judge_keyless(command).map(|()| Route::Here);
        };
        let state = self.state(slot);
        if state == SlotState::Unowned {
            return Err(RouteError::Unowned);
        }
        if slots.any(|other| other != slot) {
            return Err(RouteError::CrossSlot);
        }
        self.refuse_while_down(command)?;
        match state {
            SlotState::Served | SlotState::ServedDown => Ok(Route::Here),
            SlotState::Leaving if command.is_migrate || command.is_about_channels => {
                Ok(Route::Here)
            }
            SlotState::Leaving => Ok(Route::IfPresent(slot)),
            SlotState::Arriving if command.is_migrate => Ok(Route::Here),
            SlotState::Arriving if command.asks => Ok(Route::IfWhole),
            SlotState::Followed if command.reads_replicas && !command.writes => Ok(Route::Here),
            SlotState::Unowned | SlotState::Followed | SlotState::Foreign | SlotState::Arriving => {
                Err(RouteError::Moved(slot))
            }
        }
    }

    fn refuse_while_down(&self, command: RoutedCommand) -> Result<(), RouteError> {
        if self.is_up {
            return Ok(());
        }
        match command.is_about_channels {
            true if self.rules.allows_channels => Ok(()),
            false if self.rules.allows_reads && command.writes => Err(RouteError::DownForWrites),
            false if self.rules.allows_reads => Ok(()),
            _ => Err(RouteError::Down),
        }
    }

    /// Whether a command runs, so many of whose keys are here and so many are not.
    ///
    /// # Errors
    /// It does not.
    pub fn judge_keys(route: Route, (here, absent): (usize, usize)) -> Result<(), RouteError> {
        match route {
            Route::IfPresent(slot) if absent > 0 && here == 0 => Err(RouteError::Ask(slot)),
            Route::IfPresent(_) if absent > 0 => Err(RouteError::TryAgain),
            Route::IfWhole if absent > 0 && here + absent > 1 => Err(RouteError::TryAgain),
            _ => Ok(()),
        }
    }

    /// The error for a client that does or does not use TLS.
    pub fn error(&self, error: RouteError, uses_tls: bool) -> String {
        let address = |slot: u16| {
            let at = usize::from(self.targets[usize::from(slot % SLOT_COUNT)]);
            RedirectAddress(self.nodes.get(at), uses_tls)
        };
        match error {
            RouteError::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".into(),
            RouteError::Unowned => "CLUSTERDOWN Hash slot not served".into(),
            RouteError::Down => "CLUSTERDOWN The cluster is down".into(),
            RouteError::DownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands".into()
            }
            RouteError::Moved(slot) => format!("MOVED {slot} {}", address(slot)),
            RouteError::Ask(slot) => format!("ASK {slot} {}", address(slot)),
            RouteError::TryAgain => {
                "TRYAGAIN Multiple keys request during rehashing of slot".into()
            }
        }
    }
}

/// A node as a redirected client is told it.
struct RedirectAddress<'t>(Option<&'t RedirectTarget>, bool);

impl Display for RedirectAddress<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(target) = self.0 else { return f.write_str(":0") };
        let port = match self.1 {
            true if target.tls_port != 0 => target.tls_port,
            false if target.port == 0 => target.tls_port,
            _ => target.port,
        };
        write!(f, "{}:{port}", target.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::three;

    const RULES: DownRules =
        DownRules { needs_full_coverage: false, allows_reads: false, allows_channels: true };
    const READ: RoutedCommand = RoutedCommand {
        writes: false,
        is_about_channels: false,
        is_migrate: false,
        asks: false,
        reads_replicas: false,
    };
    const WRITE: RoutedCommand = RoutedCommand { writes: true, ..READ };
    const ASKING: RoutedCommand = RoutedCommand { asks: true, ..WRITE };

    fn target(id: NodeId) -> RedirectTarget {
        let names = ["a", "b", "c"].map(|name| (NodeId::of_name(name), name));
        let host = names.iter().find(|name| name.0 == id).map_or("", |name| name.1);
        RedirectTarget { host: host.into(), port: 1, tls_port: 2 }
    }

    fn told(table: &SlotTable, slots: &[u16], command: RoutedCommand) -> Result<Route, String> {
        let routed = table.route(slots.iter().copied(), command);
        routed.map_err(|error| table.error(error, false))
    }

    #[test]
    fn commands_run_where_their_slot_is() {
        let table = SlotTable::new(&three(), RULES, target);
        let refused = |slots: &[u16]| told(&table, slots, READ).expect_err("it is refused");
        assert_eq!(told(&table, &[], WRITE), Ok(Route::Here));
        assert_eq!(told(&table, &[7, 7], WRITE), Ok(Route::Here));
        assert_eq!(refused(&[150]), "MOVED 150 b:1");
        assert_eq!(refused(&[7, 8]), "CROSSSLOT Keys in request don't hash to the same slot");
        assert_eq!(refused(&[900]), "CLUSTERDOWN Hash slot not served");
        assert_eq!(table.error(RouteError::Moved(150), true), "MOVED 150 b:2");
        assert_eq!((table.state(7), table.is_up()), (SlotState::Served, true));
    }

    #[test]
    fn a_replica_serves_reads_of_clients_that_want_them() {
        let mut all = three();
        all.flush_slots();
        let b = NodeId::of_name("b").to_string();
        all.replicate(&b, true).expect("it can");
        let table = SlotTable::new(&all, RULES, target);
        let reader = RoutedCommand { reads_replicas: true, ..READ };
        assert_eq!(told(&table, &[150], reader), Ok(Route::Here));
        let writer = RoutedCommand { writes: true, ..reader };
        assert_eq!(told(&table, &[150], writer), Err("MOVED 150 b:1".into()));
        assert_eq!(told(&table, &[150], READ), Err("MOVED 150 b:1".into()));
        assert!(table.judge_local(150, reader).is_ok() && table.judge_local(150, READ).is_err());
        assert_eq!(table.fenced(), None, "nothing is served here that it could end");
    }

    #[test]
    fn while_the_cluster_is_down_only_what_is_allowed_runs() {
        let mut rules = DownRules { needs_full_coverage: true, ..RULES };
        let table = SlotTable::new(&three(), rules, target);
        assert_eq!((table.is_up(), table.state(7)), (false, SlotState::ServedDown));
        let down = "CLUSTERDOWN The cluster is down";
        assert_eq!(told(&table, &[7], READ), Err(down.into()));
        assert_eq!(told(&table, &[150], READ), Err(down.into()));
        let channel = RoutedCommand { is_about_channels: true, ..READ };
        assert_eq!(told(&table, &[7], channel), Ok(Route::Here));
        rules.allows_reads = true;
        let table = SlotTable::new(&three(), rules, target);
        assert_eq!(told(&table, &[7], READ), Ok(Route::Here));
        let error = told(&table, &[7], WRITE).expect_err("it is refused");
        assert_eq!(error, "CLUSTERDOWN The cluster is down and only accepts read commands");
    }

    #[test]
    fn behind_the_fence_nothing_is_written() {
        let mut all = three();
        let b = NodeId::of_name("b").to_string();
        all.begin_to_move_out(5, &b).expect("it can");
        all.begin_to_move_in(105, &b).expect("it can");
        let table = SlotTable::new(&all, RULES, target).fenced().expect("it serves slots");
        let down = Err("CLUSTERDOWN The cluster is down".into());
        for slots in [&[7][..], &[5], &[105], &[150], &[]] {
            assert_eq!(told(&table, slots, ASKING), down, "{slots:?}");
        }
        assert_eq!(told(&table, &[7], READ), down);
        assert_eq!(told(&table, &[], READ), Ok(Route::Here));
        assert_eq!(table.judge_local(7, READ), Err(RouteError::Down));
        assert_eq!(table.judge_local(900, READ), Err(RouteError::Unowned));
        let rules = DownRules { allows_reads: true, ..RULES };
        let table = SlotTable::new(&all, rules, target).fenced().expect("it serves slots");
        assert_eq!(table.judge_local(7, READ), Ok(()));
        assert_eq!(table.judge_local(7, WRITE), Err(RouteError::DownForWrites));
        assert_eq!(table.judge_keyless(WRITE), Err(RouteError::DownForWrites));
    }

    #[test]
    fn keys_of_a_slot_that_moves_are_asked_for() {
        let mut all = three();
        let b = NodeId::of_name("b").to_string();
        all.begin_to_move_out(5, &b).expect("it can");
        all.begin_to_move_in(105, &b).expect("it can");
        let table = SlotTable::new(&all, RULES, target);
        let route = told(&table, &[5], WRITE).expect("it may run");
        let judged = |keys| SlotTable::judge_keys(route, keys).map_err(|e| table.error(e, false));
        assert_eq!(judged((2, 0)), Ok(()));
        assert_eq!(judged((0, 2)), Err("ASK 5 b:1".into()));
        let again = "TRYAGAIN Multiple keys request during rehashing of slot";
        assert_eq!(judged((1, 1)), Err(again.into()));
        assert_eq!(told(&table, &[105], WRITE), Err("MOVED 105 b:1".into()));
        let route = told(&table, &[105], ASKING).expect("it may run");
        assert_eq!(SlotTable::judge_keys(route, (0, 1)), Ok(()));
        assert_eq!(SlotTable::judge_keys(route, (1, 1)), Err(RouteError::TryAgain));
        assert_eq!(SlotTable::judge_keys(route, (0, 2)), Err(RouteError::TryAgain));
        let migrate = RoutedCommand { is_migrate: true, ..WRITE };
        assert_eq!(told(&table, &[5], migrate), Ok(Route::Here));
        assert_eq!(told(&table, &[105], migrate), Ok(Route::Here));
    }
}
