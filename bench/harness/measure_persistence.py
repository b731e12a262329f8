"""How what keeping data costs is measured: saving, loading, the append-only file.

Saving: while clients write as fast as they can, a program of our own (prober.py) sends one write
after the other at a steady pace, so that a stall is seen by all the writes that fell into it. It is
asked for the same time without a save, before. Memory is the sum of Pss over the server and its
children, so that what a fork shares is counted once; read every 100 ms.
"""

import contextlib
import os
import shlex
import subprocess
import time

from . import accounting, feed, measure, measure_types, resp
from .scenario import Scenario
from .servers import START_LIMIT_S, Server, Trouble, pinned_to

LOOK_S = 0.1
SAVE_LIMIT_S = 300
NO_FILE = ("--appendonly", "no")
# Rewrites begin by chance of the sizes, and another process that does one is not counted.
FILE = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")


# ---- saving --------------------------------------------------------------------------------------


def measure_saving(session, scenario):
    for turn in range(session.settings.rounds):
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    cores = session.settings.all_cores
                    with Server(kind, cores, max(scenario.threads)) as server:
                        figures, details = save_under_load(session, scenario, server)
                        session.run(scenario, server, turn, figures, **details)


def save_under_load(session, scenario, server):
    """(figures, details) of one save while clients write."""
    measure.fill(session, scenario, server, scenario.keys)
    for neighbour in scenario.neighbours:
        for item in neighbour.feeds:
            feed.send(server.port, item.scaled(scenario.scale))
    with writing(session, scenario, server) as line:
        without = probed_for(session, scenario, server, lambda: time.sleep(scenario.idle_s))
        memory = Memory(server.pid)
        took_s = []
        beside = probed_for(session, scenario, server, lambda: took_s.append(save(server, memory)))
    figures = {
        "save_s": took_s[0],
        "memory_growth": memory.peak_kb / memory.before_kb,
        "rss_mb": memory.peak_kb * 1024 / 1e6,
        "p999_ms": beside["p999_ms"],
        "max_ms": beside["max_ms"],
        "p999_idle_ms": without["p999_ms"],
        "p999_growth": beside["p999_ms"] / without["p999_ms"],
    }
    details = {"probed": beside["requests"], "before_kb": memory.before_kb}
    details |= {"command_line": line, "server_line": server.line, "marks": []}
    if not beside["real_time"]:
        details["marks"].append("the prober had no real-time priority")
    return figures, details


def save(server, memory):
    """How long a BGSAVE takes, in seconds."""
    with resp.Connection(server.port) as connection:
        count = saves_done(connection)
        start = time.monotonic()
        connection.command("BGSAVE")
        while True:
            memory.look()
            state = resp.parse_info(connection.command("INFO", "persistence").decode())
            is_over = state.get("rdb_bgsave_in_progress") == "0"
            if is_over and saves_done(connection) != count:
                break
            if time.monotonic() - start > SAVE_LIMIT_S:
                raise Trouble(f"BGSAVE has not ended in {SAVE_LIMIT_S} s")
            time.sleep(LOOK_S)
        took_s = time.monotonic() - start
        if state.get("rdb_last_bgsave_status") != "ok":
            raise Trouble("BGSAVE failed")
        return took_s


def saves_done(connection):
    """Changes with every save that has ended."""
    state = resp.parse_info(connection.command("INFO", "persistence").decode())
    return state.get("rdb_saves"), state.get("rdb_last_save_time")


class Memory:
    """The memory of a server and its children: before, and the peak of those looks."""

    def __init__(self, pid):
        self.pid = pid
        self.before_kb = self.peak_kb = self.now_kb()

    def look(self):
        self.peak_kb = max(self.peak_kb, self.now_kb())

    def now_kb(self):
        return sum(map(pss_kb, [self.pid, *children(self.pid)]))


def children(pid):
    with contextlib.suppress(OSError):
        found = [
            accounting.read(f"/proc/{pid}/task/{thread}/children").split()
            for thread in os.listdir(f"/proc/{pid}/task")
        ]
        return [int(child) for of_thread in found for child in of_thread]
    return []


