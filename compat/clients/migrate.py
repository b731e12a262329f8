#!/usr/bin/env python3
"""MIGRATE between two servers.

    python3 compat/clients/migrate.py OURS OTHER [seed]      (each HOST:PORT)

OTHER is a valkey-server, a redis-server, or another of ours, with DEBUG allowed. Values of every
encoding go there and come back, one by one and many at a time, and are compared as ordinary
commands tell them; deadlines go with them. Then keys go to and fro while clients write to them,
wherever they are at that moment: nothing that was acknowledged may be lost. THE DATA OF BOTH
SERVERS IS LOST. Needs the package redis. Exit code 1 when something differs.
"""

import random
import sys
import threading

import redis

import dump

KEYS_AT_ONCE = 50
ROUNDS = 90
WRITERS = 3
FAR_MS = 4_000_000_000_000
TOO_NEW = "version or checksum"
# Only where the key is, as far as this server knows.
ADD_IF_THERE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
return redis.call(ARGV[1], KEYS[1], ARGV[2])"""


def address(server):
    """Host and port, as MIGRATE wants them."""
    arguments = server.connection_pool.connection_kwargs
    return arguments["host"], arguments["port"]


def migrate(source, target, keys, *options, db=0, timeout=20_000):
    """Sends keys; the answer, or the text of the error."""
    host, port = address(target)
    one = len(keys) == 1
    words = [host, port, keys[0] if one else "", db, timeout, *options]
    if not one:
        words += ["KEYS", *keys]
    try:
        return source.execute_command("MIGRATE", *words)
    except redis.ResponseError as error:
        return str(error)


def everything(maker, source, target, rng, names):
    """Values of one type there and back; complaints and a count."""
    source.flushall()
    target.flushall()
    maker(source, rng)
    keys = sorted(source.keys())
    for key in keys[::3]:
        source.pexpireat(key, FAR_MS)
    before = {key: (dump.read(source, key), source.pexpiretime(key)) for key in keys}
    wrong, sent = [], []
    singly, together = keys[::5], [key for at, key in enumerate(keys) if at % 5]
    groups = [[key] for key in singly]
    groups += [together[at:at + KEYS_AT_ONCE] for at in range(0, len(together), KEYS_AT_ONCE)]
    for group in groups:
        answer = migrate(source, target, group)
        left = [key for key in group if source.exists(key)]
        if answer != b"OK" and not (TOO_NEW in str(answer) and left):
            wrong.append(f"{names}: {group[:3]}: {answer}")
        for key in left:
            print(f"left here: {names}: {key.decode()}: {answer}")
        sent += [key for key in group if key not in left]
    for key in sent:
        there = dump.read(target, key), target.pexpiretime(key)
        if there[0] != before[key][0] or abs(there[1] - before[key][1]) > 2000:
            wrong.append(f"{names}: {key.decode()} is {str(there)[:300]}, not "
                         f"{str(before[key])[:300]}")
    for at in range(0, len(sent), KEYS_AT_ONCE):
        answer = migrate(target, source, sent[at:at + KEYS_AT_ONCE], "REPLACE")
        if answer != b"OK":
            wrong.append(f"{names}, back: {answer}")
    for key in sent:
        back = dump.read(source, key)
        if back != before[key][0]:
            wrong.append(f"{names}: {key.decode()} comes back as {str(back)[:300]}")
    if target.dbsize():
        wrong.append(f"{names}: {target.dbsize()} keys are still there")
    return wrong, len(sent)


def options(source, target, names):
    """COPY, REPLACE, databases, and a part that works."""
    wrong = []

    def expect(found, expected, what):
        if found != expected:
            wrong.append(f"{names}: {what}: {found}, not {expected}")

    source.flushall()
    target.flushall()
    busy = "Target instance replied with error: BUSYKEY Target key name already exists."
    source.mset({"a": "1", "b": "2", "c": "3"})
    expect(migrate(source, target, ["a"], "COPY"), b"OK", "COPY")
    expect((source.get("a"), target.get("a")), (b"1", b"1"), "a copy")
    expect(migrate(source, target, ["a"]), busy, "a key that is there")
    expect(migrate(source, target, ["a", "b", "no", "c"]), busy, "one of them is there")
    expect((source.keys(), sorted(target.keys())), ([b"a"], [b"a", b"b", b"c"]), "a part of them")
    source.set("a", "new")
    expect(migrate(source, target, ["a"], "REPLACE"), b"OK", "REPLACE")
    expect((source.exists("a"), target.get("a")), (0, b"new"), "replaced")
    expect(migrate(source, target, ["a"]), b"NOKEY", "nothing there")
    source.set("other", "x")
    expect(migrate(source, target, ["other"], db=3), b"OK", "another database")
    expect(target.exists("other"), 0, "it is in another database")
    source.set("same", "x")
    expect(migrate(source, target, ["same"]), b"OK", "the first database again")
    expect(target.exists("same"), 1, "it is in the first database")
    return wrong


def to_and_fro(source, target, names):
    """Keys that clients write to go to and fro; every answer counts."""
    for server in (source, target):
        server.flushall()
    source.set("number", 0)
    source.rpush("list", "first")
    source.hset("hash", mapping={f"f{n}": "x" * 100 for n in range(30_000)})
    is_over, acknowledged, wrong = threading.Event(), [], []

    def write(number):
        clients = [redis.Redis(*address(server), protocol=2) for server in (source, target)]
        counts = {"number": 0, "list": [], "hash": 0}
        turn = number
        while not is_over.is_set():
            turn += 1
            client = clients[turn % 2]
            name = f"{number}-{turn}"
            if client.eval(ADD_IF_THERE, 1, "number", "INCRBY", 1) != -1:
                counts["number"] += 1
            if client.eval(ADD_IF_THERE, 1, "list", "RPUSH", name) != -1:
                counts["list"].append(name.encode())
            if client.eval(ADD_IF_THERE, 1, "hash", "HDEL", f"f{turn}") == 1:
                counts["hash"] += 1
        acknowledged.append(counts)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for turn in range(ROUNDS):
            ends = (source, target) if turn % 2 == 0 else (target, source)
            groups = [["number"], ["list"], ["hash"]] if turn % 3 else [["number", "list", "hash"]]
            for group in groups:
                answer = migrate(*ends, group)
                if answer != b"OK":
                    wrong.append(f"{names}: turn {turn}, {group}: {answer}")
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    here = source if ROUNDS % 2 == 0 else target
    there = target if here is source else source
    if there.dbsize():
        wrong.append(f"{names}: {there.keys()} are at both ends")
    number = sum(counts["number"] for counts in acknowledged)
    if here.get("number") != b"%d" % number:
        wrong.append(f"{names}: the number is {here.get('number')}, {number} were acknowledged")
    texts = sorted(text for counts in acknowledged for text in counts["list"])
    if sorted(here.lrange("list", 1, -1)) != texts:
        wrong.append(f"{names}: the list has {here.llen('list') - 1}, {len(texts)} were pushed")
    gone = sum(counts["hash"] for counts in acknowledged)
    if here.hlen("hash") != 30_000 - gone:
        wrong.append(f"{names}: the hash has {here.hlen('hash')}, {gone} were removed")
    print(f"{names}: {number} additions while it went to and fro {ROUNDS} times")
    if number < ROUNDS:
        wrong.append(f"{names}: the writers were held up")
    return wrong


def main():
    """Every type, both ways; then what may go wrong."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    servers = []
    for where in sys.argv[1:3]:
        host, port = where.rsplit(":", 1)
        servers.append(redis.Redis(host, int(port), protocol=2))
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    print(f"seed {seed}")
    wrong, count = [], 0
    for names, ends in [("ours to other", servers), ("other to ours", servers[::-1])]:
        for maker in dump.MAKERS:
            found, keys = everything(maker, *ends, random.Random(seed), names)
            wrong += found
            count += keys
        wrong += options(*ends, names)
        wrong += to_and_fro(*ends, names)
    print(*wrong, sep="\n")
    print(f"{count} values sent and brought back, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
