"""Limits of memory and size, and what happens when they are reached."""

import os
from pathlib import Path

from client import Closed, encode
from server import MB, until
from trial import LONGEST_WAIT_FOR_HUGE_S, Skip, is_error, scenario

PIECE = bytes(range(256)) * 4096  # 1 MB
TOO_LARGE = 512 * MB + 1


def available_mb():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0


def need_memory(mb):
    if available_mb() < mb:
        raise Skip(f"{available_mb()} MB of memory are available, {mb} are needed")


def send_pieces(client, count):
    for _ in range(count):
        client.write(PIECE)


def expect_pieces(client, count):
    """Reads a bulk of so many pieces and compares it."""
    header = b"$%d\r\n" % (count * MB)
    assert client._line() + b"\r\n" == header  # noqa: SLF001
    for number in range(count):
        while len(client.buffer) - client.at < MB:
            client._more()  # noqa: SLF001
        assert client.buffer[client.at:client.at + MB] == PIECE, f"piece {number} differs"
        del client.buffer[:client.at + MB]
        client.at = 0
    assert client._line() == b""  # noqa: SLF001


@scenario(slack_mb=700, longest_wait_s=LONGEST_WAIT_FOR_HUGE_S)
def huge_value(trial):
    """A value of 512 MB goes in and comes out; one byte more is refused."""
    need_memory(5000)
    count = 512
    with trial.client() as client:
        client.write(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (count * MB))
        send_pieces(client, count)
        client.write(b"\r\n")
        assert client.read() == b"OK"
        client.want(count * MB, "STRLEN", "k")
        client.write(encode("GET", "k"))
        expect_pieces(client, count)
        trial.note(f"{trial.rss_grown() >> 20} MB resident after the round trip")
        reply = client.call("APPEND", "k", "x")
        assert is_error(reply, "exceeds maximum allowed size"), reply
        reply = client.call("SETRANGE", "k", 512 * MB, "x")
        assert is_error(reply, "exceeds maximum allowed size"), reply
        client.want(1, "DEL", "k")
    refuse_larger(trial)


def refuse_larger(trial):
    with trial.client() as client:
        client.write(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % TOO_LARGE)
        reply = client.read()
        assert is_error(reply, "invalid bulk length"), reply
        assert client.at_end()


@scenario(slack_mb=700, longest_wait_s=LONGEST_WAIT_FOR_HUGE_S)
def huge_key(trial):
    """A key of 512 MB (16 MB without --long)."""
    count = 512 if trial.is_long else 16
    need_memory(5000 if trial.is_long else 500)
    with trial.client() as client:
        client.write(b"*3\r\n$3\r\nSET\r\n$%d\r\n" % (count * MB))
        send_pieces(client, count)
        client.write(b"\r\n$1\r\nv\r\n")
        assert client.read() == b"OK"
        for wanted, command in ((b"v", b"GET"), (1, b"DEL"), (0, b"DEL")):
            client.write(b"*2\r\n$%d\r\n%b\r\n$%d\r\n" % (len(command), command, count * MB))
            send_pieces(client, count)
            client.write(b"\r\n")
            got = client.read()
            assert got == wanted, f"{command} gave {got!r:.80}"


@scenario("--maxmemory", "64mb", slack_mb=None)
def memory_full(trial):
    """maxmemory without eviction: what would grow is refused, nothing acknowledged is lost."""
    value, kept = b"v" * 10_000, []
    with trial.client() as client:
        for number in range(20_000):
            reply = client.call("SET", f"key:{number}", value)
            if reply != b"OK":
                break
            kept.append(number)
        else:
            raise AssertionError("200 MB went into 64 MB")
        assert str(reply).startswith("OOM "), reply
        assert 3_000 < len(kept) < 7_000, f"{len(kept)} values of 10 KB in 64 MB"
        for command in (("APPEND", "a", "x"), ("SETRANGE", "a", 0, "x"), ("INCR", "n"),
                        ("MSET", "a", "1", "b", "2")):
            until(lambda: is_refused(client, command), f"{command} is refused")
        client.write(b"".join(encode("GET", f"key:{number}") for number in kept))
        lost = [number for number in kept if client.read() != value]
        assert not lost, f"{len(lost)} acknowledged values are lost, the first {lost[0]}"
        client.want(1, "DEL", f"key:{kept[0]}")
        for number in kept[1:200]:
            client.want(1, "DEL", f"key:{number}")
        client.want(b"OK", "SET", "again", value)
        while client.call("SET", "x" + os.urandom(8).hex(), value) == b"OK":
            pass
        client.want(b"OK", "FLUSHALL")
        until(lambda: client.call("SET", "after", value) == b"OK", "FLUSHALL makes room")
        client.want(value, "GET", "after")


