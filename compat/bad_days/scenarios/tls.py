"""Strangers at a port with TLS: handshakes that end nowhere, many at once, readers that do not."""

import contextlib
import pathlib
import resource
import ssl
import sys

from client import abort, connect
from ports import free_port
from server import MB, until
from subject import Watcher
from trial import scenario

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tls"))

from certificates import Certificates  # noqa: E402


@contextlib.contextmanager
def with_tls(trial, *flags):
    """Starts the server with TLS beside the plain port; gives that address, and a client's needs.
    Another client's answers are timed meanwhile, and the server is looked at afterwards."""
    server, port = trial.server, free_port()
    certificates = Certificates(server.directory)
    server.flags += ["--tls-port", str(port), "--tls-auth-clients", "no", *flags,
                     *certificates.settings()]
    server.start()
    watcher = Watcher(server)
    until(lambda: server.fd_count() > server.base_fds, "watcher is in")
    context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    longest = None
    try:
        yield ("127.0.0.1", port), context
    finally:
        longest = watcher.finish()
    assert longest is not None, "another client got no answer any more"
    assert longest < 5.0, f"another client waited for {longest:.2f} s"
    trial.note(f"others waited {longest * 1000:.0f} ms")
    trial.look_after(200)


def hello(context):
    """How a handshake begins."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def in_tls(address, context):
    return context.wrap_socket(connect(address), server_hostname="localhost")


def pings(sock):
    sock.sendall(b"PING\r\n")
    assert sock.recv(100) == b"+PONG\r\n"


def told(trial, name):
    with trial.client() as client:
        text = client.call("INFO", "everything").decode()
    return int(text.split(f"\r\n{name}:")[1].split("\r\n")[0])


@scenario(started=False, watched=False)
def stalled_handshakes(trial):
    """20,000 handshakes, or as many as descriptors allow, stop half-way: others are served, and
    after `tls_handshake_timeout` all of them are gone, and only they."""
    count = min(20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    with with_tls(trial, "--maxclients", "20100", "--tls_handshake_timeout", "0") as (address,
                                                                                      context):
        whole = hello(context)
        pieces = [b"", whole[:1], whole[:5], whole[: len(whole) // 2], whole[:-1], whole]
        early = in_tls(address, context)
        pings(early)
        crowd = [connect(address, source=(f"127.0.5.{1 + number // 1000}", 0))
                 for number in range(count)]
        for number, sock in enumerate(crowd):
            sock.sendall(pieces[number % len(pieces)])
        until(lambda: told(trial, "connected_clients") >= count, "all are in")
        # Those who have sent all of it have been answered.
        assert crowd[5].recv(1)
        trial.note(f"{count} connections, {trial.rss_grown() >> 20} MB")
        with in_tls(address, context) as late:
            pings(late)
            with trial.client() as client:
                client.want(b"OK", "CONFIG", "SET", "tls_handshake_timeout", 1)
            until(lambda: told(trial, "connected_clients") <= 5, "they are closed")
            pings(late)
        pings(early)
        early.close()
        assert told(trial, "tls_handshakes_late") == count
        for sock in crowd:
            sock.close()


@scenario(started=False, watched=False)
def handshakes_at_once(trial):
    """Thousands send all of their first message at one moment, twice, and some go in the midst."""
    count = min(3_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    with with_tls(trial, "--tls_handshake_timeout", "0") as (address, context):
        whole = hello(context)
        for _ in range(2):
            crowd = [connect(address, source=(f"127.0.6.{1 + number // 1000}", 0))
                     for number in range(count)]
            for sock in crowd:
                sock.sendall(whole)
            with in_tls(address, context) as other:
                pings(other)
            for sock in crowd[::2]:
                abort(sock)
            assert crowd[1].recv(1)
            for sock in crowd[1::2]:
                sock.close()


@scenario(started=False, watched=False)
def readers_that_do_not_read(trial):
    """Sealed replies of megabytes are asked for and not read: what is kept is bounded."""
    with with_tls(trial) as (address, context):
        with trial.client() as client:
            client.want(b"OK", "SET", "k", b"v" * (8 * MB))
        crowd = [in_tls(address, context) for _ in range(20)]
        for sock in crowd:
            sock.sendall(b"GET k\r\n" * 10)
        until(lambda: told(trial, "total_commands_processed") > 20, "they are served")
        trial.note(f"{trial.rss_grown() >> 20} MB for 20 clients")
        assert trial.rss_grown() < 20 * 3 * 8 * MB
        for sock in crowd[::2]:
            abort(sock)
        for sock in crowd[1::2]:
            left = 10 * (len(b"$8388608\r\n") + 8 * MB + 2)
            while left:
                left -= len(sock.recv(min(left, MB)))
            pings(sock)
            sock.close()
        with trial.client() as client:
            client.want(1, "DEL", "k")


@scenario(started=False, watched=False)
def killed_with_bytes_that_wait(trial):
    """CVE-2026-56684, CVE-2026-81934: one client kills others, and itself, while records of theirs
    that hold many commands have been opened and not yet run."""
    with with_tls(trial) as (address, context):
        with trial.client() as client:
            client.want(b"OK", "SET", "k", b"v" * 100_000)
        for number in range(10):
            crowd = [in_tls(address, context) for _ in range(12)]
            # All have been accepted, and their replies fit: so the kills run.
            for sock in crowd:
                pings(sock)
            for sock in crowd:
                sock.sendall(b"PING\r\nGET k\r\n" * 5)
            skip = b"no" if number % 2 else b"yes"
            names = [b"%s:%d" % (sock.getsockname()[0].encode(), sock.getsockname()[1])
                     for sock in reversed(crowd)]
            # In one record, itself last: who kills has commands behind its kills.
            kills = [b"CLIENT KILL ADDR %s SKIPME %s\r\nPING\r\n" % (name, skip) for name in names]
            crowd[0].sendall(b"".join(kills))
            for sock in crowd[1:]:
                read_to_the_end(sock)
            crowd[0].close()
        with in_tls(address, context) as other:
            pings(other)


def read_to_the_end(sock):
    try:
        while sock.recv(MB):
            pass
    except (ConnectionError, ssl.SSLError):
        pass
    sock.close()
