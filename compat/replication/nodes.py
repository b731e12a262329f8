"""Servers that replicate: a process of Valkey, Redis or Pantala each, with a configuration file of
its own, on a free port, stopped by its pid.

    primary = Node("valkey", program, {"repl-backlog-size": "1mb"}).start()
    replica = Node("redis", program).start()
    replica.follow(primary.address)
    settle(primary, replica)

Not here: what goes wrong between them (proxy.py), what is written (writers.py), what is compared
(contents.py).
"""

import server
from client import TIMEOUT_S, Client, Closed, ErrorReply
from server import DEADLINE_S, until, valkey

# What every server here is started with, so that nothing waits without need.
COMMON = {
    "bind": "127.0.0.1",
    "save": '""',
    "repl-diskless-sync-delay": "0",
    "repl-ping-replica-period": "1",
    # Enough for whoever is away for seconds while others write.
    "repl-backlog-size": "64mb",
    "enable-debug-command": "yes",
}
# How often an offset is looked at, some ten milliseconds apart, until it is believed.
LOOKS = 15
OF_KIND = {"pantala": {"threads": "2"}}


def programs(pantala):
    """Where the servers are, by kind."""
    return {"valkey": valkey(), "redis": "redis-server", "pantala": pantala}


class Node(server.Server):
    """One process."""

    def __init__(self, kind, program, settings=()):
        super().__init__()
        self.kind, self.program = kind, program
        self.settings = self.defaults() | dict(settings)
        # User and password of the test's own connections.
        self.credentials = ()
        # Words behind the name of the configuration file.
        self.words = ()

    def defaults(self):
        return COMMON | OF_KIND.get(self.kind, {})

    def __repr__(self):
        return f"{self.kind}:{self.port}"

    @property
    def file(self):
        return self.directory / "node.conf"

    def write_file(self):
        settings = {"port": self.port, "dir": self.directory, **self.settings}
        self.file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    def command(self):
        return [self.program, str(self.file), *self.words]

    def spawn(self):
        """Starts it; what CONFIG REWRITE has made of its file holds."""
        if not self.file.exists():
            self.write_file()
        return super().spawn()

    def shut_down(self, *words):
        """SHUTDOWN with these words; waits for the end."""
        try:
            answer = self.call("SHUTDOWN", *words)
            raise AssertionError(f"{self} does not shut down: {answer}")
        except (OSError, Closed):
            self.process.wait(DEADLINE_S)

    def stop(self):
        if self.kind != "pantala":
            self.kill()
        super().stop()

    def client(self, timeout_s=TIMEOUT_S):
        client = Client(self.address, timeout_s)
        if self.credentials:
            client.want(b"OK", "AUTH", *self.credentials)
        return client

    def call(self, *words):
        """One command on a connection of its own; errors are returned."""
        with self.client() as client:
            return client.call(*words)

    def want(self, wanted, *words):
        with self.client() as client:
            client.want(wanted, *words)

    def set(self, name, value):
        self.want(b"OK", "CONFIG", "SET", name, value)

    def info(self, section="replication"):
        """A section of INFO, as texts by name."""
        try:
            return fields(self.call("INFO", section))
        except (Closed, ConnectionError):
            # Who changes its role, or is told to, ends the connections that are there.
            assert self.is_alive(), f"{self} has ended: {self.log_text()[-600:]}"
            return fields(self.call("INFO", section))

    def stat(self, name):
        return int(self.info("stats")[name])

    def follow(self, address):
        """Makes it a replica of who is there."""
        self.want(b"OK", "REPLICAOF", *address)

    def lead(self):
        """Makes it a primary."""
        self.want(b"OK", "REPLICAOF", "NO", "ONE")

    def is_linked(self):
        return self.info().get("master_link_status") == "up"


def fields(reply):
    """The lines of INFO, by name."""
    if isinstance(reply, ErrorReply) or reply is None:
        return {}
    lines = reply.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def linked(*replicas):
    """Waits until each has a link to its primary."""
    for replica in replicas:
        until(replica.is_linked, f"{replica} is linked; {tail(replica)}")


def tail(node):
    return node.log_text()[-300:].replace("\n", " | ")


def settle(primary, *replicas):
    """Waits until each replica, whoever it follows, is as far in the primary's history as the
    primary itself."""
    seen = {}

    def agree():
        here = primary.info()
        seen["primary"] = place(here)
        for replica in replicas:
            there = replica.info()
            seen[str(replica)] = (there.get("master_link_status"), *place(there))
            if there.get("master_link_status") != "up" or place(there) != place(here):
                return False
        return place(primary.info()) == place(here)

    until_told(primary)
    try:
        until(agree, "the replicas are as far as the primary")
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from None


def until_told(primary):
    """Waits until what a primary of ours has answered is counted in its offset: a thread of its own
    does that, a few milliseconds later. So the offset has to stay for a while."""
    seen = []

    def stays():
        seen.append(place(primary.info()))
        return len(set(seen[-LOOKS:])) == 1 and len(seen) >= LOOKS

    if primary.kind == "pantala":
        until(stays, "the offset stays")


def place(info):
    """Which history, and how far in it."""
    return info.get("master_replid"), info.get("slave_repl_offset", info.get("master_repl_offset"))
