"""Redis 7.0.15's and Valkey 8.1.1's own suites with our program in the place of theirs: the harness
is as they ship it, starts it by their name with their file of settings, and looks into its log. The
other tools (cli, benchmark, check-aof, check-rdb) are theirs.

One block of one unit is left out, when that is played a second time (AGAIN).

Two shares are told. The plain one is of all cases that the real server of that version passes
(expected/*.ceilings). The other, which the step guards (SHARE), is of those that can apply: not of
those that expected/*.txt lists as

  reference  Valkey 9.1.2 in the same place fails them, too: words and rules have changed since, and
             9.1.2 is what we follow. `run.py --server VALKEY-9.1.2 redis_replaced` plays it so
  suite      they need what no server without it can show: processes that were forked, a debugger of
             scripts, a cluster

A deliberate difference (differs) and what is open (later) count as not passed."""

import concurrent.futures
import functools
import os
import pathlib
import re
import shlex
import shutil
import tempfile

import bring
import redis_tcl
from network import Case

FLAGS = ["--durable", "--timeout", "300", "--clients", "1", "--ignore-encoding"]
# There is no cluster.
TAGS = "-slow -cluster"
# A unit with a block outside of all tests that needs a debugger of scripts, at which the harness
# leaves the unit. It is played a second time without that block, for what stands behind it.
DEBUGGER = 'start_server \\{tags \\{"scripting external:skip"\\}\\} \\{\n {4}r script debug sync\n'
AGAIN = {"unit/scripting": re.compile(f"^{DEBUGGER}(?: {{4}}.*\n)*\\}}\n", re.MULTILINE)}
UNIT_S = 1200
# Of what can apply; a little below what is reached, as some cases waver.
SHARE = {"redis": 0.97, "valkey": 0.955}
BESIDE = ("reference", "suite")
HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ("cli", "benchmark", "check-aof", "check-rdb")

# What integration/psync2 draws by lot, or counts until its time is over, in the names of its cases.
DRAWN = re.compile(r"(?<=#)\d+|(?<=x = )\d+|(?<=CYCLE )\d+")

# What is about a part that is not there: cluster and modules; what is no unit; and what needs
# certificates or programs that the suite does not bring.
LEFT_OUT = ("unit/cluster", "unit/moduleapi/", "unit/printver", "unit/violations", "unit/tls",
            "integration/cross-version-replication")


def redis_source():
    return bring.debian_source("redis", redis_tcl.VERSION, redis_tcl.SUM)


def valkey_source():
    return bring.debian_source(
        "valkey",
        "8.1.1+dfsg1",
        "d9bbd82eecb82f359e649a0007ad3dc1b47cc15afa626348ca86b73c4ae2c7ee",
        "trixie",
    )


def redis_programs():
    """By their last name: where each tool of Debian's package is."""
    return {name: shutil.which(f"redis-{name}") for name in (*TOOLS, "server")}


def valkey_programs():
    """Built from the suite's source. The server's program is check-aof and check-rdb, too."""
    source = valkey_source() / "src"
    made = {name: source / f"valkey-{name}" for name in (*TOOLS, "server")}
    if not all(path.exists() for path in made.values()):
        jobs = f"-j{os.cpu_count()}"
        bring.call(["make", jobs, "-C", source, "MALLOC=libc", "OPTIMIZATION=-O1", "all"])
    return made


def redis(expected):
    return Replaced("redis", redis_source(), redis_programs(), expected)


def valkey(expected):
    return Replaced("valkey", valkey_source(), valkey_programs(), expected)


