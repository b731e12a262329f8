"""A cache at its limit: what goes, what stays, and how much is used meanwhile."""

import itertools
import os
import random
import signal

from client import encode
from server import MB, until
from trial import is_error, scenario

LIMIT_MB = 48
# What one window of each worker, and the buffers of these clients, may take beyond the limit.
MARGIN_MB = 8
ROUNDS = 60
CROWD = 12


def field(client, section, name):
    text = client.call("INFO", section)
    fields = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    return int(fields[name])


def used_mb(client):
    return field(client, "memory", "used_memory") / MB


def stat(client, name):
    return field(client, "stats", name)


def write(chance, name):
    """One write of some type and size: most are small, few are very large."""
    kind = chance.randrange(6)
    if kind == 0:
        return encode("SET", name, b"s" * chance.choice([10, 100, 1_000, 20_000]))
    if kind == 1:
        return encode("SET", name, b"l" * chance.choice([100, 300_000]), "EX", 1_000)
    fields = range(chance.choice([1, 10, 300]))
    if kind == 2:
        return encode("HSET", name, *(word for at in fields for word in (at, "v" * 30)))
    if kind == 3:
        return encode("RPUSH", name, *("e" * 50 for _ in fields))
    if kind == 4:
        return encode("ZADD", name, *(word for at in fields for word in (at, f"m{at}")))
    return encode("SADD", name, *(f"member:{at}" for at in fields))


def crowd(trial, rounds, judge):
    """Many clients write new keys of all types; now and then `judge` looks."""
    chance = random.Random(3)
    clients = [trial.client() for _ in range(CROWD)]
    for number in range(rounds):
        for which, client in enumerate(clients):
            names = (f"{which}:{number}:{at}" for at in range(30))
            client.write(b"".join(write(chance, name) for name in names))
        replies = [client.read() for client in clients for _ in range(30)]
        judge(number, replies)
    for client in clients:
        client.close()


@scenario("--maxmemory", f"{LIMIT_MB}mb", "--maxmemory-policy", "allkeys-lru", slack_mb=None)
def eviction_crowd(trial):
    """Keys of all types and sizes at the limit: no write is refused, the limit holds, what is used
    stays, and so does what sticks."""
    with trial.client() as client:
        for number in range(200):
            client.want(b"OK", "SET", f"used:{number}", "u" * 200)
            client.want(b"OK", "SET", f"stuck:{number}", "u" * 200)
            client.want(1, "STICK", f"stuck:{number}")

        def judge(_number, replies):
            refused = [reply for reply in replies if is_error(reply)]
            assert not refused, refused[0]
            used = used_mb(client)
            assert used < LIMIT_MB + MARGIN_MB, f"{used:.1f} MB are used"
            client.write(b"".join(encode("GET", f"used:{at}") for at in range(200)))
            assert len([client.read() for _ in range(200)]) == 200

        crowd(trial, ROUNDS, judge)
        left = client.call("EXISTS", *(f"used:{at}" for at in range(200)))
        assert left >= 190, f"{left} of 200 keys are left that are used all the time"
        client.want(200, "EXISTS", *(f"stuck:{at}" for at in range(200)))
        assert stat(client, "evicted_keys") > 1_000
        until(lambda: used_mb(client) <= LIMIT_MB, "what is used falls below the limit")
        client.want(b"OK", "FLUSHALL")
        client.want(b"OK", "SET", "after", "v")


@scenario("--maxmemory", f"{LIMIT_MB}mb", "--maxmemory-policy", "volatile-ttl", slack_mb=None)
def eviction_runs_out(trial):
    """Keys with a deadline go and others stay; when there are none left writes are refused, and
    after the limit is raised they are taken again."""
    with trial.client() as client:
        refused = []

        def judge(_number, replies):
            refused.extend(reply for reply in replies if is_error(reply))
            used = used_mb(client)
            assert used < LIMIT_MB + MARGIN_MB, f"{used:.1f} MB are used"

        crowd(trial, ROUNDS, judge)
        assert refused and all(str(reply).startswith("OOM ") for reply in refused), refused[:1]
        # Buffers count too: there may be some room again.
        fillers = (f"filler:{number}" for number in itertools.count())
        until(lambda: is_error(client.call("SET", next(fillers), "y" * 100_000)),
              "a write is refused")
        client.want(b"OK", "CONFIG", "SET", "maxmemory", 2 * LIMIT_MB * MB)
        client.want(b"OK", "SET", "x", "y")


