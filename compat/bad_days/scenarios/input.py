"""Bytes that no decent client sends."""

import contextlib
import random

from client import Closed, connect, encode, shut_writing
from server import MB, until
from trial import is_error, scenario

PING = encode("PING")


def refused(trial, raw, word="Protocol error"):
    """Sends garbage: an error comes back and then the end."""
    with trial.client() as client:
        # It may be refused before all of it was sent.
        with contextlib.suppress(ConnectionError):
            client.write(raw)
        client.half_close()
        answer = client.rest()
        assert answer.startswith(b"-ERR ") and word.encode() in answer, (
            f"{raw[:40]!r} was answered with {answer[:100]!r}")
        assert answer.count(b"\r\n") == 1, f"{raw[:40]!r}: more than one answer, {answer[:200]!r}"


@scenario()
def oversized_lengths(trial):
    """Counts and lengths that are too large, negative, or no numbers."""
    for count in ("2147483648", "99999999999999999999", "9223372036854775807", "abc", "1 ", "+1",
                  "0x10", "1.0", "--1", ""):
        refused(trial, f"*{count}\r\n".encode() + PING, "invalid multibulk length")
    for length in ("536870913", "99999999999999999999", "-1", "-2147483648", "abc", "", "1e3"):
        refused(trial, f"*1\r\n${length}\r\n".encode() + PING, "invalid bulk length")
    refused(trial, b"*1\r\nPING\r\n", "expected '$'")
    refused(trial, b"*" + b"1" * 70_000, "too big mbulk count")
    refused(trial, b"*1\r\n$" + b"1" * 70_000, "too big bulk count")
    refused(trial, b"x" * 70_000, "too big inline")
    for nothing in (b"*0\r\n", b"*-1\r\n", b"*-2147483648\r\n", b"\r\n", b"\r\n" * 1000):
        with trial.client() as client:
            client.write(nothing + PING)
            assert client.read() == b"PONG", f"{nothing[:20]!r} is to be skipped"


@scenario()
def promises_not_kept(trial):
    """200 clients announce 2^31 - 1 arguments of 512 MB each: nothing is set aside for them."""
    raw = b"*2147483647\r\n$3\r\nSET\r\n$536870912\r\nx"
    clients = [trial.client() for _ in range(200)]
    for client in clients:
        client.write(raw)
    with trial.client() as client:
        client.want(b"PONG", "PING")
    assert trial.rss_grown() < 64 * MB, f"{trial.rss_grown() >> 20} MB for promises"
    for client in clients:
        client.close()


@scenario()
def nested_garbage(trial):
    """Arrays in arrays, types that only replies have, wrong line ends."""
    for raw in (b"*1\r\n*1\r\n*1\r\n", b"*2\r\n$4\r\nPING\r\n*1\r\n", b"*1\r\n+PING\r\n",
                b"*1\r\n:1\r\n", b"*" + b"*" * 500 + b"\r\n"):
        refused(trial, raw)
    for raw in (b"*1\r\n$4\r\nPINGxx", b"*1\r\n$4\r\nPING\n\n"):
        with trial.client() as client:
            client.write(raw)
            client.half_close()
            answer = client.rest()
            assert not answer.startswith(b"+"), f"{raw!r} ran: {answer!r}"
    for raw in (b"+OK\r\n", b":1\r\n", b"%1\r\n", b"$4\r\n", b"~\r\n", b"\0\0\0\r\n", b"_\r\n"):
        with trial.client() as client:
            client.write(raw)
            assert is_error(client.read()), f"{raw!r} is no command"


@scenario()
def random_bytes(trial):
    """Noise on 200 connections, some of it dressed up as commands."""
    chance = random.Random(1)
    words = [b"*", b"$", b"\r\n", b"3", b"-1", b"SET", b"GET", b"k", b"\0", b"\xff", b" ", b'"']
    for number in range(200):
        if number % 2:
            raw = chance.randbytes(4096)
        else:
            raw = b"".join(chance.choice(words) for _ in range(2000))
        sock = connect(trial.server.address)
        try:
            sock.sendall(raw)
            if number % 3:
                shut_writing(sock)
                while sock.recv(1 << 16):
                    pass
        except ConnectionError:
            pass
        sock.close()


@scenario()
def half_commands(trial):
    """A command is cut at every byte and the client goes away: it must not have run."""
    whole = encode("SET", "key", "other")
    with trial.client() as client:
        client.want(b"OK", "SET", "key", "value")
        for cut in range(1, len(whole)):
            for is_orderly in (True, False):
                broken = trial.client()
                broken.write(whole[:cut])
                if is_orderly:
                    broken.close()
                else:
                    broken.abort()
        until(lambda: trial.server.fd_count() <= trial.server.base_fds + 2, "they are gone")
        client.want(b"value", "GET", "key")


@scenario()
def large_halves(trial):
    """50 clients send 2 MB of a command of 4 MB and go away."""
    raw = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4194304\r\n" + b"x" * (2 * MB)
    clients = [trial.client() for _ in range(50)]
    for client in clients:
        client.write(raw)
    for client in clients:
        client.close()


