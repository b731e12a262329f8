"""Clients that come in crowds, leave early, or never speak."""

import random
import resource
import select
import threading

from client import Client, Closed, abort, connect, encode, shut_writing
from server import DEADLINE_S, MB, until
from trial import Skip, Stopwatch, fill, is_error, scenario

PING = encode("PING")


def exchange(sock, raw, wanted):
    sock.sendall(raw)
    got = b""
    while len(got) < len(wanted):
        piece = sock.recv(1 << 16)
        assert piece, "the server hung up"
        got += piece
    assert got == wanted, got[:60]


@scenario()
def connects_serial(trial):
    """10,000 connects and disconnects, one after the other; each second one by a reset."""
    for number in range(10_000):
        sock = connect(trial.server.address, source=(f"127.0.0.{2 + number % 8}", 0))
        if number % 4 == 0:
            exchange(sock, PING, b"+PONG\r\n")
        if number % 2:
            abort(sock)
        else:
            sock.close()


@scenario()
def connects_parallel(trial):
    """10,000 more, by four threads, fifty open in each at any time."""
    faults = []

    def come_and_go(worker):
        try:
            source = f"127.0.1.{worker + 1}"
            for _ in range(50):
                socks = [connect(trial.server.address, source=(source, 0)) for _ in range(50)]
                for sock in socks:
                    sock.sendall(PING)
                for sock in socks[::5]:
                    assert sock.recv(64) == b"+PONG\r\n"
                for sock in socks:
                    abort(sock)
        except Exception as why:
            faults.append(why)

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]