def is_refused(client, command):
    """Whether there is no memory for it. Buffers count too: there may be a little room again."""
    filler = "small:" + os.urandom(8).hex()
    reply = client.call("SET", filler, "v" * 100)
    return str(reply).startswith("OOM ") and str(client.call(*command)).startswith("OOM ")


@scenario("--maxmemory", "32mb", slack_mb=None)
def memory_full_of_buffers(trial):
    """Input that has not become a command is not refused as data, and room comes back with it."""
    with trial.client() as client, trial.client() as other:
        client.write(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (64 * MB))
        send_pieces(client, 63)
        other.want(None, "GET", "nothing")
        client.write(PIECE + b"\r\n")
        reply = client.read()
        assert str(reply).startswith("OOM "), reply
        client.want(None, "GET", "k")
    with trial.client() as client:
        until(lambda: client.call("SET", "k", "v") == b"OK", "there is room again")


MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
GROUPS = Path("/sys/fs/cgroup")


def memory_group():
    """Makes a control group and says how its limit is set."""
    name = f"pantala-bad-days-{os.getpid()}"
    controllers = GROUPS / "cgroup.controllers"
    if controllers.exists():
        place, limit = GROUPS / name, "memory.max"
    else:
        place, limit = MEMORY_GROUPS / name, "memory.limit_in_bytes"
    try:
        place.mkdir()
        (place / limit).write_text(str(192 * MB))
    except OSError as why:
        if place.exists():
            place.rmdir()
        raise Skip(f"no control group of memory can be made here ({why})") from None
    return place


@scenario(started=False, watched=False)
def memory_group_full(trial):
    """In a control group with 192 MB the server refuses writes before the kernel kills it."""
    place = memory_group()
    server = trial.server
    try:
        # The shell joins the group, then becomes the server: its limit is there from the start.
        inner = server.command()
        server.command = lambda: ["/bin/sh", "-c", f'echo $$ >{place}/cgroup.procs; exec "$0" "$@"',
                                  *inner]
        server.start()
        with trial.client() as client:
            value = b"v" * 100_000
            for number in range(4_000):
                reply = client.call("SET", f"key:{number}", value)
                if reply != b"OK":
                    break
            else:
                raise AssertionError("400 MB went into 192 MB")
            assert str(reply).startswith("OOM "), reply
            trial.note(f"refused at {server.rss() >> 20} MB resident")
            client.want(value, "GET", "key:0")
            client.want(b"OK", "FLUSHALL")
            until(lambda: client.call("SET", "after", "v") == b"OK", "there is room again")
    except (ConnectionError, Closed):
        raise AssertionError(f"the server is gone: {server.process.poll()}") from None
    finally:
        server.stop()
        until(lambda: remove(place), "the group can be removed")


def remove(place):
    try:
        place.rmdir()
        return True
    except OSError:
        return False


@scenario(watched=False, slack_mb=None)
def fewer_tracked_keys(trial):
    """Lowering the limit of tracked keys tells who has read those that go, though nobody sends
    anything more."""
    count = 20_000
    with trial.client() as reader, trial.client() as listener, trial.client() as other:
        listener.want([b"subscribe", b"__redis__:invalidate", 1], "SUBSCRIBE",
                      "__redis__:invalidate")
        told = other.call("CLIENT", "LIST").decode().splitlines()
        told = next(line for line in told if "sub=1" in line).split()[0].removeprefix("id=")
        reader.want(b"OK", "CLIENT", "TRACKING", "ON", "REDIRECT", told)
        for begin in range(0, count, 1_000):
            reader.call("MGET", *range(begin, begin + 1_000))
        other.want(b"OK", "CONFIG", "SET", "tracking-table-max-keys", 1)
        keys = set()
        while len(keys) < count - 1:
            _, _, invalid = listener.read()
            keys.update(invalid)


@scenario(slack_mb=None)
def watch_of_many_names(trial):
    """WATCH of 200,000 keys holds up nobody, and its EXEC sees that one of them has changed."""
    names = [f"key:{number}" for number in range(200_000)]
    with trial.client() as watcher, trial.server.client(20) as other:
        watcher.write(encode("WATCH", *names, *names[:1000]))
        other.want(b"OK", "SET", "another", "value")
        assert watcher.read() == b"OK"
        lines = other.call("INFO", "clients").decode().splitlines()
        assert "total_watched_keys:200000" in lines, lines
        other.want(b"OK", "SET", names[123_456], "value")
        watcher.want(b"OK", "MULTI")
        watcher.want(None, "EXEC")
