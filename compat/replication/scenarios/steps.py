"""The stream itself: everything that can be written, in steps that nobody sees halves of."""

import random

from client import encode
from contents import equal
from nodes import settle, until
from transfers import ACCOUNTS, START, Transfers
from trial import scenario

LOOKS = 300
# Long enough for a run that several threads share.
RUN, RUN_KEYS = 6_000, 60


@scenario()
def every_type(trial):
    """Random commands of all types, in transactions and scripts: the same contents."""
    primary, replica = trial.pair()
    with trial.writers(primary, clients=3) as writers:
        writers.wait_for(100_000 if trial.is_long else 12_000).end()
    trial.note(f"{equal(primary, replica)} keys after {writers.count} commands")


@scenario()
def trimmed_streams(trial):
    """Streams that are cut by ~, = and LIMIT, and whose ids are set: the same entries, counters and
    groups, and no command of the stream fails."""
    primary, replica = trial.pair()
    with trial.writers(primary, clients=3, families=("trimmed", "streams")) as writers:
        writers.wait_for(60_000 if trial.is_long else 8_000).end()
    trial.note(f"{equal(primary, replica)} keys after {writers.count} commands")


@scenario()
def whole_databases(trial):
    """The same with FLUSHALL, FLUSHDB and SWAPDB among them."""
    primary, replica = trial.pair()
    with trial.writers(primary, clients=3, wild=True) as writers:
        writers.wait_for(100_000 if trial.is_long else 12_000).end()
    equal(primary, replica)


@scenario()
def halves_are_not_seen(trial):
    """Who reads a replica sees transactions and scripts as one step: a sum never differs."""
    primary, replica = trial.pair()
    transfers = Transfers(primary)
    try:
        settle_once(primary, replica)
        with replica.client() as client:
            names = [f"a{account}" for account in range(ACCOUNTS)]
            seen = set()
            for _ in range(LOOKS):
                amounts = client.call("MGET", *names)
                assert sum(map(int, amounts)) == ACCOUNTS * START, amounts
                seen.add(tuple(amounts))
    finally:
        transfers.end()
    assert len(seen) > 1, "nothing has moved"
    equal(primary, replica)


def settle_once(primary, replica):
    """Until the replica has what was there before the transfers began."""
    until(lambda: replica.call("EXISTS", f"a{ACCOUNTS - 1}") == 1, "the accounts arrive")


@scenario()
def long_runs(trial):
    """Pipelines of thousands of commands, each about one key, in several databases, transactions
    among them: each key has all that was appended to it, in order."""
    primary, replica = trial.pair()
    rng, parts, count = random.Random(trial.seed), {}, 0
    with primary.client() as client:
        for _ in range(40 if trial.is_long else 8):
            commands, db = [], 0
            commands.append(("SELECT", db))
            for _ in range(RUN):
                key, number = f"k{rng.randrange(RUN_KEYS)}", count
                count += 1
                parts.setdefault((db, key), []).append(number)
                commands.append(("RPUSH", key, number))
                if rng.random() < 0.002:
                    db = rng.randrange(3)
                    commands.append(("SELECT", db))
                if rng.random() < 0.001:
                    commands += [("MULTI",), ("INCR", "sum"), ("INCR", "sum"), ("EXEC",)]
                if rng.random() < 0.001:
                    commands.append(("INCR", key))
            client.write(b"".join(encode(*command) for command in commands))
            for _ in commands:
                client.read()
    settle(primary, replica)
    with replica.client() as client:
        for (db, key), numbers in parts.items():
            client.call("SELECT", db)
            assert list(map(int, client.call("LRANGE", key, 0, -1))) == numbers, (db, key)
    trial.note(f"{equal(primary, replica)} keys after {count} commands")


@scenario()
def published(trial):
    """What is published at the primary is heard at the replica, in order."""
    primary, replica = trial.pair()
    with replica.client() as listener, primary.client() as client:
        listener.call("SUBSCRIBE", "news")
        listener.call("PSUBSCRIBE", "n*")
        for number in range(50):
            client.call("PUBLISH", "news", number)
        client.call("EVAL", "return redis.call('PUBLISH', 'news', 'script')", 0)
        heard = [listener.read() for _ in range(102)]
    wanted = [str(number).encode() for number in range(50)] + [b"script"]
    assert [one[2] for one in heard if one[0] == b"message"] == wanted
    assert [one[3] for one in heard if one[0] == b"pmessage"] == wanted


@scenario()
def libraries(trial):
    """FUNCTION LOAD, DELETE, FLUSH and RESTORE reach replicas, in the stream and in a copy."""
    code = "#!lua name=l{0}\nredis.register_function('f{0}', function() return {0} end)"
    primary, replica = trial.pair()
    primary.want(b"l1", "FUNCTION", "LOAD", code.format(1))
    primary.want(b"l2", "FUNCTION", "LOAD", code.format(2))
    settle(primary, replica)
    equal(primary, replica)
    payload = primary.call("FUNCTION", "DUMP")
    primary.want(b"OK", "FUNCTION", "DELETE", "l1")
    equal(primary, replica)
    primary.want(b"OK", "FUNCTION", "FLUSH")
    equal(primary, replica)
    primary.want(b"OK", "FUNCTION", "RESTORE", payload)
    equal(primary, replica)
    late = trial.node(1)
    late.follow(primary.address)
    equal(primary, late)
