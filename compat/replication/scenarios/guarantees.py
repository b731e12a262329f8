"""What a primary promises about its replicas: WAIT, WAITAOF, min-replicas-to-write."""

import random
import threading

from client import Closed
from nodes import linked, until
from trial import is_error, scenario

# A client that writes through several connections in turn.
TURN_KEYS = 64


@scenario()
def wait_counts(trial):
    """WAIT counts replicas that have the client's writes; a held link confirms nothing."""
    primary, replica, proxy = trial.proxied()
    with primary.client() as client:
        client.want(b"OK", "SET", "k", 1)
        client.want(1, "WAIT", 1, 0)
        client.want(1, "WAIT", 2, 50)
        client.want(1, "WAIT", 0, 0)
        proxy.hold()
        client.want(b"OK", "SET", "k", 2)
        client.want(0, "WAIT", 1, 50)
        client.want(b"OK", "MULTI")
        client.want(b"QUEUED", "WAIT", 1, 0)
        client.want([0], "EXEC")
        proxy.release()
        client.want(1, "WAIT", 1, 0)
    answer = replica.call("WAIT", 1, 0)
    assert is_error(answer, "ERR WAIT cannot be used with replica"), answer


@scenario()
def wait_is_woken(trial):
    """Clients that wait are answered when the replica has said so, each for its own writes."""
    primary, replica, proxy = trial.proxied()
    proxy.hold()
    answers = []

    def one(number):
        with primary.client() as client:
            client.call("SET", f"k{number}", "v")
            answers.append(client.call("WAIT", 1, 0))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    until(lambda: int(primary.info("clients")["blocked_clients"]) == 10, "all of them wait")
    assert not answers
    proxy.release()
    for thread in threads:
        thread.join()
    assert answers == [1] * 10, answers
    assert replica.call("DBSIZE") == 10


@scenario()
def nothing_confirmed_is_lost(trial):
    """What WAIT has confirmed is at the replica that is promoted after kill -9 of the primary."""
    primary, replica = trial.pair()
    confirmed = [0] * 4

    def one(number):
        try:
            with primary.client() as client:
                for turn in range(1, 1_000_000):
                    client.want(b"OK", "SET", f"client:{number}", turn)
                    if client.call("WAIT", 1, 0) >= 1:
                        confirmed[number] = turn
        except Exception:
            return

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: min(confirmed) > 20, "some are confirmed")
    primary.kill()
    for thread in threads:
        thread.join()
    replica.lead()
    for number, turn in enumerate(confirmed):
        found = int(replica.call("GET", f"client:{number}"))
        assert found >= turn, f"client {number}: {found}, but {turn} was confirmed"
    trial.note(f"{sum(confirmed)} confirmed")


@scenario()
def waitaof_counts(trial):
    """WAITAOF counts the file here and the files of replicas."""
    primary, replica, proxy = trial.proxied(primary={"appendonly": "yes"},
                                            replica={"appendonly": "yes"})
    trial.need(primary, "WAITAOF", 0, 0, 1)
    trial.need(replica, "WAITAOF", 0, 0, 1)
    with primary.client() as client:
        client.want(b"OK", "SET", "k", 1)
        client.want([1, 1], "WAITAOF", 1, 1, 0)
        proxy.hold()
        client.want(b"OK", "SET", "k", 2)
        client.want([1, 0], "WAITAOF", 1, 0, 0)
        client.want([1, 0], "WAITAOF", 1, 1, 50)
        proxy.release()
        client.want([1, 1], "WAITAOF", 1, 1, 0)
    primary.set("appendonly", "no")
    answer = primary.call("WAITAOF", 1, 0, 0)
    assert is_error(answer, "ERR WAITAOF cannot be used when"), answer
    answer = replica.call("WAITAOF", 0, 1, 0)
    assert is_error(answer, "ERR WAITAOF cannot be used with replica"), answer


