#!/usr/bin/env python3
"""Values of every encoding, taken by DUMP from one server and given by RESTORE to another; and
libraries of functions, by FUNCTION DUMP and RESTORE.

    python3 compat/clients/dump.py OURS OTHER [seed]      (each HOST:PORT)

OTHER is a valkey-server or a redis-server with DEBUG allowed. Values are made on each of the two,
sent to the other, read there with ordinary commands and compared; then they are dumped there and
sent back. A payload that needs a newer server than OTHER is counted as left out. THE DATA OF BOTH
SERVERS IS LOST. Needs the package redis. Exit code 1 when something differs.
"""

import random
import sys

import redis

# Around the lengths at which encodings change, by default settings.
COUNTS = [1, 2, 3, 10, 100, 127, 128, 129, 300, 511, 512, 513, 1000, 5000]
LENGTHS = [0, 1, 10, 20, 21, 63, 64, 65, 127, 128, 300, 4095, 4096, 9000, 16384, 70000]
NUMBERS = [0, 1, -1, 12, 13, 127, 128, -128, -129, 4095, 4096, -4096, -4097, 32767, 32768, -32769,
           8388607, 8388608, 2**31 - 1, 2**31, -2**31, -2**31 - 1, 2**63 - 1, -2**63]
SCORES = [0.0, -0.0, 1.0, -1.0, 1.5, 0.1, 1e300, -1e-300, 5e-324, float("inf"), float("-inf"),
          2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, 2.0**64, 1e17, 123456789.125, 3.0000000000000004]


