"""A program: one publisher, many subscribers; tells how long messages take.

    python3 -m harness.crowd PORT PUBLISH|SPUBLISH SUBSCRIBERS CHANNELS MESSAGES PIPELINE BYTES

Subscriber number i listens to channel i % CHANNELS. When all do, it prints "ready" and waits for a
line on stdin. Then PIPELINE messages go out, to one channel after the other; when all of them have
been answered and have reached every subscriber, the next go out, until MESSAGES were published.

Every reply is compared, and every byte that arrives is counted; the last message of each subscriber
is compared, too.
"""

import gc
import json
import select
import socket
import sys
import time

from .prober import percentile

STALL_LIMIT_S = 60
READ_BYTES = 1 << 18
SUBSCRIBE = {"PUBLISH": b"SUBSCRIBE", "SPUBLISH": b"SSUBSCRIBE"}
KIND = {"PUBLISH": b"message", "SPUBLISH": b"smessage"}


def encode(*words):
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%s" % (len(words), b"".join(parts))


def connect(port):
    line = socket.create_connection(("127.0.0.1", port), STALL_LIMIT_S)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def receive(line, expected):
    """Reads as many bytes as are expected, and compares them."""
    got = b""
    while len(got) < len(expected):
        block = line.recv(READ_BYTES)
        if not block:
            break
        got += block
    if got != expected:
        raise ConnectionError(f"expected {expected[:80]!r}, got {got[:80]!r}")


class Crowd:
    def __init__(self, port, word, subscribers, channels, message):
        self.names = [b"channel:%06d" % number for number in range(channels)]
        self.listeners = {}  # by descriptor
        self.epoll = select.epoll()
        subscribe = SUBSCRIBE[word]
        for number in range(subscribers):
            line = connect(port)
            name = self.names[number % channels]
            line.sendall(encode(subscribe, name))
            receive(line, b"*3\r\n" + encode(subscribe.lower(), name)[4:] + b":1\r\n")
            line.setblocking(False)
            self.listeners[line.fileno()] = line
            self.epoll.register(line.fileno(), select.EPOLLIN)
        self.publisher = connect(port)
        self.requests = [encode(word.encode(), name, message) for name in self.names]
        self.message = encode(KIND[word], self.names[0], message)
        counts = [len(range(number, subscribers, channels)) for number in range(channels)]
        self.counts = counts
        self.buffer = bytearray(READ_BYTES)

    def publish(self, first, count):
        """Publishes `count` messages from channel `first` on; how many were delivered."""
        numbers = [number % len(self.names) for number in range(first, first + count)]
        self.publisher.sendall(b"".join(self.requests[number] for number in numbers))
        delivered = sum(self.counts[number] for number in numbers)
        left = delivered * len(self.message)
        buffer, listeners = self.buffer, self.listeners
        while left > 0:
            ready = self.epoll.poll(STALL_LIMIT_S)
            if not ready:
                raise TimeoutError(f"{left} bytes have not come in {STALL_LIMIT_S} s")
            for descriptor, _ in ready:
                got = listeners[descriptor].recv_into(buffer)
                if got == 0:
                    raise ConnectionError("a subscriber was disconnected")
                left -= got
        receive(self.publisher, b"".join(b":%d\r\n" % self.counts[number] for number in numbers))
        if left or not buffer.startswith(self.message[:20]):
            raise ConnectionError(f"{-left} bytes too many, or others: {bytes(buffer[:80])!r}")
        return delivered


def main():
    port, word, *numbers = sys.argv[1:]
    subscribers, channels, messages, pipeline, size = map(int, numbers)
    crowd = Crowd(int(port), word, subscribers, channels, b"x" * size)
    gc.disable()
    print("ready", flush=True)
    sys.stdin.readline()
    took, delivered, begin = [], 0, time.perf_counter()
    for first in range(0, messages, pipeline):
        sent = time.perf_counter()
        delivered += crowd.publish(first, min(pipeline, messages - first))
        took.append(time.perf_counter() - sent)
    elapsed_s = time.perf_counter() - begin
    took.sort()
    figures = {f"{name}_ms": 1e3 * percentile(took, percent)
               for name, percent in (("p50", 50), ("p99", 99), ("p999", 99.9))}
    figures |= {"requests": delivered, "requests_per_s": delivered / elapsed_s}
    print(json.dumps(figures | {"elapsed_s": elapsed_s}))


if __name__ == "__main__":
    main()
