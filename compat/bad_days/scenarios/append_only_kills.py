"""The append-only file and kill -9: again and again, under each policy, with rewrites under way;
and after a while in which it took nothing."""

import os
import random
import select
import threading
import time
from pathlib import Path

from client import Closed, encode
from server import DEADLINE_S, MB, until
from trial import is_error, scenario

from .persistence import figures, settle

ON = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
WRITERS = 4
# What a killed process may cost where nobody waits for the disk, and nothing outlives the process:
# what was answered in its last moments. Many times of what it is, for the machine may be busy.
UNWRITTEN_S = 1.0
# Acknowledged writes outlive it.
RINGS, NO_RINGS = ("--journal-ring-dir", "auto"), ("--journal-ring-dir", "")
# What the log says when they were full: a disk, or a busy machine, has kept the writer waiting.
NO_ROOM = "for which its rings had no room"
# A client that writes through several connections in turn.
TURN_CONNECTIONS, TURN_KEYS = 8, 64


class Writer:
    """A client that does steps of three changes, one after the other, until its server is gone: a
    number counts them, and two lists have all numbers, the second by a script."""

    SCRIPT = ("redis.call('incr', KEYS[1]) redis.call('rpush', KEYS[2], ARGV[1]) "
              "redis.call('rpush', KEYS[3], ARGV[1]) return tonumber(ARGV[1])")

    def __init__(self, server, index, done):
        self.keys = [f"{name}:{index}" for name in ("count", "one", "other")]
        self.server, self.done = server, done
        # When each step was answered.
        self.answered = []

    def run(self):
        try:
            with self.server.client() as client:
                while True:
                    self.step(client, self.done + len(self.answered) + 1)
                    self.answered.append(time.monotonic())
        except (Closed, OSError):
            pass

    def step(self, client, number):
        count, one, other = self.keys
        if number % 2:
            commands = [("MULTI",), ("INCR", count), ("RPUSH", one, number),
                        ("RPUSH", other, number), ("EXEC",)]
            client.write(b"".join(encode(*command) for command in commands))
            replies = [client.read() for _ in commands]
            assert replies[-1] == [number] * 3, replies
        else:
            got = client.call("EVAL", self.SCRIPT, 3, *self.keys, number)
            assert got == number, got

    def look(self, client, killed_at, is_durable):
        """What of its steps is there: all, whole and in order, but for the last ones."""
        count = int(client.call("GET", self.keys[0]) or 0)
        wanted = [b"%d" % number for number in range(1, count + 1)]
        for key in self.keys[1:]:
            got = client.call("LRANGE", key, 0, -1)
            assert got == wanted, f"{key}: {len(got)} of {count}, ends with {got[-3:]}"
        grace_s = 0 if is_durable else UNWRITTEN_S
        safe = sum(1 for at in self.answered if at <= killed_at - grace_s)
        assert count >= self.done + safe, f"{count} steps, {self.done} + {safe} were answered"
        assert count <= self.done + len(self.answered) + 1, "more than were sent"
        self.done, self.answered = count, []


def write_in_turn(server, connections, first):
    """One client that writes through all its connections in turn, a number to one of its keys after
    the other, each acknowledged before the next is sent; how many were."""
    number = first
    try:
        while True:
            client = connections[number % len(connections)]
            client.want(b"OK", "SET", f"turn:{number % TURN_KEYS}", number)
            number += 1
    except (Closed, OSError):
        return number - first


def look_for_gaps(client):
    """What is there of what such a client has written: no later number without the earlier ones;
    the last of them."""
    values = [int(value or 0) for value in
              client.call("MGET", *[f"turn:{number}" for number in range(TURN_KEYS)])]
    last = max(values)
    wanted = [last - (last - slot) % TURN_KEYS for slot in range(TURN_KEYS)]
    gaps = sum(1 for got, want in zip(values, wanted) if got < want and want > 0)
    assert not gaps, f"{gaps} earlier writes than number {last} are missing"
    return last


