"""One publisher and many subscribers: server CPU per delivered message."""

import contextlib
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

from . import accounting, measure
from .servers import Trouble, pinned_to
from .session import children_ns

BENCH = Path(__file__).resolve().parent.parent
CROWD_LIMIT_S = 300


def measure_crowd(session, scenario):
    with session.fleet(scenario) as servers:
        for server in servers:
            server.pause()
        measure.rounds(
            session, scenario, servers, lambda server: run_once(session, scenario, server)
        )


def run_once(session, scenario, server):
    """One run: (figures, details). The connections are there before anything is counted."""
    cores = session.settings.all_cores
    with server.awake(), crowd(session, scenario, server) as (line, process):
        children = children_ns()
        before, busy, start = server.usage(), accounting.busy_ns(cores), time.monotonic()
        output, said = process.communicate(b"\n", CROWD_LIMIT_S)
        elapsed_s, used = time.monotonic() - start, server.usage() - before
        busy = accounting.busy_ns(cores) - busy
        # What it used before it was told to go is its own, too: a little too much.
        load_ns = children_ns() - children
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines()
        raise Trouble(f"the crowd failed: {lines[-1] if lines else shlex.join(line)}")
    told = json.loads(output)
    figures = {"cpu_us_delivered": used.run_ns / 1_000 / told["requests"]}
    figures |= {name: told[name] for name in ("requests_per_s", "p50_ms", "p99_ms", "p999_ms")}
    details = {
        "requests": told["requests"],
        "elapsed_s": round(elapsed_s, 4),
        "server_run_ns": used.run_ns,
        "server_ticks_ns": used.ticks_ns,
        "server_switches": used.switches,
        "server_wait_percent": measure.percent(used.wait_ns, elapsed_s * 1e9),
        "load_cpu_ns": load_ns,
        "foreign_percent": measure.percent(
            busy - used.run_ns - load_ns, elapsed_s * 1e9 * len(cores)
        ),
        "command_line": shlex.join(line),
        "server_line": server.line,
    }
    details["marks"] = measure.marks(used, details, pinned_apart=True)
    return figures, details


@contextlib.contextmanager
def crowd(session, scenario, server):
    """The load, with all its subscribers connected: (its command line, its process)."""
    words = [server.port, scenario.command, scenario.clients, scenario.keys]
    words += [scenario.requests, scenario.pipeline, scenario.value_bytes]
    line = [*pinned_to(session.settings.load_cores), sys.executable, "-m", "harness.crowd"]
    line += map(str, words)
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, cwd=BENCH, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        if process.stdout.readline() != b"ready\n":
            said = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise Trouble(f"the crowd did not gather: {said[-1] if said else 'nothing said'}")
        yield line, process
    finally:
        process.kill()
        process.wait()
        for end in (process.stdin, process.stdout, process.stderr):
            end.close()
