#!/usr/bin/env python3
"""Bad days: bad input and bad circumstances, against a built server.

    run.py --server target/release/pantala [--engine uring|epoll|both] [--only NAME]
           [--threads N] [--long] [--soak SECONDS] [--list]

Each scenario starts a server of its own on a free port and stops it by its pid. Prints `ok NAME`,
`FAILED NAME why` or `skip NAME why`, and last how many; ends with 1 if any failed. Without --long
it takes less than three minutes on two busy cores.
"""

import argparse
import resource
import sys
import traceback
from pathlib import Path

# Behind our own folder: others have a `run`, too.
sys.path.insert(1, str(Path(__file__).parents[1]))

import scenarios  # noqa: E402,F401  (its modules declare themselves)
from server import PLACE, Server, answers, until  # noqa: E402
from trial import SCENARIOS, Skip, Stopwatch, Trial  # noqa: E402


def main():
    options = parse()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    chosen = [body for body in SCENARIOS if options.only in ("", body.__name__)]
    if options.list:
        for body in SCENARIOS:
            print(f"{body.__name__:28} {(body.__doc__ or '').strip().splitlines()[0]}")
        return 0
    if not chosen:
        print(f"no scenario is called {options.only}", file=sys.stderr)
        return 2
    clock, passed, failed = Stopwatch(), 0, 0
    for engine in engines(options):
        for body in chosen:
            if run_one(Trial(options, engine), body):
                passed += 1
            else:
                failed += 1
    print(f"\n{len(chosen)} scenarios, {clock.seconds():.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def parse():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--server", required=True, help="the binary")
    options.add_argument("--engine", choices=["uring", "epoll", "both"], default="both")
    options.add_argument("--only", default="", metavar="NAME", help="one scenario")
    options.add_argument("--threads", type=int, default=2, help="workers of most servers")
    options.add_argument("--long", action="store_true", help="heavier forms")
    options.add_argument("--soak", type=int, metavar="SECONDS", help="how long soaks go on")
    options.add_argument("--list", action="store_true", help="names the scenarios")
    return options.parse_args()


def run_one(trial, body):
    name, clock = f"{body.__name__} ({trial.engine})", Stopwatch()
    try:
        longest = trial.run(body)
    except Skip as why:
        print(f"skip {name} {why}", flush=True)
        return True
    except Exception as why:
        where = traceback.extract_tb(why.__traceback__)[-1]
        inner = next((frame for frame in reversed(traceback.extract_tb(why.__traceback__))
                      if "scenarios" in frame.filename), where)
        print(f"FAILED {name} {type(why).__name__}: {why} "
              f"[{Path(inner.filename).name}:{inner.lineno}]", flush=True)
        return False
    notes = "; ".join(trial.notes)
    print(f"ok {name} {clock.seconds():.1f} s, others waited {longest * 1000:.0f} ms"
          f"{'; ' + notes if notes else ''}", flush=True)
    return True


def engines(options):
    """Containers often forbid io_uring; then it cannot be tested."""
    wanted = ["epoll", "uring"] if options.engine == "both" else [options.engine]
    if options.engine == "both" and not has_uring(options.server):
        print("io_uring is not allowed here: left out")
        wanted.remove("uring")
    return wanted


def has_uring(binary):
    server = Server([binary, "--io_engine", "uring", *PLACE]).spawn()
    try:
        until(lambda: not server.is_alive() or answers(server.address), "it serves or ends")
        return server.is_alive()
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