def pss_kb(pid):
    """Resident kB of a process, what it shares with others divided; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for text in accounting.read(f"/proc/{pid}/smaps_rollup").splitlines():
            if text.startswith("Pss:"):
                return int(text.split()[1])
    return 0


@contextlib.contextmanager
def writing(session, scenario, server):
    """Clients that write for as long as the block lasts; their command line."""
    line, stdin = measure.load_line(scenario, server, scenario.command, scenario.requests)
    program = [*pinned_to(session.settings.load_cores), str(session.programs[line[0]])]
    process = subprocess.Popen(
        [*program, *line[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.stdin.write(stdin)
        process.stdin.close()
        yield shlex.join(line)
        if process.poll() is not None:
            raise Trouble("the clients that write have ended before the save")
    finally:
        process.kill()
        process.wait()


def probed_for(session, scenario, server, work):
    """What the prober tells of its writes beside `work`."""
    verb = "hset" if scenario.command.startswith("HSET") else "set"
    with measure_types.probed(session, scenario, server, verb) as told:
        work()
    return told


# ---- loading -------------------------------------------------------------------------------------


def measure_loading(session, scenario):
    for turn in range(session.settings.rounds):
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    cores, threads = session.settings.all_cores, max(scenario.threads)
                    with Server(kind, cores, threads) as server:
                        measure.fill(session, scenario, server, scenario.keys)
                        with resp.Connection(server.port, timeout_s=SAVE_LIMIT_S) as connection:
                            connection.command("SAVE")
                        figures = start_again(scenario, server)
                        session.run(
                            scenario, server, turn, figures, server_line=server.line, marks=[]
                        )


def start_again(scenario, server):
    start = time.monotonic()
    server.restart()
    with server:
        took_s = time.monotonic() - start
        if (count := server.key_count()) != scenario.keys:
            raise Trouble(f"holds {count} keys of {scenario.keys} after the start")
        used = server.usage()
        return {"load_s": took_s, "load_cpu_s": used.run_ns / 1e9, "rss_mb": server.rss_kb() / 1e3}


# ---- the append-only file ------------------------------------------------------------------------


def measure_journal(session, scenario):
    """The same server twice, with the file and without, in each round."""
    with contextlib.ExitStack() as stack:
        pairs = {}
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    cores = session.settings.server_cores
                    more = (NO_FILE, (*FILE, "--appendfsync", "everysec"))
                    pair = [stack.enter_context(Server(kind, cores, 1, each)) for each in more]
                    if len(measure.prepared(session, scenario, pair)) == 2:
                        pairs[pair[1]] = pair

        def run(kept):
            without, on = (
                measure.run_once(session, scenario, server, scenario.command, scenario.requests)
                for server in pairs[kept]
            )
            growth = on[0]["cpu_us"] / without[0]["cpu_us"]
            figures = on[0] | {"journal_growth": growth, "cpu_us_without": without[0]["cpu_us"]}
            return figures, on[1] | {"without": without[1]}

        measure.rounds(session, scenario, pairs, run)


def measure_always(session, scenario: Scenario):
    """Writers that wait for the disk, and a reader on another connection that need not."""
    with contextlib.ExitStack() as stack:
        servers = []
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    more = (*FILE, "--appendfsync", "always")
                    cores = session.settings.server_cores
                    server = stack.enter_context(Server(kind, cores, 1, more))
                    measure.fill(session, scenario, server, scenario.keys)
                    server.pause()
                    servers.append(server)

        def run(server):
            with server.awake(), measure_types.probed(session, scenario, server) as told:
                line, stdin = measure.load_line(
                    scenario, server, scenario.command, scenario.requests
                )
                limit_s = measure.timeout_s(scenario.requests)
                output, *_ = session.execute(line, session.settings.load_cores, limit_s, stdin)
            written = measure.parse_load(scenario, output)
            figures = {"set_us": 1e6 / written["requests_per_s"]}
            figures |= {name: told[name] for name in ("p50_ms", "p99_ms", "p999_ms")}
            figures |= {"requests_per_s": written["requests_per_s"]}
            lines = {"command_line": shlex.join(line), "server_line": server.line}
            return figures, lines | {"marks": []}

        measure.rounds(session, scenario, servers, run)
