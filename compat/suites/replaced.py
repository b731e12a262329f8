"""Redis 7.0.15's and Valkey 8.1.1's own suites with our program in the place of theirs: the harness
is as they ship it, starts it by their name with their file of settings, and looks into its log. The
other tools (cli, benchmark, check-aof, check-rdb) are theirs."""

import concurrent.futures
import functools
import os
import pathlib
import shlex
import shutil
import tempfile

import bring
import redis_tcl
from network import Case

FLAGS = ["--durable", "--timeout", "300", "--clients", "1", "--ignore-encoding"]
# There is no cluster.
FLAGS += ["--tags", "-slow -cluster"]
UNIT_S = 1200
# Of what the real server passes.
SHARE = 0.0
HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ("cli", "benchmark", "check-aof", "check-rdb")

# What is about a part that is not there: cluster and modules; what is no unit; and what needs
# certificates or programs that the suite does not bring.
LEFT_OUT = ("unit/cluster/", "unit/moduleapi/", "unit/printver", "unit/violations", "unit/tls",
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
            text, fault = alone.run(command, copy, UNIT_S, is_served=False)
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
        """Whether of what the real server passes enough passes here. Where more does, that makes
        up for nothing."""
        ours, theirs = passed_by_unit(cases), self.ceilings()
        sums = [0, 0]
        for unit in self.units:
            passed, ceiling = len(ours.get(unit, ())), theirs.get(unit, 0)
            sums = [sums[0] + min(passed, ceiling), sums[1] + ceiling]
            if passed < ceiling:
                print(f"{self.kind}_replaced: {unit}: {passed} of {ceiling}")
        share = sums[0] / max(sums[1], 1)
        print(f"{self.kind}_replaced: {sums[0]} of {sums[1]}, {share:.1%} of the real server's")
        return share >= SHARE


def passed_by_unit(cases):
    """The names that passed; one that came twice, and failed once, did not."""
    units = {}
    for good in (True, False):
        for case in cases:
            unit, _, name = case.name.partition(": ")
            names = units.setdefault(unit, set())
            if good and case.outcome == "ok":
                names.add(name)
            elif not good and case.outcome == "failed":
                names.discard(name)
    return units