@scenario()
def enough_good_replicas(trial):
    """min-replicas-to-write: writes are refused without a replica, and with one that is silent."""
    primary = trial.node(0, min_replicas_to_write=1, min_replicas_max_lag=2)
    answer = primary.call("SET", "k", 1)
    assert is_error(answer, "NOREPLICAS"), answer
    answer = primary.call("EVAL", "return redis.call('SET', 'k', 1)", 1, "k")
    assert "NOREPLICAS" in answer, answer
    primary.want(None, "GET", "k")
    replica = trial.node(1)
    proxy = trial.proxy(primary.address)
    replica.follow(proxy.address)
    until(lambda: primary.call("SET", "k", 2) == b"OK", "writes are taken with a replica")
    assert primary.info()["min_slaves_good_slaves"] == "1", primary.info()
    proxy.hold()
    until(lambda: is_error(primary.call("SET", "k", 3), "NOREPLICAS"), "its silence is noticed")
    proxy.release()
    until(lambda: primary.call("SET", "k", 4) == b"OK", "it speaks again")
    primary.set("min-replicas-to-write", 0)
    replica.lead()
    until(lambda: primary.info()["connected_slaves"] == "0", "it is gone")
    primary.want(b"OK", "SET", "k", 5)


@scenario()
def scripts_say_what_they_are(trial):
    """A script that says of itself that it may write is refused before it runs, where writes are;
    one that says that it does not runs, and without a primary one that allows for that."""
    primary, replica = trial.pair()
    primary.set("min-replicas-to-write", 3)
    for node, refusal in ((primary, "NOREPLICAS"), (replica, "READONLY")):
        for command in ("EVAL", "EVAL_RO"):
            answer = node.call(command, "#!lua\nreturn 1", 0)
            assert is_error(answer, refusal), f"{node} {command}: {answer}"
        for script in ("return 1", "#!lua flags=no-writes\nreturn 1"):
            node.want(1, "EVAL", script, 0)
        with node.client() as client:
            client.want(b"OK", "MULTI")
            assert is_error(client.call("EVAL", "#!lua\nreturn 1", 0), refusal)
            assert is_error(client.call("EXEC"), "EXECABORT")
    replica.set("replica-serve-stale-data", "no")
    primary.kill()
    until(lambda: not replica.is_linked(), "the primary is away")
    for script in ("return 1", "#!lua flags=no-writes\nreturn 1"):
        assert is_error(replica.call("EVAL", script, 0), "MASTERDOWN"), script
    replica.want(1, "EVAL", "#!lua flags=no-writes,allow-stale\nreturn 1", 0)
    replica.set("replica-serve-stale-data", "yes")


def write_in_turn(connections, answered):
    """Writes numbers through all of them in turn, each answered before the next is sent."""
    try:
        while True:
            number = answered[0] + 1
            client = connections[number % len(connections)]
            client.want(b"OK", "SET", f"turn:{number % TURN_KEYS}", number)
            answered[0] = number
    except (Closed, OSError):
        pass


@scenario(rows=("pantala>pantala",))
def what_was_written_in_turn_arrives_in_turn(trial):
    """A client writes through several connections in turn until its primary is killed: the replica
    has no later write without the earlier ones, whatever was lost."""
    chance = random.Random(trial.seed)
    primary, replica = trial.pair({"threads": 2}, {"threads": 2})
    for turn in range(60 if trial.is_long else 8):
        answered, wanted = [0], chance.randrange(50, 1000)
        connections = [primary.client() for _ in range(8)]
        writer = threading.Thread(target=write_in_turn, args=(connections, answered))
        writer.start()
        until(lambda: answered[0] > wanted, "some are written")
        primary.kill()
        writer.join()
        for connection in connections:
            connection.close()
        until(lambda: not replica.is_linked(), "the link is down")
        replica.lead()
        values = [int(value or 0) for value in
                  replica.call("MGET", *[f"turn:{slot}" for slot in range(TURN_KEYS)])]
        last = max(values)
        missing = sum(value < last - (last - slot) % TURN_KEYS
                      for slot, value in enumerate(values))
        assert not missing, f"turn {turn}: {missing} writes before number {last} are missing"
        primary.start()
        replica.follow(primary.address)
        linked(replica)