def kill_in_turn(trial, policy, rounds):
    seed = random.SystemRandom().randrange(1 << 32)
    trial.note(f"seed {seed}")
    chance, server, last, sent = random.Random(seed), trial.new_server(
        *ON, "--appendfsync", policy), 0, 0
    try:
        server.start()
        for _ in range(rounds):
            connections = [server.client() for _ in range(TURN_CONNECTIONS)]
            counted = []
            writer = threading.Thread(target=lambda: counted.append(
                write_in_turn(server, connections, last + 1)))
            writer.start()
            threading.Event().wait(chance.uniform(0.005, 0.3))
            server.kill()
            writer.join(DEADLINE_S)
            for connection in connections:
                connection.close()
            sent += counted[0]
            server.start()
            with server.client() as client:
                settle(client)
                answered, last = last + counted[0], look_for_gaps(client)
                assert last >= answered, f"{answered} was answered, {last} is there"
        trial.note(f"{sent} writes")
    except AssertionError as error:
        raise AssertionError(f"{error} (seed {seed})") from error
    finally:
        server.stop()


@scenario(watched=False, started=False)
def kill_across_connections(trial):
    """kill -9 while a client writes through several connections in turn: what is there again has no
    later write without the earlier ones, and every one that was answered."""
    kill_in_turn(trial, "everysec", 160 if trial.is_long else 10)
    kill_in_turn(trial, "no", 40 if trial.is_long else 4)


def rewrite_until_gone(server):
    """So that the kill meets every phase of it."""
    try:
        with server.client() as client:
            while True:
                client.call("BGREWRITEAOF")
                until(lambda: figures(client)["aof_rewrite_in_progress"] == "0", "it ends")
    except (Closed, OSError):
        pass


def kill_again_and_again(trial, policy, rounds, *flags):
    seed = random.SystemRandom().randrange(1 << 32)
    trial.note(f"seed {seed}")
    chance, cuts = random.Random(seed), 0
    server = trial.new_server(*ON, "--appendfsync", policy, *flags)
    writers = [Writer(server, index, 0) for index in range(WRITERS)]
    try:
        server.start()
        for turn in range(rounds):
            bodies = [writer.run for writer in writers]
            bodies += [lambda: rewrite_until_gone(server)] * (turn % 2)
            threads = [threading.Thread(target=body) for body in bodies]
            for thread in threads:
                thread.start()
            threading.Event().wait(chance.uniform(0.005, 0.4))
            killed_at = time.monotonic()
            server.kill()
            for thread in threads:
                thread.join(DEADLINE_S)
            if turn % 3 == 2:
                kill_while_starting(server, chance)
            server.start()
            with server.client() as client:
                settle(client)
                before, cuts = cuts, server.log_text().count(NO_ROOM)
                is_durable = policy == "always" or (flags == RINGS and cuts == before)
                for writer in writers:
                    writer.look(client, killed_at, is_durable)
                if turn % 8 == 7:
                    client.want(b"OK", "FLUSHALL")
                    for writer in writers:
                        writer.done = 0
        trial.note(f"{cuts} times the disk was so slow that rings were full")
        assert "panicked" not in server.log_text(), server.log_text()[-800:]
    except AssertionError as error:
        told = f"seed {seed}, turn {turn}, {last_taken_over(server)}"
        raise AssertionError(f"{error} ({told})") from error
    finally:
        server.stop()


def last_taken_over(server):
    """What the log says of the last time that something was taken over, or was not."""
    told = [line for line in server.log_text().splitlines()
            if "killed" in line or ".rings" in line or NO_ROOM in line or "Ready to" in line]
    return " / ".join(told[-3:])


