"""Full copies over several connections, between servers of ours."""

import sys
import tempfile
from pathlib import Path

from contents import equal
from nodes import linked, until
from ports import free_port
from trial import fill, is_error, scenario

sys.path.append(str(Path(__file__).parents[2] / "tls"))

from certificates import Certificates  # noqa: E402

OURS = ["pantala>pantala"]
KEYS, SIZE = 1_500, 1_000
SLOW_BYTES_A_SECOND = 1_000_000
IN_PARTS = "over connections of its own"
MAKE = """
for n = 1, 30000 do
    redis.call('HSET', KEYS[1], n, 'value ' .. n)
    redis.call('ZADD', KEYS[2], n % 1000, 'member ' .. n)
end"""
LIBRARY = """#!lua name=own
redis.register_function{function_name='f', callback=function() return 1 end, flags={'no-writes'}}
"""


def copies_in_parts(primary):
    return primary.log_text().count(IN_PARTS)


def fill_all_kinds(primary):
    """Small keys in two databases, large ones that come in several pieces, a library."""
    fill(primary, KEYS, SIZE)
    with primary.client() as client:
        client.call("EVAL", MAKE, 2, "hash", "zset")
        client.want(b"OK", "SET", "text", b"0123456789" * 300_000)
        client.call("FUNCTION", "LOAD", LIBRARY)
        client.want(b"OK", "SELECT", 3)
        client.want(b"OK", "SET", "far", "away", "EX", 1000)


@scenario(rows=OURS)
def several_connections(trial):
    """Each way to load and to compress, while clients write: the same contents and functions."""
    primary = trial.node(0, threads=4)
    fill_all_kinds(primary)
    ways = (("disabled", "auto"), ("on-empty-db", "yes"), ("flush-before-load", "no"))
    for number, (load, compression) in enumerate(ways, 1):
        primary.set("repl-copy-compression", compression)
        replica = trial.node(1, repl_diskless_load=load, threads=3)
        with trial.writers(primary) as writers:
            writers.wait_for(300)
            replica.follow(primary.address)
            linked(replica)
            writers.wait_for(300).end()
        equal(primary, replica)
        answer = replica.call("FCALL", "f", 0)
        assert answer == 1, answer
        assert copies_in_parts(primary) == number, primary.log_text()[-900:]
        left = [one.name for one in replica.directory.glob("temp-*")]
        assert not left, left
        replica.lead()


@scenario(rows=OURS)
def several_replicas_in_parts(trial):
    """Replicas that wait together get the same parts, each over connections of its own."""
    primary = trial.node(0, threads=3, repl_diskless_sync_delay=1)
    fill_all_kinds(primary)
    replicas = [trial.node(1, threads=threads) for threads in (3, 2)]
    with trial.writers(primary) as writers:
        for replica in replicas:
            replica.follow(primary.address)
        linked(*replicas)
        writers.wait_for(300).end()
    equal(primary, *replicas)
    assert copies_in_parts(primary) == 1, primary.log_text()[-900:]
    assert primary.info()["connected_slaves"] == "2", primary.info()


@scenario(rows=OURS)
def one_of_two_killed(trial):
    """kill -9 of one of two replicas that get the same parts, either of them: the other one gets
    all of its own."""
    for killed in (0, 1):
        primary = trial.node(0, threads=3, repl_diskless_sync_delay=1)
        # More than what lies in sockets.
        fill(primary, 10 * KEYS, 4 * SIZE)
        replicas, proxies = [trial.node(1, threads=3) for _ in range(2)], []
        for replica in replicas:
            proxies.append(trial.proxy(primary.address))
            proxies[-1].bytes_a_second = 2 * SLOW_BYTES_A_SECOND
            replica.follow(proxies[-1].address)
        until(lambda: all(proxy.passed["down"] > KEYS * SIZE for proxy in proxies), "parts of it")
        assert copies_in_parts(primary) == 1, primary.log_text()[-900:]
        replicas[killed].kill()
        for proxy in proxies:
            proxy.bytes_a_second = None
        linked(replicas[1 - killed])
        assert equal(primary, replicas[1 - killed]) == 10 * KEYS
        assert copies_in_parts(primary) == 1, primary.log_text()[-900:]