class Replaced:
    """A suite, to be played with our program, or with theirs."""

    def __init__(self, kind, folder, programs, expected):
        self.kind, self.folder, self.programs, self.expected = kind, folder, programs, expected
        list_them = ["tclsh", "tests/test_helper.tcl", "--list-tests"]
        listed = bring.call(list_them, cwd=folder).split()
        self.units = [unit for unit in listed if not unit.startswith(LEFT_OUT)]
        self.keep = None

    def __call__(self, alone):
        return self.play(alone, pathlib.Path(shlex.split(alone.own())[0]).resolve())

    def theirs(self, alone):
        """What the real server scores, unit by unit as `ceilings` keeps it."""
        cases = list(self.play(alone, self.programs["server"]))
        for unit, names in passed_by_unit(cases).items():
            print(f"{unit} {len(names)}")
        return cases

    def play(self, alone, server):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for cases in pool.map(functools.partial(self.play_unit, alone, server), self.units):
                yield from cases

    def play_unit(self, alone, server, unit):
        with tempfile.TemporaryDirectory() as copy:
            for part in ("tests", "utils"):
                shutil.copytree(self.folder / part, f"{copy}/{part}")
            os.mkdir(f"{copy}/src")
            for name, program in (self.programs | {"server": server}).items():
                os.symlink(program, f"{copy}/src/{self.kind}-{name}")
            command = ["tclsh", "tests/test_helper.tcl", *FLAGS, "--single", unit]
            for case in self.expected.left_out():
                if case.startswith(f"{unit}: "):
                    command += ["--skiptest", case.removeprefix(f"{unit}: ")]
            text, fault = alone.run([*command, "--tags", TAGS], copy, UNIT_S, is_served=False)
            if unit in AGAIN:
                leave_out(pathlib.Path(f"{copy}/tests/{unit}.tcl"), AGAIN[unit])
                again = [*command, "--tags", TAGS]
                more, second_fault = alone.run(again, copy, UNIT_S, is_served=False)
                text, fault = text + more, fault or second_fault
        text = redis_tcl.COLOUR.sub("", text)
        if self.keep:
            (self.keep / unit.replace("/", "-")).write_text(text)
        cases = list(redis_tcl.read(unit, text))
        if fault:
            cases.append(Case(f"{unit}: as a whole", "failed", fault))
        return cases

    def ceilings(self):
        """How many cases of each unit the real server passes."""
        lines = (HERE / "expected" / f"{self.kind}_replaced.ceilings").read_text().splitlines()
        counts = dict(line.split() for line in lines if line and not line.startswith("#"))
        return {unit: int(count) for unit, count in counts.items()}

    def reaches_its_share(self, cases):
        """Whether enough passes here. Where more does than at the real server, that makes up for
        nothing."""
        ours, theirs = passed_by_unit(cases), self.ceilings()
        passes = passable = applies = 0
        for unit in self.units:
            ceiling = theirs.get(unit, 0)
            passed = min(len(ours.get(unit, ())), ceiling)
            beside = self.expected.names_of(unit, BESIDE) - ours.get(unit, set())
            passes, passable = passes + passed, passable + ceiling
            applies += max(passed, ceiling - len(beside))
            if passed < ceiling:
                print(f"{self.kind}_replaced: {unit}: {passed} of {ceiling}, beside {len(beside)}")
        share = passes / max(applies, 1)
        print(
            f"{self.kind}_replaced: {passes} of {passable} that the real server passes, "
            f"{passes / max(passable, 1):.1%}; of {applies} that can apply, {share:.1%}"
        )
        return share >= SHARE[self.kind]


def leave_out(path, block):
    """Takes a block out of a copy of a unit."""
    text, count = block.subn("", path.read_text(encoding="latin-1"))
    if count != 1:
        raise RuntimeError(f"{path}: {count} blocks, not one")
    path.write_text(text, encoding="latin-1")


def passed_by_unit(cases):
    """The names that passed; one that came twice, and failed once, did not."""
    units = {}
    for good in (True, False):
        for case in cases:
            unit, _, name = case.name.partition(": ")
            name = DRAWN.sub("#", name) if name.startswith("PSYNC2: ") else name
            names = units.setdefault(unit, set())
            if good and case.outcome == "ok":
                names.add(name)
            elif not good and case.outcome == "failed":
                names.discard(name)
    return units
