"""What servers hold, as ordinary commands tell it, and whether two of them hold the same.

DUMP differs between servers, so values are read by type: sets and hashes without an order, scores
as numbers, streams with their groups and what is pending. A key's deadline is part of it, and so
are the deadlines of fields where both servers know such a thing, and the libraries of functions.
"""

import itertools

from client import ErrorReply, encode
from nodes import settle, until

BATCH = 200
# Differences that are shown.
SHOWN = 5
# Long enough for short deadlines to pass and be told, on a busy machine.
AGREE_S = 60
# Not how many entries a group has read: Redis 7.0 does not tell its replicas after each read.
GROUP_FIELDS = ("name", "last-delivered-id", "consumers", "pel")
STREAM_FIELDS = ("length", "last-generated-id", "max-deleted-entry-id", "entries-added",
                 "recorded-first-entry-id")


def knows_field_deadlines(*nodes):
    return all(node.kind != "redis" for node in nodes)


def ask(client, commands):
    """The replies to many commands; sent in batches."""
    replies, left = [], iter(commands)
    while batch := list(itertools.islice(left, BATCH)):
        client.write(b"".join(encode(*command) for command in batch))
        replies += [client.read() for _ in batch]
    return replies


def keys_of(client):
    """All keys of the chosen database, by SCAN."""
    found, cursor = set(), b"0"
    while True:
        cursor, some = client.call("SCAN", cursor, "COUNT", 1000)
        found.update(some)
        if cursor == b"0":
            return sorted(found)


def pairs(row):
    return {name.decode(): value for name, value in zip(row[::2], row[1::2])}


def read_command(kind, key):
    return {
        b"string": ("GET", key), b"list": ("LRANGE", key, 0, -1), b"set": ("SMEMBERS", key),
        b"zset": ("ZRANGE", key, 0, -1, "WITHSCORES"), b"hash": ("HGETALL", key),
        b"stream": ("XINFO", "STREAM", key, "FULL", "COUNT", 0),
    }.get(kind)


def canonical(kind, reply):
    """A value without what does not count."""
    if isinstance(reply, ErrorReply) or reply is None:
        return reply
    if kind == b"set":
        return sorted(reply)
    if kind == b"hash":
        return dict(zip(reply[::2], reply[1::2]))
    if kind == b"zset":
        return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2])]
    if kind == b"stream":
        return canonical_stream(pairs(reply))
    return reply


def canonical_stream(whole):
    kept = {name: whole.get(name) for name in STREAM_FIELDS}
    kept["entries"], kept["groups"] = whole["entries"], {}
    for row in whole["groups"]:
        group = {name: value for name, value in pairs(row).items() if name in GROUP_FIELDS}
        # When a consumer was last seen is not told to replicas; nor, by XAUTOCLAIM of Valkey and
        # Redis, that there is one which has got nothing.
        consumers = map(pairs, group["consumers"])
        group["consumers"] = sorted(one["name"] for one in consumers if one["pel-count"])
        kept["groups"][group.pop("name")] = group
    return kept


def read_database(client, with_fields):
    """Type, deadline and value of each key."""
    names = keys_of(client)
    kinds = ask(client, (("TYPE", key) for key in names))
    deadlines = ask(client, (("PEXPIRETIME", key) for key in names))
    there = [one for one in zip(names, kinds, deadlines) if one[1] != b"none"]
    values = ask(client, (read_command(kind, key) for key, kind, _ in there))
    found = {key: (kind, deadline, canonical(kind, value))
             for (key, kind, deadline), value in zip(there, values)}
    if with_fields:
        for key, (kind, deadline, value) in found.items():
            if kind == b"hash" and value:
                times = client.call("HPEXPIRETIME", key, "FIELDS", len(value), *value)
                found[key] = (kind, deadline, (value, dict(zip(value, times))))
    return found


def contents(node, with_fields=False):
    """All databases that have keys, and the functions."""
    with node.client() as client:
        found = {}
        for name in node.info("keyspace"):
            number = int(name.removeprefix("db"))
            client.want(b"OK", "SELECT", number)
            if keys := read_database(client, with_fields):
                found[number] = keys
        listed = client.call("FUNCTION", "LIST", "WITHCODE")
        codes = listed if isinstance(listed, ErrorReply) else sorted(
            pairs(library)["library_code"] for library in listed)
    return {"databases": found, "functions": codes}


def counts(node):
    """Keys, and keys with deadlines, of each database, as the server counts them."""
    return {name: line.split(",")[:2] for name, line in node.info("keyspace").items()}


def differences(here, there):
    """What is not the same in two contents, as texts."""
    found = []
    if here["functions"] != there["functions"]:
        found.append(f"functions: {here['functions']} and {there['functions']}")
    ours, theirs = here["databases"], there["databases"]
    for number in sorted({*ours, *theirs}):
        left, right = ours.get(number, {}), theirs.get(number, {})
        for key in sorted({*left, *right}):
            if left.get(key) != right.get(key):
                found.append(f"db{number} {key!r}: {shown(left.get(key), right.get(key))}")
    return found


def shown(left, right):
    """Two texts from just before where they part."""
    left, right = repr(left), repr(right)
    at = next((n for n, (a, b) in enumerate(zip(left, right)) if a != b), 0)
    begin = max(0, at - 40)
    return f"..{left[begin:at + 160]} and ..{right[begin:at + 160]}"


def equal(primary, *replicas):
    """Waits until the replicas hold what the primary holds; how many keys there are.

    What expires while it is read is read again. What differs for good is shown.
    """
    with_fields = knows_field_deadlines(primary, *replicas)
    seen = {"why": "nothing was read"}

    def agree():
        settle(primary, *replicas)
        here = contents(primary, with_fields)
        for replica in replicas:
            found = differences(here, contents(replica, with_fields))
            if not found and counts(primary) != counts(replica):
                found = [f"{counts(primary)} and {counts(replica)} keys"]
            if found:
                seen["why"] = f"{primary} and {replica}: {len(found)} differences: " + \
                    "; ".join(found[:SHOWN])
                return False
        seen["count"] = sum(map(len, here["databases"].values()))
        return True

    try:
        until(agree, "the same contents", deadline_s=AGREE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen['why']}") from None
    return seen["count"]