@scenario("--maxmemory", f"{4 * LIMIT_MB}mb", "--maxmemory-policy", "allkeys-lfu", slack_mb=None)
def eviction_of_much(trial):
    """The limit falls to a quarter: that is made good in the background, and nobody waits."""
    with trial.client() as client:
        client.want(b"OK", "CONFIG", "SET", "maxmemory-eviction-tenacity", 1)
        for number in range(0, 180_000, 1_000):
            names = range(number, number + 1_000)
            client.write(b"".join(encode("SET", f"k:{at}", "v" * 700) for at in names))
            replies = [client.read() for _ in names]
            assert not any(is_error(reply) for reply in replies)
        client.want(b"OK", "CONFIG", "SET", "maxmemory", LIMIT_MB * MB)
        client.want(b"OK", "SET", "x", "y")
        until(lambda: used_mb(client) <= LIMIT_MB, "what is used falls below the new limit")


@scenario("--maxmemory", f"{LIMIT_MB}mb", "--maxmemory-policy", "allkeys-lru", "--appendonly",
          "yes", slack_mb=None)
def eviction_beside_an_append_only_file(trial):
    """What is recorded waits for its file, as do the evictions: that costs no key its place. (What
    clients have sent counts; the limit is far above that.)"""
    with trial.client() as client:
        clients = [trial.client() for _ in range(4)]
        for number in range(60):
            for which, writer in enumerate(clients):
                keys = (f"{which}:{number}:{at}" for at in range(500))
                writer.write(b"".join(encode("SET", key, "v" * 1_000) for key in keys))
            replies = [writer.read() for writer in clients for _ in range(500)]
            refused = [reply for reply in replies if is_error(reply)]
            assert not refused, refused[0]
        for writer in clients:
            writer.close()
        for at in range(500):
            client.want(b"OK", "SET", f"last:{at}", "v" * 1_000)
        assert client.call("DBSIZE") > 20_000


@scenario("--maxmemory", f"{LIMIT_MB}mb", "--maxmemory-policy", "allkeys-lru", "--appendonly",
          "yes", slack_mb=None)
def eviction_beside_rewrites_with_a_small_limit(trial):
    """What a rewrite copies does not count: a small cache keeps nearly all of its keys through one,
    and refuses nothing."""
    with trial.client() as client:
        numbers = itertools.count()
        while not stat(client, "evicted_keys"):
            names = [f"k:{next(numbers)}" for _ in range(200)]
            client.write(b"".join(encode("SET", name, "v" * 100) for name in names))
            refused = [reply for reply in (client.read() for _ in names) if is_error(reply)]
            assert not refused, refused[0]
        before = client.call("DBSIZE")
        for turn in range(3):
            until(lambda: not is_error(client.call("BGREWRITEAOF")), "a rewrite begins")

            def done():
                # Most of these are there: overwriting them takes no room, and copies the old.
                names = range(turn, before, 500)
                client.write(b"".join(encode("SET", f"k:{at}", "w" * 100) for at in names))
                assert not any(is_error(client.read()) for _ in names)
                return not field(client, "persistence", "aof_rewrite_in_progress")

            until(done, "the rewrite ends")
        left = client.call("DBSIZE")
        trial.note(f"{left} of {before} keys are left")
        assert left > before * 8 // 10, f"{left} of {before} keys are left"


