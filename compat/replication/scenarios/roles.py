"""Roles that change: promotion under load, swapped roles, siblings, FAILOVER."""

import contextlib
import os
import signal
import threading
from pathlib import Path

from client import Closed, ErrorReply
from contents import equal
from nodes import linked, settle, until
from transfers import Transfers, amounts
from trial import is_error, scenario

# No ping may stand between what two servers know of a history that ends.
QUIET = {"repl_ping_replica_period": 3_600}


@scenario()
def promoted_under_load(trial):
    """REPLICAOF NO ONE under load: what is there is whole, writes are taken; and back again."""
    primary, replica = trial.pair()
    transfers = Transfers(primary)
    try:
        goal = transfers.count + 500
        until(lambda: transfers.count > goal, "some transfers")
        settle_history(replica)
        replica.lead()
        assert replica.info()["role"] == "master"
        with replica.client() as client:
            there = amounts(client)
            client.want(b"OK", "SET", "own", "v")
            assert amounts(client) == there, "something still arrives"
        replica.follow(primary.address)
        linked(replica)
    finally:
        transfers.end()
    equal(primary, replica)
    replica.want(0, "EXISTS", "own")


def settle_history(replica):
    until(lambda: replica.call("EXISTS", "a63") == 1, "the accounts arrive")


@scenario()
def swapped(trial):
    """Primary and replica change places, and again: each time the other goes on where it was."""
    one, other = trial.pair(QUIET, QUIET)
    for turn in range(4):
        # What expires is told later: then one would be ahead of the other.
        with trial.writers(one, short=False) as writers:
            writers.wait_for(500).end()
        equal(one, other)
        full, partial = other.stat("sync_full"), other.stat("sync_partial_ok")
        other.lead()
        one.follow(other.address)
        linked(one)
        settle(other, one)
        assert other.stat("sync_full") == full, f"turn {turn}: {other.info('stats')}"
        assert other.stat("sync_partial_ok") == partial + 1, f"turn {turn}"
        if trial.kinds == ["redis", "valkey"]:
            # Redis never takes a full copy of Valkey's.
            break
        one, other = other, one


