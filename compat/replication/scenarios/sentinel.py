"""Sentinels of Valkey and of Redis watch a primary and two replicas: one is promoted when the
primary is killed, the old one comes back as a replica, and a client of redis-py follows."""

import threading

import redis
from redis.sentinel import Sentinel

from contents import equal
from nodes import Node, linked, until
from trial import scenario

NAME = "watched"
ROWS = ("valkey>valkey>valkey", "redis>redis>redis", "pantala>pantala>pantala",
        "pantala>valkey>valkey", "valkey>pantala>pantala")


class Watch(Node):
    """One Sentinel."""

    def __init__(self, kind, program, primary):
        super().__init__(kind, program, {
            "sentinel monitor": f"{NAME} 127.0.0.1 {primary.port} 2",
            "sentinel down-after-milliseconds": f"{NAME} 3000",
            "sentinel failover-timeout": f"{NAME} 6000",
            "sentinel parallel-syncs": f"{NAME} 1",
        })
        self.words = ("--sentinel",)

    def defaults(self):
        return {"bind": "127.0.0.1"}

    def told(self):
        """What it says of the primary, by name."""
        row = self.call("SENTINEL", "MASTER", NAME)
        return {name.decode(): value.decode() for name, value in zip(row[::2], row[1::2])}

    def knows(self, replicas, sentinels):
        told = self.told()
        return told["num-slaves"] == str(replicas) and \
            told["num-other-sentinels"] == str(sentinels) and told["flags"] == "master"

    def primary_port(self):
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])


class Follower:
    """A client of redis-py that asks the Sentinels whom to write to, and goes on writing."""

    def __init__(self, watches):
        # Each reply within seconds: a server that is gone shall be noticed.
        sentinel = Sentinel([watch.address for watch in watches], socket_timeout=5)
        self.client, self.written = sentinel.master_for(NAME, socket_timeout=5), 0
        self.failures, self.is_over = 0, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.is_over.is_set():
            try:
                self.client.incr("written")
                self.written += 1
                # Not so many that a busy server seems dead.
                self.is_over.wait(0.002)
            except redis.RedisError:
                self.failures += 1
                self.is_over.wait(0.05)

    def goes_on(self):
        goal = self.written + 50
        until(lambda: self.written > goal, "the client writes")

    def end(self):
        self.is_over.set()
        self.thread.join()


def watched(trial, kind):
    """A primary, two replicas, three Sentinels that know all of each other."""
    nodes = [trial.node(place) for place in range(3)]
    for replica in nodes[1:]:
        replica.follow(nodes[0].address)
    linked(*nodes[1:])
    watches = [trial.keep(Watch(kind, trial.programs[kind], nodes[0])).start() for _ in range(3)]
    for watch in watches:
        until(lambda: watch.knows(2, 2), f"{watch} knows all of them")
    return nodes, watches


def new_primary(nodes, watches, old):
    """Waits until all Sentinels name the same other primary, and it is one."""
    try:
        until(lambda: len(ports := {watch.primary_port() for watch in watches}) == 1
              and old.port not in ports, "a new primary is named by all")
    except AssertionError as error:
        logs = [watch.log_text()[-1_500:] for watch in watches]
        raise AssertionError("\n".join([str(error), *logs])) from None
    port = watches[0].primary_port()
    primary = next(node for node in nodes if node.port == port)
    until(lambda: primary.info()["role"] == "master", "it is one")
    return primary


def settled(nodes, watches):
    """Waits until there is one primary, which all Sentinels name, with two linked replicas; it."""

    def primary():
        leads = [node for node in nodes if node.info()["role"] == "master"]
        if len(leads) != 1 or {watch.primary_port() for watch in watches} != {leads[0].port}:
            return None
        there = [node.info() for node in nodes if node is not leads[0]]
        follow = all(info.get("master_port") == str(leads[0].port) for info in there)
        return leads[0] if follow and all(i["master_link_status"] == "up" for i in there) else None

    return until(primary, "one primary and two replicas")


def check(trial, kind):
    nodes, watches = watched(trial, kind)
    follower, old = Follower(watches), nodes[0]
    try:
        follower.goes_on()
        old.kill()
        primary = new_primary(nodes, watches, old)
        follower.goes_on()
        old.start()
        until(lambda: old.info()["role"] == "slave", "the old one is made a replica")
        follower.goes_on()
        for watch in watches:
            until(lambda: watch.knows(2, 2), f"{watch} knows all of them")
        # Once more, with nobody dead.
        watches[0].want(b"OK", "SENTINEL", "FAILOVER", NAME)
        new_primary(nodes, watches, primary)
        until(lambda: primary.info()["role"] == "slave", "the one before is a replica")
        follower.goes_on()
    finally:
        follower.end()
    last = settled(nodes, watches)
    equal(last, *(node for node in nodes if node is not last))
    trial.note(f"{follower.written} written, {follower.failures} failed")


@scenario(ends=3, long=True, rows=ROWS)
def sentinels_of_valkey(trial):
    """Three Sentinels of Valkey manage a primary and two replicas."""
    check(trial, "valkey")


@scenario(ends=3, long=True, rows=[row for row in ROWS if "valkey" not in row])
def sentinels_of_redis(trial):
    """Three Sentinels of Redis 7.0 do."""
    check(trial, "redis")