@scenario("--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru", slack_mb=None)
def eviction_with_a_small_limit(trial):
    """What a server keeps to work with leaves room for keys: a small cache that is overwritten in
    long pipelines keeps them."""
    with trial.client() as client:
        for first in range(0, 20_000, 500):
            names = range(first, first + 500)
            client.write(b"".join(encode("SET", f"k:{at}", "v" * 100) for at in names))
            assert not any(is_error(client.read()) for _ in names)
        chance, writers = random.Random(7), [trial.client() for _ in range(8)]
        for _ in range(200):
            for writer in writers:
                names = (f"k:{chance.randrange(20_000)}" for _ in range(200))
                writer.write(b"".join(encode("SET", name, "w" * 100) for name in names))
            refused = [r for r in (w.read() for w in writers for _ in range(200)) if is_error(r)]
            assert not refused, refused[0]
        left = client.call("DBSIZE")
        trial.note(f"{left} of 20,000 keys are left, {used_mb(client):.1f} MB are used")
        assert left > 19_000, f"{left} of 20,000 keys are left, {used_mb(client):.1f} MB are used"
        for writer in writers:
            writer.close()


@scenario("--maxmemory-policy", "allkeys-lru", "--maxmemory-eviction-tenacity", "100",
          slack_mb=None)
def trackers_cost_no_more_keys(trial):
    """Keys are evicted that many clients track: what these are told has no more keys evicted."""
    over, size, trackers = 40_000, 1_000, [trial.client() for _ in range(10)]
    names = [f"{number}:" + "x" * size for number in range(1_000)]
    with trial.client() as client:
        for tracker in trackers:
            tracker.call("HELLO", "3")
            tracker.want(b"OK", "CLIENT", "TRACKING", "ON")
        for name in names:
            client.want(b"OK", "SET", name, "x")
        for tracker in trackers:
            tracker.write(b"".join(encode("GET", name) for name in names))
            assert all(tracker.read() == b"x" for _ in names)
        used = field(client, "memory", "used_memory")
        client.want(b"OK", "CONFIG", "SET", "maxmemory", used - over)
        heard = 0
        for tracker in trackers:
            kind, [name] = tracker.read()
            heard += kind == b"invalidate" and name.decode() in names
        assert heard == len(trackers)
        for _ in range(200):
            client.want(b"PONG", "PING")
        gone = stat(client, "evicted_keys")
        trial.note(f"{gone} keys of {size} bytes are gone for {over} bytes")
        assert over // (size + 200) // 2 <= gone < 4 * over // size, f"{gone} keys are gone"
        for tracker in trackers:
            tracker.close()


@scenario("--maxmemory-policy", "allkeys-lru", "--repl-backlog-size", "16kb", slack_mb=None)
def a_stopped_replica_costs_no_keys(trial):
    """What waits for a replica that reads nothing, in its connection too, has nothing evicted."""
    replica = trial.new_server()
    replica.start()
    try:
        with trial.client() as client, replica.client() as follower:
            for number in range(100):
                client.want(100_004, "SETRANGE", f"key:{number}", 100_000, "asdf")
            follower.want(b"OK", "REPLICAOF", "127.0.0.1", trial.server.port)
            until(lambda: b"master_link_status:up" in follower.call("INFO", "replication"),
                  "it follows")
            os.kill(replica.pid, signal.SIGSTOP)
            idle = field(client, "memory", "used_memory")
            idle -= field(client, "memory", "mem_not_counted_for_evict")
            # Buffers of the journal and of clients are counted one after the other: half of what
            # waits at the end is room for them.
            client.want(b"OK", "CONFIG", "SET", "maxmemory", idle + MB)
            for first in range(0, 40_000, 500):
                client.write(encode("SETRANGE", "key:0", 0, "A" * 100) * 500)
                assert all(client.read() == 100_004 for _ in range(500)), first
            assert field(client, "memory", "mem_clients_slaves") > MB
            assert field(client, "memory", "used_memory") > idle + 2 * MB
            assert client.call("DBSIZE") == 100, f"{client.call('DBSIZE')} of 100 keys are left"
            client.want(1, "CLIENT", "KILL", "TYPE", "replica")
            until(lambda: field(client, "memory", "mem_clients_slaves") == 0, "nothing waits")
    finally:
        os.kill(replica.pid, signal.SIGCONT)
        replica.stop()
