"""Clients that have not given the password: what they may take, and what guessing costs.

A scenario sets the password when the server runs: those who are in already stay in, the watcher
among them.
"""

import contextlib
import resource
import select
import threading

from client import Client, Closed, ErrorReply, abort, connect, encode
from server import DEADLINE_S, MB, until
from trial import Stopwatch, is_error, scenario

PASSWORD = "open sesame"


@contextlib.contextmanager
def locked(trial, *settings):
    """A client that is in, while a password is asked of all others."""
    with trial.client() as keeper:
        keeper.want(b"OK", "CONFIG", "SET", "requirepass", PASSWORD, *settings)
        try:
            yield keeper
        finally:
            keeper.want(b"OK", "CONFIG", "SET", "requirepass", "")


def stat(client, name, section="everything"):
    for line in client.call("INFO", section).decode().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.partition(":")[2])
    raise AssertionError(f"INFO has no {name}")


def send_until_closed(sock, raw, most_bytes, patience_s):
    """Writes without reading until the server closes or takes no more; how much was taken, and
    whether it closed."""
    sock.setblocking(False)
    sent = 0
    while sent < most_bytes:
        _, ready, _ = select.select([], [sock], [], patience_s)
        if not ready:
            return sent, False
        try:
            sent += sock.send(raw)
        except (ConnectionResetError, BrokenPipeError):
            return sent, True
    return sent, False


@scenario()
def unread_refusals(trial):
    """Who sends commands without the password and reads none of the refusals is closed, with next
    to nothing kept for it."""
    with locked(trial) as keeper:
        before = stat(keeper, "client_output_buffer_limit_disconnections")
        for _ in range(4):
            sock = connect(trial.server.address)
            _, is_closed = send_until_closed(sock, b"x\r\n" * 20_000, 64 * MB, DEADLINE_S)
            assert is_closed, "it was let be"
            sock.close()
        closed = stat(keeper, "client_output_buffer_limit_disconnections") - before
        assert closed == 4, closed


@scenario()
def unauthenticated_input(trial):
    """Without the password a pipeline is left in the kernel, not kept; with it in front it runs."""
    with locked(trial) as keeper:
        # So that the commands wait: what they are answered is held back.
        keeper.want(b"OK", "CONFIG", "SET", "auth_failure_delay", 10_000)
        socks = [connect(trial.server.address) for _ in range(4)]
        wrong = encode("AUTH", "wrong")
        for sock in socks:
            send_until_closed(sock, wrong * 5_000, 32 * MB, 2)
        lines = keeper.call("CLIENT", "LIST").decode().splitlines()
        kept = [int(word.partition("=")[2]) for line in lines for word in line.split()
                if word.startswith("qbuf=")]
        assert max(kept) < 2 * MB, f"{max(kept)} bytes are kept of one"
        for sock in socks:
            abort(sock)
        keeper.want(b"OK", "CONFIG", "SET", "auth_failure_delay", 0)
        with trial.client() as client:
            client.write(encode("AUTH", PASSWORD) + encode("INCR", "n") * 200_000)
            assert client.read() == b"OK"
            for number in range(200_000):
                assert client.read() == number + 1
        keeper.want(1, "DEL", "n")


@scenario()
def too_much_before_the_password(trial):
    """More than ten arguments, or one above 16 KB, ends the connection."""
    with locked(trial):
        for raw, word in ((b"*11\r\n", "multibulk"), (b"*2\r\n$16385\r\n", "bulk")):
            with trial.client() as client:
                client.write(raw)
                reply = client.read()
                assert is_error(reply, f"unauthenticated {word} length"), reply
                assert client.at_end()


@scenario()
def wrong_passwords(trial):
    """Guesses cost time, each of them, and nobody else any: a right password is heard at once."""
    with locked(trial, "auth_failure_delay", 300):
        with trial.client() as client:
            clock = Stopwatch()
            client.write(encode("AUTH", "a") + encode("PING") + encode("AUTH", "b"))
            for word in ("WRONGPASS", "NOAUTH", "WRONGPASS"):
                reply = client.read()
                assert is_error(reply, word), reply
            assert clock.seconds() > 0.5, f"two guesses in {clock.seconds():.2f} s"
            client.want(b"OK", "AUTH", PASSWORD)
            client.want(b"PONG", "PING")
            # One who is in and guesses on waits too, also for many at once.
            clock = Stopwatch()
            client.write(encode("AUTH", "a") * 3 + encode("PING"))
            for _ in range(3):
                assert isinstance(client.read(), ErrorReply)
            assert client.read() == b"PONG"
            assert clock.seconds() > 0.8, f"three guesses in {clock.seconds():.2f} s"


@scenario("--maxclients", "120")
def guessers_that_close(trial):
    """Who sends megabytes of wrong passwords and closes keeps no place that others want, whether a
    password is asked of everybody or not; who guesses once and closes its side is answered."""
    with trial.client() as keeper:
        keeper.want(b"OK", "CONFIG", "SET", "auth_failure_delay", 3_000)
        for password in ("", PASSWORD):
            keeper.want(b"OK", "CONFIG", "SET", "requirepass", password)
            crowd = [connect(trial.server.address) for _ in range(100)]
            # In pieces, all of them by turns: what is taken does not depend on when it ends.
            guess = encode("AUTH", "nobody", "wrong") * 2_000
            for sock in crowd:
                sock.setblocking(False)
            for _ in range(20):
                for sock in crowd:
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        sock.send(guess)
            for sock in crowd:
                sock.close()
            until(lambda: stat(keeper, "connected_clients") < 10, "their places are free", 60)
        keeper.want(b"OK", "CONFIG", "SET", "requirepass", PASSWORD, "auth_failure_delay", 10)
        with trial.client() as client:
            client.write(encode("AUTH", "wrong") + encode("PING"))
            client.half_close()
            answers = bytes(client.rest())
            assert answers.count(b"WRONGPASS") == answers.count(b"NOAUTH") == 1, answers
        keeper.want(b"OK", "CONFIG", "SET", "requirepass", "")


