"""Scenarios: how they are declared, what one is given, and what is asked of the server after each.

After a scenario the server still answers PING on a fresh connection, has given back every
descriptor, keeps no more memory than the scenario allows, and has at no time let another client
wait for five seconds.
"""

import time

from client import ErrorReply
from server import MB, until
from subject import Server, Watcher

# Not counting the time for which there was no core: see `CoreWaits`.
LONGEST_WAIT_S = 5.0
# Half a gigabyte takes a worker that long to copy where memory is slow.
LONGEST_WAIT_FOR_HUGE_S = 60.0
# How long a soak goes on, for each of two engines.
SOAK_S, SOAK_LONG_S = 8, 1_800
SCENARIOS = []


class Skip(Exception):
    """The scenario does not apply here; the text says why."""


def scenario(*flags, watched=True, started=True, slack_mb=48, descriptors=None,
             longest_wait_s=LONGEST_WAIT_S):
    """Declares a scenario. `slack_mb`: how much more memory the server may hold afterwards, None
    where the scenario leaves data. `watched`: another client's answers are timed meanwhile, and it
    waits less than `longest_wait_s`. `descriptors`: how many the server may open, softly and at
    the most."""

    def declare(body):
        body.needs = dict(flags=flags, watched=watched, started=started,
                          slack_mb=slack_mb, descriptors=descriptors,
                          longest_wait_s=longest_wait_s)
        SCENARIOS.append(body)
        return body

    return declare


class Trial:
    """What a scenario is given."""

    def __init__(self, options, engine):
        self.binary, self.engine = options.server, engine
        self.threads, self.is_long = options.threads, options.long
        self.soak_s = options.soak or (SOAK_LONG_S if options.long else SOAK_S)
        self.server, self.notes = None, []

    def note(self, text):
        self.notes.append(text)

    def new_server(self, *flags, **more):
        """One more server, not yet started; the scenario stops it."""
        return Server(self.binary, self.engine, flags, **more)

    def client(self):
        return self.server.client()

    def need(self, *command):
        """Leaves the scenario out where the server does not know this command yet."""
        if not self.server.has(*command):
            raise Skip(f"{command[0]} is missing")

    def rss_grown(self):
        """Memory above that of the fresh server, in bytes."""
        return self.server.rss() - self.server.base_rss

    def run(self, body):
        """Runs one scenario; how long another client waited at most."""
        needs, watcher = body.needs, None
        self.server = Server(self.binary, self.engine, needs["flags"], self.threads,
                             needs["descriptors"])
        try:
            if needs["started"]:
                self.server.start()
                if needs["watched"]:
                    watcher = Watcher(self.server)
                    until(lambda: self.server.fd_count() > self.server.base_fds, "watcher is in")
            try:
                body(self)
            finally:
                longest = watcher.finish() if watcher else 0.0
            if needs["started"]:
                self.look_after(needs["slack_mb"])
            assert longest is not None, "another client got no answer any more"
            assert longest < needs["longest_wait_s"], f"another client waited for {longest:.2f} s"
            return longest
        finally:
            self.server.stop()

    def look_after(self, slack_mb):
        """What must hold after each scenario."""
        server = self.server
        assert server.process.poll() is None, f"the server ended: {server.log_text()[-800:]}"
        assert "panicked" not in server.log_text(), f"a panic: {server.log_text()[-800:]}"
        with server.client() as client:
            client.want(b"PONG", "PING")
        try:
            until(lambda: server.fd_count() <= server.base_fds, "descriptors are given back")
        except AssertionError:
            raise AssertionError(
                f"{server.fd_count()} descriptors, {server.base_fds} at first") from None
        if slack_mb is None:
            return
        try:
            until(lambda: self.is_small(slack_mb), "memory is given back")
        except AssertionError:
            raise AssertionError(f"{self.rss_grown() / MB:.0f} MB more memory than at first, "
                                 f"{slack_mb} MB are allowed") from None

    def is_small(self, slack_mb):
        if self.rss_grown() <= slack_mb * MB:
            return True
        # An idle allocator gives nothing back: a little work lets it look at its pages.
        with self.client() as client:
            client.write(b"PING\r\n" * 1000)
            for _ in range(1000):
                client.read()
        return False


SET_KEY = b"*3\r\n$3\r\nSET\r\n$11\r\nkey:%07d\r\n$5\r\nvalue\r\n"


def fill(client, count):
    """Sets key:0000000, key:0000001 and so on."""
    for start in range(0, count, 50_000):
        numbers = range(start, min(start + 50_000, count))
        client.write(b"".join([SET_KEY % number for number in numbers]))
        client.count_bytes(len(numbers) * len(b"+OK\r\n"))


def is_error(reply, word=""):
    return isinstance(reply, ErrorReply) and word.lower() in reply.lower()


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self):
        self.began = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began
