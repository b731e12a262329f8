"""Large values are read whole while they change: each answer is the value of one moment."""

import re
import threading

from client import Client, encode
from trial import scenario

ELEMENTS = 15_000  # several portions of a reply

MARK = b"end-of-reading"
NUMBER = re.compile(rb"\n(\d+)(?:-0)?\r\n")

# What one more number in a value does that holds the last `ELEMENTS`, how it is read, and how
# often the answer has each number.
KINDS = {
    "list": ("RPUSH {0} {1}", "LPOP {0}", ("LRANGE", "list", 0, -1), 1),
    "set": ("SADD {0} {1}", "SREM {0} {2}", ("SMEMBERS", "set"), 1),
    "hash": ("HSET {0} {1} {1}", "HDEL {0} {2}", ("HGETALL", "hash"), 2),
    "zset": ("ZADD {0} {1} {1}", "ZREM {0} {2}", ("ZREVRANGE", "zset", 0, -1), 1),
    "stream": ("XADD {0} {1}-0 f v", "XDEL {0} {2}-0", ("XRANGE", "stream", "-", "+"), 1),
}


def step(kind, number):
    """The transaction after which the value ends with this number."""
    words = [line.format(kind, number, number - ELEMENTS).split() for line in KINDS[kind][:2]]
    return encode("MULTI") + b"".join(encode(*line) for line in words) + encode("EXEC")


def pieces(client, count):
    """What comes before each of so many marks."""
    raw = bytearray()
    for _ in range(count):
        begin = 0
        while (end := raw.find(MARK, begin)) < 0:
            begin = max(0, len(raw) - len(MARK))
            piece = client.sock.recv(1 << 20)
            assert piece, "the server hung up"
            raw += piece
        yield bytes(raw[:end])
        del raw[:end + len(MARK)]


class Reader(threading.Thread):
    """Reads the value so often, in one pipeline, so that the server is busy with it and not this
    program; what it holds must be `ELEMENTS` numbers one after the other."""

    def __init__(self, address, kind, times):
        super().__init__()
        self.client, self.kind, self.times, self.fault = Client(address), kind, times, None

    def run(self):
        *_, command, each = KINDS[self.kind]
        try:
            self.client.write((encode(*command) + encode("ECHO", MARK)) * self.times)
            for raw in pieces(self.client, self.times):
                found = [int(number) for number in NUMBER.findall(raw)]
                first, last = min(found), max(found)
                told = f"{len(found)} from {first} to {last}"
                assert len(found) == each * ELEMENTS and len(set(found)) == ELEMENTS, told
                assert last - first == ELEMENTS - 1, told
        except Exception as why:
            self.fault = f"{self.kind}: {type(why).__name__} {why}"
        finally:
            self.client.close()


@scenario(slack_mb=96)
def large_values_read_while_they_change(trial):
    """Three clients read lists, sets, hashes, sorted sets and streams of 15,000 elements whole
    while a fourth adds and removes, at a pace that lets some readings end undisturbed."""
    with trial.client() as client:
        for kind in KINDS:
            last = fill(client, kind)
            readers = [Reader(trial.server.address, kind, 100 if trial.is_long else 8)
                       for _ in range(3)]
            for one in readers:
                one.start()
            steps = change_until_read(client, kind, last, readers)
            faults = [one.fault for one in readers if one.fault]
            assert not faults, faults[0]
            trial.note(f"{kind}: {steps} changes")
            client.call("DEL", kind)


def fill(client, kind):
    """A value of `ELEMENTS` numbers; the last of them."""
    add = KINDS[kind][0]
    client.write(b"".join(encode(*add.format(kind, number).split())
                          for number in range(1, ELEMENTS + 1)))
    for _ in range(ELEMENTS):
        client.read()
    return ELEMENTS


def change_until_read(client, kind, last, readers):
    """Changes the value while somebody reads it, with more and more PINGs in between; how often."""
    steps = 0
    while any(one.is_alive() for one in readers):
        steps += 1
        client.write(step(kind, last + steps))
        *_, results = [client.read() for _ in range(4)]
        assert len(results) == 2, results
        for _ in range(steps % 20):
            client.call("PING")
    for one in readers:
        one.join()
    return steps
