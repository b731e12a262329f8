"""Buffers of connections: one reply without end, many half commands, one who watches and does not
read; and what is slow because it is large is logged."""

from client import Closed, encode
from server import MB, until
from trial import LONGEST_WAIT_FOR_HUGE_S, scenario


def peak_mb(server):
    """The most memory the server ever had resident."""
    status = open(f"/proc/{server.process.pid}/status", encoding="ascii").read()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) >> 10


@scenario("--client-output-buffer-limit", "normal 64mb 0 0", slack_mb=None,
          longest_wait_s=LONGEST_WAIT_FOR_HUGE_S)
def endless_reply(trial):
    """One command asks for 10 GB: its connection is closed before the memory is taken."""
    with trial.client() as client, trial.client() as other:
        other.want(10 * MB, "SETRANGE", "k", 10 * MB - 1, "x")
        client.write(encode("MGET", *["k"] * 1000))
        try:
            client.rest()
        except Closed:
            pass
        other.want(10 * MB, "STRLEN", "k")
    peak = peak_mb(trial.server)
    trial.note(f"{peak} MB at the most")
    assert peak < 400, f"{peak} MB were resident for a reply that may have 64"


@scenario("--client-output-buffer-limit", "normal 1mb 0 0", slack_mb=None,
          longest_wait_s=LONGEST_WAIT_FOR_HUGE_S)
def one_long_reply(trial):
    """One value is longer than the output may be: it is not copied to find that out, what stands
    behind it is not run, and who may get more by a subscription is closed all the same."""
    with trial.client() as client:
        client.want(200 * MB, "SETRANGE", "k", 200 * MB - 1, "x")
        before = peak_mb(trial.server)
        subscribe = encode("HELLO", "3") + encode("SUBSCRIBE", "news")
        for first in (b"", encode("MULTI"), subscribe):
            behind = encode("EXEC") + encode("SET", "behind", "v")
            with trial.client() as greedy:
                greedy.write(first + encode("GET", "k") + behind)
                assert len(greedy.rest()) < 2 * MB
            client.want(0, "EXISTS", "behind")
        grown = peak_mb(trial.server) - before
        assert grown < 100, f"{grown} MB more for replies that may have one"


@scenario("--maxmemory-clients", "40mb", slack_mb=None, longest_wait_s=LONGEST_WAIT_FOR_HUGE_S)
def clients_together(trial):
    """Many clients with half a command each: the largest go, who asked not to be evicted stays."""
    half = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (20 * MB)
    with trial.client() as safe:
        safe.want(b"OK", "CLIENT", "NO-EVICT", "on")
        safe.write(half + b"x" * (8 * MB))
        crowd = [trial.client() for _ in range(20)]
        for client in crowd:
            try:
                client.write(half + b"x" * (4 * MB))
            except OSError:
                pass
        with trial.client() as other:
            until(lambda: stat(other, "evicted_clients") >= 5, "clients are evicted")
            other.want(b"OK", "SET", "small", "v")
        safe.write(b"x" * (12 * MB) + b"\r\n")
        assert safe.read() == b"OK"
        safe.want(20 * MB, "STRLEN", "k")
        for client in crowd:
            client.close()


@scenario(slack_mb=96)
def the_largest_client_goes(trial):
    """maxmemory-clients is lowered: of all clients the largest goes, whichever worker it has, be it
    for what it sent, or for what waits behind MULTI; the small stay."""
    with trial.client() as client:
        for number in range(4):
            small = [trial.client() for _ in range(8)]
            for one in small:
                one.write(b"*2\r\n$4\r\nECHO\r\n$100000\r\n" + b"x" * 50_000)
            large = trial.client()
            if number % 2:
                large.want(b"OK", "MULTI")
                for _ in range(8):
                    large.want(b"QUEUED", "SET", "k", "v" * MB)
            else:
                large.write(b"*2\r\n$4\r\nECHO\r\n$9000000\r\n" + b"x" * (8 * MB))
            until(lambda: used_by_clients(client) > 8 * MB, "it is seen")
            client.want(b"OK", "CONFIG", "SET", "maxmemory-clients", 6 * MB)
            until(lambda number=number: stat(client, "evicted_clients") == number + 1, "it goes")
            assert not large.rest()
            for one in small:
                one.write(b"x" * 50_000 + b"\r\n")
                assert len(one.read()) == 100_000
                one.close()
            large.close()
            client.want(b"OK", "CONFIG", "SET", "maxmemory-clients", 0)


