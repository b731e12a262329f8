"""How what a cache does is measured: hit rates, expiry, memory that comes back, the limit.

Hit rates: a trace is played look-aside (GET, and SET what was missing; bench/traces) by one
connection against each server at the same limit of its own count of memory. Redis and Valkey are
played with both allkeys-lru and allkeys-lfu, and the better of them counts. Afterwards LRU and
Belady's optimum are worked out for as many items as the server held: what the policy gives is the
difference to LRU there; what the smaller overhead gives is that LRU against the one at another's.
"""

import contextlib
import json
import random
import time

from . import accounting, measure, measure_types, resp
from .measure_persistence import Memory
from .servers import Server, Trouble

PROGRAM = "pantala-traces"
POLICIES = {
    "pantala": {"cache mode": ("--cache_mode=true",)},
    "valkey": {name: ("--maxmemory-policy", name) for name in ("allkeys-lru", "allkeys-lfu")},
    "redis": {name: ("--maxmemory-policy", name) for name in ("allkeys-lru", "allkeys-lfu")},
    "memcached": {"its own": ()},
}
DELETED_OF_TEN = 9
DELETED_AT_ONCE = 500


def limited(kind, megabytes, policy):
    """The arguments that limit a server's memory."""
    if kind.name == "memcached":
        return ("-m", str(megabytes))
    return ("--maxmemory", f"{megabytes}mb", *policy)


# ---- hit rates -----------------------------------------------------------------------------------


def measure_hitrate(session, scenario):
    for turn in range(session.settings.rounds):
        for name, arguments in scenario.traces:
            played = {}
            for server in scenario.servers:
                if kind := session.kinds.get(server):
                    with session.guard(scenario, server):
                        played[server] = best_policy(session, scenario, kind, arguments)
            for server, (figures, details) in played.items():
                others = [f["hit_percent"] for s, (f, _) in played.items() if s != server]
                if others:
                    figures["behind_points"] = max(others) - figures["hit_percent"]
                session.run(scenario, _Named(server), turn, figures, name, **details)


class _Named:
    """What a record wants to know of a server that has ended."""

    def __init__(self, name):
        self.name = name


def best_policy(session, scenario, kind, arguments):
    found = [
        played(session, scenario, kind, arguments, policy, more)
        for policy, more in POLICIES[kind.name].items()
    ]
    best = max(found, key=lambda one: one[0]["hit_percent"])
    best[1]["policies"] = {one[1]["policy"]: one[0]["hit_percent"] for one in found}
    return best


def played(session, scenario, kind, arguments, policy, more):
    """(figures, details) of one trace on one server."""
    shape = ["--requests", str(scenario.requests), "--value-bytes", str(scenario.value_bytes)]
    with Server(
        kind, session.settings.server_cores, 1, limited(kind, scenario.memory_mb, more)
    ) as server:
        to = ["--port", str(server.port), "--protocol", server.protocol]
        told = traces(session, ["play", *shape, *arguments, *to], scenario.requests)
        items, rss_mb = held(server), server.rss_kb() / 1e3
    (limits,) = traces(
        session, ["limits", *shape, *arguments, "--items", str(items)], scenario.requests
    )
    figures = {"hit_percent": told["hit_percent"], "rss_mb": rss_mb}
    details = limits | {"refused": told["refused"], "seconds": told["seconds"], "policy": policy}
    details["over_lru_points"] = told["hit_percent"] - limits["lru_percent"]
    details["below_optimum_points"] = limits["optimum_percent"] - told["hit_percent"]
    return figures, details | {"server_line": server.line, "marks": []}


def traces(session, words, requests):
    output, *_ = session.execute(
        [PROGRAM, *words], session.settings.load_cores, measure.timeout_s(requests)
    )
    return json.loads(output)


def held(server):
    """The number of items."""
    with resp.Connection(server.port) as connection:
        if server.protocol == "memcached":
            return int(connection.memcached_stats()["curr_items"])
        return connection.command("DBSIZE")


# ---- expiry --------------------------------------------------------------------------------------


def measure_wave(session, scenario):
    for turn in range(session.settings.rounds):
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with (
                    session.guard(scenario, name),
                    Server(kind, session.settings.all_cores, 2) as server,
                ):
                    figures = wave(session, scenario, server)
                    session.run(scenario, server, turn, figures, server_line=server.line, marks=[])


def wave(session, scenario, server):
    """Memory is compared with what the most keys that were alive at one moment take: those of the
    fill and the steady writes up to the first deadline, at what a key of the fill takes."""
    probed = scenario.probed_keys
    measure.fill(session, scenario, server, probed)
    memory = Memory(server.pid)
    empty_kb = memory.now_kb()
    started = time.monotonic()
    filled_s = fill_with_deadline(session, scenario, server, first=probed)
    if filled_s > scenario.ttl_s * 0.6:
        raise Trouble(f"the fill took {filled_s:.0f} s, the deadlines are {scenario.ttl_s} s")
    key_kb = (memory.now_kb() - empty_kb) / scenario.keys
    before, written = steady(
        session, scenario, server, memory, until=started + scenario.ttl_s * 0.95
    )
    gone = lambda: held(server) <= probed + scenario.requests * scenario.ttl_s * 1.2
    late = started + filled_s + 3 * scenario.ttl_s
    beside, _ = steady(session, scenario, server, memory, until=late, over=gone)
    return {
        "peak_growth": memory.peak_kb / (empty_kb + key_kb * (scenario.keys + written)),
        "rss_mb": server.rss_kb() / 1e3,
        "p999_ms": beside["p999_ms"],
        "max_ms": beside["max_ms"],
        "p999_idle_ms": before["p999_ms"],
        "p999_growth": beside["p999_ms"] / before["p999_ms"],
    }


