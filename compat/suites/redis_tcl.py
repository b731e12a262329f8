"""Redis 7.0.15's own suite in Tcl, against a server that it did not start; a fresh one for each
unit, so that one failure cannot spoil the next."""

import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import tempfile

import bring
from network import Case

VERSION = "7.0.15"
SUM = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982"

# printver is no unit; the others start servers of their own in every case.
LEFT_OUT = {
    "unit/printver", "unit/shutdown", "unit/violations", "unit/oom-score-adj", "unit/tls",
    "unit/aofrw", "unit/cluster/misc", "unit/cluster/links",
}
TAGS = "-slow -needs:repl -needs:save -needs:config-maxmemory"
FLAGS = ["--durable", "--timeout", "300", "--ignore-encoding", "--ignore-digest", "--tags", TAGS]
UNIT_S = 900

# Settings that a group of cases wants. One that is refused (appendonly, which would promise what
# nothing keeps yet) is the fault of the cases that need it, not the end of the whole unit.
WANTED = "        r config set $param $val\n\n"
WANTED_IF_ALLOWED = "        catch {r config set $param $val}\n\n"

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LINE = re.compile(r"^\[(ok|err|exception|TIMEOUT)\]: (.*)$")


def suite(expected):
    folder = bring.debian_source("redis", VERSION, SUM)
    listed = bring.call(["tclsh", "tests/test_helper.tcl", "--list-tests"], cwd=folder).split()
    units = [unit for unit in listed if unit.startswith("unit/") or unit == "integration/redis-cli"]
    units = [unit for unit in units if unit not in LEFT_OUT]

    def play(alone):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            play_one = functools.partial(play_unit, alone, folder, expected)
            for cases in pool.map(play_one, units):
                yield from cases

    return play


def play_unit(alone, folder, expected, unit):
    # The suite writes into its own folder: each unit has a copy.
    with tempfile.TemporaryDirectory() as copy:
        fill(folder, copy)
        tolerate_refusals(pathlib.Path(copy) / "tests" / "support" / "server.tcl")
        place = ["--host", "127.0.0.1", "--port", "6379"]
        command = ["tclsh", "tests/test_helper.tcl", *place, *FLAGS, "--single", unit]
        for case in expected.left_out():
            command += ["--skiptest", case.removeprefix(f"{unit}: ")]
        text, fault = alone.run(command, copy, UNIT_S)
    cases = list(read(unit, COLOUR.sub("", text)))
    if fault is not None:
        cases.append(Case(f"{unit}: as a whole", "failed", fault))
    return cases


def fill(folder, copy):
    shutil.copytree(folder / "tests", f"{copy}/tests")
    shutil.copytree(folder / "utils", f"{copy}/utils")
    os.mkdir(f"{copy}/src")
    for program in ("redis-cli", "redis-benchmark"):
        os.symlink(shutil.which(program), f"{copy}/src/{program}")


def tolerate_refusals(server_tcl):
    text = server_tcl.read_text()
    if WANTED not in text:
        raise RuntimeError(f"{server_tcl.name} sets no overrides where it did")
    server_tcl.write_text(text.replace(WANTED, WANTED_IF_ALLOWED))


def read(unit, text):
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not (found := LINE.match(line)):
            continue
        outcome, rest = found.groups()
        ends = (at for at in range(number + 1, len(lines)) if lines[at].startswith("["))
        detail = "\n".join(lines[number : min(next(ends, len(lines)), number + 12)])
        if outcome == "ok":
            yield Case(f"{unit}: " + re.sub(r" \(\d+ ms\)$", "", rest), "ok")
        elif outcome == "err":
            name, inside, _ = rest.rpartition(" in tests/")
            yield Case(f"{unit}: {name if inside else 'outside of a test'}", "failed", detail)
        else:
            yield Case(f"{unit}: as a whole", "failed", detail)
