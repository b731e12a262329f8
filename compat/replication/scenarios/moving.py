"""`pantala import --switch`: the data of a running server goes to a new one while clients write."""

import re
import subprocess
import threading
import time

from client import Closed, ErrorReply
from contents import equal
from nodes import linked, until
from trial import scenario

ROWS = ("valkey>pantala", "redis>pantala", "pantala>pantala")
KEYS, KEYS_LONG = 20_000, 1_000_000
WRITERS = 3
# Writes may wait so long while a million keys have moved.
MOST_HELD_MS = 1_000


class Mover:
    """A client that counts up at the old server until that follows the new one, and goes on there.
    """

    def __init__(self, name, old, new):
        self.name, self.nodes = name, [old, new]
        self.acknowledged, self.longest_s, self.why = 0, 0, ""
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        for node in self.nodes:
            try:
                with node.client() as client:
                    self._count(client)
            except (OSError, Closed) as why:
                # Whose role changes may end connections.
                self.why = f"{node}: {why!r}"

    def _count(self, client):
        while not self.is_over.is_set():
            began = time.monotonic()
            reply = client.call("INCR", self.name)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            if isinstance(reply, ErrorReply):
                self.why = reply
                return
            assert reply > self.acknowledged, f"{reply} after {self.acknowledged}"
            self.acknowledged = reply

    def end(self):
        self.is_over.set()
        self.thread.join()


def move(trial, old, new):
    """Changes over; how long writes were held, in milliseconds."""
    tool = [trial.programs["pantala"], "import", url(old), "--to", url(new), "--switch"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.search(r"held for (\d+) ms", done.stdout + done.stderr)[1])


def url(node):
    return "redis://{}:{}".format(*node.address)


def check(trial, keys):
    """Moves so many keys under writes; how long those were held."""
    old, new = trial.node(0), trial.node(1)
    old.want(b"OK", "DEBUG", "POPULATE", keys, "key", 100)
    movers = [Mover(f"counter:{number}", old, new) for number in range(WRITERS)]
    try:
        until(lambda: all(one.acknowledged > 50 for one in movers), "they write")
        held_ms = move(trial, old, new)
        so_far = [one.acknowledged for one in movers]
        until(lambda: all(one.acknowledged > far for one, far in zip(movers, so_far)),
              "they write to the new server")
    finally:
        for one in movers:
            one.end()
    linked(old)
    for one in movers:
        found = int(new.call("GET", one.name))
        assert found == one.acknowledged, f"{one.name}: {found}, {one.acknowledged} ({one.why})"
    assert new.call("DBSIZE") == keys + WRITERS
    longest = max(one.longest_s for one in movers)
    trial.note(f"{keys} keys, writes held {held_ms} ms, longest {longest * 1000:.0f} ms")
    return old, new, held_ms


@scenario(rows=ROWS)
def moved(trial):
    """20,000 keys move under writes: nothing that was acknowledged is lost."""
    old, new, _ = check(trial, KEYS)
    equal(new, old)


@scenario(long=True, rows=ROWS)
def a_million_moved(trial):
    """A million keys move under writes: nothing is lost, and writes wait for less than a second."""
    old, new, held_ms = check(trial, KEYS_LONG)
    until(lambda: old.call("DEBUG", "DIGEST") == new.call("DEBUG", "DIGEST"), "the same data")
    assert held_ms < MOST_HELD_MS, held_ms
