"""One invocation of bench/run: what it measures, the load it starts, the records it writes."""

import contextlib
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from .servers import Server, Trouble, pinned_to


@dataclass(frozen=True)
class Settings:
    topic: str
    rounds: int
    quick: bool
    server_cores: list
    load_cores: list
    command_line: str

    @property
    def all_cores(self):
        return sorted({*self.server_cores, *self.load_cores})


class Session:
    """Holds the records of this run and appends each to raw.jsonl at once."""

    def __init__(self, settings, kinds, programs, raw_path):
        self.settings = settings
        self.kinds = {kind.name: kind for kind in kinds}
        self.programs = programs  # name of a load program -> path
        self.records = []
        self.raw = open(raw_path, "w", encoding="utf8")

    def close(self):
        self.raw.close()

    def write(self, record):
        self.records.append(record)
        self.raw.write(json.dumps(record, ensure_ascii=False) + "\n")
        self.raw.flush()

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def run(self, scenario, server, turn, figures, part="", **details):
        """Records one run of one server."""
        record = {"kind": "run", "scenario": scenario.name, "server": server.name, "round": turn}
        record |= {"part": part, "figures": figures} | details
        self.write(record)
        shown = figures.get(scenario.figure, float("nan"))
        part = f" {part}" if part else ""
        self.say(f"  {scenario.name}{part} round {turn + 1} {server.name}: {shown:.3f}")

    def fail(self, scenario, name, error):
        """Records that a server's part in a scenario failed."""
        text = f"{type(error).__name__}: {error}" if not isinstance(error, Trouble) else str(error)
        self.write({"kind": "failure", "scenario": scenario.name, "server": name, "text": text})
        self.say(f"  {scenario.name} {name} FAILED: {text}")

    def note(self, scenario, name, text):
        """Records something the reader should know."""
        self.write({"kind": "note", "scenario": scenario.name, "server": name, "text": text})
        self.say(f"  {scenario.name} {name}: {text}")

    @contextlib.contextmanager
    def guard(self, scenario, name):
        """Turns what goes wrong with one server into a record, and goes on with the others."""
        try:
            yield
        except (Trouble, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            self.fail(scenario, name, error)

    def execute(self, line, cores, timeout_s, stdin=b""):
        """Runs a load program on the given cores; (its output, CPU ns of it, elapsed s)."""
        pinned = [*pinned_to(cores), str(self.programs[line[0]])]
        before, start = children_ns(), time.monotonic()
        try:
            ran = subprocess.run(
                [*pinned, *line[1:]],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Trouble(f"{line[0]} did not end within {timeout_s:.0f} s") from None
        elapsed_s, used_ns = time.monotonic() - start, children_ns() - before
        output = ran.stdout.decode(errors="replace")
        if ran.returncode != 0:
            said = ran.stderr.decode(errors="replace").strip() or output.strip() or "nothing said"
            raise Trouble(f"{line[0]} ended with {ran.returncode}: {said.splitlines()[-1]}")
        return output, used_ns, elapsed_s

    def kind_for(self, scenario, name):
        """A server as a scenario wants it spoken to; None if it is not there."""
        kind = self.kinds.get(name)
        return replace(kind, protocol=scenario.protocol) if kind and scenario.protocol else kind

    @contextlib.contextmanager
    def fleet(self, scenario, cores=None):
        """All servers of a scenario, started; those that fail are recorded and left out."""
        with contextlib.ExitStack() as stack:
            running = []
            for name in scenario.servers:
                if kind := self.kind_for(scenario, name):
                    with self.guard(scenario, name):
                        cores_of_it = cores or self.settings.server_cores
                        server = Server(kind, cores_of_it, certificate=scenario.certificate)
                        running.append(stack.enter_context(server))
            yield running


def children_ns(who=resource.RUSAGE_CHILDREN):
    """CPU time of all child processes that have been waited for, in ns."""
    used = resource.getrusage(who)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def own_ns():
    """CPU time of the bench itself and of those children, in ns."""
    return children_ns() + children_ns(resource.RUSAGE_SELF)


def read_records(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf8").splitlines()]
