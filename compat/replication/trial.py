"""Scenarios: how they are declared, what one is given, and what is asked of all servers after each.

After a scenario every server that it has not ended itself still answers PING, and no log tells of a
crash.
"""

import random
import time

from client import encode
from contents import knows_field_deadlines
from nodes import Node, linked, programs, until
from proxy import Proxy
from writers import Writers

SCENARIOS = []
# How a log tells that a replica could not do what its primary had done: they differ then.
REFUSED = "is sending an error to its primary"
# How a log tells that the server itself has failed.
CRASHES = ("panicked", "BUG REPORT", "ASSERTION FAILED", "crashed by signal")


class Skip(Exception):
    """The scenario does not apply to these servers; the text says why."""


def scenario(ends=2, long=False, rows=()):
    """Declares a scenario for so many servers in a row, the primary first. `long`: it runs with
    --long, or when it is named. `rows`: those it is for, when not all of that length."""

    def declare(body):
        body.ends, body.is_long, body.rows = ends, long, rows
        SCENARIOS.append(body)
        return body

    return declare


class Trial:
    """What a scenario is given."""

    def __init__(self, options, kinds):
        self.kinds, self.seed, self.is_long = kinds, options.seed, options.long
        self.programs = programs(options.server)
        self.nodes, self.proxies, self.notes = [], [], []
        # Replicas are sent commands that can not succeed.
        self.may_refuse = False
        self.began = time.monotonic()

    def note(self, text):
        self.notes.append(text)

    def node(self, place, **settings):
        """A server of the kind at this place of the row, started. Names with _ for -."""
        return self.not_started(place, **settings).start()

    def not_started(self, place, **settings):
        kind = self.kinds[place]
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        return self.keep(Node(kind, self.programs[kind], named))

    def keep(self, node):
        """Ends it with the scenario."""
        self.nodes.append(node)
        return node

    def pair(self, primary=None, replica=None):
        """A primary and its replica, linked."""
        nodes = self.node(0, **(primary or {})), self.node(1, **(replica or {}))
        nodes[1].follow(nodes[0].address)
        linked(nodes[1])
        return nodes

    def proxied(self, primary=None, replica=None):
        """The same with a proxy between them."""
        nodes = self.node(0, **(primary or {})), self.node(1, **(replica or {}))
        proxy = self.proxy(nodes[0].address)
        nodes[1].follow(proxy.address)
        linked(nodes[1])
        return (*nodes, proxy)

    def proxy(self, target):
        proxy = Proxy(target)
        self.proxies.append(proxy)
        return proxy

    def writers(self, node, **options):
        """Random writers; to be ended by the scenario, or by `with`."""
        options.setdefault("fields", knows_field_deadlines(*self.nodes))
        return Writers(node, self.seed, **options)

    def need(self, node, *command):
        """Leaves the scenario out where a server does not know this command."""
        if "unknown" in str(node.call(*command)).lower():
            raise Skip(f"{node.kind} has no {command[0]}")

    def run(self, body):
        try:
            body(self)
            self.look_after()
        finally:
            for proxy in self.proxies:
                proxy.close()
            for node in self.nodes:
                node.stop()
        return time.monotonic() - self.began

    def look_after(self):
        for node in self.nodes:
            log = node.log_text()
            for crash in CRASHES:
                assert crash not in log, f"{node}: {log[log.index(crash) - 200:][:900]}"
            if not self.may_refuse:
                at = log.find(REFUSED)
                assert at < 0, f"{node}: {log[at:][:400]}"
            if node.process is not None and node.process.returncode is None:
                assert node.is_alive(), f"{node} ended: {log[-800:]}"
                # It may be loading, if its role has just changed.
                until(lambda: b"PONG" == node.call("PING"), f"{node} answers PING")


def fill(node, count, size=100, prefix="key"):
    """Sets so many keys, to values that no compression makes smaller."""
    rng = random.Random(count)
    with node.client() as client:
        for start in range(0, count, 500):
            numbers = range(start, min(start + 500, count))
            client.write(b"".join(encode("SET", f"{prefix}:{number}", rng.randbytes(size))
                                  for number in numbers))
            for _ in numbers:
                assert client.read() == b"OK"


def is_error(reply, word):
    return str(reply).lower().startswith(word.lower()) and not isinstance(reply, bytes)
