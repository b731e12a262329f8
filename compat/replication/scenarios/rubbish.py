"""Bytes that no server would send: a primary that answers rubbish, replicas that send it."""

import contextlib
import random
import socket
import threading

from client import Client, Closed, encode
from contents import equal
from nodes import DEADLINE_S, linked, until
from trial import fill, scenario

ID = b"a" * 40
EMPTY_FILE = bytes.fromhex("524544495330303131fa0972656469732d76657205372e302e30ff")
# Of the format that every server here reads; zeros stand for a checksum that is not checked.
EMPTY_FILE = EMPTY_FILE.replace(b"REDIS0011", b"REDIS0009") + bytes(8)
FULL = b"+FULLRESYNC " + ID + b" 0\r\n"
COPY = FULL + b"$%d\r\n" % len(EMPTY_FILE) + EMPTY_FILE
# Its stream goes on in a database that no replica here has.
ELSEWHERE = EMPTY_FILE[:-9] + b"\xfa\x0erepl-stream-db\x044000" + EMPTY_FILE[-9:]
# What is answered to PING, to PSYNC (None: as it should be).
ANSWERS = [
    (b"-ERR no\r\n", None), (b"-LOADING wait\r\n", None), (b"$5\r\nhello\r\n", None),
    (b"\x00\xff\r\n\r\n", None), (b"x" * 300_000, None), (b"\r\n" * 1_000, None),
    (None, b"-ERR no\r\n"), (None, b"-NOMASTERLINK no\r\n"), (None, b"+OK\r\n"),
    (None, b"+FULLRESYNC\r\n"), (None, b"+FULLRESYNC abc 0\r\n"), (None, b"+FULLRESYNC " + ID),
    (None, b"+FULLRESYNC " + ID + b" -7\r\n"), (None, b"+FULLRESYNC " + ID + b" x\r\n"),
    (None, b"+FULLRESYNC " + ID + b" 99999999999999999999\r\n"),
    (None, b"+CONTINUE\r\n*1\r\n$4\r\nPING\r\n"), (None, b"+CONTINUE abc\r\n"),
    (None, FULL), (None, FULL + b"$-5\r\n"), (None, FULL + b"$x\r\n"),
    (None, FULL + b"*3\r\n"), (None, FULL + b"$EOF:short\r\n"), (None, FULL + b"$0\r\n"),
    (None, FULL + b"$99999999999999\r\nREDIS0011"), (None, FULL + b"$10\r\nREDIS0011"),
    (None, FULL + b"$9999999999999999999999\r\n"), (None, FULL + b"$12\r\nnot a file!!"),
    (None, COPY + b"*1\r\n$-7\r\n"), (None, COPY + b"*x\r\n"), (None, COPY + b"*-3\r\n"),
    (None, COPY + b"*1000000000\r\n"), (None, COPY + b"*1\r\n$99999999999\r\n"),
    (None, COPY + encode("NOSUCHCOMMAND", "a")), (None, COPY + encode("SET", "k")),
    (None, COPY + encode("SELECT", 9_999) + encode("SET", "k", 1)),
    (None, COPY + encode("MULTI") + encode("SET", "half", 1)), (None, COPY + encode("EXEC")),
    (None, COPY + encode("MULTI") + encode("MULTI") + encode("EXEC")),
    (None, COPY + encode("LPUSH", "k", 1) + encode("INCR", "k") + encode("GET", "k")),
    (None, COPY + encode("REPLCONF", "GETACK", "*") * 50), (None, COPY + b"PING\r\n" * 50),
    (None, COPY + encode("SUBSCRIBE", "x") + encode("BLPOP", "l", 0) + encode("PING")),
    (None, COPY + b"\x00" * 100_000),
    (None, FULL + b"$%d\r\n" % len(ELSEWHERE) + ELSEWHERE + encode("SET", "k", 1)),
]
# Files that are torn or wrong, with which Redis and Valkey end themselves, and what makes them
# crash.
FATAL = [
    (None, FULL + b"$EOF:" + ID + b"\r\n" + file + ID)
    for file in (b"REDIS0009\xfe\x00\xfb", b"REDIS0009" + b"\xfd" * 5_000, b"REDIS9999\xff",
                 EMPTY_FILE[:-9] + b"\x00\x01k\x01v", EMPTY_FILE[:-8] + b"checksum", b"")
] + [(None, COPY + encode("PSYNC", "?", -1) + encode("REPLICAOF", "no", "one"))]


class FalsePrimary:
    """Speaks with replicas as it is told, and hangs up."""

    def __init__(self):
        self.answers, self.served = (None, None), 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(5)
            with connection, contextlib.suppress(OSError, Closed, AssertionError):
                self._talk(connection, self.answers)
            self.served += 1

    def _talk(self, connection, answers):
        incoming = Client.__new__(Client)
        incoming.sock, incoming.buffer, incoming.at = connection, bytearray(), 0
        at_ping, at_psync = answers
        while True:
            name = incoming.read()[0].upper()
            if name == b"PING" and at_ping is None:
                connection.sendall(b"+PONG\r\n")
            elif name == b"PING":
                connection.sendall(at_ping)
                return
            elif name in (b"PSYNC", b"SYNC"):
                connection.sendall(at_psync)
                with contextlib.suppress(TimeoutError):
                    connection.settimeout(0.2)
                    while connection.recv(1 << 16):
                        pass
                return
            else:
                connection.sendall(b"+OK\r\n")

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(DEADLINE_S)