@scenario()
def demoted_in_a_transaction(trial):
    """Told in MULTI to follow, as Sentinel tells it, under load: no write is answered OK after
    EXEC, and ROLE says so."""
    one, other = trial.pair()
    for turn in range(6):
        other.lead()
        kills = [("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "pubsub")]
        demote(one, other, kills if turn % 2 else [])
        if trial.kinds == ["redis", "valkey"]:
            # Redis never takes a full copy of Valkey's.
            break
        linked(one)
        equal(other, one)
        one, other = other, one


def demote(one, other, kills):
    is_over, late, count = threading.Event(), [], [0]

    def write():
        # Some are closed by that.
        with contextlib.suppress(OSError, Closed), one.client() as client:
            while not late or not isinstance(late[-1], ErrorReply):
                is_after = is_over.is_set()
                reply = client.call("INCR", "n")
                count[0] += 1
                if is_after:
                    late.append(reply)
                if isinstance(reply, ErrorReply):
                    return

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    until(lambda: count[0] > 200, "some writes")
    with one.client() as client:
        client.want(b"OK", "MULTI")
        for command in [("SLAVEOF", *other.address), ("CONFIG", "REWRITE"), *kills]:
            client.want(b"QUEUED", *command)
        told = client.call("EXEC")
        is_over.set()
        assert told[:2] == [b"OK", b"OK"], told
        assert client.call("ROLE")[0] == b"slave"
        assert is_error(client.call("SET", "a", 1), "READONLY")
    for thread in threads:
        thread.join(60)
    assert all(is_error(reply, "READONLY") for reply in late), late


@scenario()
def sibling_promoted(trial):
    """One of two replicas is promoted: the other follows it and goes on where it was."""
    primary, first, second = trial.node(0, **QUIET), trial.node(1, **QUIET), trial.node(1, **QUIET)
    for replica in (first, second):
        replica.follow(primary.address)
    linked(first, second)
    with trial.writers(primary, short=False) as writers:
        writers.wait_for(500).end()
    equal(primary, first, second)
    old = primary.info()["master_replid"]
    primary.kill()
    first.lead()
    assert first.info()["master_replid2"] == old, first.info()
    second.follow(first.address)
    linked(second)
    assert first.stat("sync_full") == 0, first.info("stats")
    assert first.stat("sync_partial_ok") == 1, first.info("stats")
    with trial.writers(first) as writers:
        writers.wait_for(500).end()
    equal(first, second)


@scenario()
def handed_over(trial):
    """FAILOVER TO under load: roles are swapped, and nothing that was acknowledged is lost."""
    primary, replica = trial.pair()
    trial.need(primary, "FAILOVER", "ABORT")
    transfers, counter = Transfers(primary), Counter(primary)
    try:
        until(lambda: counter.acknowledged > 200, "some writes")
        until(lambda: "state=online" in primary.info()["slave0"], "the replica is online")
        primary.want(b"OK", "FAILOVER", "TO", *replica.address, "TIMEOUT", 20_000)
        until(lambda: replica.info()["role"] == "master", "the replica is the primary")
        until(lambda: primary.info()["role"] == "slave", "the primary is a replica")
    finally:
        transfers.end()
        counter.end()
    linked(primary)
    settle(replica, primary)
    with replica.client() as client:
        amounts(client)
        found = int(client.call("GET", "counter"))
    assert found == counter.acknowledged, f"{found} of {counter.acknowledged}: {counter.why}"
    equal(replica, primary)
    assert replica.stat("sync_full") == 0, replica.info("stats")


class Counter:
    """A client that counts up until it is refused; how far it was told that it got."""

    def __init__(self, node):
        self.node, self.acknowledged, self.why = node, 0, ""
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            with self.node.client() as client:
                while not self.is_over.is_set():
                    reply = client.call("INCR", "counter")
                    if isinstance(reply, ErrorReply):
                        self.why = reply
                        return
                    self.acknowledged = reply
        except (OSError, Closed) as why:
            self.why = repr(why)

    def end(self):
        self.is_over.set()
        self.thread.join()


@scenario()
def not_handed_over(trial):
    """FAILOVER that cannot be: refused, or given up after its time; writes go on."""
    primary, replica, proxy = trial.proxied()
    trial.need(primary, "FAILOVER", "ABORT")
    for words in (("ABORT",), ("TO", "127.0.0.1", "1"), ("FORCE",), ("TIMEOUT", "0"),
                  ("TIMEOUT", "-5"), ("TO",), ("TO", "127.0.0.1"), ("TO", "127.0.0.1", "x"),
                  ("TO", *replica.address, "FORCE"), ("ABORT", "FORCE")):
        answer = primary.call("FAILOVER", *words)
        assert is_error(answer, "ERR"), f"FAILOVER {words}: {answer}"
    answer = replica.call("FAILOVER")
    assert is_error(answer, "ERR"), answer
    until(lambda: "state=online" in primary.info()["slave0"], "the replica is online")
    proxy.hold()
    primary.want(b"OK", "SET", "k", "held up")
    primary.want(b"OK", "FAILOVER", "TO", *replica.address, "TIMEOUT", 300)
    until(lambda: primary.info()["master_failover_state"] == "no-failover", "it is given up")
    primary.want(b"OK", "SET", "k", "after")
    primary.want(b"OK", "FAILOVER")
    assert primary.info()["master_failover_state"] == "waiting-for-sync", primary.info()
    primary.want(b"OK", "FAILOVER", "ABORT")
    primary.want(b"OK", "SET", "k", "at last")
    proxy.release()
    settle(primary, replica)
    assert primary.info()["role"] == "master"
    replica.want(b"at last", "GET", "k")


@scenario()
def target_refuses(trial):
    """FAILOVER to a replica that does not take over: who writes meanwhile waits, and goes on."""
    primary, replica = trial.pair()
    trial.need(primary, "FAILOVER", "ABORT")
    until(lambda: "state=online" in primary.info()["slave0"], "the replica is online")
    replica.want(b"OK", "ACL", "SETUSER", "default", "-psync")
    counter = Counter(primary)
    try:
        for _ in range(3):
            until(lambda: counter.acknowledged > 100 or counter.why, "it counts")
            primary.want(b"OK", "FAILOVER")
            until(lambda: primary.info()["master_failover_state"] == "no-failover", "it is over")
            goal = counter.acknowledged + 100
            until(lambda: counter.acknowledged > goal or counter.why, "it counts on")
            until(lambda: "state=online" in primary.info().get("slave0", ""), "it is back")
    finally:
        counter.end()
    assert not counter.why, counter.why
    linked(replica)
    equal(primary, replica)


@scenario()
def forced(trial):
    """FAILOVER with FORCE to a replica that is stopped: there is no primary then, not two, until
    it goes on."""
    primary, replica = trial.pair()
    trial.need(primary, "FAILOVER", "ABORT")
    # Redis sends the stream only after an acknowledgement that follows the end of its copy.
    primary.want(b"OK", "SET", "k", "before")
    until(lambda: replica.call("GET", "k") == b"before", "the replica follows")
    copies = replica.stat("sync_full")
    os.kill(replica.process.pid, signal.SIGSTOP)
    try:
        # A process of many threads takes a moment to stop.
        until(lambda: are_stopped(replica.process.pid), "it stops")
        primary.want(b"OK", "SET", "k", "v")
        primary.want(b"OK", "FAILOVER", "TO", *replica.address, "TIMEOUT", 50, "FORCE")
        until(lambda: primary.info()["master_failover_state"] == "failover-in-progress", "forced")
        assert primary.info()["role"] == "slave", primary.info()
    finally:
        os.kill(replica.process.pid, signal.SIGCONT)
    until(lambda: primary.info()["master_failover_state"] == "no-failover", "it is over")
    assert replica.info()["role"] == "master", replica.info()
    linked(primary)
    equal(replica, primary)
    assert replica.call("GET", "k") == primary.call("GET", "k")
    if replica.kind == "pantala":
        # What has come while it was stopped, it reads before it takes over.
        replica.want(b"v", "GET", "k")
        assert replica.stat("sync_full") == copies, replica.info("stats")


def are_stopped(pid):
    """Whether all threads of a process are."""
    status = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return all("State:\tT" in text for text in status)
