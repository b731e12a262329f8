"""How what replicas cost is measured.

A replica runs on the cores of the load, so that only what the primary does stands in its figures.
Full copies begin at once (repl-diskless-sync-delay 0), and neither side saves files of its own.
"""

import contextlib
import time

from . import measure, measure_persistence, resp
from .servers import Server, Trouble

LOOK_S = 0.02
LINK_LIMIT_S = 600
AT_ONCE = ("--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb")
# What the load, and the replica with it, take from the machine is no disturbance.
EXPECTED_MARKS = ("other programs on its cores",)


def measure_copy(session, scenario):
    for turn in range(session.settings.rounds):
        for name in scenario.servers:
            kind = session.kinds.get(name)
            of_replica = session.kinds.get(scenario.replica or name)
            if kind and of_replica:
                with session.guard(scenario, name):
                    cores, threads = session.settings.all_cores, max(scenario.threads)
                    with (
                        Server(kind, cores, threads, AT_ONCE) as server,
                        Server(of_replica, cores, threads, AT_ONCE) as replica,
                    ):
                        figures, details = copy(session, scenario, server, replica)
                        details |= {"server_line": server.line, "marks": []}
                        session.run(scenario, server, turn, figures, **details)


def copy(session, scenario, server, replica):
    """(figures, details) of one full copy."""
    measure.fill(session, scenario, server, scenario.keys)
    if not scenario.command:
        memory = measure_persistence.Memory(server.pid)
        figures = {"copy_s": follow(server, replica, memory)}
        wait_equal(server, replica)
        if (count := replica.key_count()) != scenario.keys:
            raise Trouble(f"the replica holds {count} keys of {scenario.keys}")
        return figures | growth_of(memory), {}
    with measure_persistence.writing(session, scenario, server) as line:
        without = measure_persistence.probed_for(
            session, scenario, server, lambda: time.sleep(scenario.idle_s)
        )
        memory, took_s = measure_persistence.Memory(server.pid), []
        beside = measure_persistence.probed_for(
            session, scenario, server, lambda: took_s.append(follow(server, replica, memory))
        )
    wait_equal(server, replica)
    figures = {
        "copy_s": took_s[0],
        "p999_ms": beside["p999_ms"],
        "max_ms": beside["max_ms"],
        "p999_idle_ms": without["p999_ms"],
        "p999_growth": beside["p999_ms"] / without["p999_ms"],
    }
    return figures | growth_of(memory), {"probed": beside["requests"], "command_line": line}


def growth_of(memory):
    return {
        "memory_growth": memory.peak_kb / memory.before_kb,
        "rss_mb": memory.peak_kb * 1024 / 1e6,
    }


def follow(server, replica, memory=None):
    """How long it takes until `replica` follows, in seconds."""
    start = time.monotonic()
    with resp.Connection(replica.port, timeout_s=LINK_LIMIT_S) as connection:
        connection.command("REPLICAOF", "127.0.0.1", str(server.port))
        while state(connection).get("master_link_status") != "up":
            if memory:
                memory.look()
            if time.monotonic() - start > LINK_LIMIT_S:
                raise Trouble(f"{replica.name} does not follow after {LINK_LIMIT_S} s")
            time.sleep(LOOK_S)
    return time.monotonic() - start


def wait_equal(server, replica):
    """Until the replica has all of the stream."""
    end = time.monotonic() + LINK_LIMIT_S
    with resp.Connection(server.port) as primary, resp.Connection(replica.port) as follower:
        while offset(primary, "master_repl_offset") != offset(follower, "slave_repl_offset"):
            if time.monotonic() > end:
                raise Trouble(f"{replica.name} is behind after {LINK_LIMIT_S} s")
            time.sleep(LOOK_S)


def state(connection):
    return resp.parse_info(connection.command("INFO", "replication").decode())


def offset(connection, name):
    return int(state(connection).get(name, -1))


def measure_stream(session, scenario):
    """The same server twice, with a replica and without, in each round."""
    with contextlib.ExitStack() as stack:
        pairs = {}
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    cores = session.settings
                    pair = [
                        stack.enter_context(Server(kind, cores.server_cores, 1, AT_ONCE))
                        for _ in range(2)
                    ]
                    replica = stack.enter_context(Server(kind, cores.load_cores, 1, AT_ONCE))
                    if len(measure.prepared(session, scenario, pair)) == 2:
                        with pair[1].awake():
                            follow(pair[1], replica)
                        replica.pause()
                        pairs[pair[1]] = (pair[0], replica)

        def run(followed):
            alone, replica = pairs[followed]
            arguments = (scenario.command, scenario.requests)
            without = measure.run_once(session, scenario, alone, *arguments)
            with replica.awake():
                figures, details = measure.run_once(session, scenario, followed, *arguments)
                with followed.awake():
                    wait_equal(followed, replica)
            growth = figures["cpu_us"] / without[0]["cpu_us"]
            figures |= {"stream_growth": growth, "cpu_us_without": without[0]["cpu_us"]}
            marks = [mark for mark in details["marks"] if mark not in EXPECTED_MARKS]
            return figures, details | {"marks": marks, "without": without[1]}

        measure.rounds(session, scenario, pairs, run)