@scenario(slack_mb=96)
def only_half_of_the_clients(trial):
    """maxmemory-clients is lowered to what half of the clients take, at all workers: no more than
    these go."""
    with trial.client() as client:
        gone = 0
        for _ in range(20):
            crowd = [trial.client() for _ in range(10)]
            before = used_by_clients(client)
            for one in crowd:
                one.write(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n" + b"x" * 900_000)
            until(lambda: used_by_clients(client) - before >= 10_000_000, "it is seen")
            each = (used_by_clients(client) - before) // 10
            client.want(b"OK", "CONFIG", "SET", "maxmemory-clients", before + each * 11 // 2)
            gone += 5
            until(lambda: stat(client, "evicted_clients") >= gone, "half of them go")
            client.want(b"OK", "CONFIG", "SET", "maxmemory-clients", 0)
            assert stat(client, "evicted_clients") == gone, "and no more"
            for one in crowd:
                one.close()
            until(lambda: used_by_clients(client) < 1_000_000, "all have left")


@scenario("--client-query-buffer-limit", "8mb", slack_mb=96)
def queue_without_end(trial):
    """What waits behind MULTI counts as input: its client is closed at the limit."""
    with trial.client() as client, trial.client() as other:
        client.want(b"OK", "MULTI")
        taken = 0
        try:
            for _ in range(100):
                if client.call("SET", "k", "v" * MB) != b"QUEUED":
                    break
                taken += 1
        except (Closed, ConnectionError):
            pass
        assert 4 <= taken <= 8, f"{taken} MB were queued where 8 are allowed"
        other.want(0, "EXISTS", "k")
        assert stat(other, "client_query_buffer_limit_disconnections") == 1


@scenario("--maxmemory-clients", "24mb", "--client-output-buffer-limit",
          "normal 0 0 0 replica 0 0 0 pubsub 0 0 0", slack_mb=None)
def slow_readers_of_every_class(trial):
    """Who reads nothing of what it asked for, subscribed to, watches or tracks is evicted when all
    together take too much, though its class has no limit."""
    with trial.client() as writer:
        writer.want(b"OK", "CLIENT", "NO-EVICT", "ON")
        writer.want(b"OK", "SET", "large", "v" * (4 * MB))
        waits = {
            "normal": (lambda slow: slow.write(encode("GET", "large") * 50), lambda: None),
            "pubsub": (lambda slow: slow.want([b"subscribe", b"news", 1], "SUBSCRIBE", "news"),
                       lambda: writer.call("PUBLISH", "news", "m" * MB)),
            "monitor": (lambda slow: slow.want(b"OK", "MONITOR"),
                        lambda: writer.call("SET", "k" * MB, "v" * MB)),
            "tracking": (track_all, lambda: writer.call("SET", "k" * MB, "v")),
        }
        for name, (begin, feed) in waits.items():
            slow = [trial.client() for _ in range(8)]
            for one in slow:
                begin(one)

            def is_evicted(feed=feed):
                feed()
                return stat(writer, "evicted_clients") > evicted

            evicted = stat(writer, "evicted_clients")
            until(is_evicted, f"a slow reader ({name}) is evicted")
            for one in slow:
                one.close()
            until(lambda: used_by_clients(writer) < 8 * MB, "what they took is back")
        assert peak_mb(trial.server) < 500, f"{peak_mb(trial.server)} MB"


def track_all(client):
    client.call("HELLO", 3)
    client.want(b"OK", "CLIENT", "TRACKING", "ON", "BCAST")


@scenario("--maxmemory-clients", "16mb", "--maxclients", "4000", slack_mb=None)
def thousands_of_half_commands(trial):
    """Two thousand clients with 64 KB of half a command each: so many go that the others stay
    within the limit, and they are served."""
    half = b"*2\r\n$4\r\nECHO\r\n$100000\r\n" + b"x" * 65_000
    crowd = []
    with trial.client() as other:
        other.want(b"OK", "CLIENT", "NO-EVICT", "ON")
        for _ in range(2000):
            client = trial.client()
            crowd.append(client)
            try:
                client.write(half)
            except OSError:
                pass
        until(lambda: stat(other, "evicted_clients") > 1000, "most are evicted")
        until(lambda: used_by_clients(other) < 17 * MB, "the others are within the limit")
        other.want(b"OK", "SET", "k", "v")
        trial.note(f"{stat(other, 'evicted_clients')} of {len(crowd)} went")
    for client in crowd:
        client.close()


def used_by_clients(client):
    return stat(client, "mem_clients_normal", "memory")


def stat(client, name, section="stats"):
    lines = client.call("INFO", section).decode().splitlines()
    return int(next(line for line in lines if line.startswith(name + ":")).split(":")[1])


@scenario("--client-output-buffer-limit", "replica 8mb 0 0", slack_mb=None)
def monitor_that_does_not_read(trial):
    """Who watches and does not read is closed at the limit for replicas."""
    with trial.client() as watcher, trial.client() as client:
        watcher.want(b"OK", "MONITOR")
        for number in range(2_000):
            client.want(b"OK", "SET", f"key:{number}", "v" * 30_000)
        # Another worker may serve it, which hears of it later.
        until(lambda: stat(client, "client_output_buffer_limit_disconnections") == 1,
              "it is closed for its output")
        assert len(watcher.rest()) < 60 * MB


@scenario("--slowlog-log-slower-than", "2000", slack_mb=None,
          longest_wait_s=LONGEST_WAIT_FOR_HUGE_S)
def slow_for_its_size(trial):
    """A GET that is slow only because the value is huge stands in the slow log."""
    with trial.client() as client:
        client.want(300 * MB, "SETRANGE", "k", 300 * MB - 1, "x")
        client.want(b"OK", "SLOWLOG", "RESET")
        client.write(encode("GET", "k") + encode("SLOWLOG", "GET"))
        assert len(client.read()) == 300 * MB
        entries = client.read()
        assert [b"GET", b"k"] in [entry[3] for entry in entries], entries
