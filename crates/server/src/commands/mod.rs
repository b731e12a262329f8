//! Commands about the server itself; each file a family, as in the crate `commands`.

mod absent;
pub(crate) mod acl;
pub mod client;
mod command;
mod commandlog;
mod config;
mod debug;
mod hotkeys;
pub(crate) mod info;
mod latency;
mod lolwut;
mod memcached;
mod memory;
mod migrate;
mod monitor;
pub mod pages;
mod replication;
mod server;

use pantala_commands::{Command, Registry, Session, families};

use crate::worker::accept::is_loopback;

/// The version of Redis whose commands clients may expect: they look at it to know what there is.
/// All of 7.4 is here, and redis-py keeps no cache before it.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

/// All families of the server.
pub fn families() -> Vec<&'static [Command]> {
    vec![
        families::connection::ROWS,
        families::databases::ROWS,
        families::generic::ROWS,
        families::string::ROWS,
        families::transaction::ROWS,
        families::list::ROWS,
        families::set::ROWS,
        families::zset::ROWS,
        families::hash::ROWS,
        families::stream::ROWS,
        families::bitmap::ROWS,
        families::hyperloglog::ROWS,
        families::geo::ROWS,
        families::memcached::ROWS,
        families::sort::ROWS,
        absent::ROWS,
        acl::ROWS,
        client::ROWS,
        command::ROWS,
        commandlog::ROWS,
        config::ROWS,
        debug::ROWS,
        pantala_engine::functions::ROWS,
        hotkeys::ROWS,
        info::ROWS,
        latency::ROWS,
        lolwut::ROWS,
        memcached::ROWS,
        memory::ROWS,
        migrate::ROWS,
        monitor::ROWS,
        pantala_engine::pubsub::commands::ROWS,
        pantala_engine::scripts::ROWS,
        replication::ROWS,
        server::ROWS,
    ]
}

/// The command table, with every command under its own name.
pub fn registry() -> Registry {
    Registry::new(&families())
}

/// Whether a client sits on this machine.
fn is_local(session: &Session) -> bool {
    session.peer.is_empty() || session.peer.starts_with('/') || is_loopback(&session.peer)
}

#[cfg(test)]
mod tests {
    use pantala_commands::Flags;

    use super::*;

    /// Commands that change something and are recorded as they came: run again, they do the same.
    /// What they look at (other keys, conditions) is the same by then, too.
    const AS_THEY_CAME: &str = "\
        append bitfield bitop copy decr decrby del geoadd georadius georadiusbymember \
        geosearchstore hdel hincrby hmset hset hsetnx incr incrby linsert lmove lpop lpush \
        lpushx lrem lset move mset msetnx persist pfadd pfcount pfdebug pfmerge rename \
        renamenx rpop rpoplpush rpush rpushx sadd sdiffstore setbit setnx setrange \
        sinterstore smove sort srem stick sunionstore unlink unstick xack xdel xgroup|create \
        xgroup|createconsumer xgroup|delconsumer xgroup|destroy xgroup|setid xsetid zadd \
        zdiffstore zincrby zinterstore zpopmax zpopmin zrangestore zrem zremrangebylex \
        zremrangebyrank zremrangebyscore zunionstore";
    /// Commands whose handlers say what is to be recorded: they count from now, take by chance,
    /// wait, add fractions, depend on how something lies in memory, or few servers know them.
    const IN_A_FORM: &str = "\
        blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin cl.throttle delex \
        delifeq expire expireat fieldexpire getdel getex getset hexpire hexpireat hgetdel \
        hgetex hincrbyfloat hpersist hpexpire hpexpireat hsetex incrbyfloat lmpop ltrim \
        mc.add mc.append mc.b.append mc.b.decr mc.b.delete mc.b.gat mc.b.incr mc.b.set \
        mc.b.toolarge mc.b.touch mc.cas mc.decr mc.delete mc.gat mc.gats mc.incr mc.ma mc.mad \
        mc.md mc.mgc mc.mgt mc.ms mc.msa mc.mstoolarge mc.prepend mc.replace mc.set mc.toolarge \
        mc.touch migrate msetex pexpire pexpireat psetex restore restore-asking saddex set setex \
        spexpireat spop xackdel xadd xautoclaim xclaim xdelex xreadgroup xtrim zexpire zexpireat \
        zmpop zpersist zpexpire zpexpireat";
    /// Commands that run others, or whose changes the keyspace records.
    const BY_WHAT_THEY_CAUSE: &str = "\
        eval evalsha fcall flushall flushdb function|delete function|flush function|load \
        function|restore mc.b.flush mc.flush_all publish spublish swapdb zcollect";

    #[test]
    fn it_is_known_of_every_command_that_changes_something_how_it_is_recorded() {
        let registry = registry();
        let changes = Flags::WRITE.and(Flags::MAY_REPLICATE);
        let rows = registry.rows().iter().filter(|row| row.flags.has(changes));
        let mut names: Vec<_> = rows.map(|row| row.full_name()).collect();
        names.sort_unstable();
        let known = [AS_THEY_CAME, IN_A_FORM, BY_WHAT_THEY_CAUSE];
        let known = known.iter().flat_map(|names| names.split(' '));
        let mut known: Vec<_> = known.map(str::to_string).collect();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
