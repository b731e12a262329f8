"""Suites of Go modules: their tests become programs first, and run without the network."""

import re

import bring
from network import Case

SUITE_S = 1200


def asynq(_expected):
    folder = bring.go_module("github.com/hibiken/asynq", "v0.26.0")
    packages = [".", "./internal/rdb"]
    programs = {package: bring.go_test(folder, package) for package in packages}

    def play(alone):
        for package, program in programs.items():
            where = folder / package
            text, fault = alone.run([program, "-test.v"], where, SUITE_S)
            prefix = "asynq" if package == "." else package.removeprefix("./")
            yield from read_verbose(prefix, text)
            if fault is not None:
                yield Case(f"{prefix}: as a whole", "failed", fault)

    return play


def read_verbose(prefix, text):
    lines = text.splitlines()
    words = {"PASS": "ok", "FAIL": "failed", "SKIP": "skipped"}
    for number, line in enumerate(lines):
        if found := re.match(r"--- (PASS|FAIL|SKIP): (\S+)", line):
            detail = "\n".join(lines[max(0, number - 10) : number + 3])
            yield Case(f"{prefix}: {found[2]}", words[found[1]], detail)
