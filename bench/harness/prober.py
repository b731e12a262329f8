"""A program: one request after the other at a steady pace until its stdin ends; tells latencies.

    python3 -m harness.prober PORT KEYS VALUE_BYTES RATE get|set|hset

`set` writes the keys, `hset` fields of the hash `large`. A request is sent when it is due, also
while the server still owes answers. So a stall of a second is seen by all the requests that fell
into it, where a closed loop would count one.

It asks for a real-time priority, for it may share its core with the neighbour.
"""

import collections
import gc
import json
import os
import random
import select
import socket
import sys
import time

STALL_LIMIT_S = 60
READ_BYTES = 1 << 16


def latencies(line, stdin, ask, expected, gap_s):
    """Sends ask() at the pace until stdin is readable, and waits for the last answer; seconds.

    Every answer starts with `expected[0]` and has `expected[1]` bytes.
    """
    start, size = expected
    found, sent_at, held = [], collections.deque(), b""
    due, readers = time.perf_counter(), [line, stdin]
    while stdin in readers or sent_at:
        now = time.perf_counter()
        if stdin not in readers:
            wait_s = STALL_LIMIT_S
        elif (wait_s := due - now) <= 0:
            line.sendall(ask())
            sent_at.append(now)
            due, wait_s = due + gap_s, 0
        readable, *_ = select.select(readers, [], [], wait_s)
        if line in readable:
            block = line.recv(READ_BYTES)
            now = time.perf_counter()
            held += block
            while len(held) >= size and held.startswith(start):
                found.append(now - sent_at.popleft())
                held = held[size:]
            if not block or not held.startswith(start[: len(held)]):
                raise ConnectionError(f"it was answered {held[:80]!r}")
        elif not readable and stdin not in readers:
            raise TimeoutError(f"no answer for {STALL_LIMIT_S} s")
        if stdin in readable:
            readers = [line]
    return found


def percentile(ordered, percent):
    """The smallest of the ordered values that `percent` of them do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def figures(found):
    ordered = sorted(found)
    ms = lambda percent: 1e3 * percentile(ordered, percent)
    return {
        "requests": len(ordered),
        "p50_ms": ms(50),
        "p99_ms": ms(99),
        "p999_ms": ms(99.9),
        "max_ms": 1e3 * ordered[-1],
    }


def random_get(keys):
    """A function that makes a GET of one of the keys."""
    chance = random.Random(2)
    words = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:%012d\r\n"
    return lambda: words % chance.randrange(keys)


def random_write(verb, keys, value_bytes):
    """A function that makes a write of one of the keys, or fields."""
    chance, value = random.Random(3), random.Random(4).randbytes(value_bytes)
    head = b"*3\r\n$3\r\nSET\r\n" if verb == "set" else b"*4\r\n$4\r\nHSET\r\n$5\r\nlarge\r\n"
    name = b"key:%012d" if verb == "set" else b"fld:%012d"
    rest = b"\r\n$%d\r\n%s\r\n" % (value_bytes, value)
    return lambda: b"%s$16\r\n%s%s" % (head, name % chance.randrange(keys), rest)


def answer(value_bytes):
    """How the answer to each GET starts, and its length in bytes."""
    start = b"$%d\r\n" % value_bytes
    return start, len(start) + value_bytes + 2


def hurry():
    """Whether a real-time priority was granted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    return True


def main():
    port, keys, value_bytes, rate = map(int, sys.argv[1:5])
    verb = sys.argv[5]
    hurried = hurry()
    gc.disable()
    with socket.create_connection(("127.0.0.1", port), STALL_LIMIT_S) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if verb == "get":
            ask, expected = random_get(keys), answer(value_bytes)
        else:
            ask = random_write(verb, keys, value_bytes)
            expected = (b"+OK\r\n", 5) if verb == "set" else (b":", 4)
        found = latencies(line, sys.stdin, ask, expected, 1 / rate)
    print(json.dumps(figures(found) | {"real_time": hurried}))


if __name__ == "__main__":
    main()
