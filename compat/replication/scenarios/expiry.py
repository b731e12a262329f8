"""Expiry and eviction: a replica hides what has expired, and removes it only when it is told."""

from contents import equal
from nodes import linked, settle, until
from trial import scenario

HIDDEN = (("GET", b"k", None), ("EXISTS", b"k", 0), ("TTL", b"k", -2), ("PEXPIRETIME", b"k", -2),
          ("TYPE", b"k", b"none"), ("STRLEN", b"k", 0), ("DUMP", b"k", None), ("TOUCH", b"k", 0))


def with_expired_key(trial):
    """A pair whose replica has a key that has expired, of which the primary has said nothing."""
    primary, replica = trial.pair()
    trial.need(primary, "DEBUG", "SET-ACTIVE-EXPIRE", 0)
    primary.want(b"OK", "DEBUG", "SET-ACTIVE-EXPIRE", 0)
    primary.want(b"OK", "SET", "stays", "v")
    primary.want(b"OK", "SET", "k", "v", "PX", 300)
    settle(primary, replica)
    assert replica.call("DBSIZE") == 2
    until(lambda: replica.call("EXISTS", "k") == 0, "it has expired")
    return primary, replica


@scenario()
def hidden_until_told(trial):
    """An expired key is not shown by a replica, but is there until the primary removes it."""
    primary, replica = with_expired_key(trial)
    for command, key, wanted in HIDDEN:
        replica.want(wanted, command, key)
    replica.want([b"stays"], "KEYS", "*")
    replica.want(b"stays", "RANDOMKEY")
    replica.want([b"0", [b"stays"]], "SCAN", 0, "COUNT", 100)
    assert replica.call("DBSIZE") == 2, "the replica has removed it by itself"
    primary.want(None, "GET", "k")
    settle(primary, replica)
    assert replica.call("DBSIZE") == 1


@scenario()
def set_anew(trial):
    """An expired key that the primary sets again comes to life, as it was not."""
    primary, replica = with_expired_key(trial)
    primary.want(1, "SADD", "k", "member")
    settle(primary, replica)
    replica.want([b"member"], "SMEMBERS", "k")
    replica.want(-1, "TTL", "k")


@scenario()
def alone_it_removes_nothing(trial):
    """With its primary gone a replica goes on hiding; promoted, it removes."""
    primary, replica = with_expired_key(trial)
    primary.kill()
    replica.want(None, "GET", "k")
    assert replica.call("DBSIZE") == 2
    replica.lead()
    replica.want(None, "GET", "k")
    until(lambda: replica.call("DBSIZE") == 1, "a primary removes it")


@scenario()
def deadlines_are_moments(trial):
    """Deadlines reach a replica as moments, whatever command has set them."""
    primary, replica = trial.pair()
    with primary.client() as client:
        client.call("SET", "a", "v", "EX", 100)
        client.call("SETEX", "b", 100, "v")
        client.call("SET", "c", "v")
        client.call("EXPIRE", "c", 100)
        client.call("GETEX", "c", "PX", 99_999)
        client.call("EVAL", "redis.call('SET', 'd', 'v', 'PX', 50000)", 1, "d")
        client.call("MULTI")
        client.call("SET", "e", "v", "EX", 77)
        client.call("EXPIRE", "a", 55)
        client.call("EXEC")
        client.call("RESTORE", "f", 60_000, client.call("DUMP", "a"))
        client.call("COPY", "f", "g")
    assert equal(primary, replica) == 7


@scenario()
def evicted_by_the_primary(trial):
    """What a primary evicts its replica loses; a full replica evicts nothing by itself."""
    primary, replica = trial.pair(
        primary={"repl_backlog_size": "64kb"},
        replica={"maxmemory": "1mb", "maxmemory-policy": "allkeys-lru"})
    primary.set("maxmemory-policy", "allkeys-random")
    with primary.client() as client:
        used = int(primary.info("memory")["used_memory"])
        primary.set("maxmemory", used + (4 << 20))
        for number in range(6_000):
            client.call("SET", f"key:{number}", "x" * 1_000)
    assert primary.stat("evicted_keys") > 0, primary.info("stats")
    count = equal(primary, replica)
    assert count > 100, count
    assert replica.stat("evicted_keys") == 0, replica.info("stats")
    trial.note(f"{count} of 6000 keys are left")


@scenario()
def expired_while_the_primary_was_away(trial):
    """Keys that expire while a primary is down are gone at its replica, which goes on by itself."""
    primary, replica = trial.pair()
    with primary.client() as client:
        for number in range(300):
            client.want(b"OK", "SET", f"ends:{number}", "v", "PX", 4_000)
            client.want(b"OK", "SET", f"stays:{number}", "v", "EX", 10_000)
        client.want(b"OK", "SELECT", 7)
        client.want(b"OK", "SET", "ends", "v", "PX", 4_000)
        client.want(2, "HSET", "hash", "f", "v", "g", "v")
    settle(primary, replica)
    primary.shut_down("SAVE")
    with replica.client() as client:
        client.want(b"OK", "SELECT", 7)
        until(lambda: client.call("GET", "ends") is None, "the last one has expired")
    assert replica.call("DBSIZE") == 600, "a replica has removed them by itself"
    primary.start()
    linked(replica)
    settle(primary, replica)
    sizes = primary.call("DBSIZE"), replica.call("DBSIZE")
    assert sizes == (300, 300), (sizes, primary.info("stats"))
    assert equal(primary, replica) == 301
    assert primary.stat("sync_full") == 0, primary.info("stats")
    assert primary.stat("sync_partial_ok") == 1, primary.info("stats")
    replica.lead()
    assert replica.call("DBSIZE") == 300
