"""How each kind of scenario is measured. Every function records its runs in the session."""

import contextlib
import random
import shlex
import time

from . import accounting, load, redis_benchmark, tls
from .servers import Server, Trouble, pinned_to

# A run is marked as disturbed when others took more than this share of its cores' time, or the
# server waited for its core for more than this share of the time.
DISTURBED_PERCENT = 3.0
# schedstat and the coarser stat may differ by this much before a run is marked.
CLOCKS_DIFFER_SHARE, CLOCKS_DIFFER_NS = 0.03, 30_000_000
# RSS must settle within this time; the second for servers that hold data.
SETTLE_EMPTY_S, SETTLE_FULL_S = 10.0, 45.0
SETTLE_QUICK_S = 2.0


# ---- preparation ---------------------------------------------------------------------------------


def timeout_s(commands):
    """Ample for the slowest server on a busy machine, but an end."""
    return 120 + commands / 2_000


def fill(session, scenario, server, keys, first=0):
    """Writes the keys first..keys, and checks that all are there."""
    line = load.fill_line(
        server.port, server.protocol, keys=keys, value_bytes=scenario.value_bytes, first=first
    )
    output, *_ = session.execute(line, session.settings.load_cores, timeout_s(keys))
    count = server.key_count()
    if count is not None and count != keys:
        raise Trouble(f"holds {count} keys after a fill of {keys}")
    return line, load.parse(output)


def read_each_key_once(session, scenario, server, keys):
    """As many random GETs as there are keys: ends the step-by-step growth of Redis's tables."""
    line = load.run_line(
        server.port,
        server.protocol,
        keys=keys,
        value_bytes=scenario.value_bytes,
        clients=4,
        pipeline=100,
        requests=keys,
    )
    session.execute(line, session.settings.load_cores, timeout_s(keys))


def prepared(session, scenario, servers):
    """Fills the servers and pauses them; gives those that succeeded."""
    ready = []
    for server in servers:
        with session.guard(scenario, server.name):
            fill(session, scenario, server, scenario.keys)
            read_each_key_once(session, scenario, server, scenario.keys)
            server.pause()
            ready.append(server)
    return ready


# ---- one run under load --------------------------------------------------------------------------


def load_line(scenario, server, command, requests, threads=0):
    """The command line of the load, and what it reads from stdin."""
    shape = {
        "clients": scenario.clients,
        "pipeline": scenario.pipeline,
        "requests": requests,
        "keys": scenario.keys,
    }
    if scenario.load == "pantala-load":
        shape |= {"value_bytes": scenario.value_bytes, "get_percent": scenario.get_percent}
        shape |= {"multi_get": scenario.multi_get}
        return load.run_line(server.port, server.protocol, **shape), b""
    shape |= {"threads": threads, "keeps_connections": scenario.keeps_connections}
    shape |= {"options": tls.load_options() if scenario.certificate else []}
    port = server.tls_port or server.port
    line, from_stdin = redis_benchmark.command_line(port, command, **shape)
    return line, random.Random(1).randbytes(scenario.value_bytes) if from_stdin else b""


def parse_load(scenario, output):
    if scenario.load == "pantala-load":
        return load.parse(output)
    try:
        return redis_benchmark.parse(output)
    except redis_benchmark.Unreadable as error:
        raise Trouble(f"redis-benchmark: {error}") from None


def run_once(session, scenario, server, command, requests, *, cores=None, threads=0):
    """One run: (figures, details for the record)."""
    cores = cores or session.settings.load_cores
    line, stdin = load_line(scenario, server, command, requests, threads)
    with server.awake():
        misses = server.misses() if scenario.must_hit else None
        before, busy = server.usage(), accounting.busy_ns(session.settings.all_cores)
        output, load_ns, elapsed_s = session.execute(line, cores, timeout_s(requests), stdin)
        used = server.usage() - before
        busy = accounting.busy_ns(session.settings.all_cores) - busy
        if misses is not None and (missed := server.misses() - misses):
            raise Trouble(f"{missed} of {requests} GETs found nothing")
    told = parse_load(scenario, output)
    figures = {"cpu_us": used.run_ns / 1_000 / told["requests"]}
    figures |= {name: told[name] for name in ("requests_per_s", "p50_ms", "p99_ms", "p999_ms")}
    details = {
        "requests": told["requests"],
        "elapsed_s": round(elapsed_s, 4),
        "server_run_ns": used.run_ns,
        "server_ticks_ns": used.ticks_ns,
        "server_switches": used.switches,
        "server_wait_percent": percent(used.wait_ns, elapsed_s * 1e9),
        "load_cpu_ns": load_ns,
        "foreign_percent": percent(
            busy - used.run_ns - load_ns, elapsed_s * 1e9 * len(session.settings.all_cores)
        ),
        "command_line": shlex.join([*pinned_to(cores), *line])
        + (f" < {len(stdin)} random bytes" if stdin else ""),
        "server_line": server.line,
    }
    details["marks"] = marks(used, details, pinned_apart=cores == session.settings.load_cores)
    return figures, details


def percent(part, whole):
    return round(max(0.0, 100.0 * part / whole), 2) if whole else 0.0


def marks(used, details, pinned_apart):
    """What a reader should hold against a run."""
    found = []
    if details["foreign_percent"] > DISTURBED_PERCENT:
        found.append("other programs on its cores")
    if pinned_apart and details["server_wait_percent"] > DISTURBED_PERCENT:
        found.append("the server waited for its core")
    differ = abs(used.run_ns - used.ticks_ns)
    if differ > CLOCKS_DIFFER_NS and differ > CLOCKS_DIFFER_SHARE * used.ticks_ns:
        found.append("schedstat and stat disagree")
    return found