@scenario("--maxclients", "4000")
def guessing_crowd(trial):
    """Thousands guess without end, some go in the midst of it: others are served meanwhile."""
    count = min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    with locked(trial, "auth_timeout", 0):
        crowd = [connect(trial.server.address, source=(f"127.0.3.{1 + number // 1000}", 0))
                 for number in range(count)]
        for sock in crowd:
            sock.sendall(encode("AUTH", "a guess") * 100)
        for _ in range(20):
            with trial.client() as client:
                client.want(b"OK", "AUTH", PASSWORD)
                client.want(b"PONG", "PING")
        for sock in crowd[::2]:
            abort(sock)
        answered = crowd[1].recv(1 << 16)
        assert answered.startswith(b"-WRONGPASS"), answered
        for sock in crowd[1::2]:
            abort(sock)


@scenario("--maxclients", "20100", slack_mb=200)
def half_logins(trial):
    """20,000 connections, or as many as descriptors allow, send garbage or half a command and fall
    silent: others are served, and after `auth_timeout` all of them are gone, and only they."""
    count = min(20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    pieces = [b"", b"*3\r\n$4\r\nAUTH\r\n$16384\r\n" + b"x" * 4000, encode("AUTH", "x")[:-1],
              b"garbage", b"*1\r", b"\r\n" * 50]
    with locked(trial, "auth_timeout", 0) as keeper, trial.client() as late:
        # It is in, and counted.
        assert is_error(late.call("PING"), "NOAUTH")
        before = stat(keeper, "connected_clients")
        crowd = [connect(trial.server.address, source=(f"127.0.4.{1 + number // 1000}", 0))
                 for number in range(count)]
        for number, sock in enumerate(crowd):
            sock.sendall(pieces[number % len(pieces)])
        until(lambda: stat(keeper, "connected_clients") >= before + count, "all are in")
        trial.note(f"{count} connections, {trial.rss_grown() >> 20} MB")
        with trial.client() as client:
            client.want(b"OK", "AUTH", PASSWORD)
            client.want(b"RESET", "RESET")
            late.want(b"OK", "AUTH", PASSWORD)
            keeper.want(b"OK", "CONFIG", "SET", "auth_timeout", 1)
            until(lambda: stat(keeper, "connected_clients") <= before + 1, "they are closed")
            # Who was in is let be, as connections of a pool are.
            client.want(b"OK", "AUTH", PASSWORD)
        late.want(b"PONG", "PING")
        assert stat(keeper, "auth_timeout_disconnections") >= count
        for sock in crowd:
            sock.close()


@scenario("--maxclients", "20100", watched=False, slack_mb=200)
def half_logins_end_by_themselves(trial):
    """Nothing else happens, and still who is late is closed."""
    with locked(trial, "auth_timeout", 1) as keeper:
        with trial.client() as client:
            keeper.call("PING")
            assert client.rest() == b""


@scenario("--primary_port_http_enabled", "no")
def web_page(trial):
    """A page makes a browser send commands to a server that speaks no HTTP: HTTP around them, and
    nothing of it runs. What stands before the first telling line could not be told from
    commands."""
    bodies = (
        b"POST / HTTP/1.1\r\nHost: localhost:6379\r\nContent-Length: 20\r\n\r\n",
        b"PUT / HTTP/1.1\r\nhOST: localhost\r\n\r\n",
        b"GET /?q=1 HTTP/1.1\r\nAccept: */*\r\nHost: x\r\n\r\n",
        b"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    inner = encode("SET", "smuggled", "1") + b"SET smuggled 2\r\n"
    with trial.client() as other:
        for body in bodies:
            for size in (len(body) + len(inner), 1):
                answers = converse(trial, body + inner, size)
                assert b"OK" not in answers, answers
                other.want(0, "EXISTS", "smuggled")
        assert "SECURITY ATTACK" in trial.server.log_text()


def converse(trial, raw, size):
    """Sends in pieces of this size until the server closes; what it said."""
    with trial.client() as client:
        try:
            for at in range(0, len(raw), size):
                client.write(raw[at:at + size])
        except (ConnectionResetError, BrokenPipeError):
            pass
        try:
            return bytes(client.rest())
        except (ConnectionResetError, Closed):
            return b""


@scenario()
def password_in_force_at_once(trial):
    """Once CONFIG SET has answered, nobody who connects is let in without the password, however
    busy the workers are."""
    over = threading.Event()

    def keep_busy():
        with trial.client() as client:
            while not over.is_set():
                client.write(encode("PING") * 5_000)
                client.count_bytes(5_000 * len(b"+PONG\r\n"))

    busy = [threading.Thread(target=keep_busy) for _ in range(4)]
    for thread in busy:
        thread.start()
    try:
        with trial.client() as keeper:
            for _ in range(150):
                keeper.want(b"OK", "CONFIG", "SET", "requirepass", "secret")
                for _ in range(4):
                    with trial.client() as guest:
                        assert is_error(guest.call("GET", "k"), "NOAUTH"), "let in"
                keeper.want(b"OK", "CONFIG", "SET", "requirepass", "")
    finally:
        over.set()
        for thread in busy:
            thread.join()
