"""Servers that end and come back: the primary, the replica, killed or shut down."""

import shutil
import time

from contents import contents, differences, equal, knows_field_deadlines
from nodes import linked, settle, until
from scenarios.roles import QUIET, Counter
from trial import fill, scenario


@scenario()
def primary_killed_in_the_stream(trial):
    """kill -9 of the primary under load; it comes back with an older file: so does the replica."""
    primary, replica = trial.pair()
    fill(primary, 300)
    # The child that has made the full copy may not be gone yet.
    until(lambda: primary.call("SAVE") == b"OK", "it saves")
    with trial.writers(primary, may_fail=True) as writers:
        writers.wait_for(1_000)
        primary.kill()
        writers.end()
    until(lambda: not replica.is_linked(), "the replica sees it")
    primary.start()
    linked(replica)
    assert equal(primary, replica) == 300


@scenario()
def replica_shut_down(trial):
    """A replica that has saved goes on where it was, after a restart under load."""
    primary, replica = trial.pair(primary={"repl_backlog_size": "64mb"})
    replica.settings["replicaof"] = "{} {}".format(*primary.address)
    replica.write_file()
    with trial.writers(primary) as writers:
        writers.wait_for(1_000)
        replica.shut_down("SAVE")
        writers.wait_for(1_000)
        replica.start()
        linked(replica)
        writers.wait_for(500).end()
    equal(primary, replica)
    assert primary.stat("sync_full") == 1, primary.info("stats")
    assert primary.stat("sync_partial_ok") == 1, primary.info("stats")


@scenario(rows=["valkey>pantala", "redis>pantala"])
def files_of_others(trial):
    """The append-only file of Valkey or Redis, written anew as commands while clients write, is
    loaded as it is, and no command of it fails: each key is what it was there, or what they load.

    They do not write all: a pending entry that was deleted is lost with the file. Nor do they load
    all: Redis forgets how many entries a stream has had."""
    other = trial.node(0, appendonly="yes", aof_use_rdb_preamble="no")
    with trial.writers(other, short=False) as writers:
        writers.wait_for(3_000)
        assert isinstance(other.call("BGREWRITEAOF"), bytes)
        until(lambda: other.info("persistence")["aof_rewrite_in_progress"] == "0", "it is written")
        writers.wait_for(6_000).end()
    with_fields = knows_field_deadlines(other)
    before = contents(other, with_fields)
    other.end()
    ours = trial.not_started(1, appendonly="yes")
    shutil.copytree(other.directory / "appendonlydir", ours.directory / "appendonlydir")
    other.start()
    reloaded = contents(other, with_fields)
    ours.start()
    here = contents(ours, with_fields)
    unlike_reloaded = {line.split(": ")[0] for line in differences(reloaded, here)}
    found = [one for one in differences(before, here) if one.split(": ")[0] in unlike_reloaded]
    assert not found, found[:3]
    assert ours.stat("unexpected_error_replies") == 0, ours.log_text()[-600:]


SAVES = {"save": "3600 1"}


@scenario()
def primary_ended_by_a_signal(trial):
    """SIGTERM of a primary that saves, whose replica has everything: nothing is added to the stream
    any more, and the replica goes on where it was."""
    primary, replica = trial.pair(primary=QUIET | SAVES)
    fill(primary, 50)
    settle(primary, replica)
    end = primary.info()["master_repl_offset"]
    until(lambda: f"offset={end}," in primary.info()["slave0"], "the replica has said so")
    primary.end()
    primary.start()
    linked(replica)
    assert primary.info()["master_repl_offset"] == end, (end, primary.info())
    assert (primary.stat("sync_full"), primary.stat("sync_partial_ok")) == (0, 1)


@scenario()
def primary_saves_slowly_at_its_end(trial):
    """While a primary saves before its end no ping goes out, with which the replica would be ahead
    of the file."""
    primary, replica = trial.pair(primary=SAVES)
    fill(primary, 30)
    settle(primary, replica)
    primary.set("rdb-key-save-delay", 100_000)
    primary.end()
    primary.start()
    linked(replica)
    assert (primary.stat("sync_full"), primary.stat("sync_partial_ok")) == (0, 1)
    assert equal(primary, replica) == 30


@scenario()
def expired_meanwhile(trial):
    """Keys whose time passes while their primary is away are gone at the replica, too, which goes
    on where it was; CONFIG RESETSTAT begins to count anew."""
    primary, replica = trial.pair(primary=QUIET)
    fill(primary, 50)
    trial.need(primary, "DEBUG", "SET-ACTIVE-EXPIRE", 0)
    primary.want(b"OK", "DEBUG", "SET-ACTIVE-EXPIRE", 0)
    with primary.client() as client:
        for number in range(200):
            client.want(b"OK", "SET", f"short:{number}", "v", "PX", 1)
    settle(primary, replica)
    assert replica.call("DBSIZE") == 250
    primary.shut_down("SAVE", "NOW")
    primary.start()
    linked(replica)
    for node in (primary, replica):
        until(lambda: node.call("DBSIZE") == 50, f"the keys are gone from {node}")
    assert equal(primary, replica) == 50
    assert (primary.stat("sync_full"), primary.stat("sync_partial_ok")) == (0, 1)
    primary.want(b"OK", "CONFIG", "RESETSTAT")
    assert primary.stat("sync_partial_ok") == 0


@scenario()
def replica_killed_in_the_stream(trial):
    """kill -9 of a replica under load: it comes back with a full copy."""
    primary, replica = trial.pair()
    replica.settings["replicaof"] = "{} {}".format(*primary.address)
    replica.write_file()
    with trial.writers(primary) as writers:
        writers.wait_for(1_000)
        replica.kill()
        writers.wait_for(500)
        replica.start()
        linked(replica)
        writers.end()
    equal(primary, replica)


