"""Clients that write at random, all types, in several databases, until they are told to end.

The commands of a client follow from its seed. They come in steps of one write to the socket: a
command, a few of them, or a whole MULTI. Keys are named by type and few, so that commands meet.
Deadlines are either very short or an hour away, so that none passes while contents are compared.

"""

import random
import threading

from client import Closed, ErrorReply, encode
from commands import LIBRARY, Maker
from nodes import DEADLINE_S, until

DATABASES = 3
# Random commands bring errors, but not these: somebody has got something wrong.
FAULTS = ("ERR unknown", "ERR Unknown", "ERR wrong number", "ERR syntax", "ERR Protocol", "MISCONF",
          "OOM", "NOPERM", "NOAUTH", "NOSCRIPT", "ERR Function not found")
# While roles change, or a server is not ready.
PASSING = ("READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS")


class Writers:
    """Some clients, each in a thread. `fields`: they set deadlines of fields; `wild`: they flush
    and swap databases; `short`: some deadlines pass; `may_fail`: the server may end or be a
    replica; `families`: only commands of these; `own`: they use commands of our own."""

    def __init__(self, node, seed, clients=2, fields=False, wild=False, short=True,
                 may_fail=False, families=(), own=False):
        self.node, self.may_fail = node, may_fail
        self.count, self.errors, self.troubles = 0, {}, []
        self._is_over = threading.Event()
        with node.client() as client:
            client.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        makers = [Maker(random.Random(seed * 1000 + n), fields, wild, short, families, own)
                  for n in range(clients)]
        bodies = [(self._write, maker) for maker in makers] + [(self._wait_for_keys, None)]
        self.threads = [threading.Thread(target=self._guarded, args=body) for body in bodies]
        for thread in self.threads:
            thread.start()

    def _guarded(self, body, maker):
        try:
            with self.node.client() as client:
                body(client, maker)
        except (OSError, Closed) as trouble:
            if not self.may_fail:
                self.troubles.append(trouble)

    def _write(self, client, maker):
        while not self._is_over.is_set():
            step = [("SELECT", maker.rng.randrange(DATABASES))] if maker.chance(0.05) else []
            step += maker.step()
            client.write(b"".join(encode(*command) for command in step))
            for command in step:
                self._look_at(command, client.read())
            self.count += len(step)

    def _wait_for_keys(self, client, _):
        """The partner of those who push: takes what comes, by commands that wait."""
        turns = (("BLPOP", "list:1", "list:2", 0.05), ("BRPOPLPUSH", "list:3", "list:4", 0.05),
                 ("BLMOVE", "list:5", "list:6", "LEFT", "RIGHT", 0.05),
                 ("BZPOPMIN", "zset:1", "zset:2", 0.05), ("BLMPOP", 0.05, 1, "list:7", "RIGHT"),
                 ("BZMPOP", 0.05, 1, "zset:3", "MAX", "COUNT", 2),
                 ("XREADGROUP", "GROUP", "g1", "waits", "BLOCK", 50, "STREAMS", "stream:1", ">"))
        at = 0
        while not self._is_over.is_set():
            self._look_at(turns[at % len(turns)], client.call(*turns[at % len(turns)]))
            at += 1

    def _look_at(self, command, reply):
        if isinstance(reply, ErrorReply):
            if reply.startswith(FAULTS if self.may_fail else FAULTS + PASSING):
                self.troubles.append(f"{command}: {reply}")
            self.errors[reply[:40]] = self.errors.get(reply[:40], 0) + 1

    def wait_for(self, more):
        """Until so many more commands have been answered."""
        goal = self.count + more

        def is_reached():
            assert not self.troubles, self.troubles[:3]
            return self.count >= goal or not any(one.is_alive() for one in self.threads)

        until(is_reached, f"{more} more commands are answered")
        return self

    def end(self):
        self._is_over.set()
        for thread in self.threads:
            thread.join(DEADLINE_S)
        assert not self.troubles, self.troubles[:3]
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._is_over.set()
        for thread in self.threads:
            thread.join(DEADLINE_S)


