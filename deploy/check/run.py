#!/usr/bin/env python3
"""Checks what is given to others: the unit, the manual page, completions, packages, the chart.

    run.py --server target/release/pantala [--only NAME] [--long] [--list]

Prints `ok NAME`, `skip NAME why` or `FAILED NAME why`, and last how many; ends with 1 if any
failed.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import files  # noqa: E402,F401  (the modules declare their checks)
import python  # noqa: E402,F401
import debian  # noqa: E402,F401
import containers  # noqa: E402,F401
from trial import CHECKS, Failure, Skip  # noqa: E402


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--server", required=True, type=Path, help="the binary, with its symbols")
    options.add_argument("--only", default="", metavar="NAME", help="one check")
    options.add_argument("--long", action="store_true", help="also what takes minutes")
    options.add_argument("--list", action="store_true", help="names the checks")
    options = options.parse_args()
    if options.list:
        for name, body, long in CHECKS:
            print(f"{name:20} {'(long) ' if long else ''}{body.__doc__.strip().splitlines()[0]}")
        return 0
    chosen = [(name, body) for name, body, long in CHECKS
              if name == options.only or (not options.only and (options.long or not long))]
    if not chosen:
        print(f"no check is called {options.only}", file=sys.stderr)
        return 2
    outcomes = [carry_out(name, body, options.server.resolve()) for name, body in chosen]
    print(f"\n{outcomes.count(True)} passed, {outcomes.count(False)} failed")
    return 1 if False in outcomes else 0


def carry_out(name, body, server):
    """Whether it passed; None where it could not be done."""
    began = time.monotonic()
    try:
        note = body(server)
    except Skip as why:
        print(f"skip {name}: {why}", flush=True)
        return None
    except Failure as why:
        print(f"FAILED {name}: {why}", flush=True)
        return False
    seconds = time.monotonic() - began
    print(f"ok {name} {seconds:.1f} s{f'; {note}' if note else ''}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