def fill_with_deadline(session, scenario, server, first):
    """Writes the keys that reach their deadline; how many seconds it took."""
    line = measure.load.fill_line(
        server.port,
        server.protocol,
        keys=first + scenario.keys,
        value_bytes=scenario.value_bytes,
        first=first,
        ttl_s=scenario.ttl_s,
    )
    started = time.monotonic()
    session.execute(line, session.settings.load_cores, measure.timeout_s(scenario.keys))
    return time.monotonic() - started


def steady(session, scenario, server, memory, until, over=lambda: False):
    """What the prober tells of GETs beside steady writes that go on until then, and how many
    were written."""
    written = 0
    with measure_types.probed(session, scenario, server) as told:
        start = time.monotonic()
        while (now := time.monotonic()) < until and not over():
            due = int((now - start) * scenario.requests) - written
            if due > 0:
                first = 10**11 + written + int(start * 1e4)
                write_with_deadline(
                    server.port, due, scenario.value_bytes, scenario.ttl_s, first=first
                )
                written += due
            memory.look()
            time.sleep(0.1)
    return told, written


def write_with_deadline(port, count, value_bytes, ttl_s, first=0):
    """SETs with a deadline, in batches."""
    value = random.Random(1).randbytes(value_bytes)
    head = b"*5\r\n$3\r\nSET\r\n$17\r\n"
    tail = b"\r\n$%d\r\n%s\r\n$2\r\nEX\r\n$%d\r\n%d\r\n" % (
        len(value),
        value,
        len(str(ttl_s)),
        ttl_s,
    )
    with resp.Connection(port) as connection:
        for begin in range(first, first + count, 1_000):
            numbers = range(begin, min(begin + 1_000, first + count))
            connection.socket.sendall(b"".join(b"%bttl:%013d%b" % (head, n, tail) for n in numbers))
            for _ in numbers:
                resp.read_reply(connection.file)


# ---- memory that comes back ----------------------------------------------------------------------


def measure_comeback(session, scenario):
    for turn in range(session.settings.rounds):
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    cores = session.settings.all_cores
                    left = scenario.keys * (10 - DELETED_OF_TEN) // 10
                    with Server(kind, cores, 2) as server:
                        measure.fill(session, scenario, server, left)
                        live_kb, _ = accounting.settled_rss_kb(
                            server.rss_kb, measure.SETTLE_EMPTY_S
                        )
                    with Server(kind, cores, 2) as server:
                        figures = come_back(session, scenario, server, live_kb)
                        session.run(
                            scenario, server, turn, figures, server_line=server.line, marks=[]
                        )


def come_back(session, scenario, server, live_kb):
    measure.fill(session, scenario, server, scenario.keys)
    full_kb = server.rss_kb()
    numbers = list(range(scenario.keys))
    random.Random(3).shuffle(numbers)
    numbers = numbers[: scenario.keys * DELETED_OF_TEN // 10]
    with resp.Connection(server.port) as connection:
        for at in range(0, len(numbers), DELETED_AT_ONCE):
            names = [f"key:{number:012d}" for number in numbers[at : at + DELETED_AT_ONCE]]
            connection.command("DEL", *names)
    time.sleep(scenario.idle_s)
    rss_kb = server.rss_kb()
    if (count := server.key_count()) != scenario.keys - len(numbers):
        raise Trouble(f"holds {count} keys")
    return {"comeback": rss_kb / live_kb, "rss_mb": rss_kb / 1e3, "memory_growth": rss_kb / full_kb}


# ---- writes at the limit -------------------------------------------------------------------------


def measure_full(session, scenario):
    """The same server twice, with room for all keys and without, in each round."""
    with contextlib.ExitStack() as stack:
        pairs = {}
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    policy = next(iter(POLICIES[name].values()))
                    roomy = limited(kind, scenario.memory_mb * 50, policy)
                    more = (roomy, limited(kind, scenario.memory_mb, policy))
                    cores = session.settings.server_cores
                    pair = [stack.enter_context(Server(kind, cores, 1, each)) for each in more]
                    for server in pair:
                        fill_to_the_brim(session, scenario, server)
                    pairs[pair[1]] = pair

        def run(full):
            below, at = (
                measure.run_once(session, scenario, server, scenario.command, scenario.requests)
                for server in pairs[full]
            )
            growth = at[0]["cpu_us"] / below[0]["cpu_us"]
            figures = at[0] | {"full_growth": growth, "cpu_us_without": below[0]["cpu_us"]}
            return figures, at[1] | {"without": below[1], "items": [*map(held_of, pairs[full])]}

        measure.rounds(session, scenario, pairs, run)


def held_of(server):
    with server.awake():
        return held(server)


def fill_to_the_brim(session, scenario, server):
    """Writes all keys; a server without the room has evicted some, so they are not counted."""
    line = measure.load.fill_line(
        server.port, server.protocol, keys=scenario.keys, value_bytes=scenario.value_bytes
    )
    session.execute(line, session.settings.load_cores, measure.timeout_s(scenario.keys))
    server.pause()


