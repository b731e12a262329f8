"""MIGRATE on bad days: the target does not answer, answers rubbish, or goes away in the midst; the
client goes away; the server stops meanwhile."""

import signal
import socket
import threading

from client import encode
from server import DEADLINE_S, until
from trial import Stopwatch, is_error, scenario

# As many as the slow lane has threads at the most, and more.
MANY = 70
HOUR_MS = 3_600_000
SOON_S = 5.0


class Target:
    """Something that listens, and does with each connection what it is told."""

    def __init__(self, serve):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.listener.getsockname()[1]
        self.serve, self.connections = serve, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            try:
                self.serve(connection)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.connections:
            connection.close()


def silent(_connection):
    """Reads nothing, answers nothing."""


def begin(client, target, key, timeout_ms=HOUR_MS, *options):
    """Sends a MIGRATE, and does not wait for the answer."""
    client.write(encode("MIGRATE", "127.0.0.1", target.port, key, 0, timeout_ms, *options))


def pinned(client, key, value):
    """Begins a write to a key that is being sent: it waits."""
    client.write(encode("SET", key, value))


@scenario(slack_mb=None)
def migrate_into_a_black_hole(trial):
    """Very many MIGRATEs that nobody answers hold up nobody but writers of their keys, and end with
    their clients."""
    with trial.client() as other, Target(silent) as target:
        for n in range(MANY):
            other.want(b"OK", "SET", f"k{n}", "v")
        other.want(1, "SADD", "set", *["m"])
        clients = [trial.client() for _ in range(MANY)]
        for n, client in enumerate(clients):
            begin(client, target, f"k{n}")
        until(lambda: len(target.connections) == MANY, "all are on their way")
        watch = Stopwatch()
        # What the lane runs, and what needs everything.
        assert len(other.call("KEYS", "*")) == MANY + 1
        other.want(b"OK", "SWAPDB", 1, 2)
        other.want([b"m"], "SORT", "set", "ALPHA")
        other.want(b"v", "GET", "k0")
        other.want(b"OK", "SET", "free", "v")
        other.want(b"OK", "MSET", "free", "w", "f", "x")
        with trial.client() as writer:
            pinned(writer, "k3", "new")
            with trial.client() as killer:
                for n, client in enumerate(clients):
                    name = client.sock.getsockname()
                    killer.want(b"OK", "CLIENT", "KILL", f"{name[0]}:{name[1]}")
                assert writer.read() == b"OK"
                killer.want(b"new", "GET", "k3")
                killer.want(b"v", "GET", "k4")
                until(lambda: b"migrate_cached_sockets:0" in killer.call("INFO", "stats"), "closed")
        trial.note(f"{MANY} ended {watch.seconds():.1f} s after they hung")
        for client in clients:
            client.close()
    # The control plane stays.
    trial.server.base_fds = trial.server._settled_fds()


@scenario(watched=False, slack_mb=None)
def stop_while_migrating(trial):
    """SIGTERM ends a server in time that waits for the answers of many."""
    with Target(silent) as target:
        clients = [trial.client() for _ in range(MANY)]
        for n, client in enumerate(clients):
            client.want(b"OK", "SET", f"k{n}", "v")
            begin(client, target, f"k{n}")
        clients.append(trial.client())
        clients[-1].want(b"OK", "MULTI")
        clients[-1].write(encode("SET", "held", "v"))
        clients[-1].write(encode("MIGRATE", "127.0.0.1", target.port, "held", 0, HOUR_MS))
        clients[-1].write(encode("EXEC"))
        until(lambda: len(target.connections) == MANY + 1, "all are on their way")
        watch = Stopwatch()
        trial.server.process.send_signal(signal.SIGTERM)
        assert trial.server.process.wait(DEADLINE_S) == 0
        assert watch.seconds() < SOON_S + 5, f"it took {watch.seconds():.1f} s"
        trial.note(f"{watch.seconds():.1f} s")
        for client in clients:
            client.close()
    trial.server.start()


@scenario(slack_mb=None)
def migrate_to_a_liar(trial):
    """A target that closes, or answers rubbish or too little: the keys stay, and the client hears
    of it."""
    answers = [
        (b"", "IOERR error or timeout reading"),
        (b"+OK", "IOERR error or timeout reading"),
        (b"\n" * 5, "ERR Target instance replied with error: "),
        (b"+OK\r\n", "IOERR error or timeout reading"),
        (b"-" * 100_000, "IOERR error or timeout"),
        (b"-ERR no\r\n" * 3, "ERR Target instance replied with error: ERR no"),
        (b"+OK\r\n-NO\r\n+OK\r\n", "ERR Target instance replied with error: NO"),
    ]
    with trial.client() as client:
        for answer, error in answers:

            def lie(connection, answer=answer):
                connection.recv(1 << 16)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)

            with Target(lie) as target:
                client.want(b"OK", "MSET", "a", "1", "b", "2")
                got = client.call("MIGRATE", "127.0.0.1", target.port, "", 0, 1000,
                                  "KEYS", "a", "b")
                left = client.call("EXISTS", "a", "b")
                assert is_error(got, error), (answer, got)
                acknowledged = answer.count(b"+OK\r\n") - 1 if b"+OK\r\n" in answer else 0
                assert left == 2 - max(acknowledged, 0), (answer, left)
        with Target(silent) as target:
            client.want(b"OK", "SET", "a", "1")
            watch = Stopwatch()
            got = client.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 300)
            assert is_error(got, "IOERR error or timeout reading"), got
            assert watch.seconds() > 0.25
            client.want(b"1", "GET", "a")
    until(lambda: not _has_links(trial), "cached connections are closed")
    trial.server.base_fds = trial.server._settled_fds()


def _has_links(trial):
    with trial.client() as client:
        return b"migrate_cached_sockets:0" not in client.call("INFO", "stats")
