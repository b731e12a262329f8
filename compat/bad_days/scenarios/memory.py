"""Memory comes back: what is left of much data does not keep the pages of all of it."""

import random

from client import encode
from server import MB, until
from trial import scenario

KEYS = 200_000
BATCH = 20_000
VALUE = b"v" * 300


def figures(client):
    lines = client.call("INFO", "everything").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def send(client, commands, reply):
    for start in range(0, len(commands), BATCH):
        part = commands[start:start + BATCH]
        client.write(b"".join(part))
        client.count_bytes(len(part) * len(reply))


def fill_and_thin(client, seed):
    """Sets keys and removes nine of ten, by chance; those that stay."""
    send(client, [encode("SET", f"key:{n}", VALUE) for n in range(KEYS)], b"+OK\r\n")
    for n in range(KEYS // 100):
        client.call("SADD", f"set:{n}", *[f"member {m}" for m in range(20)])
    names = list(range(KEYS))
    random.Random(seed).shuffle(names)
    gone, left = names[KEYS // 10:], names[:KEYS // 10]
    send(client, [encode("DEL", f"key:{n}") for n in gone], b":1\r\n")
    return left


def wasted(client):
    now = figures(client)
    return int(now["allocator_active"]) - int(now["allocator_allocated"])


@scenario(slack_mb=None)
def most_is_removed(trial):
    """Nine of ten keys are removed at random: the pages of the others come together."""
    with trial.client() as client:
        client.want(b"OK", "CONFIG", "SET", "activedefrag", "no")
        left = fill_and_thin(client, 1)
        before = wasted(client)
        assert before > 30 * MB, f"only {before / MB:.0f} MB are wasted"
        assert figures(client)["active_defrag_hits"] == "0", "it is off"
        client.want(b"OK", "CONFIG", "SET", "activedefrag", "yes", "active-defrag-ignore-bytes",
                    "1mb")
        until(lambda: wasted(client) < before / 5, "they come together")
        now = figures(client)
        assert int(now["active_defrag_hits"]) > len(left) / 2
        assert 0 < int(now["active_defrag_key_hits"]) <= len(left) + KEYS // 100
        assert int(now["total_active_defrag_time"]) > 0
        trial.note(f"{before / MB:.0f} MB wasted, then {wasted(client) / MB:.0f} MB")
        for n in left[::50]:
            client.want(VALUE, "GET", f"key:{n}")
        for n in range(0, KEYS // 100, 50):
            client.want(20, "SCARD", f"set:{n}")


@scenario(slack_mb=None)
def changes_while_it_moves(trial):
    """Others write, watch, scan and save while data is moved: nothing is lost, or changed twice."""
    with trial.client() as client, trial.client() as watcher:
        client.want(b"OK", "CONFIG", "SET", "active-defrag-ignore-bytes", "1mb",
                    "active-defrag-threshold-lower", "1", "active-defrag-cycle-min", "50",
                    "active-defrag-cycle-max", "50")
        left = fill_and_thin(client, 2)
        watcher.want(b"OK", "WATCH", f"key:{left[0]}")
        client.want(b"Background saving started", "BGSAVE")
        for n in left:
            client.want(len(VALUE) + 1, "APPEND", f"key:{n}", "x")
        until(lambda: int(figures(client)["active_defrag_hits"]) > 0, "something was moved")
        seen, cursor = set(), b"0"
        while True:
            cursor, keys = client.call("SCAN", cursor, "COUNT", 1000, "MATCH", "key:*")
            seen.update(keys)
            if cursor == b"0":
                break
        assert seen == {b"key:%d" % n for n in left}
        for n in left:
            client.want(VALUE + b"x", "GET", f"key:{n}")
        watcher.want(b"OK", "MULTI")
        watcher.want(b"QUEUED", "PING")
        assert watcher.call("EXEC") is None, "the watched key was changed"