class Queue:
    """A client that pushes numbers to a list, and one that waits for them there: by BLPOP, or by
    BLMOVE to another list."""

    def __init__(self, server, index):
        self.server, self.moves = server, index % 2
        self.key, self.taken_key = f"queue:{index}", f"taken:{index}"
        self.begin()

    def begin(self):
        self.pushed, self.popped = 0, []

    def push(self):
        script = "return redis.call('rpush', KEYS[1], ARGV[1])"
        try:
            with self.server.client() as client:
                while True:
                    number = self.pushed + 1
                    if number % 3:
                        client.call("RPUSH", self.key, number)
                    elif number % 2:
                        assert client.call("EVAL", script, 1, self.key, number) >= 0
                    else:
                        commands = [("MULTI",), ("RPUSH", self.key, number), ("EXEC",)]
                        client.write(b"".join(encode(*command) for command in commands))
                        assert len([client.read() for _ in commands][-1]) == 1
                    self.pushed = number
        except (Closed, OSError):
            pass

    def pop(self):
        try:
            with self.server.client() as client:
                while True:
                    if self.moves:
                        got = client.call("BLMOVE", self.key, self.taken_key, "LEFT", "RIGHT", 0)
                    else:
                        got = client.call("BLPOP", self.key, 0)[1]
                    self.popped.append(int(got))
        except (Closed, OSError):
            pass

    def look(self, client):
        """What was popped is gone, what was pushed is there, but for the answers that were under
        way."""
        there = [int(number) for number in client.call("LRANGE", self.key, 0, -1)]
        taken = [int(number) for number in client.call("LRANGE", self.taken_key, 0, -1)]
        answered = len(self.popped)
        assert self.popped == list(range(1, answered + 1)), self.popped[-5:]
        if self.moves:
            assert taken[:answered] == self.popped and len(taken) <= answered + 1, (
                f"{self.taken_key}: {len(taken)} of {answered} that were answered")
            answered = len(taken)
        back = [number for number in there if number <= answered]
        assert not back, f"{self.key}: {back[:5]} were popped and are there again"
        first = there[0] if there else self.pushed + 1
        assert first <= answered + 2, f"{self.key}: {answered + 1} to {first - 1} are gone"
        assert there == list(range(first, first + len(there))), f"{self.key}: {there[:9]}"
        last = max(first - 1, there[-1] if there else 0)
        assert self.pushed <= last <= self.pushed + 1, (
            f"{self.key}: up to {last} of {self.pushed} that were pushed")


def kill_queues(trial, policy, rounds):
    seed = random.SystemRandom().randrange(1 << 32)
    trial.note(f"seed {seed}")
    chance, popped = random.Random(seed), 0
    server = trial.new_server(*ON, "--appendfsync", policy, *RINGS)
    queues = [Queue(server, index) for index in range(4)]
    try:
        server.start()
        for turn in range(rounds):
            bodies = [body for queue in queues for body in (queue.pop, queue.push)]
            threads = [threading.Thread(target=body) for body in bodies]
            for thread in threads:
                thread.start()
            threading.Event().wait(chance.uniform(0.005, 0.3))
            server.kill()
            for thread in threads:
                thread.join(DEADLINE_S)
            server.start()
            with server.client() as client:
                settle(client)
                for queue in queues:
                    popped += len(queue.popped)
                    queue.look(client)
                    queue.begin()
                client.want(b"OK", "FLUSHALL")
        trial.note(f"{popped} were popped")
    except AssertionError as error:
        told = f"seed {seed}, turn {turn}, {last_taken_over(server)}"
        raise AssertionError(f"{error} ({told})") from error
    finally:
        server.stop()


@scenario(watched=False, started=False)
def kill_while_waiters_are_served(trial):
    """kill -9 while clients wait for what others push: what was popped with an answer does not come
    back, and what was pushed with an answer is there."""
    kill_queues(trial, "everysec", 150 if trial.is_long else 8)
    kill_queues(trial, "no", 50 if trial.is_long else 4)


