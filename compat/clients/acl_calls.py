#!/usr/bin/env python3
"""Calls of every command, as its documentation says they may be, asked of ACL DRYRUN on two servers
for users with rules drawn at random: both must allow, or refuse for the same reason.

    python3 compat/clients/acl_calls.py OURS REFERENCE [seed [calls]]      (each HOST:PORT)

REFERENCE is a valkey-server 9.1.2. So every key that a command names is held against it, with what
is done to it, every channel and every database. THE USERS OF BOTH SERVERS ARE LOST. Needs the
package redis. Exit code 1 when something differs.
"""

import random
import sys

import redis

KEYS = ["a1", "b1", "r1", "w1", "zz", "", "a*", "#"]
WORDS = ["x", "ch1", "a1", "STORE", "KEYS", "DB", "1", "GET", "WITHSCORES"]
PATTERNS = ["a*", "w_*", "nosort", "#", "ch*", "p?", "x*->f"]
CHANNELS = ["ch1", "other", "p?", "ch*"]
RULES = (
    "~a* %R~r* %W~w* %RW~b* &ch* &p? +@all +@read +@write +@keyspace +@pubsub -@dangerous +get "
    "+set +eval +sort -sort +client -client|list +config|get +select|0 alldbs db=0 db=0,1 resetdbs "
    "allkeys resetkeys allchannels resetchannels nocommands"
).split() + ["(+@read ~b*)", "(%W~w* +@write db=1)", "(+@all %R~*)"]
CALLS_A_USER = 200


def arguments(rng, spec):
    """Words for one argument of the documentation."""
    flags = spec.get("flags", [])
    if "optional" in flags and rng.random() < 0.5:
        return []
    words = []
    for time in range(rng.choice([1, 1, 2, 3]) if "multiple" in flags else 1):
        token = spec.get("token")
        if token and (time == 0 or "multiple_token" in flags):
            words.append(token if rng.random() < 0.8 else token.lower())
        kind = spec["type"]
        if kind == "oneof":
            words += arguments(rng, rng.choice(spec["arguments"]))
        elif kind == "block":
            words += [word for inner in spec["arguments"] for word in arguments(rng, inner)]
        elif kind != "pure-token":
            words.append(value(rng, kind, spec["name"]))
    return words


def value(rng, kind, name):
    if kind == "key":
        return rng.choice(KEYS)
    if kind in ("integer", "unix-time"):
        return rng.choice("01122233")
    if kind == "double":
        return rng.choice(["1", "0.5"])
    if "channel" in name or (kind == "string" and name == "pattern"):
        return rng.choice(CHANNELS)
    return rng.choice(PATTERNS if kind == "pattern" else WORDS)


def call(rng, name, specs):
    """A call of a command; some do not fit together."""
    words = name.upper().split("|") + [word for spec in specs for word in arguments(rng, spec)]
    if rng.random() < 0.15 and len(words) > 1:
        del words[rng.randrange(1, len(words))]
    if rng.random() < 0.1:
        more = [*KEYS, "STORE", "KEYS", "BY", "GET", "DB", "2", "STREAMS"]
        words.insert(rng.randrange(1, len(words) + 1), rng.choice(more))
    return words


def is_known(words, ours, reference):
    """Differences on purpose: see docs/differences.md. What does not fit together may be refused by
    rules or not; it does not run in either case."""
    if words[0] in ("PFMERGE", "SWAPDB"):
        return len(words) == 2 or not all(word.isdigit() for word in words[1:])
    return ours != reference and "OK" in (ours, reference) and not fits(words)


def fits(words):
    """Whether a call is one that could run, as far as can be seen from outside."""
    return words[0] not in ("MSETEX", "XREAD", "XREADGROUP", "BITFIELD", "BITFIELD_RO")


def commands(client):
    """Every command and subcommand that a server has, with its arguments."""
    found = {}

    def walk(named):
        for name, doc in named.items():
            if "subcommands" in doc:
                walk(doc["subcommands"])
            else:
                found[name] = doc.get("arguments", [])

    walk(client.execute_command("COMMAND", "DOCS"))
    return found


def dry_run(client, words):
    try:
        return client.execute_command("ACL", "DRYRUN", "anna", *words)
    except redis.ResponseError as error:
        return f"-{error}"


def new_user(rng, clients):
    """A user with other rules than before, the same on both servers."""
    while True:
        rules = ["reset", "on", "nopass", *rng.choices(RULES, k=rng.randint(2, 9))]
        told = []
        for client in clients:
            try:
                told.append(client.execute_command("ACL", "SETUSER", "anna", *rules))
            except redis.ResponseError as error:
                told.append(str(error))
        assert told[0] == told[1], (rules, told)
        if told[0] == "OK":
            return rules


def main():
    places, (seed, count) = sys.argv[1:3], (*sys.argv[3:5], *["1", "20000"][len(sys.argv) - 3:])
    rng = random.Random(int(seed))
    clients = []
    for place in places:
        host, port = place.rsplit(":", 1)
        client = redis.Redis(host, int(port), protocol=3, decode_responses=True)
        client.response_callbacks.clear()
        clients.append(client)
    known = [commands(client) for client in clients]
    specs = {name: spec for name, spec in known[1].items() if name in known[0]}
    names, rules, differing = sorted(specs), [], 0
    for number in range(int(count)):
        if number % CALLS_A_USER == 0:
            rules = new_user(rng, clients)
        name = rng.choice(names)
        words = call(rng, name, specs[name])
        ours, reference = (dry_run(client, words) for client in clients)
        if ours != reference and not is_known(words, ours, reference):
            differing += 1
            print(f"{' '.join(rules)}: {words}\n  - {reference}\n  + {ours}")
    print(f"{count} calls of {len(names)} commands, {differing} differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