def text(rng, most=100):
    """A text: number, repetitive, or random bytes."""
    kind = rng.random()
    if kind < 0.3:
        return str(rng.choice(NUMBERS)).encode()
    length = min(rng.choice(LENGTHS), most)
    if kind < 0.6:
        return bytes(rng.choice(b"abc") for _ in range(2)) * (length // 2) + b"x"
    return rng.randbytes(length)


def texts(rng, count, most=100):
    """So many different texts."""
    return [b"%d:%s" % (i, text(rng, most)) if i % 3 else b"%d" % i for i in range(count)]


def strings(client, rng):
    """Keys with strings."""
    values = [str(n).encode() for n in NUMBERS] + [b"x" * n for n in LENGTHS]
    values += [rng.randbytes(n) for n in LENGTHS] + [b"ab" * 300000, b"01", b"-0", b"1.0"]
    for index, value in enumerate(values):
        client.set(f"string:{index}", value)
    client.setbit("string:bits", 100000, 1)
    client.pfadd("string:few", "a", "b")
    client.pfadd("string:many", *range(5000))


def lists(client, rng):
    """Keys with lists."""
    for count in COUNTS:
        client.rpush(f"list:ints:{count}", *range(count))
        client.rpush(f"list:texts:{count}", *texts(rng, count))
    client.rpush("list:long", "a", "x" * 9000, rng.randbytes(20000), "b", *["y" * 3000] * 10)


def sets(client, rng):
    """Keys with sets."""
    for count in COUNTS:
        client.sadd(f"set:16:{count}", *range(count))
        client.sadd(f"set:32:{count}", 70000, *range(-count, 0))
        client.sadd(f"set:64:{count}", 2**40, *range(count))
        client.sadd(f"set:texts:{count}", *texts(rng, count, 64))
    client.sadd("set:long", "x" * 65, "a", 1)
    client.sadd("set:were-texts", "a", 1, 2)
    client.srem("set:were-texts", "a")


def sorted_sets(client, rng):
    """Keys with sorted sets."""
    for count in COUNTS:
        members = texts(rng, count, 60)
        client.zadd(f"zset:{count}", {m: rng.choice(SCORES) for m in members})
        client.zadd(f"zset:ranks:{count}", {b"m%d" % i: i for i in range(count)})
    client.zadd("zset:scores", {str(i): score for i, score in enumerate(SCORES)})
    client.zadd("zset:long", {"x" * 65: 1, "y": 2})


def hashes(client, rng):
    """Keys with hashes."""
    for count in COUNTS:
        client.hset(f"hash:{count}", mapping={t: text(rng, 60) for t in texts(rng, count, 60)})
    client.hset("hash:long", mapping={"f": "x" * 65, "g": rng.randbytes(20000), "h": "1"})
    try:
        for count in [1, 10, 1000]:
            key = f"hash:deadlines:{count}"
            client.hset(key, mapping={f"f{i}": i for i in range(count)})
            for i in range(0, count, 2):
                moment = 4_000_000_000_000 + i
                client.execute_command("HPEXPIREAT", key, moment, "FIELDS", 1, f"f{i}")
    except redis.ResponseError:
        client.delete("hash:deadlines:1")


def streams(client, rng):
    """Keys with streams."""
    for count in COUNTS:
        key = f"stream:{count}"
        for i in range(count):
            names = ["a", "b"] if rng.random() < 0.8 else texts(rng, rng.randrange(1, 5))
            fields = {name: text(rng) for name in names}
            client.xadd(key, fields, id=f"{1000 + i // 3}-{i}")
        for i in range(0, count, 7):
            client.xdel(key, f"{1000 + i // 3}-{i}")
        for group in range(rng.randrange(3)):
            client.xgroup_create(key, f"g{group}", id=rng.choice(["0", "$"]))
            for consumer in range(rng.randrange(4)):
                name = f"c{consumer}"
                client.xreadgroup(f"g{group}", name, {key: ">"}, count=rng.randrange(1, 50))
            client.xack(key, f"g{group}", *[f"{1000 + i // 3}-{i}" for i in range(0, 20, 3)])
    client.xadd("stream:empty", {"a": 1}, id="5-5")
    client.xdel("stream:empty", "5-5")
    client.xgroup_create("stream:empty", "g", id="0")
    client.xgroup_createconsumer("stream:empty", "g", "idle")
    client.xadd("stream:last", {"a": "x" * 5000, "": ""}, id=f"{2**64 - 1}-{2**64 - 1}")


MAKERS = [strings, lists, sets, sorted_sets, hashes, streams]


def consumers(client, key, group):
    """What is there of a group's consumers that does not depend on the time of asking."""
    rows = client.xinfo_consumers(key, group)
    return sorted((row["name"], row["pending"]) for row in rows)


def pending(client, key, group):
    """What is pending, with counts, by ids."""
    rows = client.xpending_range(key, group, "-", "+", 100000)
    return [(row["message_id"], row["consumer"], row["times_delivered"]) for row in rows]


def read_stream(client, key):
    """A stream with its groups."""
    details = client.execute_command("XINFO", "STREAM", key)
    pairs = dict(zip(details[::2], details[1::2])) if isinstance(details, list) else details
    pairs = {str(name): value for name, value in pairs.items()}
    kept = {name: value for name, value in pairs.items() if "radix" not in name}
    groups = client.xinfo_groups(key)
    for group in groups:
        group["consumer rows"] = consumers(client, key, group["name"])
        group["pending rows"] = pending(client, key, group["name"])
    return client.xrange(key), kept, groups


def read(client, key):
    """A value, as ordinary commands tell it."""
    kind = client.type(key)
    if kind == b"string":
        return client.get(key)
    if kind == b"list":
        return client.lrange(key, 0, -1)
    if kind == b"set":
        return client.smembers(key)
    if kind == b"zset":
        pairs = client.zrange(key, 0, -1, withscores=True)
        return [(member, repr(score)) for member, score in pairs]
    if kind == b"hash":
        fields = client.hgetall(key)
        if b"deadlines" not in key:
            return fields
        names = list(fields)
        times = client.execute_command("HPEXPIRETIME", key, "FIELDS", len(names), *names)
        return fields, dict(zip(names, times))
    return read_stream(client, key)


def version(payload):
    """The version of the format that a payload needs."""
    return int.from_bytes(payload[-10:-8], "little")


def exchange(maker, source, target, rng, names):
    """Makes values on one server and sends them to the other and back; complaints and a count."""
    source.flushall()
    target.flushall()
    # OTHER writes the newest version it knows.
    newest = None
    if names == "ours to other":
        target.set("x", "y")
        newest = version(target.dump("x"))
    maker(source, rng)
    wrong = []
    keys = sorted(source.keys())
    for key in keys:
        before = read(source, key)
        payload = source.dump(key)
        if newest and version(payload) > newest:
            print(f"left out: {names}: {key.decode()} needs version {version(payload)}")
            continue
        try:
            target.restore(key, 0, payload)
            there = read(target, key)
            source.restore(key, 0, target.dump(key), replace=True)
            back = read(source, key)
        except redis.ResponseError as error:
            wrong.append(f"{names}: {key.decode()}: {error}")
            continue
        if there != before:
            wrong.append(f"{names}: {key.decode()} is read as {str(there)[:300]}, "
                         f"not {str(before)[:300]}")
        elif back != before:
            wrong.append(f"{names}: {key.decode()} comes back as {str(back)[:300]}")
        elif source.object("encoding", key) != target.object("encoding", key):
            encodings = source.object("encoding", key), target.object("encoding", key)
            print(f"note: {names}: {key.decode()} is {encodings}")
    return wrong, len(keys)


def libraries(server):
    """What FUNCTION LIST shows, by library."""
    found = server.execute_command("FUNCTION", "LIST", "WITHCODE")
    pairs = [dict(zip(one[::2], one[1::2])) for one in found]
    return {
        one[b"library_name"]: (one[b"library_code"], sorted(map(repr, one[b"functions"])))
        for one in pairs
    }


def exchange_libraries(here, there, names):
    """Libraries by FUNCTION DUMP and RESTORE, there and back."""
    for server in (here, there):
        server.execute_command("FUNCTION", "FLUSH")
    for number in range(20):
        code = LIBRARY % (number, number, number, "x" * 50 * number)
        here.execute_command("FUNCTION", "LOAD", code)
    expected = libraries(here)
    wrong = []
    for source, target in [(here, there), (there, here)]:
        payload = source.execute_command("FUNCTION", "DUMP")
        target.execute_command("FUNCTION", "FLUSH")
        try:
            target.execute_command("FUNCTION", "RESTORE", payload)
        except redis.ResponseError as error:
            return [f"{names}: {error}"]
        called = [target.execute_command("FCALL", f"f{n}", 1, "k", n) for n in range(20)]
        if called != [[b"k", b"%d" % n, n] for n in range(20)]:
            wrong.append(f"{names}: functions answer {called}")
    if libraries(here) != expected or libraries(there) != expected:
        wrong.append(f"{names}: libraries differ")
    return wrong


LIBRARY = """#!lua name=lib%d
redis.register_function{function_name='f%d', description='d', flags={'no-writes'},
    callback=function(keys, args) return {keys[1], args[1], %d} end}
-- %s"""


def main():
    """Every type, both ways."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    servers = []
    for address in sys.argv[1:3]:
        host, port = address.rsplit(":", 1)
        servers.append(redis.Redis(host, int(port), protocol=2))
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    print(f"seed {seed}")
    wrong, count = [], 0
    for maker in MAKERS:
        for names, ends in [("ours to other", servers), ("other to ours", servers[::-1])]:
            found, keys = exchange(maker, *ends, random.Random(seed), names)
            wrong += found
            count += keys
    for names, ends in [("ours to other", servers), ("other to ours", servers[::-1])]:
        wrong += exchange_libraries(*ends, f"libraries, {names}")
        count += 20
    print(*wrong, sep="\n")
    print(f"{count} values exchanged, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
