"""How the scenarios of the data types are measured: their commands, their memory, neighbours."""

import contextlib
import json
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from . import accounting, feed, measure
from .measure import SETTLE_EMPTY_S, SETTLE_FULL_S, SETTLE_QUICK_S
from .scenario import Neighbour
from .servers import Server, Trouble, pinned_to
from .session import own_ns

BENCH = Path(__file__).resolve().parent.parent
IDLE_RUNS = 3
FEWEST = 4_000  # GETs that make a p99.9 worth telling
PROBER_LIMIT_S = 120  # from its stdin's end to its own


# ---- commands ------------------------------------------------------------------------------------


def measure_types(session, scenario):
    with session.fleet(scenario) as servers:
        fed = {server.name: set() for server in servers}
        for server in servers:
            server.pause()
        for step in scenario.steps:
            able = [s for s in servers if is_ready(session, scenario, s, step, fed[s.name])]
            run = lambda server, step=step: run_step(session, scenario, server, step)
            measure.rounds(session, scenario, able, run, part=step.label)
            servers = [server for server in servers if server.process.poll() is None]


def is_ready(session, scenario, server, step, fed):
    """Whether a server knows the step's command and has what it needs; if not, a note is left."""
    with session.guard(scenario, server.name), server.awake():
        name = step.command.split()[0]
        if not server.knows(name):
            session.note(scenario, server.name, f"{step.label}: it does not know {name}")
            return False
        for item in step.needs:
            if item not in fed:
                if not take_in(session, scenario, server, item):
                    return False
                fed.add(item)
        return True
    return False


def take_in(session, scenario, server, item):
    """Feeds a server; if it refuses, a note is left."""
    try:
        feed.send(server.port, item.scaled(scenario.scale))
    except feed.Refused as error:
        session.note(scenario, server.name, f"{item.text()[:60]}: {error}")
        return False
    return True


