//! CLUSTER subcommands that change who owns which slots, and which nodes there are. They write the
//! file of the cluster, and so run on the slow lane.

use pantala_base::number::parse_i64;
use pantala_cluster::{Endpoint, Member, Membership, MembershipError, NodeId};
use pantala_commands::options::is_word;
use pantala_commands::{Call, ClientError, CommandResult, error};
use pantala_coordination::{Coordination, random_id};
use pantala_keyspace::DbIndex;
use pantala_replication::commands::change_role;
use pantala_replication::replica::Primary;

use super::keys::{has_keys, parse_slot};
use super::member::{ClusterMember, failure};
use super::{DISABLED, refuse_change, require};
use crate::Operator;

const BAD_SETSLOT: ClientError = ClientError::text(
    "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
);
const TO_A_REPLICA: ClientError =
    ClientError::text("ERR You should send CLUSTER FAILOVER to a replica");
const HAS_KEYS: ClientError =
    ClientError::text("ERR CLUSTER RESET can't be called with master nodes containing keys");
const NO_MIGRATIONS: ClientError = ClientError::text("ERR No migrations ongoing");

/// This server as a node.
///
/// # Errors
/// There is no cluster.
fn member<'c>(call: &Call<'c, '_>) -> Result<&'c ClusterMember, ClientError> {
    Operator::of(call).cluster.get().ok_or(DISABLED)
}

/// Whether the slots of this server cannot be changed: the cluster is an emulated one.
fn is_emulated(call: &Call<'_, '_>) -> bool {
    Operator::of(call).cluster.get().is_none()
}

/// Runs a change and answers OK.
fn change(
    call: &mut Call<'_, '_>,
    change: impl FnMut(&mut Membership) -> Result<(), MembershipError>,
) -> CommandResult {
    require(call)?;
    if is_emulated(call) {
        return refuse_change(call);
    }
    member(call)?.change(Operator::of(call), change)?;
    call.reply.ok();
    Ok(())
}

/// The slots that are named one by one.
fn named_slots(args: &[&[u8]]) -> Result<Vec<u16>, ClientError> {
    args.iter().map(|text| parse_slot(text)).collect()
}

/// The slots that are named by ranges.
fn ranged_slots(call: &Call<'_, '_>) -> Result<Vec<u16>, ClientError> {
    let words = &call.args[2..];
    if !words.len().is_multiple_of(2) {
        return Err(error::wrong_arity(&call.command.full_name()));
    }
    let mut slots = Vec::new();
    for pair in words.chunks(2) {
        let (first, last) = (parse_slot(pair[0])?, parse_slot(pair[1])?);
        if first > last {
            let text =
                format!("ERR start slot number {first} is greater than end slot number {last}");
            return Err(ClientError::new(text));
        }
        slots.extend(first..=last);
    }
    Ok(slots)
}

pub(super) fn add_slots(call: &mut Call<'_, '_>) -> CommandResult {
    let slots = named_slots(&call.args[2..])?;
    change(call, |all| all.add_slots(&slots))
}

pub(super) fn add_ranges(call: &mut Call<'_, '_>) -> CommandResult {
    let slots = ranged_slots(call)?;
    change(call, |all| all.add_slots(&slots))
}

pub(super) fn delete_slots(call: &mut Call<'_, '_>) -> CommandResult {
    let slots = named_slots(&call.args[2..])?;
    change(call, |all| all.delete_slots(&slots))
}

pub(super) fn delete_ranges(call: &mut Call<'_, '_>) -> CommandResult {
    let slots = ranged_slots(call)?;
    change(call, |all| all.delete_slots(&slots))
}

pub(super) fn flush_slots(call: &mut Call<'_, '_>) -> CommandResult {
    change(call, |all| {
        all.flush_slots();
        Ok(())
    })
}

pub(super) fn set_slot(call: &mut Call<'_, '_>) -> CommandResult {
    let slot = parse_slot(call.args[2])?;
    let node = call.args.get(4).map(|name| String::from_utf8_lossy(name).into_owned());
    let word = call.args[3];
    match node {
        None if is_word(word, "STABLE") => change(call, |all| all.settle_slot(slot)),
        Some(node) if is_word(word, "MIGRATING") => {
            change(call, |all| all.begin_to_move_out(slot, &node))
        }
        Some(node) if is_word(word, "IMPORTING") => {
            change(call, |all| all.begin_to_move_in(slot, &node))
        }
        Some(node) if is_word(word, "NODE") => {
            // Only who gives a slot away has to look at every key.
            let member = Operator::of(call).cluster.get();
            let is_mine = member.is_some_and(|one| one.membership().me().slots.contains(slot));
            let has_keys = is_mine && has_keys(call, slot)?;
            change(call, |all| all.give_slot(slot, &node, has_keys))
        }
        _ => {
            require(call)?;
            Err(BAD_SETSLOT.into())
        }
    }
}