def count_in_long_turns(server):
    """Counts one key up in pipelines whose commands take some milliseconds, until the server is
    gone."""
    slow = [encode("SUNIONSTORE", "union", "set:0", "set:1")] * 15
    turn = b"".join([encode("INCR", "counter"), *slow]) * 4
    try:
        with server.client() as client:
            while True:
                client.write(turn)
                for _ in range(4 * 16):
                    client.read()
    except (Closed, OSError):
        pass


def count_one_by_one(server, seen):
    try:
        with server.client() as client:
            while True:
                seen.append(client.call("INCR", "counter"))
    except (Closed, OSError):
        pass


@scenario(watched=False, started=False)
def kill_in_long_turns(trial):
    """kill -9 while one worker's turn is long and another worker answers with its effects: what was
    answered is there."""
    server, last = trial.new_server(*ON, "--appendfsync", "everysec", "--threads", "2", *RINGS), 0
    try:
        server.start()
        with server.client() as client:
            for name in ("set:0", "set:1"):
                client.call("SADD", name, *range(1_000))
        for _ in range(100 if trial.is_long else 10):
            seen = []
            bodies = [lambda: count_in_long_turns(server)] * 2
            bodies += [lambda: count_one_by_one(server, seen)] * 2
            threads = [threading.Thread(target=body) for body in bodies]
            for thread in threads:
                thread.start()
            until(lambda: len(seen) > 10, "some are answered")
            server.kill()
            for thread in threads:
                thread.join(DEADLINE_S)
            server.start()
            with server.client() as client:
                found = int(client.call("GET", "counter"))
            assert found >= max(seen), f"{max(seen)} was answered, {found} is there"
            last = found
        trial.note(f"counted to {last}")
    finally:
        server.stop()


def write_long_values(server, index, written):
    try:
        with server.client() as client:
            for number in range(10_000):
                value = f"{number}:" + "x" * (1_100_000 if number % 5 == 0 else 300_000)
                client.want(b"OK", "SET", f"long:{index}", value)
                written[index] = number
    except (Closed, OSError):
        pass


@scenario(watched=False, started=False, slack_mb=None)
def kill_with_long_values(trial):
    """kill -9 while the journal is far behind: rings grow with what is not written, and nothing is
    missing."""
    server = trial.new_server(*ON, "--appendfsync", "everysec", *RINGS)
    try:
        server.start()
        for _ in range(50 if trial.is_long else 5):
            written = [-1] * 4
            threads = [threading.Thread(target=write_long_values, args=(server, index, written))
                       for index in range(4)]
            with server.client() as client:
                client.want(b"OK", "FLUSHALL")
                for thread in threads:
                    thread.start()
                until(lambda: sum(written) > 60, "much is written")
                info = client.call("INFO", "journal")
                assert b"journal_outlives_process:1" in info, info.decode()
            server.kill()
            for thread in threads:
                thread.join(DEADLINE_S)
            server.start()
            with server.client() as client:
                for index, number in enumerate(written):
                    value = client.call("GET", f"long:{index}") or b"-1:"
                    found = int(value.partition(b":")[0])
                    assert found >= number, f"{index}: {number} was answered, {found} is there"
        trial.note(last_taken_over(server))
    finally:
        server.stop()


@scenario(watched=False, started=False)
def kill_when_the_file_counts(trial):
    """The file is turned off and on again, and the server is killed as soon as INFO says that the
    first base is there: what was answered after that is there."""
    server, rounds = trial.new_server(*ON, "--appendfsync", "no", *RINGS), 0
    try:
        server.start()
        for turn in range(300 if trial.is_long else 20):
            with server.client() as client:
                client.want(b"OK", "CONFIG", "SET", "appendonly", "no")
                client.want(b"OK", "CONFIG", "SET", "appendonly", "yes")
                while figures(client)["aof_pending_base"] != "0":
                    pass
                client.want(b"OK", "SET", "turn", turn)
                server.kill()
            server.start()
            with server.client() as client:
                settle(client)
                client.want(b"%d" % turn, "GET", "turn")
            rounds += 1
    finally:
        trial.note(f"{rounds} rounds")
        server.stop()


