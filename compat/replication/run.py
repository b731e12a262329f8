#!/usr/bin/env python3
"""Replication between servers of several kinds: links that break, servers that end, roles that
change, and what is then in the databases.

    run.py --server target/release/pantala [--only NAME] [--ends 'pantala>valkey,redis>pantala']
           [--long] [--jobs N] [--seed N] [--list]

A row of ends names servers from the primary on: `valkey>pantala` is a replica of ours at a primary
of theirs. Rows of real servers alone show that a scenario asks nothing which those do not do. Each
scenario starts its own servers on free ports, and stops them by pid. Prints `ok`, `FAILED` or
`skip` with scenario and row, and last how many; ends with 1 if any failed.
"""

import argparse
import concurrent.futures
import random
import signal
import sys
import threading
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import scenarios  # noqa: E402,F401  (its modules declare themselves)
from trial import SCENARIOS, Skip, Trial  # noqa: E402

# Nobody but a newer Valkey reads what Valkey 9 sends for a full copy: Redis is never its replica.
ROWS = {
    1: ["valkey", "redis", "pantala"],
    2: ["valkey>valkey", "redis>redis", "redis>valkey", "pantala>valkey", "pantala>redis",
        "valkey>pantala", "redis>pantala", "pantala>pantala"],
    3: ["valkey>valkey>valkey", "redis>redis>valkey", "pantala>valkey>valkey",
        "pantala>pantala>redis", "valkey>pantala>pantala", "redis>pantala>redis",
        "pantala>pantala>pantala"],
}
# Those that run each time; all of them with --long. Without a server of ours: the real ones alone.
USUAL = ("pantala", "pantala>valkey", "redis>pantala", "pantala>pantala",
         "pantala>pantala>redis", "pantala>valkey>redis", "valkey>pantala>pantala")


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.list:
        for body in SCENARIOS:
            mark = "long" if body.is_long else ""
            print(f"{body.__name__:30} {mark:5} {body.__doc__.strip().splitlines()[0]}")
        return 0
    jobs = chosen(options)
    if not jobs:
        print("no scenario and row of these names", file=sys.stderr)
        return 2
    print(f"seed {options.seed}")
    whole = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        went = list(pool.map(lambda job: run_one(options, whole, *job), jobs))
    print(f"{went.count('ok') + went.count('skip')} passed, {went.count('FAILED')} failed")
    return 1 if "FAILED" in went else 0


def parse():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--server", default="", help="the binary of Pantala; else without it")
    options.add_argument("--only", default="", metavar="NAME", help="scenarios, with commas")
    options.add_argument("--ends", default="", metavar="ROWS", help="rows, with commas")
    options.add_argument("--long", action="store_true", help="all scenarios, all rows")
    options.add_argument("--jobs", type=int, default=6, help="how many at a time; most wait")
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options.add_argument("--list", action="store_true", help="names the scenarios")
    return options.parse_args()


def chosen(options):
    """Each scenario with each of its rows."""
    names = [name for name in options.only.split(",") if name]
    found = []
    for body in SCENARIOS:
        if body.__name__ in names or not names and (options.long or not body.is_long):
            found += [(body, row) for row in rows_of(body, options)]
    return found


def rows_of(body, options):
    if options.ends:
        return [row for row in options.ends.split(",") if len(row.split(">")) == body.ends]
    every = options.long or body.is_long
    rows = body.rows or ROWS[body.ends]
    return [row for row in rows if is_wanted(row, every, options)]


def is_wanted(row, every, options):
    """Whether a row runs when none is named."""
    if not options.server:
        return "pantala" not in row
    return every or row in USUAL


def run_one(options, whole, body, row):
    trial, name = Trial(options, row.split(">")), f"{body.__name__} {row}"
    try:
        seconds = trial.run(body)
    except Skip as why:
        return told(whole, "skip", f"{name}: {why}")
    except Exception as why:
        frames = traceback.extract_tb(why.__traceback__)
        inner = next((frame for frame in reversed(frames) if "scenarios" in frame.filename),
                     frames[-1])
        return told(whole, "FAILED", f"{name}: {type(why).__name__}: {why} "
                    f"[{Path(inner.filename).name}:{inner.lineno}]")
    notes = "; ".join(["", *trial.notes])
    return told(whole, "ok", f"{name} {seconds:.1f} s{notes}")


def told(whole, word, text):
    with whole:
        print(word, text, flush=True)
    return word


if __name__ == "__main__":
    sys.exit(main())
