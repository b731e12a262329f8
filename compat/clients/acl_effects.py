#!/usr/bin/env python3
"""Calls of every command by a user who may use the keys a* and channels ch* only: by itself, in a
transaction, in a script. What others have is neither shown nor changed.

    python3 compat/clients/acl_effects.py HOST:PORT [seed [calls]]

Where acl_calls.py asks what rules say, this looks at what happens: each key of others holds a word
that no reply may have, and is what it was at the end. THE DATA OF THE SERVER ARE LOST. Needs the
package redis. Exit code 1 when something is shown or changed.
"""

import random
import sys

import redis
from acl_calls import arguments, commands

SECRET = "s3cr3t"
OTHERS = ["b:string", "b:list", "b:set", "b:zset", "b:hash", "b:stream", "b:bits", "b:number"]
OWN = ["a:string", "a:list", "a:set", "a:zset", "a:hash", "a:stream", "a:new", "a:number"]
# About the server, not about keys; or it ends the session.
LEFT_OUT = """acl auth client command config debug failover flushall flushdb function hello info
    latency lolwut memory|purge memory|doctor memory|malloc-stats memory|stats monitor module
    psync quit readonly replconf reset role save bgsave bgrewriteaof script select shutdown slowlog
    commandlog subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe swapdb sync
    time wait waitaof watch unwatch multi exec discard keys scan randomkey dbsize ping echo lastsave
    object|help move replicaof slaveof cluster asking readwrite migrate pubsub restore-asking
    mc.auth""".split()
RULES = ["reset", "on", "nopass", "+@all", "~a*", "&ch*"]


def fill(admin):
    """The keys of both, with what is secret in those of others."""
    admin.execute_command("FLUSHALL")
    for begin, word in (("b", SECRET), ("a", "own")):
        for line in (f"SET {begin}:string {word}", f"RPUSH {begin}:list {word} {word}2",
                     f"SADD {begin}:set {word} {word}2", f"ZADD {begin}:zset 1 {word} 2 {word}2",
                     f"HSET {begin}:hash {word} {word} f {word}2",
                     f"XADD {begin}:stream 1-1 {word} {word}", f"SET {begin}:number 71543",
                     f"SET {begin}:bits {word}{word}"):
            admin.execute_command(*line.split())
        admin.execute_command("XGROUP", "CREATE", f"{begin}:stream", "g", "0")
    # What SORT's patterns lead to from keys of one's own.
    admin.execute_command("RPUSH", "a:names", "string", "number")


def state(admin):
    return [admin.execute_command("DEBUG", "DIGEST-VALUE", *OTHERS),
            [admin.execute_command("PTTL", key) for key in OTHERS],
            sorted(admin.execute_command("KEYS", "b*"))]


def words_for(rng, name, specs):
    """A call with keys of both, and here and there a word too many or too few."""
    words = [word for spec in specs for word in arguments(rng, spec)]
    keys = rng.choice([OWN, OTHERS, OWN + OTHERS])
    shown = [rng.choice(keys) if rng.random() < 0.6 and word.islower() and len(word) < 4 else word
             for word in words]
    if rng.random() < 0.3 and shown:
        more = [*OTHERS, "STORE", "KEYS", "BY", "GET", "b:*", "STREAMS", "0", "1", "2", "#"]
        shown.insert(rng.randrange(len(shown) + 1), rng.choice(more))
    if rng.random() < 0.1 and shown:
        del shown[rng.randrange(len(shown))]
    return [*name.split("|"), *shown]


class Refused(str):
    """An error's text."""


def leaks(reply):
    return SECRET in repr(reply)


def roads(client, words):
    """The replies to a call, by each way in."""
    def ask(*line):
        try:
            return client.execute_command(*line)
        except redis.ResponseError as error:
            return Refused(error)

    yield "by itself", ask(*words)
    yield "script", ask("EVAL", "return redis.pcall(unpack(ARGV))", 0, *words)
    ask("MULTI")
    yield "queue", ask(*words)
    yield "transaction", ask("EXEC")


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    seed, count = (*sys.argv[2:4], *["1", "20000"][len(sys.argv) - 2:])
    rng = random.Random(int(seed))
    options = {"protocol": 3, "decode_responses": True, "encoding_errors": "replace"}
    admin, client = (redis.Redis(host, int(port), **options) for _ in range(2))
    client.connection_pool = redis.ConnectionPool(host=host, port=int(port), max_connections=1,
                                                  **options)
    for one in (admin, client):
        one.response_callbacks.clear()
    admin.execute_command("ACL", "SETUSER", "anna", *RULES)
    admin.execute_command("CLIENT", "NO-EVICT", "on")
    client.execute_command("AUTH", "anna", "x")
    specs = {name: spec for name, spec in commands(admin).items()
             if name not in LEFT_OUT and name.split("|")[0] not in LEFT_OUT}
    names, wrong, ran = sorted(specs), 0, 0
    fill(admin)
    before = state(admin)
    for number in range(int(count)):
        name = rng.choice(names)
        words = words_for(rng, name, specs[name])
        if name.startswith(("b", "xread")) and any(word.isdigit() for word in words):
            # Nothing waits for long.
            words = ["0.01" if word == "0" and name[0] == "b" else word for word in words]
        if "BLOCK" in [word.upper() for word in words] or (name[0] == "b" and "0" in words):
            continue
        for road, reply in roads(client, words):
            ran += not isinstance(reply, Refused)
            if leaks(reply):
                wrong += 1
                print(f"shown, {road}: {words}\n    {reply!r:.300}")
        now = state(admin)
        if now != before:
            wrong += 1
            print(f"changed: {words}")
            fill(admin)
            before = state(admin)
        if number % 500 == 499:
            fill(admin)
            before = state(admin)
    print(f"seed {seed}: {count} calls of {len(names)} commands, {ran} answers that are no errors, "
          f"{wrong} wrong")
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