@scenario()
def byte_by_byte(trial):
    """100 KB of a command in writes of one byte."""
    value = bytes(random.Random(2).randbytes(100_000))
    raw = encode("SET", "key", value)
    with trial.client() as client:
        send = client.sock.send
        for at in range(len(raw)):
            send(raw[at:at + 1])
        assert client.read() == b"OK"
        client.want(value, "GET", "key")


@scenario(slack_mb=32)
def many_arguments(trial):
    """Commands of 300,000 and 2,000,000 arguments; the first in pieces that end anywhere."""
    raw = encode("DEL", *[b"%d" % number for number in range(300_000)])
    with trial.client() as client:
        for at in range(0, len(raw), 9_973):
            client.write(raw[at:at + 9_973])
        assert client.read() == 0
        client.write(b"*2000001\r\n$6\r\nEXISTS\r\n" + b"$1\r\nk\r\n" * 2_000_000)
        assert client.read() == 0
        client.want(b"PONG", "PING")


@scenario(slack_mb=96)
def pipeline_read_last(trial):
    """A million commands, and only then are the answers read: no deadlock, none lost."""
    count = 1_000_000
    with trial.client() as client:
        client.write(PING * count)
        tail = client.count_bytes(count * len(b"+PONG\r\n"))
        assert tail.endswith(b"+PONG\r\n")
        client.want(b"last", "ECHO", "last")


@scenario(slack_mb=96)
def pipeline_read_last_large(trial):
    """The same with answers that are much larger than the questions."""
    value, count = b"v" * 1000, 100_000
    with trial.client() as client:
        client.want(b"OK", "SET", "k", value)
        client.write(encode("GET", "k") * count)
        client.count_bytes(count * (len("$1000\r\n\r\n") + 1000))
        client.want(b"last", "ECHO", "last")


@scenario(slack_mb=96)
def pipeline_never_read(trial):
    """A million commands of a client that never reads: memory stays near what it has sent."""
    with trial.client() as client:
        client.want(b"OK", "SET", "k", b"v" * 1000)
    never_read(trial, encode("GET", "k") * 1_000_000)


@scenario(slack_mb=96)
def errors_never_read(trial):
    """The same with commands that are answered by errors, longer than the commands."""
    never_read(trial, b"x\r\n" * 3_000_000)


def never_read(trial, raw):
    client = trial.client()
    client.write(raw)
    with trial.client() as other:
        for _ in range(200):
            other.want(b"PONG", "PING")
    grown = trial.rss_grown()
    assert grown < 3 * len(raw) + 16 * MB, f"{grown >> 20} MB for {len(raw) >> 20} MB of commands"
    trial.note(f"{grown >> 20} MB held")
    client.close()


@scenario(slack_mb=160)
def large_replies_never_read(trial):
    """100 replies of 10 MB that nobody reads cost two of them, not a hundred."""
    size, count = 10 * MB, 100
    with trial.client() as client:
        client.want(b"OK", "SET", "k", b"v" * size)
        holding = trial.rss_grown()
        client.write(encode("GET", "k") * count)
        with trial.client() as other:
            for _ in range(500):
                other.want(b"PONG", "PING")
        grown = trial.rss_grown() - holding
        assert grown < 8 * size, f"{grown >> 20} MB for replies nobody reads"
        trial.note(f"{grown >> 20} MB held")
        wanted = count if trial.is_long else 20
        client.count_bytes(wanted * (size + len("$10485760\r\n\r\n")))


@scenario(slack_mb=160)
def reset_in_a_reply(trial):
    """The client resets the connection in the middle of 10 MB."""
    with trial.client() as client:
        client.want(b"OK", "SET", "k", b"v" * (10 * MB))
    for number in range(40):
        client = trial.client()
        client.write(encode("GET", "k") * 3)
        if number % 2:
            client.count_bytes(1 + number * 1000)
        client.abort()


@scenario("--client-query-buffer-limit", str(1 * MB))
def query_buffer_limit(trial):
    """Input above client-query-buffer-limit costs the connection, and no other."""
    with trial.client() as client, trial.client() as other:
        try:
            client.write(b"*2\r\n$4\r\nECHO\r\n$268435456\r\n" + b"x" * (32 * MB))
            client.read()
        except (Closed, ConnectionError):
            pass
        else:
            raise AssertionError("it may send what it likes")
        other.want(b"PONG", "PING")


@scenario("--requirepass", "secret", watched=False, started=False)
def before_the_password(trial):
    """Before AUTH a client gets ten arguments of 16 KiB and no data."""
    trial.server.start()
    refused(trial, b"*11\r\n", "unauthenticated multibulk length")
    refused(trial, b"*1\r\n$16385\r\n", "unauthenticated bulk length")
    with trial.client() as client:
        assert is_error(client.call("SET", "k", "v"), "NOAUTH")
        reply = client.call("AUTH", "wrong")
        assert is_error(reply, "WRONGPASS"), reply
        client.want(b"OK", "AUTH", "secret")
        client.want(None, "GET", "k")
