"""Servers that end and come back: the primary, the replica, killed or shut down."""

from contents import equal
from nodes import linked, settle, until
from trial import fill, scenario


@scenario()
def primary_killed_in_the_stream(trial):
    """kill -9 of the primary under load; it comes back with an older file: so does the replica."""
    primary, replica = trial.pair()
    fill(primary, 300)
    primary.want(b"OK", "SAVE")
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
    count = equal(primary, replica)
    # The first file is there.
    until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", "a file")
    settle(primary, replica)
    replica.kill()
    replica.start()
    assert replica.info()["role"] == "master"
    replica.follow(primary.address)
    linked(replica)
    assert equal(primary, replica) == count
