"""What checks of packages share: how they are declared, and how they run other programs."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
# What `deploy/build` has made.
DIST = ROOT / "target" / "dist"
# Programs that were built for checks stay here.
TOOLS = ROOT / "target" / "tools"
# A limit only for what will never be.
DEADLINE_S = 3600

CHECKS = []


class Skip(Exception):
    """This cannot be checked here; says why."""


class Failure(Exception):
    """What was found."""


def check(long=False):
    """Declares a check. Its body gets the server's path and returns what is worth a note. Those
    that take long, or bring programs from the network, run with --long or when they are named."""

    def declare(body):
        CHECKS.append((body.__name__, body, long))
        return body

    return declare


def run(*command, wants=0, **more):
    """Runs a program to its end; what it wrote, both outputs together."""
    more.setdefault("cwd", ROOT)
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=DEADLINE_S, **more)
    if wants is not None and done.returncode != wants:
        raise Failure(f"{' '.join(map(str, command))[:200]} ended with {done.returncode}:\n"
                      f"{done.stdout[-4000:]}")
    return done.stdout


def needs(*programs):
    """Skips where a program is not there."""
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")


def folder():
    """A directory that goes when the block ends."""
    return tempfile.TemporaryDirectory(prefix="pantala-check-")


def until(condition, what, deadline_s=60):
    """Waits for a condition; what it gave."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {deadline_s} s: {what}")
        time.sleep(0.05)


def want(holds, what):
    """Fails with `what` unless it holds."""
    if not holds:
        raise Failure(what)


def go_tool(package, name):
    """A program built by Go from a pinned package; built once."""
    needs("go")
    place = TOOLS / "go"
    stamp = place / f"{name}.version"
    if not (place / name).exists() or not stamp.exists() or stamp.read_text() != package:
        place.mkdir(parents=True, exist_ok=True)
        run("go", "install", package, env={**os.environ, "GOBIN": str(place), "GOFLAGS": ""})
        stamp.write_text(package)
    return place / name
