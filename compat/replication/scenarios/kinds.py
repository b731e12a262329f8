"""Followers of other kinds, which do not know all of our commands: they have the same keys and
values all the same, no transaction is lost, and they complain of nothing (docs/followers.md).
"""

import shutil

from contents import differences, contents, equal
from nodes import linked, until
from trial import is_error, scenario

FAR_MS = 33_177_117_420_000
KINDS = ("pantala>valkey>redis",)
# How a replica says that what its primary sends is wrong.
COMPLAINTS = ("CRITICAL", "sending an error to its master", "sending an error to its primary")


def followers(trial, **settings):
    """A primary, and directly behind it one of each other kind."""
    primary, *replicas = trial.node(0, **settings), trial.node(1), trial.node(2)
    for replica in replicas:
        replica.follow(primary.address)
    linked(*replicas)
    return primary, *replicas


@scenario(ends=3, rows=KINDS)
def commands_of_our_own(trial):
    """All of our commands at random, alone, in MULTI and in scripts: the same keys and values."""
    primary, valkey, redis = followers(trial)
    with trial.writers(primary, clients=3, own=True) as writers:
        writers.wait_for(100_000 if trial.is_long else 9_000).end()
    trial.note(f"{equal(primary, valkey)} keys after {writers.count} commands")
    equal(primary, redis)
    for replica in (valkey, redis):
        log = replica.log_text()
        assert not any(words in log for words in COMPLAINTS), log[-2000:]
        assert replica.info("stats")["unexpected_error_replies"] == "0"
    counts = primary.info("replication")
    assert (counts["replicas_of_valkey"], counts["replicas_of_redis"]) == ("1", "1"), counts
    assert int(counts["commands_for_pantala_only"]) > 0, counts
    assert int(counts["commands_beyond_redis70"]) > 0, counts
    until(lambda: primary.log_text().count("a replica of another kind does not get") == 2,
          "the log tells of both")


@scenario(ends=3, rows=KINDS)
def files_for_other_kinds(trial):
    """An append-only file with all of our commands is loaded by the others: the same contents."""
    primary = trial.node(0, appendonly="yes", appendfsync="always", snapshot_portable="yes")
    until(lambda: primary.info("persistence")["aof_rewrite_in_progress"] == "0", "a file is there")
    with trial.writers(primary, clients=2, own=True, fields=True, short=False) as writers:
        writers.wait_for(3_000).end()
    here = contents(primary, True)
    primary.end()
    for place in (1, 2):
        other = trial.not_started(place, appendonly="yes")
        shutil.copytree(primary.directory / "appendonlydir", other.directory / "appendonlydir")
        other.start()
        with_fields = other.kind == "valkey"
        found = differences(here if with_fields else without_fields(here),
                            contents(other, with_fields))
        assert not found, found[:5]


def without_fields(here):
    """The same without deadlines of fields, which Redis 7.0 does not know."""
    def plain(row):
        kind, deadline, value = row
        return (kind, deadline, value[0]) if kind == b"hash" and value else row

    databases = here["databases"].items()
    return {"functions": here["functions"],
            "databases": {number: {key: plain(row) for key, row in keys.items()}
                          for number, keys in databases}}


@scenario(ends=3, rows=KINDS)
def unknown_is_refused(trial):
    """repl-refuse-unknown: what a follower does not know is refused, alone and in a transaction."""
    primary, valkey, redis = followers(trial, repl_refuse_unknown="yes")
    with primary.client() as client:
        of_fields = ("HSETEX", "h", "PXAT", FAR_MS, "FIELDS", 1, "f", "v")
        for command in (of_fields, ("SADDEX", "s", 100, "m"), ("STICK", "k")):
            answer = client.call(*command)
            assert is_error(answer, "NOREPLICAS"), answer
        client.want(b"OK", "MULTI")
        assert is_error(client.call("ZEXPIRE", "z", 9, "MEMBERS", 1, "m"), "NOREPLICAS")
        assert is_error(client.call("EXEC"), "EXECABORT")
        client.want(b"OK", "SET", "k", "v")
        redis.call("REPLICAOF", "NO", "ONE")
        until(lambda: client.call(*of_fields) == 1, "Valkey knows deadlines of fields")
        assert is_error(client.call("STICK", "k"), "NOREPLICAS")
        valkey.call("REPLICAOF", "NO", "ONE")
        until(lambda: client.call("STICK", "k") == 1, "nobody follows")


@scenario(ends=3, rows=("pantala>pantala>redis", "valkey>valkey>valkey"))
def wait_in_a_script(trial):
    """WAIT in a script counts who has acknowledged what its client has written before."""
    primary, replica, third = trial.node(0), trial.node(1), trial.node(2)
    proxy = trial.proxy(primary.address)
    replica.follow(primary.address)
    third.follow(proxy.address)
    linked(replica, third)
    with primary.client() as client:
        client.want(b"OK", "SET", "k", 1)
        client.want(2, "WAIT", 2, 0)
        proxy.hold()
        client.want(b"OK", "SET", "k", 2)
        client.want(1, "WAIT", 1, 0)
        client.want(1, "EVAL", "return redis.call('wait', '2', '0')", 0)
        client.want(b"OK", "MULTI")
        client.want(b"QUEUED", "EVAL", "return redis.call('wait', '2', '0')", 0)
        client.want(b"QUEUED", "WAIT", 2, 0)
        client.want([1, 1], "EXEC")
        proxy.release()
        client.want(2, "WAIT", 2, 0)


