"""The append-only file and every call that changes one of its files: the server is killed there, in
rewrites and while it starts, or the disk has no room or fails from there on."""

import contextlib
import random
import subprocess
import threading

from client import Closed, ErrorReply
from counted_calls import FAULTS, KILLS, CountedCalls
from server import DEADLINE_S, until
from trial import scenario

from .append_only_kills import ON, RINGS
from .persistence import figures, settle

CONNECTIONS, KEYS = 6, 48
# The parts of paths that calls are counted for: all of them, and those of one kind.
PARTS = ("appendonly", "manifest", "lengths", ".base.", "rewrite.", ".incr.")
# A rewrite has some forty calls, fewer than ten of them of one kind.
MOST_CALLS, MOST_CALLS_OF_A_KIND = 44, 8


class Chain:
    """A client that writes numbers in turn, through several connections and in several forms, each
    once the one before it was answered."""

    def __init__(self, index):
        self.index, self.sent, self.answered = index, 0, 0

    def key(self, number):
        return f"chain:{self.index}:{number % KEYS}"

    def write(self, client, number, chance):
        key, form = self.key(number), chance.randrange(4)
        if form == 0:
            script = "redis.call('set', KEYS[1], ARGV[1]) return redis.status_reply('OK')"
            return client.call("EVAL", script, 1, key, number)
        if form == 1:
            client.call("MULTI")
            client.call("SET", key, number)
            got = client.call("EXEC")
            return got if isinstance(got, ErrorReply) else got[0]
        more = " " + "x" * chance.randrange(6_000) if form == 2 else ""
        return client.call("SET", key, f"{number}{more}")

    def run(self, server, seed):
        """Until the server is gone, or refuses to write."""
        chance = random.Random(seed)
        try:
            connections = [server.client() for _ in range(CONNECTIONS)]
            while True:
                self.sent = self.answered + 1
                client = connections[self.sent % CONNECTIONS]
                if isinstance(self.write(client, self.sent, chance), ErrorReply):
                    return
                self.answered = self.sent
        except (Closed, OSError):
            pass

    def look(self, client):
        """All that was answered is there, and no later number without the earlier ones."""
        values = client.call("MGET", *[self.key(number) for number in range(KEYS)])
        numbers = [int((value or b"0").split()[0]) for value in values]
        last = max(numbers)
        for slot, number in enumerate(numbers):
            wanted = last - (last - slot) % KEYS
            assert number >= wanted or wanted <= 0, f"{number} where {wanted} is missing, of {last}"
        assert last >= self.answered, f"{self.answered} was answered, {last} is there"
        assert last <= self.sent, f"{last} was never sent"
        self.sent = self.answered = last


def rewrite(server, times):
    """Rewrites the file, until the server is gone."""
    try:
        with server.client() as client:
            for _ in range(times):
                client.call("BGREWRITEAOF")
                until(lambda: figures(client)["aof_rewrite_in_progress"] == "0", "it ends")
    except (Closed, OSError):
        pass


def kill_while_starting(server, calls, chance):
    """A start that is killed at a call, or soon after."""
    calls.end(server, chance.randrange(1, 10), chance.choice(KILLS), "appendonly")
    calls.count()
    server.spawn()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(chance.uniform(0.05, 0.4))
    server.kill()


def one_round(server, calls, chains, chance, hows):
    """Whether the server was ended at its call."""
    part = chance.choice(PARTS)
    most = MOST_CALLS if part == PARTS[0] else MOST_CALLS_OF_A_KIND
    at, how = chance.randrange(1, most), chance.choice(hows)
    calls.end(server, at, how, part)
    server.start()
    bodies = [lambda chain=chain: chain.run(server, chance.random()) for chain in chains]
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    threading.Event().wait(chance.uniform(0, 0.03))
    calls.count()
    rewrite(server, chance.randrange(1, 4))
    has_ended = server.process.poll() is not None
    server.kill()
    for thread in threads:
        thread.join(DEADLINE_S)
    for _ in range(chance.choice((0, 0, 1, 2))):
        kill_while_starting(server, calls, chance)
    server.variables = {}
    server.start()
    try:
        with server.client() as client:
            settle(client)
            for chain in chains:
                chain.look(client)
    except AssertionError as error:
        raise AssertionError(f"{error} ({how} call {at} of {part})") from error
    server.kill()
    return has_ended


def meet_calls(trial, policy, rounds, hows):
    seed = random.SystemRandom().randrange(1 << 32)
    trial.note(f"seed {seed}")
    chance, chains = random.Random(seed), [Chain(0), Chain(1)]
    server = trial.new_server(*ON, "--appendfsync", policy, *RINGS)
    try:
        server.start()
        server.kill()
        with CountedCalls() as calls:
            ended = [one_round(server, calls, chains, chance, hows) for _ in range(rounds)]
        server.start()
        log = server.log_text()
        assert "panicked" not in log and "does not fit" not in log, log[-800:]
        assert any(ended) or hows is FAULTS or rounds < 20, "no call was met"
        trial.note(f"{sum(ended)} of {rounds} were ended at a call")
    except AssertionError as error:
        raise AssertionError(f"{error} (seed {seed}, {policy})") from error
    finally:
        server.stop()


@scenario(watched=False, started=False)
def kill_at_a_file_call(trial):
    """kill -9 at the n-th call that changes a file of the append-only file, before it, after it or
    in the middle of a write, while two clients write and a rewrite runs: nothing is missing."""
    for policy in ("everysec", "always", "no"):
        meet_calls(trial, policy, 150 if trial.is_long else 4, KILLS)


@scenario(watched=False, started=False)
def fail_from_a_file_call_on(trial):
    """From the n-th such call on the disk is full, or broken, and then the server is killed: what
    was answered is there."""
    for policy in ("everysec", "always", "no"):
        meet_calls(trial, policy, 100 if trial.is_long else 3, FAULTS)