/// The part of this node in the cluster that etcd keeps, if it does.
fn coordination<'c>(call: &Call<'c, '_>) -> Option<&'c Coordination> {
    let operator = Operator::of(call);
    operator.cluster.get()?.part(operator)
}

pub(super) fn set_epoch(call: &mut Call<'_, '_>) -> CommandResult {
    let number = parse_i64(call.args[2]).ok_or(error::NOT_INTEGER)?;
    let wrong = || ClientError::new(format!("ERR Invalid config epoch specified: {number}"));
    let epoch = u64::try_from(number).map_err(|_| wrong())?;
    if coordination(call).is_some() {
        // Revisions of etcd are the epochs, and no two are the same.
        return change(call, |all| match all.members().len() {
            1 => Ok(_ = all.bump_epoch()),
            _ => Err(MembershipError::EpochTooLate),
        });
    }
    change(call, |all| all.set_epoch(epoch))
}

pub(super) fn bump_epoch(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    if is_emulated(call) {
        return refuse_change(call);
    }
    let (epoch, has_changed) =
        member(call)?.change(Operator::of(call), |all| Ok(all.bump_epoch()))?;
    let word = if has_changed { "BUMPED" } else { "STILL" };
    call.reply.simple(&format!("{word} {epoch}"));
    Ok(())
}

pub(super) fn save_file(call: &mut Call<'_, '_>) -> CommandResult {
    change(call, |_| Ok(()))
}

pub(super) fn forget(call: &mut Call<'_, '_>) -> CommandResult {
    let name = String::from_utf8_lossy(call.args[2]).into_owned();
    if coordination(call).is_none() {
        return change(call, |all| all.forget(&name));
    }
    // Another node has been told to forget it, and etcd tells all.
    let known = NodeId::parse(name.as_bytes());
    if known.is_some_and(|id| member(call).is_ok_and(|one| one.was_forgotten(id))) {
        call.reply.ok();
        return Ok(());
    }
    change(call, |all| {
        let owns = |member: &Member| !member.slots.is_empty();
        match known.and_then(|id| all.members().get(&id)).is_some_and(owns) {
            true => Err(MembershipError::ForgetOwner),
            false => all.forget(&name),
        }
    })
}

pub(super) fn meet(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    let Some(coordination) = coordination(call) else { return refuse_change(call) };
    let (ip, port) = (String::from_utf8_lossy(call.args[2]), call.args[3]);
    let wrong = || {
        let port = String::from_utf8_lossy(port);
        ClientError::new(format!("ERR Invalid node address specified: {ip}:{port}"))
    };
    let is_port = |port: &u16| *port != 0;
    let number = parse_i64(port).ok_or_else(|| {
        ClientError::new(format!(
            "ERR Invalid base port specified: {}",
            String::from_utf8_lossy(port)
        ))
    })?;
    let number = u16::try_from(number).ok().filter(is_port).ok_or_else(wrong)?;
    if ip.parse::<std::net::IpAddr>().is_err() {
        return Err(wrong().into());
    }
    let settings = call.settings;
    let place = match settings.tls_replication {
        true => Endpoint { ip: ip.into_owned(), tls_port: number, ..Endpoint::default() },
        false => Endpoint { ip: ip.into_owned(), port: number, ..Endpoint::default() },
    };
    let _others_run = Operator::of(call).engine.lane.compensate();
    coordination.meet(&place).map_err(failure)?;
    call.reply.ok();
    Ok(())
}

/// Another node asks this primary to hand its role over to it.
pub(super) fn yield_role(call: &mut Call<'_, '_>) -> CommandResult {
    let coordination = coordination(call).ok_or(DISABLED)?;
    let id = NodeId::parse(call.args[2]).ok_or(error::SYNTAX)?;
    let most_ms = parse_i64(call.args[3]).and_then(|ms| u64::try_from(ms).ok());
    coordination.hand_over(id, most_ms.ok_or(error::NOT_INTEGER)?).map_err(failure)?;
    call.reply.ok();
    Ok(())
}

/// Another node asks this replica not to stand for election for so long.
pub(super) fn promise(call: &mut Call<'_, '_>) -> CommandResult {
    let coordination = coordination(call).ok_or(DISABLED)?;
    let number = |at: usize| parse_i64(call.args[at]).and_then(|number| u64::try_from(number).ok());
    let (epoch, lasts_ms) = number(2).zip(number(3)).ok_or(error::NOT_INTEGER)?;
    match coordination.promise(epoch, lasts_ms.saturating_mul(1000)) {
        true => call.reply.simple(Coordination::promised_word()),
        false => return Err(ClientError::text("ERR this node promises nothing").into()),
    }
    Ok(())
}

