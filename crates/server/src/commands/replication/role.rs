//! ROLE.

use pantala_commands::{Call, Category, Command, Done, Flags, Group};
use pantala_replication::Phase;

use crate::replication::primary::address;
use crate::shared::Shared;

pub(super) const ROLE: Command = Command::new("ROLE", role, Group::Server)
    .arity(1)
    .flags(Flags::FAST.and(Flags::LOADING).and(Flags::STALE).and(Flags::NOSCRIPT))
    .categories(&[Category::Admin, Category::Dangerous])
    .since("2.8.12")
    .summary("Tells the server's part in replication.");

fn role(call: &mut Call<'_, '_>) -> Done {
    let replication = &Shared::of(call).replication;
    let mut replicas = replication.replicas.all();
    replicas.retain(|replica| replica.phase() == Phase::Online || replica.has_copy());
    let reply = &mut call.reply;
    reply.array(3);
    reply.bulk(b"master");
    reply.int(replication.stream.end().cast_signed());
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