@scenario(rows=("pantala>pantala", "valkey>valkey"))
def a_script_says_who_is_told(trial):
    """redis.set_repl: what a script keeps from replicas they do not have."""
    primary, replica = trial.pair()
    script = ("redis.set_repl(redis.REPL_NONE) redis.call('SET', KEYS[1], 1) "
              "redis.set_repl(redis.REPL_AOF) redis.call('SET', KEYS[2], 1) "
              "redis.set_repl(redis.REPL_REPLICA) redis.call('SET', KEYS[3], 1) "
              "redis.set_repl(redis.REPL_ALL) return redis.call('SET', KEYS[4], 1)")
    with primary.client() as client:
        client.want(b"OK", "EVAL", script, 4, "none", "file", "replica", "all")
        client.want(b"OK", "SET", "after", 1)
        client.want(1, "WAIT", 1, 0)
    assert replica.call("EXISTS", "replica", "all", "after") == 3
    assert replica.call("EXISTS", "none", "file") == 0
    assert primary.call("DBSIZE") == 5


@scenario(rows=("pantala>pantala", "valkey>valkey"))
def redirections(trial):
    """CLIENT CAPA REDIRECT: a replica sends writes, and reads without READONLY, to its primary."""
    primary, replica = trial.pair()
    there = f"REDIRECT 127.0.0.1:{primary.port}"
    with replica.client() as client, primary.client() as queued:
        client.want(b"OK", "CLIENT", "CAPA", "REDIRECT")
        for command in (("GET", "k"), ("SET", "k", 1), ("KEYS", "*"), ("EVAL", "#!lua\n", 0)):
            assert client.call(*command) == there, command
        client.want(b"PONG", "PING")
        client.want(1, "EVAL", "return 1", 0)
        client.want(b"OK", "MULTI")
        assert client.call("GET", "k") == there
        assert is_error(client.call("EXEC"), "EXECABORT")
        client.want(b"OK", "READONLY")
        client.want(None, "GET", "k")
        assert client.call("SET", "k", 1) == there
        client.want(b"OK", "READWRITE")
        assert client.call("GET", "k") == there
        # What was kept before the role changed.
        queued.want(b"OK", "CLIENT", "CAPA", "REDIRECT")
        queued.want(b"OK", "MULTI")
        queued.want(b"QUEUED", "SET", "k", 1)
        replica.call("REPLICAOF", "NO", "ONE")
        client.want(b"OK", "SET", "k", 2)
        primary.follow(replica.address)
        assert queued.call("EXEC") == f"REDIRECT 127.0.0.1:{replica.port}"


@scenario(rows=("pantala>pantala", "valkey>valkey"))
def redirections_wait_for_failover(trial):
    """While the role is handed over who follows redirections waits, and is sent to the new one."""
    primary, replica, proxy = trial.proxied()
    with primary.client() as client:
        client.want(b"OK", "CLIENT", "CAPA", "REDIRECT")
        client.want(b"OK", "SET", "k", 1)
        client.want(1, "WAIT", 1, 0)
        primary.call("FAILOVER")
        # Before the role is handed over it is taken, while it is it waits.
        answers = []

        def is_sent_on():
            answers.append(client.call("SET", "k", len(answers)))
            return answers[-1] != b"OK"

        until(is_sent_on, "it is sent on")
    assert answers[-1] == f"REDIRECT 127.0.0.1:{replica.port}", answers
    linked(primary)
    taken = len(answers) - 2
    assert replica.call("GET", "k") == (str(taken).encode() if taken >= 0 else b"1")


@scenario(rows=("pantala>pantala", "valkey>valkey"))
def the_link_comes_from(trial):
    """bind-source-addr: the link to the primary comes from this address."""
    primary, replica = trial.node(0), trial.node(1, bind_source_addr="127.0.0.2")
    replica.follow(primary.address)
    linked(replica)
    until(lambda: "ip=127.0.0.2" in str(primary.info("replication").get("slave0")),
          "the link is from there")


@scenario(ends=1)
def waitaof_without_a_file(trial):
    """Who waits for the file is answered when there is none any more."""
    node = trial.node(0, appendonly="yes", appendfsync="no")
    trial.need(node, "WAITAOF", 0, 0, 1)
    with node.client() as client:
        client.want(b"OK", "SET", "k", 1)
        client.write(b"*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n0\r\n")
        until(lambda: node.info("clients")["blocked_clients"] == "1", "it waits")
        node.call("CONFIG", "SET", "appendonly", "no")
        answer = client.read()
    assert is_error(answer, "ERR WAITAOF cannot be used when numlocal is set but"), answer
