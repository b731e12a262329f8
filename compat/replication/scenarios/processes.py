"""Servers that end and come back: the primary, the replica, killed or shut down."""

from contents import contents, differences, equal
from nodes import linked, settle, until
from scenarios.roles import Counter
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
