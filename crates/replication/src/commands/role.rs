//! ROLE.

use pantala_commands::{Call, Category, Command, CommandResult, Flags, Group};
use pantala_psync::Phase;

use crate::Replication;
use crate::catch_up;
use crate::primary::address;
use crate::replica::{self, LinkPhase, LinkReport};

pub(super) const ROLE: Command = Command::new("ROLE", role, Group::Server)
    .arity(1)
    .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE).union(Flags::NOSCRIPT))
    .categories(&[Category::Admin, Category::Dangerous])
    .since("2.8.12")
    .summary("Tells the server's part in replication.");

fn role(call: &mut Call<'_, '_>) -> CommandResult {
    let replication = Replication::of(call);
    if let Some(told) = replica::told(Replication::of(call)) {
        of_replica(call, &told);
        return Ok(());
    }
    catch_up(call)?;
    let mut replicas = replication.downstream.replicas.all();
    replicas.retain(|replica| replica.phase() == Phase::Online || replica.has_copy());
    let reply = &mut call.reply;
    reply.array(3);
    reply.bulk(b"master");
    reply.int(replication.downstream.stream.end().cast_signed());
    reply.array(replicas.len());
    for replica in replicas {
        let (ip, port) = address(&replica);
        reply.array(3);
        reply.bulk(ip.as_bytes());
        reply.bulk(port.to_string().as_bytes());
        reply.bulk(replica.acknowledged().position.to_string().as_bytes());
    }
    Ok(())
}

fn of_replica(call: &mut Call<'_, '_>, told: &LinkReport) {
    let reply = &mut call.reply;
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(told.primary.host.as_bytes());
    reply.int(told.primary.port.into());
    reply.bulk(told.phase.word().as_bytes());
    let is_connected = told.phase == LinkPhase::Connected;
    reply.int(if is_connected { told.position.cast_signed() } else { -1 });
}