@scenario(rows=OURS)
def part_cut(trial):
    """One connection of a copy is lost: there is no half copy, and the next one succeeds."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, KEYS, SIZE)
    fill(replica, 10, prefix="own")
    proxy = trial.proxy(primary.address)
    proxy.bytes_a_second = SLOW_BYTES_A_SECOND // 2
    replica.follow(proxy.address)
    until(lambda: proxy.passed["down"] > KEYS * SIZE // 4, "a part of the copy")
    assert copies_in_parts(primary) == 1, primary.log_text()[-900:]
    replica.want(10, "DBSIZE")
    proxy.cut_newest()
    until(lambda: "the snapshot was not received" in replica.log_text(), "it is told")
    replica.want(10, "DBSIZE")
    proxy.bytes_a_second = None
    linked(replica)
    assert equal(primary, replica) == KEYS
    # And the one after that comes in parts again.
    replica.lead()
    replica.want(b"OK", "FLUSHALL")
    replica.follow(proxy.address)
    linked(replica)
    assert equal(primary, replica) == KEYS
    assert copies_in_parts(primary) == 2, primary.log_text()[-900:]


@scenario(rows=OURS)
def connections_do_not_come(trial):
    """Where only the link gets through the copy comes over it."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, KEYS)
    proxy = trial.proxy(primary.address)
    proxy.most_connections = 1
    replica.follow(proxy.address)
    linked(replica)
    assert equal(primary, replica) == KEYS
    assert copies_in_parts(primary) == 0, primary.log_text()[-900:]


@scenario(rows=OURS)
def guessed_token(trial):
    """Who guesses a token joins no copy, whether or not there is one."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, KEYS, SIZE)
    with primary.client() as client:
        assert is_error(client.call("REPLCONF", "copy-part", "0" * 40), "ERR")
        client.want(b"PONG", "PING")
    proxy = trial.proxy(primary.address)
    proxy.bytes_a_second = SLOW_BYTES_A_SECOND
    replica.follow(proxy.address)
    until(lambda: copies_in_parts(primary) == 1, "a copy in parts")
    with primary.client() as client:
        for token in ("0" * 40, "", "f" * 40):
            assert is_error(client.call("REPLCONF", "copy-part", token), "ERR"), token
    proxy.bytes_a_second = None
    linked(replica)
    assert equal(primary, replica) == KEYS


@scenario(rows=OURS)
def one_worker(trial):
    """A server with one worker gives and takes copies over the link alone."""
    for threads in ((1, 2), (2, 1)):
        primary, replica = trial.node(0, threads=threads[0]), trial.node(1, threads=threads[1])
        fill(primary, KEYS)
        replica.follow(primary.address)
        linked(replica)
        assert equal(primary, replica) == KEYS
        assert copies_in_parts(primary) == 0, primary.log_text()[-900:]


@scenario(rows=OURS)
def sealed_parts(trial):
    """With TLS and a password the connections of a copy are sealed, and log in."""
    with tempfile.TemporaryDirectory() as directory:
        certificates = Certificates(directory)
        words = certificates.settings()
        tls = {name[2:].replace("-", "_"): value for name, value in zip(words[::2], words[1::2])}
        tls |= {"tls_replication": "yes", "tls_port": 0}
        primary = trial.not_started(0, requirepass="secret", **tls)
        primary.credentials = ("secret",)
        primary.settings["tls-port"] = port = free_port()
        primary.start()
        fill(primary, KEYS)
        replica = trial.node(1, masterauth="secret", **tls)
        replica.follow(("127.0.0.1", port))
        linked(replica)
        assert equal(primary, replica) == KEYS
        assert copies_in_parts(primary) == 1, primary.log_text()[-900:]