def rounds(session, scenario, servers, run, part=""):
    """`run(server)` for every server in turn, round by round; one that fails is left out."""
    servers = list(servers)
    for turn in range(session.settings.rounds):
        for server in list(servers):
            servers.remove(server)
            with session.guard(scenario, server.name):
                figures, details = run(server)
                session.run(scenario, server, turn, figures, part, **details)
                servers.append(server)


# ---- the kinds -----------------------------------------------------------------------------------


def measure_commands(session, scenario):
    with session.fleet(scenario) as servers:
        servers = prepared(session, scenario, servers)
        warm = max(1, scenario.requests // 10)
        for server in list(servers):
            with session.guard(scenario, server.name):
                run_once(session, scenario, server, scenario.command, warm)
        rounds(
            session,
            scenario,
            servers,
            lambda server: run_once(
                session, scenario, server, scenario.command, scenario.requests
            ),
        )


def measure_family(session, scenario):
    with session.fleet(scenario) as servers:
        servers = prepared(session, scenario, servers)
        for server in servers:
            for step in scenario.prepare:
                with session.guard(scenario, server.name):
                    requests = step.requests or scenario.keys
                    run_once(session, scenario, server, step.command, requests)
        for step in scenario.steps:
            requests = step.requests or scenario.requests
            rounds(
                session,
                scenario,
                knowing(session, scenario, servers, step.command),
                lambda server, step=step, requests=requests: run_once(
                    session, scenario, server, step.command, requests
                ),
                part=step.command,
            )


def knowing(session, scenario, servers, command):
    """The servers that know a command; for the others a note is left."""
    able = []
    for server in servers:
        with session.guard(scenario, server.name), server.awake():
            if text := server.refusal(command):
                session.note(scenario, server.name, f"{command}: {text}")
            else:
                able.append(server)
    return able


def measure_threads(session, scenario):
    """Both sides of the comparison may use both cores; the load has as many threads as cores."""
    cores = session.settings.all_cores
    with contextlib.ExitStack() as stack:
        pairs = {}
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with session.guard(scenario, name):
                    pair = [
                        stack.enter_context(Server(kind, cores, n, scenario.more)) for n in (1, 2)
                    ]
                    if len(prepared(session, scenario, pair)) == 2:
                        pairs[pair[0]] = pair

        def run(first):
            one, two = (
                run_once(
                    session,
                    scenario,
                    server,
                    scenario.command,
                    scenario.requests,
                    cores=cores,
                    threads=len(cores),
                )
                for server in pairs[first]
            )
            figures = two[0] | {
                "growth": two[0]["cpu_us"] / one[0]["cpu_us"],
                "cpu_us_one_thread": one[0]["cpu_us"],
                "requests_per_s_one_thread": one[0]["requests_per_s"],
            }
            return figures, two[1] | {"one_thread": one[1]}

        rounds(session, scenario, pairs, run)


def measure_memory(session, scenario):
    """One server after the other grows through the sizes; after each it reads and then rests.

    A server that has grown to a size in steps is as one filled at once: only keys were added.
    """
    for name in scenario.servers:
        if kind := session.kind_for(scenario, name):
            with (
                session.guard(scenario, name),
                Server(kind, session.settings.server_cores) as server,
            ):
                grow(session, scenario, server)


def grow(session, scenario, server):
    empty_kb, _ = accounting.settled_rss_kb(server.rss_kb, SETTLE_EMPTY_S, window_s=1.0)
    filled = 0
    for turn, keys in enumerate(scenario.sizes):
        line, _ = fill(session, scenario, server, keys, first=filled)
        read_each_key_once(session, scenario, server, keys)
        quick = session.settings.quick
        full_kb, settled = accounting.settled_rss_kb(
            server.rss_kb,
            SETTLE_QUICK_S if quick else SETTLE_FULL_S,
            window_s=0.5 if quick else 3.0,
        )
        figures = {
            "bytes_per_key": (full_kb - empty_kb) * 1024 / keys,
            "absolute_bytes_per_key": full_kb * 1024 / keys,
            "rss_mb": full_kb * 1024 / 1e6,
            "empty_rss_mb": empty_kb * 1024 / 1e6,
        }
        session.run(
            scenario,
            server,
            0,
            figures,
            part=str(keys),
            command_line=shlex.join(line),
            server_line=server.line,
            marks=[] if settled else ["RSS had not settled"],
        )
        filled = keys


def measure_idle(session, scenario):
    for turn in range(session.settings.rounds):
        for name in scenario.servers:
            if kind := session.kinds.get(name):
                with (
                    session.guard(scenario, name),
                    Server(kind, session.settings.server_cores) as server,
                ):
                    figures, settled = idle_figures(scenario, server)
                    session.run(
                        scenario,
                        server,
                        turn,
                        figures,
                        server_line=server.line,
                        marks=[] if settled else ["RSS had not settled"],
                    )


def idle_figures(scenario, server):
    kb, settled = accounting.settled_rss_kb(server.rss_kb, SETTLE_EMPTY_S, window_s=1.0)
    before, start = server.usage(), time.monotonic()
    time.sleep(scenario.idle_s)
    used, elapsed_s = server.usage() - before, time.monotonic() - start
    figures = {
        "rss_mb": kb * 1024 / 1e6,
        "idle_cpu_percent": 100 * used.run_ns / (elapsed_s * 1e9),
        "switches_per_s": used.switches / elapsed_s,
    }
    return figures, settled