@scenario()
def append_only_replica(trial):
    """A replica with an append-only file: killed, and started as a primary, it has it all."""
    primary, replica = trial.pair(replica={"appendonly": "yes", "appendfsync": "always"})
    with trial.writers(primary) as writers:
        writers.wait_for(1_500).end()
    equal(primary, replica)
    # The first file is there.
    until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", "a file")
    settle(primary, replica)
    replica.kill()
    replica.start()
    assert replica.info()["role"] == "master"
    found = differences(contents(primary), contents(replica))
    assert not found, found[:5]
    replica.follow(primary.address)
    linked(replica)
    equal(primary, replica)


FILE = {"appendonly": "yes"}


@scenario(rows=("pantala>pantala", "redis>pantala", "valkey>pantala"))
def append_only_replica_shut_down(trial):
    """A replica with an append-only file goes on where it was, after a shutdown under load; killed,
    it takes a full copy."""
    primary, replica = trial.pair(replica=FILE)
    replica.settings["replicaof"] = "{} {}".format(*primary.address)
    replica.write_file()
    until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", "a file")
    with trial.writers(primary) as writers:
        for _ in range(2):
            writers.wait_for(800)
            replica.shut_down("NOSAVE")
            writers.wait_for(800)
            replica.start()
            linked(replica)
        writers.wait_for(300).end()
    equal(primary, replica)
    counts = primary.stat("sync_full"), primary.stat("sync_partial_ok")
    assert counts == (1, 2), (counts, replica.log_text()[-600:])
    replica.kill()
    primary.want(b"OK", "SET", "k", "v")
    replica.start()
    linked(replica)
    equal(primary, replica)
    assert primary.stat("sync_full") == 2, primary.info("stats")


@scenario(rows=("pantala>pantala", "pantala>redis", "pantala>valkey"))
def append_only_primary_shut_down(trial):
    """Replicas of a primary with an append-only file go on where they were, after its shutdown; and
    hear of what has expired meanwhile."""
    primary, replica = trial.pair(primary=FILE)
    until(lambda: primary.info("persistence")["aof_rewrite_in_progress"] == "0", "a file")
    for _ in range(2):
        with trial.writers(primary) as writers:
            writers.wait_for(800).end()
        with primary.client() as client:
            for number in range(100):
                client.want(b"OK", "SET", f"ends:{number}", "v", "PX", 3_000)
        settle(primary, replica)
        primary.shut_down("NOSAVE")
        until(lambda: replica.call("GET", "ends:99") is None, "they have expired")
        primary.start()
        linked(replica)
        equal(primary, replica)
        until(lambda: primary.call("DBSIZE") == replica.call("DBSIZE"), "the same keys")
        counts = primary.stat("sync_full"), primary.stat("sync_partial_ok")
        assert counts == (0, 1), (counts, primary.log_text()[-600:])
    primary.want(b"OK", "SET", "k", "v")
    primary.kill()
    primary.start()
    linked(replica)
    equal(primary, replica)
    assert primary.stat("sync_full") == 1, primary.info("stats")


@scenario()
def shut_down_under_load(trial):
    """SHUTDOWN of the primary waits for its replica: nothing that was acknowledged is missing."""
    primary, replica, proxy = trial.proxied(primary={"repl_ping_replica_period": 3_600})
    proxy.latency_s = 0.02
    counter = Counter(primary)
    try:
        until(lambda: counter.acknowledged > 200, "some writes")
        primary.shut_down("NOSAVE")
    finally:
        counter.end()
    until(lambda: not replica.is_linked(), "the replica sees it")
    found = int(replica.call("GET", "counter"))
    assert found >= counter.acknowledged, f"{found} of {counter.acknowledged}"


@scenario()
def rewritten(trial):
    """CONFIG REWRITE keeps what is followed, and by whom: after a restart it holds."""
    primary, replica = trial.node(0, requirepass="secret"), trial.node(1)
    primary.credentials = ("secret",)
    fill(primary, 30)
    replica.set("masterauth", "secret")
    replica.set("replica-priority", 7)
    replica.follow(primary.address)
    linked(replica)
    replica.want(b"OK", "CONFIG", "REWRITE")
    replica.kill()
    replica.start()
    linked(replica)
    assert replica.info()["slave_priority"] == "7"
    assert equal(primary, replica) == 30
    replica.lead()
    replica.want(b"OK", "CONFIG", "REWRITE")
    replica.kill()
    replica.start()
    assert replica.info()["role"] == "master"


@scenario(rows=["pantala>pantala", "valkey>valkey", "pantala>valkey"])
def stopped_before_the_first_copy(trial):
    """A primary that has sent nothing but a part of its first copy stops at once: the replica,
    which had followed another, keeps its data and history, and goes on there."""
    first, replica = trial.pair(QUIET)
    first.want(b"OK", "SET", "k", "v")
    settle(first, replica)
    second = trial.node(0, repl_diskless_sync_delay=0)
    second.want(b"OK", "DEBUG", "POPULATE", 10)
    second.want(b"OK", "CONFIG", "SET", "rdb-key-save-delay", 1_000_000)
    replica.follow(second.address)
    until(lambda: "wait_bgsave" in second.info().get("slave0", ""), "the copy begins")
    began = time.monotonic()
    second.shut_down("NOSAVE")
    assert time.monotonic() - began < 5, "it waits for what the replica cannot lack"
    replica.follow(first.address)
    linked(replica)
    replica.want(b"v", "GET", "k")
    assert first.stat("sync_full") == 1, first.info("stats")
