"""MONITOR among many who have nothing to do with it. One that does not read: `buffers`."""

import threading

from client import Closed, connect, encode
from server import until
from trial import scenario

from .buffers import peak_mb

CROWD = 3_000
WRITERS = 4
COMMANDS = 40_000
LIMIT_MB = 16
# What may wait between two workers (`FEED_BYTES`), twice: a buffer that grows is there two times.
FEEDS_MB = 2 * 32


@scenario("--client-output-buffer-limit", f"replica {LIMIT_MB}mb 0 0", slack_mb=96)
def a_monitor_in_a_crowd(trial):
    """3,000 idle connections and a monitor, while others send long pipelines: the monitor sees
    every command, or is closed at its limit, and what is queued for it is bounded."""
    crowd = [connect(trial.server.address, source=(f"127.0.3.{1 + number // 1000}", 0))
             for number in range(CROWD)]
    until(lambda: trial.server.fd_count() >= trial.server.base_fds + CROWD, "all are accepted")
    clients = [trial.client() for _ in range(WRITERS)]
    before_mb = peak_mb(trial.server)
    with trial.client() as monitor:
        monitor.want(b"OK", "MONITOR")
        seen = []
        watching = threading.Thread(target=watch, args=(monitor, seen))
        writing = [threading.Thread(target=echo, args=(client,)) for client in clients]
        for thread in [watching, *writing]:
            thread.start()
        for thread in [*writing, watching]:
            thread.join()
    grown_mb = peak_mb(trial.server) - before_mb
    trial.note(f"{len(seen)} commands seen, {grown_mb:.0f} MB at most")
    assert grown_mb < FEEDS_MB + 2 * LIMIT_MB + 32, f"the server grew by {grown_mb:.0f} MB"
    for one in [*clients, *crowd]:
        one.close()


def watch(monitor, seen):
    """Reads what a monitor is shown, to the last of the commands or to its end."""
    try:
        while len(seen) < WRITERS * COMMANDS:
            if b'"ECHO"' in monitor.read()[:60]:
                seen.append(None)
    except (Closed, ConnectionError):
        pass


def echo(client):
    """Sends all its commands without waiting for a reply; then reads all of them."""
    text = b"x" * 1_000
    replies = COMMANDS * len(b"$1000\r\n%b\r\n" % text)
    reading = threading.Thread(target=client.count_bytes, args=(replies,))
    reading.start()
    client.write(encode("ECHO", text) * COMMANDS)
    reading.join()