@scenario("--maxclients", "10100", slack_mb=96)
def idle_crowd(trial):
    """10,000 idle connections: what each costs, and that the others are served."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(10_000, limit - 300)
    if count < 10_000:
        trial.note(f"only {count} connections: the limit of descriptors is {limit}")
    crowd = [connect(trial.server.address, source=(f"127.0.2.{1 + number // 1000}", 0))
             for number in range(count)]
    wanted = trial.server.base_fds + count
    until(lambda: trial.server.fd_count() >= wanted, "all are accepted")
    each = trial.rss_grown() / count
    for sock in random.Random(3).sample(crowd, 200):
        exchange(sock, PING, b"+PONG\r\n")
    with trial.client() as other:
        for _ in range(200):
            other.want(b"PONG", "PING")
    trial.note(f"{each:.0f} bytes of resident memory for each of {count}")
    assert each < 16_384, f"{each:.0f} bytes for an idle connection"
    for sock in crowd:
        abort(sock)


@scenario()
def half_close(trial):
    """A client shuts down its sending side after a pipeline: all answers arrive, then the end."""
    for count in (1, 100, 100_000):
        with trial.client() as client:
            writer = threading.Thread(target=send_and_shut, args=(client.sock, PING * count))
            writer.start()
            answer = client.rest()
            writer.join()
            assert answer == b"+PONG\r\n" * count, f"{len(answer)} bytes of {7 * count}"
    with trial.client() as client:
        client.want(b"OK", "SET", "k", b"v" * (4 * MB))
        client.write(encode("GET", "k") * 5)
        client.half_close()
        assert len(client.rest()) == 5 * (4 * MB + len("$4194304\r\n\r\n"))


def send_and_shut(sock, raw):
    sock.sendall(raw)
    shut_writing(sock)


@scenario()
def half_close_at_once(trial):
    """Only the end comes, or half a command and the end: no answer, the connection goes."""
    for raw in (b"", encode("GET", "k")[:9]):
        with trial.client() as client:
            client.write(raw)
            client.half_close()
            assert client.rest() == b"", f"an answer to {raw!r}"


@scenario()
def quit_in_a_pipeline(trial):
    """What follows QUIT is not run; what precedes it is answered."""
    with trial.client() as client:
        client.write(encode("SET", "k", "1") + encode("QUIT") + encode("SET", "k", "2"))
        assert client.rest() == b"+OK\r\n+OK\r\n"
    with trial.client() as client:
        client.want(b"1", "GET", "k")


@scenario("--maxclients", "20", watched=False)
def too_many_clients(trial):
    """maxclients: one more is told so and dropped; when one leaves another may come."""
    clients = [trial.client() for _ in range(20)]
    for client in clients:
        client.want(b"PONG", "PING")
    for _ in range(30):
        with trial.client() as client:
            answer = client.rest()
            assert answer == b"-ERR max number of clients reached\r\n", answer
    for client in clients:
        client.want(b"PONG", "PING")
    clients.pop().close()
    until(lambda: is_served(trial.server.address), "there is room again")
    last = clients.pop()
    for client in clients:
        client.close()
    # Who comes next finds room only when the server has noticed that these have gone.
    until(lambda: b"\r\nconnected_clients:1\r\n" in last.call("INFO", "clients"), "they have gone")
    last.close()


def is_served(address):
    try:
        with Client(address) as client:
            return client.call("PING") == b"PONG"
    except (OSError, Closed):
        return False


@scenario("--maxclients", "50", watched=False, descriptors=(128, 1000), slack_mb=96)
def more_clients_than_at_first(trial):
    """CONFIG SET maxclients lets more in at once, also beyond the descriptors there were."""
    with trial.client() as client:
        reply = client.call("CONFIG", "SET", "maxclients", "400")
        if is_error(reply, "the system allows"):
            raise Skip("the limit of descriptors can not be raised here")
        assert reply == b"OK", reply
        clients = [trial.client() for _ in range(300)]
        for one in clients:
            one.want(b"PONG", "PING")
        assert "cannot accept" not in trial.server.log_text(), trial.server.log_text()[-400:]
        for one in clients:
            one.close()


@scenario("--timeout", "1", watched=False)
def idle_timeout(trial):
    """`timeout`: the silent are dropped, the busy stay."""
    silent = [trial.client() for _ in range(20)]
    clock = Stopwatch()
    with trial.client() as busy:
        left = set(client.sock for client in silent)
        while left:
            busy.want(b"PONG", "PING")
            ready, _, _ = select.select(list(left), [], [], 0.05)
            left -= {sock for sock in ready if sock.recv(16) == b""}
            assert clock.seconds() < DEADLINE_S, f"{len(left)} silent clients are still there"
        assert clock.seconds() > 0.9, f"dropped after {clock.seconds():.2f} s of silence"
        busy.want(b"PONG", "PING")


@scenario("--client-output-buffer-limit", "normal 1mb 0 0")
def monitor_never_reads(trial):
    """A MONITOR that does not read is dropped at its output limit instead of hoarding."""
    trial.need("MONITOR")
    monitor = trial.client()
    assert monitor.call("MONITOR") == b"OK"
    raw = encode("SET", "k", b"v" * 1000) * 1000
    with trial.client() as client:
        for _ in range(30):
            client.write(raw)
            client.count_bytes(len(b"+OK\r\n") * 1000)
    grown = trial.rss_grown()
    assert grown < 40 * MB, f"{grown >> 20} MB for a monitor that does not read"
    monitor.close()


@scenario()
def gone_in_the_lane(trial):
    """Clients leave while a slow thread still works for them."""
    with trial.client() as client:
        fill(client, 50_000)
    trial.need("KEYS", "nothing")
    for number in range(40):
        client = trial.client()
        client.write(encode("KEYS", "*") * 2)
        if number % 2:
            client.abort()
        else:
            client.close()


@scenario(slack_mb=96)
def gone_while_blocked(trial):
    """Clients that wait for a key, with much input after that, leave in each way: none of them is
    given anything, and their descriptors come back."""
    leave = {"close": Client.close, "reset": Client.abort,
             "half": Client.half_close}
    with trial.client() as other:
        for how in leave:
            other.want(b"PONG", "PING")
            others = trial.server.fd_count()
            gone = [trial.client() for _ in range(20)]
            for client in gone:
                client.write(encode("BLPOP", "q", 0) + encode("SET", "k", b"v" * MB) * 3)
            until(lambda: blocked_count(other) == 20, "all are blocked")
            for client in gone:
                leave[how](client)
            until(lambda: blocked_count(other) == 0, f"{how}: none is blocked any more")
            until(lambda: trial.server.fd_count() <= others, f"{how}: descriptors come back")
            other.want(3, "RPUSH", "q", "a", "b", "c")
            other.want([b"a", b"b", b"c"], "LRANGE", "q", 0, -1)
            other.want(0, "EXISTS", "k")
            other.want(1, "DEL", "q")
            for client in gone:
                client.close()


@scenario(slack_mb=512)
def gone_with_a_last_word(trial):
    """Clients that are answered nothing send much and are reset at once, so that the server hears
    of both together: all of them are noticed."""
    much = encode("SET", "k", b"v" * MB) * 3
    silent = {
        "CLIENT REPLY OFF": encode("CLIENT", "REPLY", "OFF") + much,
        "half a command": b"*2\r\n$4\r\nECHO\r\n$40000000\r\n" + much,
    }
    with trial.client() as other:
        for what, raw in silent.items():
            other.want(b"PONG", "PING")
            others = trial.server.fd_count()
            for _ in range(10):
                gone = [trial.client() for _ in range(20)]
                for client in gone:
                    client.write(raw)
                for client in gone:
                    client.abort()
                until(lambda: trial.server.fd_count() <= others, f"{what}: all are noticed")
        other.call("DEL", "k")


@scenario(slack_mb=96)
def half_closed_and_served(trial):
    """Who has finished sending behind a slow command, with much input after it, gets all of it."""
    with trial.client() as other:
        fill(other, 50_000)
    with trial.client() as client:
        raw = encode("KEYS", "nothing") + encode("ECHO", b"v" * MB) * 4
        send_and_shut(client.sock, raw)
        answer = client.rest()
        wanted = len("*0\r\n") + 4 * (MB + len("$1048576\r\n\r\n"))
        assert len(answer) == wanted, f"{len(answer)} bytes of {wanted}"


def blocked_count(client):
    text = client.call("INFO", "clients").decode()
    return int(text.split("blocked_clients:")[1].split()[0])


@scenario(slack_mb=96)
def half_closed_without_replies(trial):
    """Who wants no replies and has finished sending is closed when its commands have run, also when
    the slow lane answers in the midst of a turn."""
    with trial.client() as other, trial.client() as busy:
        ear = other.call("CLIENT", "ID")
        busy.want(b"OK", "CLIENT", "TRACKING", "ON", "REDIRECT", ear)
        raw = encode("CLIENT", "REPLY", "OFF") + encode("KEYS", "nothing")
        for _ in range(20):
            crowd = [trial.client() for _ in range(20)]
            busy.write(PING * 2_000)
            for client in crowd:
                send_and_shut(client.sock, raw)
            busy.count_bytes(len(b"+PONG\r\n") * 2_000)
            for client in crowd:
                assert client.rest() == b""
                client.close()


@scenario("--threads", "2")
def redirected_to_who_has_quit(trial):
    """Who has read the reply to QUIT is there no more: whoever sent stale keys there is told so at
    the next one."""
    with trial.client() as tracker, trial.client() as writer:
        tracker.call("HELLO", 3)
        for number in range(200):
            with trial.client() as told:
                tracker.want(
                    b"OK", "CLIENT", "TRACKING", "ON", "REDIRECT", told.call("CLIENT", "ID")
                )
                tracker.call("GET", "k")
                told.want(b"OK", "QUIT")
                writer.want(b"OK", "SET", "k", number)
            pushed = tracker.read()
            assert pushed[0] == b"tracking-redir-broken", f"{number}: {pushed}"
            tracker.want(b"OK", "CLIENT", "TRACKING", "OFF")
