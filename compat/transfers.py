"""Money that goes from account to account, in transactions and scripts, while something happens to
the server: nothing comes, nothing goes."""

import threading

from client import Closed, encode
from server import DEADLINE_S

ACCOUNTS = 64
START = 1_000


class Transfers:
    """Clients that move money until they are told to stop, or the server is gone."""

    def __init__(self, server, may_be_killed=False):
        self.server, self.may_be_killed = server, may_be_killed
        self.is_over, self.troubles, self.count = threading.Event(), [], 0
        with server.client() as client:
            for account in range(ACCOUNTS):
                client.want(b"OK", "SET", f"a{account}", START)
        self.threads = [threading.Thread(target=self._run, args=(n,)) for n in range(4)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        try:
            with self.server.client() as client:
                step = 0
                while not self.is_over.is_set():
                    step += 1
                    self.count += 1
                    left, right = (step * 7 + number) % ACCOUNTS, (step * 13 + 5) % ACCOUNTS
                    if step % 3 == 0:
                        client.call("EVAL", "redis.call('DECR', ARGV[1]) "
                                    "return redis.call('INCR', ARGV[2])", "0",
                                    f"a{left}", f"a{right}")
                        continue
                    client.write(encode("MULTI") + encode("DECR", f"a{left}")
                                 + encode("INCR", f"a{right}") + encode("EXEC"))
                    for _ in range(4):
                        client.read()
        except (OSError, Closed) as trouble:
            if not self.may_be_killed:
                self.troubles.append(trouble)

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(DEADLINE_S)
        assert not self.troubles, self.troubles


def amounts(client):
    """What is in each account; the sum is right."""
    found = [int(client.call("GET", f"a{account}")) for account in range(ACCOUNTS)]
    assert sum(found) == ACCOUNTS * START, f"{sum(found)}, not {ACCOUNTS * START}"
    return tuple(found)