@scenario()
def false_primary(trial):
    """A replica stays up whatever its primary answers, and can follow a real one afterwards."""
    primary, replica, false = trial.node(0), trial.node(1), FalsePrimary()
    trial.may_refuse = True
    fill(primary, 50)
    rng = random.Random(trial.seed)
    tests = ANSWERS + (FATAL if replica.kind == "pantala" else [])
    tests = tests if trial.is_long else rng.sample(tests, 12)
    try:
        for answers in tests:
            false.answers, before = answers, false.served
            replica.follow(false.address)
            until(lambda: false.served > before, f"{str(answers)[:200]} is answered")
            try:
                replica.want(b"PONG", "PING")
                replica.lead()
            except (OSError, Closed) as why:
                raise AssertionError(f"{why!r} after {str(answers)[:300]}: "
                                     f"{replica.log_text()[-600:]}") from None
        replica.follow(primary.address)
        linked(replica)
        assert equal(primary, replica) == 50
    finally:
        false.close()


HOSTILE = [
    ("REPLCONF",), ("REPLCONF", "listening-port"), ("REPLCONF", "listening-port", "x"),
    ("REPLCONF", "listening-port", -1), ("REPLCONF", "listening-port", 1 << 70),
    ("REPLCONF", "ip-address", "x" * 100_000), ("REPLCONF", "ip-address", b"\x00\r\n"),
    ("REPLCONF", "capa", "nonsense", "capa", "eof", "capa", "psync2"),
    ("REPLCONF", "nonsense", 1), ("REPLCONF", "ACK"), ("REPLCONF", "ACK", "x"),
    ("REPLCONF", "ACK", 1 << 63), ("REPLCONF", "ACK", -1), ("REPLCONF", "GETACK", "*"),
    ("REPLCONF", "version", "x"), ("REPLCONF", "version", "255.255.255"),
    ("REPLCONF", "rdb-only", "x"), ("REPLCONF", "rdb-filter-only", "functions nonsense"),
    ("REPLCONF", "main-ch-client-id", "99999"), ("REPLCONF", "set-rdb-client-id", "7"),
    ("PSYNC",), ("PSYNC", "?"), ("PSYNC", "?", "x"), ("PSYNC", ID, "x"), ("PSYNC", "?", -1, "x"),
]
STARTS = [
    [("SYNC",)], [("PSYNC", "?", -1)], [("PSYNC", ID, (1 << 63) - 1)], [("PSYNC", ID, -(1 << 63))],
    [("PSYNC", "", 0)], [("PSYNC", b"\xff" * 40, 5)], [("PSYNC", "?", -1)] * 3,
    [("PSYNC", "?", -1), ("SYNC",)], [("MULTI",), ("PSYNC", "?", -1), ("EXEC",)],
    [("SUBSCRIBE", "x"), ("PSYNC", "?", -1)], [("MONITOR",), ("SYNC",)],
    [("REPLCONF", "capa", "eof", "capa", "psync2"), ("PSYNC", "?", -1)],
]
AFTERWARDS = [
    [("REPLCONF", "ACK", (1 << 63) - 1), ("REPLCONF", "ACK", 1), ("REPLCONF", "ACK", 0)],
    [("REPLCONF", "ACK", "x"), ("REPLCONF",)], [("SET", "from", "replica"), ("GET", "key:1")],
    [("PSYNC", "?", -1)], [("REPLICAOF", "NO", "ONE")], [("QUIT",)], [("SHUTDOWNX",)],
    [("BLPOP", "l", 0), ("SUBSCRIBE", "y")], [("CLIENT", "REPLY", "OFF"), ("PING",)],
]


@scenario()
def false_replicas(trial):
    """A primary stays up whatever replicas send, and serves a real one meanwhile."""
    primary, replica = trial.pair()
    fill(primary, 300, 1_000)
    rng = random.Random(trial.seed)
    with primary.client() as client:
        for command in HOSTILE:
            client.write(encode(*command))
    for turn in range(60 if trial.is_long else 20):
        with primary.client() as client, contextlib.suppress(OSError, Closed, AssertionError):
            client.sock.settimeout(0.2)
            for command in (*rng.sample(HOSTILE, 2), *rng.choice(STARTS)):
                client.write(encode(*command))
            client.sock.recv(rng.choice([1, 100, 50_000]))
            for command in rng.choice(AFTERWARDS):
                client.write(encode(*command))
            if turn % 4 == 0:
                client.half_close()
                client.rest()
            elif turn % 4 == 1:
                client.abort()
            elif turn % 4 == 2:
                client.write(rng.randbytes(5_000))
        primary.want(b"PONG", "PING")
    assert primary.info()["role"] == "master"
    fill(primary, 50, prefix="after")
    until(lambda: primary.info()["connected_slaves"] == "1", "only the real one is left")
    linked(replica)
    equal(primary, replica)
    replica.want(b"PONG", "PING")
