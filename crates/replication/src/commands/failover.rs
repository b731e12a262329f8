//! FAILOVER: exchanges the roles of this primary and one of its replicas.

use std::time::Duration;

use pantala_base::number::parse_i64;
use pantala_commands::{
    Call, ClientError, Command, CommandResult, Flags, Group, error, options::is_word,
};
use pantala_psync::Phase;

use crate::Replication;
use crate::failover::{self, FailoverRequest, FailoverStep, is_meant};
use crate::replica::Primary;

pub(super) const FAILOVER: Command = Command::new("FAILOVER", hand_over, Group::Server)
    .arity(-1)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE))
    .since("6.2.0")
    .complexity("O(1)")
    .syntax("[TO (target: host port:int [FORCE])] [ABORT] [TIMEOUT milliseconds:int]")
    .summary("Hands the role of primary over to a replica.");

const BAD_TIMEOUT: ClientError = ClientError::text("ERR FAILOVER timeout must be greater than 0");
const NOTHING: ClientError = ClientError::text("ERR No failover in progress.");
const UNDER_WAY: ClientError = ClientError::text("ERR FAILOVER already in progress.");
const IS_REPLICA: ClientError =
    ClientError::text("ERR FAILOVER is not valid when server is a replica.");
const NO_REPLICA: ClientError = ClientError::text("ERR FAILOVER requires connected replicas.");
const HALF_FORCED: ClientError = ClientError::text(
    "ERR FAILOVER with force option requires both a timeout and target HOST and IP to be set.",
);
const UNKNOWN: ClientError =
    ClientError::text("ERR FAILOVER target HOST and PORT is not a replica.");
const NOT_ONLINE: ClientError = ClientError::text("ERR FAILOVER target replica is not online.");

fn hand_over(call: &mut Call<'_, '_>) -> CommandResult {
    let (wanted, aborts) = parse(&call.args[1..])?;
    let replication = Replication::of(call);
    let failover = &replication.failover;
    if aborts {
        if !failover.abort() {
            return Err(NOTHING.into());
        }
        call.reply.ok();
        return Ok(());
    }
    check(replication, &wanted)?;
    let replication = replication.arc().ok_or(ClientError::text("ERR the server stops"))?;
    match failover::begin(&replication, wanted) {
        Ok(true) => call.reply.ok(),
        Ok(false) => return Err(UNDER_WAY.into()),
        Err(why) => return Err(ClientError::new(format!("ERR {why}")).into()),
    }
    Ok(())
}

fn parse(mut words: &[&[u8]]) -> Result<(FailoverRequest, bool), ClientError> {
    let (mut wanted, mut aborts, is_alone) = (FailoverRequest::default(), false, words.len() == 1);
    while let [word, rest @ ..] = words {
        words = match (word, rest) {
            (word, [time, rest @ ..]) if is_word(word, "TIMEOUT") && wanted.timeout.is_none() => {
                let ms = parse_i64(time).ok_or(error::NOT_INTEGER)?;
                let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0).ok_or(BAD_TIMEOUT)?;
                wanted.timeout = Some(Duration::from_millis(ms));
                rest
            }
            (word, rest) if is_word(word, "ABORT") && is_alone => {
                aborts = true;
                rest
            }
            (word, [host, port, rest @ ..]) if is_word(word, "TO") && wanted.target.is_none() => {
                let port = parse_i64(port).ok_or(error::NOT_INTEGER)?;
                let host = String::from_utf8_lossy(host).into_owned();
                let port = u16::try_from(port).map_err(|_| UNKNOWN)?;
                wanted.target = Some(Primary { host, port });
                rest
            }
            (word, rest) if is_word(word, "FORCE") && !wanted.is_forced => {
                wanted.is_forced = true;
                rest
            }
            _ => return Err(error::SYNTAX),
        };
    }
    Ok((wanted, aborts))
}

fn check(replication: &Replication, wanted: &FailoverRequest) -> Result<(), ClientError> {
    if replication.failover.step() != FailoverStep::Nothing {
        return Err(UNDER_WAY);
    }
    if replication.is_replica() {
        return Err(IS_REPLICA);
    }
    let replicas = replication.downstream.replicas.all();
    if replicas.is_empty() {
        return Err(NO_REPLICA);
    }
    if wanted.is_forced && (wanted.timeout.is_none() || wanted.target.is_none()) {
        return Err(HALF_FORCED);
    }
    if let Some(target) = &wanted.target {
        let found = replicas.iter().find(|one| is_meant(one, target)).ok_or(UNKNOWN)?;
        if found.phase() != Phase::Online {
            return Err(NOT_ONLINE);
        }
    }
    Ok(())
}