def run_step(session, scenario, server, step):
    with server.awake():
        for item in step.before:
            if not take_in(session, scenario, server, item):
                raise Trouble(f"{step.label}: could not be prepared")
    requests = max(1, (step.requests or scenario.requests) // scenario.scale)
    keys = max(1, (step.keys or scenario.keys) // scenario.scale)
    shaped = replace(scenario, keys=keys)
    return measure.run_once(session, shaped, server, step.command, requests)


# ---- memory --------------------------------------------------------------------------------------


def measure_collection(session, scenario):
    """One server after the other is fed, looks through what it has, and then rests."""
    for name in scenario.servers:
        if kind := session.kinds.get(name):
            with (
                session.guard(scenario, name),
                Server(kind, session.settings.server_cores) as server,
            ):
                weigh(session, scenario, server)


def weigh(session, scenario, server):
    empty_kb, _ = accounting.settled_rss_kb(server.rss_kb, SETTLE_EMPTY_S, window_s=1.0)
    for item in scenario.feeds:
        if not take_in(session, scenario, server, item):
            return
    for step in scenario.prepare:
        measure.run_once(
            session, scenario, server, step.command, step.requests // scenario.scale
        )
    server.resume()
    quick = session.settings.quick
    full_kb, settled = accounting.settled_rss_kb(
        server.rss_kb,
        SETTLE_QUICK_S if quick else SETTLE_FULL_S,
        window_s=0.5 if quick else 3.0,
    )
    bytes_per_element = (full_kb - empty_kb) * 1024 / (scenario.elements // scenario.scale)
    figures = {
        "bytes_per_element": bytes_per_element,
        "bytes_over_payload": bytes_per_element - scenario.payload_bytes,
        "rss_mb": full_kb * 1024 / 1e6,
        "empty_rss_mb": empty_kb * 1024 / 1e6,
    }
    session.run(
        scenario,
        server,
        0,
        figures,
        feeds=[item.text() for item in scenario.feeds],
        server_line=server.line,
        marks=[] if settled else ["RSS had not settled"],
    )


# ---- neighbours ----------------------------------------------------------------------------------


def measure_neighbours(session, scenario):
    """One server after the other, with each number of threads.

    With one thread a server has its core; with more it has all, and shares one with the load.
    """
    for threads in scenario.threads:
        cores = session.settings.server_cores if threads == 1 else session.settings.all_cores
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with (
                    session.guard(scenario, name),
                    Server(kind, cores, threads) as server,
                ):
                    measure.fill(session, scenario, server, scenario.keys)
                    beside_each(session, scenario, server, threads)


def beside_each(session, scenario, server, threads):
    """GETs beside an idle neighbour, and then beside each of those that work."""
    idle = [beside(session, scenario, server, idling(scenario)) for _ in range(IDLE_RUNS)]
    idle_ms = median(told["p999_ms"] for told in idle)
    many = f", {threads} threads" if threads > 1 else ""
    refused = set()
    for neighbour in scenario.neighbours:
        if neighbour.about in refused:
            continue
        try:
            told = beside(session, scenario, server, neighbour)
        except feed.Refused as error:
            session.note(scenario, server.name, f"{neighbour.name}: {error}")
            refused.add(neighbour.about)
            continue
        figures = {f"{name}_ms": told.pop(f"{name}_ms") for name in ("p50", "p99", "p999", "max")}
        figures |= {"p999_idle_ms": idle_ms, "p999_growth": figures["p999_ms"] / idle_ms}
        told["foreign_percent"] = max(each["foreign_percent"] for each in [told, *idle])
        told["idle_p999_ms"] = [each["p999_ms"] for each in idle]
        told["feeds"] = [item.text() for item in neighbour.feeds]
        told["server_line"] = server.line
        session.run(scenario, server, 0, figures, neighbour.name + many, **told, marks=marks(told))


def marks(told):
    """What a reader should hold against a run."""
    found = []
    if told["foreign_percent"] > measure.DISTURBED_PERCENT:
        found.append("other programs on its cores")
    if not told["real_time"]:
        found.append("the prober had no real-time priority")
    if told["requests"] < FEWEST:
        found.append(f"fewer than {FEWEST} GETs")
    return found


def idling(scenario):
    return Neighbour("nobody", "idle", (), rest_s=scenario.idle_s)


def beside(session, scenario, server, neighbour):
    """What the prober tells that ran while the neighbour did its work, and what else ran then."""
    cores, start = session.settings.all_cores, time.monotonic()
    before, own, busy = server.usage(), own_ns(), accounting.busy_ns(cores)
    with probed(session, scenario, server) as told:
        for item in neighbour.feeds:
            feed.send(server.port, item.scaled(scenario.scale), one_by_one=True)
        time.sleep(neighbour.rest_s)
    used, elapsed_ns = server.usage() - before, (time.monotonic() - start) * 1e9
    foreign = accounting.busy_ns(cores) - busy - used.run_ns - (own_ns() - own)
    told["elapsed_s"] = round(elapsed_ns / 1e9, 4)
    told["foreign_percent"] = measure.percent(foreign, elapsed_ns * len(cores))
    told["server_wait_percent"] = measure.percent(used.wait_ns, elapsed_ns)
    return told


@contextlib.contextmanager
def probed(session, scenario, server, verb="get"):
    """Runs the prober beside the block; what it tells is in the dict after the block."""
    keys = scenario.probed_keys or scenario.keys
    words = [server.port, keys, scenario.value_bytes, scenario.rate, verb]
    line = [*pinned_to(session.settings.load_cores), sys.executable, "-m", "harness.prober"]
    prober = subprocess.Popen(
        [*line, *map(str, words)],
        cwd=BENCH,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    told = {}
    try:
        yield told
        output, said = prober.communicate(timeout=PROBER_LIMIT_S)
        if prober.returncode != 0:
            lines = said.decode(errors="replace").strip().splitlines()
            raise Trouble(f"the prober failed: {lines[-1] if lines else shlex.join(line)}")
        told.update(json.loads(output))
    finally:
        prober.kill()
        prober.wait()
        for pipe in (prober.stdin, prober.stdout, prober.stderr):
            pipe.close()