pub(super) fn replicate(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    if is_emulated(call) {
        return refuse_change(call);
    }
    refuse_in_transaction(call)?;
    let (operator, member) = (Operator::of(call), member(call)?);
    match *call.args {
        [_, _, no, one] if is_word(no, "NO") && is_word(one, "ONE") => {
            let was_replica = member.membership().me().primary.is_some();
            member.change(operator, |all| {
                all.stand_alone(random_id());
                Ok(())
            })?;
            if was_replica {
                leave_primary(call)?;
            }
        }
        [_, _, name] => {
            let name = String::from_utf8_lossy(name).into_owned();
            let has_none = is_empty(operator);
            let id = member.change(operator, |all| all.replicate(&name, has_none))?;
            // Over etcd the role follows from what it says.
            if member.part(operator).is_none() {
                follow(
                    operator,
                    member.membership().members().get(&id).map(|primary| {
                        let tls = operator.engine.settings.current().tls_replication;
                        Primary {
                            host: primary.endpoint.ip.clone(),
                            port: primary.endpoint.port_for(tls),
                        }
                    }),
                )?;
            }
        }
        _ => return Err(error::SYNTAX.into()),
    }
    call.reply.ok();
    Ok(())
}

/// Whether no database has a key.
fn is_empty(operator: &Operator) -> bool {
    let space = &operator.engine.space;
    let mut sizes = (0..space.database_count()).filter_map(|db| space.sizes(DbIndex(db)));
    sizes.all(|sizes| sizes.keys() == 0)
}

/// A role cannot change in the middle of a transaction.
fn refuse_in_transaction(call: &Call<'_, '_>) -> Result<(), ClientError> {
    match call.session.multi {
        Some(_) => Err(error::not_in_multi(&call.command.full_name())),
        None => Ok(()),
    }
}

/// Makes this replica a primary without data: its keys are those of its primary's slots.
fn leave_primary(call: &mut Call<'_, '_>) -> CommandResult {
    follow(Operator::of(call), None)?;
    let garbage = call.keys.flush(None)?;
    call.space().dispose(garbage, true, call.keys.scope().tally);
    Ok(())
}

/// Makes this server a replica of another one, or a primary.
fn follow(operator: &Operator, primary: Option<Primary>) -> Result<(), ClientError> {
    let _others_run = operator.engine.lane.compensate();
    change_role(&operator.replication, primary.as_ref())
        .map_err(|why| ClientError::new(format!("ERR {why}")))
}

pub(super) fn reset(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    let is_hard = match call.args.get(2) {
        None => false,
        Some(word) if is_word(word, "SOFT") => false,
        Some(word) if is_word(word, "HARD") => true,
        Some(_) => return Err(error::SYNTAX.into()),
    };
    if is_emulated(call) {
        return refuse_change(call);
    }
    refuse_in_transaction(call)?;
    let (operator, member) = (Operator::of(call), member(call)?);
    let is_replica = member.membership().me().primary.is_some();
    if !is_replica && !is_empty(operator) {
        return Err(HAS_KEYS.into());
    }
    let id: Option<NodeId> = is_hard.then(random_id);
    match member.part(operator) {
        None => member.change(operator, |all| {
            all.reset(id, random_id());
            Ok(())
        })?,
        Some(coordination) => {
            let mut alone = Membership::clone(&member.membership());
            alone.reset(id, random_id());
            let _others_run = operator.engine.lane.compensate();
            coordination.reset(alone).map_err(failure)?;
        }
    }
    if is_replica {
        leave_primary(call)?;
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn fail_over(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    let is_known = |word: &&[u8]| is_word(word, "FORCE") || is_word(word, "TAKEOVER");
    if call.args.len() > 3 || !call.args[2..].iter().all(is_known) {
        return Err(error::SYNTAX.into());
    }
    let is_forced = call.args.len() > 2;
    match Operator::of(call).cluster.get() {
        Some(member) if member.membership().me().primary.is_none() => Err(TO_A_REPLICA.into()),
        Some(_) if coordination(call).is_some() => fail_over_by_etcd(call, is_forced),
        _ => refuse_change(call),
    }
}

/// A primary that does not answer cannot hand over: the role is free when its lease ends.
fn fail_over_by_etcd(call: &mut Call<'_, '_>, is_forced: bool) -> CommandResult {
    let coordination = coordination(call).ok_or(DISABLED)?;
    let _others_run = Operator::of(call).engine.lane.compensate();
    match coordination.fail_over(call.settings.cluster_manual_failover_timeout_ms) {
        Err(why) if is_forced => tracing::warn!("the primary does not hand over: {why}"),
        Err(why) => return Err(failure(why).into()),
        Ok(()) => {}
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn cancel_moves(call: &mut Call<'_, '_>) -> CommandResult {
    require(call)?;
    if is_emulated(call) { refuse_change(call) } else { Err(NO_MIGRATIONS.into()) }
}
