"""Clients with support of Sentinels go on by themselves when the primary changes: go-redis,
ioredis, jedis and lettuce, each a program of ../followers, all before the same servers.

    program SENTINEL,SENTINEL,SENTINEL NAME KEY

Such a program asks the Sentinels for the primary NAME, and then again and again adds the next
number to the set KEY, has WAIT tell how many of two replicas have it, and sees whether it is there.
It prints `written NUMBER REPLICAS` or `failed WHY` for each, and `end` when its input is closed,
before it ends with 0. What two replicas have is kept whichever of them is promoted.
"""

import functools
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

from contents import equal
from nodes import until
from trial import Skip, scenario

from .sentinel import NAME, new_primary, settled, watched

HERE = Path(__file__).parents[1] / "followers"
TARGET = Path(__file__).parents[3] / "target"
NODE_MODULES = TARGET / "apps" / "node_modules"
ROWS = ("valkey>valkey>valkey", "redis>redis>redis", "pantala>pantala>pantala")
# Who goes on has done that many more.
SOME = 50
BUILDING = threading.Lock()


def built(function):
    """Once for all scenarios, whichever thread comes first."""
    kept = functools.cache(function)

    @functools.wraps(function)
    def locked():
        with BUILDING:
            return kept()

    return locked


@built
def of_go():
    """The command line, or what is missing."""
    if not shutil.which("go"):
        return None
    program = TARGET / "apps" / "sentinel_follower"
    ran = subprocess.run(["go", "build", "-C", HERE / "go", "-o", program, "."], text=True,
                         capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [str(program)]


@built
def java_libraries():
    """Where they are; Maven brings them."""
    if not shutil.which("java") or not shutil.which("mvn"):
        return None
    listed = TARGET / "followers.classpath"
    listed.parent.mkdir(exist_ok=True)
    words = ["mvn", "-q", "-B", "-f", str(HERE / "java"), "dependency:build-classpath"]
    ran = subprocess.run([*words, f"-Dmdep.outputFile={listed}"], capture_output=True, check=False)
    return listed.read_text().strip() if ran.returncode == 0 else None


def of_java(name):
    libraries = java_libraries()
    return libraries and ["java", "-cp", libraries, str(HERE / "java" / name)]


def of_node():
    if not shutil.which("node") or not (NODE_MODULES / "ioredis").exists():
        return None
    return ["node", str(HERE / "ioredis.cjs")]


CLIENTS = {
    "go-redis": of_go,
    "ioredis": of_node,
    "jedis": lambda: of_java("JedisWriter.java"),
    "lettuce": lambda: of_java("LettuceWriter.java"),
}


class Follower:
    """A program at work."""

    def __init__(self, name, line, watches):
        self.name = name
        # Numbers that were written, and of these what two replicas had.
        self.written, self.confirmed = set(), set()
        self.failures, self.other, self.has_ended = [], [], False
        # The longest time without a write, and when the last one was.
        self.longest, self.latest = 0, None
        addresses = ",".join(f"127.0.0.1:{watch.port}" for watch in watches)
        self.process = subprocess.Popen(
            [*line, addresses, NAME, self.key], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"NODE_PATH": str(NODE_MODULES)})
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    @property
    def key(self):
        return f"numbers of {self.name}"

    def _listen(self):
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "written":
                self._note_written(*(int(number) for number in rest.split()))
            elif word == "failed":
                self.failures.append(rest)
            elif word == "end":
                self.has_ended = True
            else:
                self.other.append(line)

    def _note_written(self, number, replicas):
        now = time.monotonic()
        if self.latest is not None:
            self.longest = max(self.longest, now - self.latest)
        self.latest = now
        if replicas >= 2:
            self.confirmed.add(number)
        self.written.add(number)

    def __repr__(self):
        seen = f"{len(self.written)} written, {len(self.confirmed)} confirmed"
        return (f"{self.name} ({seen}, {len(self.failures)} failed "
                f"{self.failures[-3:]}, {''.join(self.other[-5:])})")

    def _until(self, condition, what):
        def holds():
            assert self.process.poll() is None, f"it has ended: {self}"
            return condition()

        try:
            until(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self}") from None

    def writes_to(self, primary):
        """Waits until what it writes is at this server."""
        count = lambda: primary.call("SCARD", self.key)
        goal = count() + SOME
        self._until(lambda: count() > goal, f"{self.name} writes to {primary}")

    def is_confirmed(self):
        """Waits until replicas have what it writes now."""
        goal = len(self.confirmed) + SOME
        self._until(lambda: len(self.confirmed) > goal, f"two replicas have it of {self.name}")

    def has_no_more_errors(self):
        before = len(self.failures)
        goal = len(self.written) + 4 * SOME
        self._until(lambda: len(self.written) > goal, f"{self.name} writes")
        assert len(self.failures) == before, f"still errors: {self}"

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        finally:
            self.kill()
        assert self.process.returncode == 0 and self.has_ended, f"{self} did not end well"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()

    def check(self, primary):
        """What it was told to be kept is there."""
        there = {int(number) for number in primary.call("SMEMBERS", self.key)}
        lost = self.confirmed - there
        assert not lost, f"confirmed and lost: {sorted(lost)[:10]} of {self}"


def followers_of(trial, watches, kept):
    """Starts what can be had here."""
    for name, command in CLIENTS.items():
        if line := command():
            kept.append(Follower(name, line, watches))
        else:
            trial.note(f"{name} is not installed, left out")
    if not kept:
        raise Skip("no client is installed")


def all_write(followers, primary):
    """All of them write to it, and replicas have it."""
    for follower in followers:
        follower.writes_to(primary)
    for follower in followers:
        follower.is_confirmed()


def change(nodes, watches, followers):
    """The primary is killed and comes back; then it changes once more, with nobody dead. Between
    these moments all go on."""
    old = nodes[0]
    all_write(followers, old)
    old.kill()
    primary = new_primary(nodes, watches, old)
    for follower in followers:
        follower.writes_to(primary)
    old.start()
    until(lambda: old.info()["role"] == "slave", "the old one is made a replica")
    all_write(followers, primary)
    for watch in watches:
        until(lambda: watch.knows(2, 2), f"{watch} knows all of them")
    watches[0].want(b"OK", "SENTINEL", "FAILOVER", NAME)
    last = new_primary(nodes, watches, primary)
    all_write(followers, last)
    settled(nodes, watches)
    for follower in followers:
        follower.has_no_more_errors()


def check(trial, kind):
    nodes, watches = watched(trial, kind)
    followers = []
    try:
        followers_of(trial, watches, followers)
        change(nodes, watches, followers)
        for follower in followers:
            follower.end()
    finally:
        for follower in followers:
            follower.kill()
    last = settled(nodes, watches)
    for follower in followers:
        follower.check(last)
        trial.note(f"{follower.name} {len(follower.written)} written, {len(follower.failures)} "
                   f"failed, {follower.longest:.1f} s without")
    equal(last, *(node for node in nodes if node is not last))


@scenario(ends=3, long=True, rows=ROWS)
def followers_of_valkey(trial):
    """go-redis, ioredis, jedis and lettuce follow what Sentinels of Valkey tell."""
    check(trial, "valkey")


@scenario(ends=3, long=True, rows=[row for row in ROWS if "valkey" not in row])
def followers_of_redis(trial):
    """go-redis, ioredis, jedis and lettuce follow what Sentinels of Redis 7.0 tell."""
    check(trial, "redis")