def kill_while_starting(server, chance):
    """Loading changes nothing that the next start would miss."""
    server.spawn()
    threading.Event().wait(chance.uniform(0.001, 0.05))
    server.kill()


@scenario(watched=False, started=False)
def kill_while_appending_always(trial):
    """kill -9, again and again: with `always` all that was answered is there, in order."""
    kill_again_and_again(trial, "always", 150 if trial.is_long else 12)


@scenario(watched=False, started=False)
def kill_while_appending_everysec(trial):
    """kill -9, again and again: with `everysec` at most the last moments are missing."""
    kill_again_and_again(trial, "everysec", 150 if trial.is_long else 9, *NO_RINGS)


@scenario(watched=False, started=False)
def kill_with_rings(trial):
    """With a ring of each thread in memory that outlives the process nothing is missing."""
    kill_again_and_again(trial, "everysec", 200 if trial.is_long else 9, *RINGS)


@scenario(watched=False, started=False)
def kill_while_appending_no(trial):
    """The same where the system is left to write."""
    kill_again_and_again(trial, "no", 150 if trial.is_long else 6, *NO_RINGS)


def restarted_is_same(server):
    """Whether what was there is there again after kill -9, once nobody writes."""
    with server.client() as client:
        # All before it is in the file when it is.
        client.want(b"OK", "SET", "last", "v")
        assert client.call("WAITAOF", 1, 0, 0)[0] == 1
        before = client.call("DEBUG", "DIGEST")
    server.kill()
    server.start()
    with server.client() as client:
        settle(client)
        return client.call("DEBUG", "DIGEST") == before


def replies_now(client, patience_s):
    """Replies that come one after the other, with no longer pause than that."""
    while client.at < len(client.buffer) or select.select([client.sock], [], [], patience_s)[0]:
        yield client.read()


@scenario(*ON, slack_mb=None, watched=False)
def file_takes_nothing(trial):
    """The next file blocks whoever opens it: when too much waits for it writers wait, memory is
    bounded, reads go on; then all that was answered is kept."""
    server, size, sent = trial.server, 16 << 10, 10_000
    fifo = Path(server.directory) / "appendonlydir" / "appendonly.aof.2.incr.aof"
    with trial.client() as client, trial.client() as reader:
        client.want(b"OK", "SET", "before", "v")
        os.mkfifo(fifo)
        assert client.call("BGREWRITEAOF").startswith(b"Background append only")
        stream = encode("SET", "key", "v" * size)
        sender = threading.Thread(target=client.write, args=[stream * sent])
        sender.start()
        replies = list(replies_now(client, 3))
        assert 0 < len(replies) < sent, f"{len(replies)} of {sent} were answered"
        reader.want(b"v", "GET", "before")
        grown = trial.rss_grown()
        assert grown < 320 * MB, f"{grown / MB:.0f} MB more memory"
        trial.note(f"{len(replies) * size // MB} MB were taken before writers waited")
        # Somebody reads from there, so it goes on; but it can not be synced, and makes way.
        drain = os.open(fifo, os.O_RDONLY)
        emptying = threading.Thread(target=lambda: list(iter(lambda: os.read(drain, MB), b"")))
        emptying.start()
        replies += [client.read() for _ in range(sent - len(replies))]
        sender.join(DEADLINE_S)
        trial.note(f"{sum(is_error(reply) for reply in replies)} refused while a file was begun")
        assert all(reply == b"OK" or is_error(reply, "MISCONF") for reply in replies)
        until(lambda: client.call("SET", "after", "v") == b"OK", "writes are taken again")
        emptying.join(DEADLINE_S)
        os.close(drain)
    assert restarted_is_same(server)
