"""The append-only file on bad days: what kill -9 leaves is read by others, too; the disk is full or
read-only; clients do not read; the server stops while it loads."""

import contextlib
import os
import random
import select
import shutil
import subprocess
import threading
from pathlib import Path

from client import Closed, encode
from server import DEADLINE_S, until, valkey
from subject import Server
from transfers import Transfers, amounts
from trial import Skip, Stopwatch, is_error, scenario

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
EVERY_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")


def figures(client):
    lines = client.call("INFO", "persistence").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def loaded(client):
    until(lambda: not is_error(client.call("DBSIZE"), "LOADING"), "it is loaded")
    return client


class Other(Server):
    """A redis-server or a valkey-server."""

    def command(self):
        return [self.binary, "--port", str(self.port), "--bind", self.bind, "--dir",
                str(self.directory), "--save", "", "--enable-debug-command", "yes", *self.flags]


def others():
    """Those there are, by name."""
    found = {}
    if shutil.which("redis-server"):
        found["redis"] = shutil.which("redis-server")
    with contextlib.suppress(ImportError):
        found["valkey"] = valkey()
    if not found:
        raise Skip("there is no redis-server and no valkey-server")
    return found


def some_command(rng, groups):
    """A command that redis 7.0 knows, too; most change something. A snapshot with consumers that
    have read, of which there are some with `groups`, redis 7.0 does not load; and its digests
    write fractions in another way."""
    def of(kind, many=12):
        return f"{kind}{rng.randrange(many)}"

    def word():
        any_word = f"m{rng.randrange(99)}"
        return rng.choice(["a", "b", "c", "17", "-3", "x" * 100, "y" * 3000, any_word])

    s, n, l, t, z, h, x = (of(kind) for kind in ("s", "n", "l", "t", "z", "h", "x"))
    return rng.choice([
        ("SET", s, word()), ("APPEND", s, word()), ("SETRANGE", s, 5, "z"), ("GETDEL", s),
        ("SETEX", s, 100_000, word()), ("SET", s, word(), "GET"), ("SETBIT", "bits", 70, 1),
        ("INCRBY", n, 5), ("INCRBYFLOAT", n, "1.5"), ("DEL", of("s"), of("l")),
        ("RPUSH", l, word(), word()), ("LPUSH", l, word()), ("LPOP", l), ("RPOPLPUSH", l, of("l")),
        ("LTRIM", l, 0, 200), ("LINSERT", l, "BEFORE", "a", "b"), ("BLPOP", l, "empty", "0.001"),
        ("SADD", t, word(), rng.randrange(1000)), ("SPOP", t), ("SREM", t, "a"),
        ("SINTERSTORE", "t11", t, of("t")), ("SMOVE", t, of("t"), "b"), ("SPOP", t, 3),
        ("ZADD", z, rng.randrange(999), word()), ("ZINCRBY", z, 3, "a"), ("ZPOPMIN", z),
        ("ZUNIONSTORE", "z11", 2, z, of("z")), ("ZREMRANGEBYRANK", z, 50, -1),
        ("HSET", h, word(), word(), "f", "g"), ("HINCRBYFLOAT", h, "n", "0.25"), ("HDEL", h, "a"),
        ("XADD", x, "*", "f", word()), ("XTRIM", x, "MAXLEN", 50), ("XDEL", x, "1-1"),
        ("XADD", x, "MAXLEN", "~", 100, "*", "f", "v"), ("XGROUP", "CREATE", x, "g", "0"),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", x, ">") if groups else ("PING",),
        ("PFADD", "hll", word()),
        ("GEOADD", "geo", "13.3", "38.1", word()[:5]), ("COPY", s, of("s"), "REPLACE"),
        ("RENAME", s, of("s")), ("PEXPIRE", of("s"), 100_000_000), ("PERSIST", s),
        ("SORT", l, "ALPHA", "STORE", "l11"), ("EVAL", "redis.call('INCR', KEYS[1]) "
                                               "return redis.call('RPUSH', KEYS[2], 'e')", 2, n, l),
        ("MULTI",), ("EXEC",), ("SELECT", rng.randrange(3)), ("FLUSHDB",) if rng.random() < 0.02
        else ("PING",), ("MSET", of("s"), "1", of("n"), "7"), ("SETNX", s, "new"),
    ])


class Load:
    """Clients that write at random until the server is gone."""

    def __init__(self, server, groups, count=4):
        self.server, self.groups, self.troubles, self.sent = server, groups, [], 0
        self.threads = [threading.Thread(target=self._run, args=(n,)) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        rng = random.Random(f"{self.server.port} {number}")
        try:
            with self.server.client() as client:
                while True:
                    commands = [some_command(rng, self.groups) for _ in range(rng.randrange(1, 30))]
                    client.write(b"".join(encode(*command) for command in commands))
                    for _ in commands:
                        client.read()
                    self.sent += len(commands)
        except (OSError, Closed):
            pass
        except Exception as trouble:  # noqa: BLE001
            self.troubles.append(trouble)

    def end(self):
        for thread in self.threads:
            thread.join(DEADLINE_S)
        assert not self.troubles, self.troubles


def with_files_of(server, other, ask):
    """What another server, which is stopped then, answers with these files."""
    files = Path(server.directory) / "appendonlydir"
    shutil.copytree(files, Path(other.directory) / "appendonlydir")
    other.start()
    try:
        with other.client() as client:
            return ask(loaded(client))
    finally:
        other.stop()


def digest(client):
    """Of all data."""
    answer = client.call("DEBUG", "DIGEST")
    return answer if isinstance(answer, str) else answer.decode(), client.call("DBSIZE")


@scenario(watched=False, started=False)
def others_load_what_kill_left(trial):
    """What kill -9 leaves under a mixed load, with rewrites under way, is the same data for redis
    7.0, for valkey and for us."""
    found = others()
    rounds = 12 if trial.is_long else 4
    for turn in range(rounds):
        policy = ("always", "everysec", "no")[turn % 3]
        server = trial.new_server("--appendonly", "yes", "--appendfsync", policy)
        server.start()
        try:
            load = Load(server, groups=turn % 2 == 1)
            with server.client() as client:
                for rewrite in range(1 + turn % 3):
                    until(lambda: load.sent > 1500 * (rewrite + 1), "something is written")
                    client.call("BGREWRITEAOF")
                    if turn % 2:
                        until(lambda: figures(client)["aof_rewrite_in_progress"] == "0", "its end")
                until(lambda: load.sent > 1500 * (rewrite + 2), "more is written")
            server.kill()
            load.end()
            ours = with_files_of(server, trial.new_server("--appendonly", "yes"), digest)
            # Of all databases: one may have been flushed a moment ago.
            assert set(ours[0]) != {"0"}, ours
            for name, program in found.items():
                if name == "redis" and load.groups:
                    continue
                other = Other(program, None, ("--appendonly", "yes"))
                theirs = with_files_of(server, other, digest)
                assert theirs == ours, f"{policy}: {name} has {theirs}, not {ours}"
        finally:
            server.stop()


@scenario(watched=False, started=False)
def transfers_until_killed(trial):
    """Money goes from account to account while the file is rewritten ten times and the server is
    killed: the sum is right, for us and for others."""
    found = {"ours": None, **others()}
    for turn in range(10):
        server = trial.new_server(*(ALWAYS if turn % 2 else EVERY_SECOND))
        server.start()
        try:
            transfers = Transfers(server, may_be_killed=True)
            with server.client() as client:
                until(lambda: transfers.count > 300, "some were made")
                client.call("BGREWRITEAOF")
                if turn % 3:
                    until(lambda: figures(client)["aof_rewrite_in_progress"] == "0", "its end")
                most = transfers.count + 100 * (turn % 4)
                until(lambda: transfers.count > most, "more were made")
            server.kill()
            transfers.end()
            name = list(found)[turn % len(found)]
            other = Other(found[name], None, EVERY_SECOND) if found[name] else None
            with_files_of(server, other or trial.new_server(*EVERY_SECOND), amounts)
        finally:
            server.stop()


@scenario(*ALWAYS, watched=False, slack_mb=None)
def replies_held_for_slow_clients(trial):
    """With `always` clients that do not read hold up nobody, and what was answered is there after
    kill -9."""
    slow_clients, each, server = 20, 3000, trial.server
    value = "v" * 50
    slow = [server.client() for _ in range(slow_clients)]
    for number, client in enumerate(slow):
        requests = b"".join(encode("SET", f"{number}:{n}", value, "GET") for n in range(each))
        threading.Thread(target=client.write, args=(requests,), daemon=True).start()
    counted = 0
    with server.client() as client:
        clock = Stopwatch()
        while clock.seconds() < 1:
            counted += 1
            client.want(counted, "INCR", "counted")
        for one in slow[: slow_clients // 2]:
            for _ in range(each):
                assert one.read() is None
        for one in slow[slow_clients // 2:]:
            one.abort()
        counted += 1
        client.want(counted, "INCR", "counted")
    server.kill()
    server.start()
    with server.client() as client:
        loaded(client)
        client.want(b"%d" % counted, "GET", "counted")
        for number in range(slow_clients // 2):
            keys = [f"{number}:{n}" for n in range(each)]
            assert client.call("EXISTS", *keys) == each, number
    for one in slow:
        one.close()
    trial.note(f"{counted} increments meanwhile")


@scenario(watched=False, started=False)
def stopped_while_loading(trial):
    """SIGTERM and SHUTDOWN while it loads end it soon, and leave the files as they are."""
    for flags in (("--save", "3600 1"), EVERY_SECOND):
        server = trial.new_server(*flags)
        server.start()
        try:
            with server.client() as client:
                client.want(b"OK", "DEBUG", "POPULATE", 300_000, "key", 100)
                if "--save" in flags:
                    client.want(b"OK", "SAVE")
                else:
                    client.call("BGREWRITEAOF")
                    until(lambda: figures(client)["aof_rewrite_in_progress"] == "0", "its end")
            server.kill()
            before = files_in(server.directory)
            for how in ("SIGTERM", "SHUTDOWN", "SHUTDOWN NOSAVE", "kill"):
                server.spawn()
                with server_client(server) as client:
                    if how == "SIGTERM":
                        server.process.terminate()
                    elif how == "kill":
                        server.process.kill()
                    else:
                        with contextlib.suppress(Closed, OSError):
                            client.write(encode(*how.split()))
                            answer = client.read()
                            # As long as it loads there is nothing to be saved.
                            assert is_error(answer), answer
                            client.call("SHUTDOWN", "NOSAVE")
                clock = Stopwatch()
                server.process.wait(DEADLINE_S)
                assert clock.seconds() < 10, f"{how}: {clock.seconds():.1f} s"
                assert files_in(server.directory) == before, f"{flags[0]}, {how}: files changed"
            server.start()
            with server.client() as client:
                assert loaded(client).call("DBSIZE") == 300_000
        finally:
            server.stop()


def server_client(server):
    """A client of a server that has just begun."""
    def connect():
        assert server.process.poll() is None, server.log_text()[-500:]
        # The socket of the process before may still be there, and reset it.
        with contextlib.suppress(OSError, Closed):
            client = server.client()
            client.call("PING")
            return client
    return until(connect, "it answers")


def files_in(directory):
    """Names and sizes of what is kept there; what is temporary does not count."""
    found = {}
    for path in sorted(Path(directory).rglob("*")):
        if path.is_file() and path.name != "log" and not path.name.startswith("temp-"):
            found[str(path.relative_to(directory))] = path.stat().st_size
    return found


class SmallDisk:
    """A file system of its own in the server's directory."""

    def __init__(self, server, size):
        self.directory, self.size = server.directory, size

    def __enter__(self):
        if os.getuid() != 0:
            raise Skip("to mount something needs root")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs",
                               self.directory], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Skip(f"nothing can be mounted here: {done.stderr.strip()}")
        return self

    def remount(self, option):
        subprocess.run(["mount", "-o", f"remount,{option}", self.directory], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.directory], check=True)


@scenario(watched=False, started=False)
def full_disk_under_the_append_only_file(trial):
    """The file system is full: writes are refused, reads go on; with room again writes are taken by
    themselves, and nothing that was acknowledged is lost."""
    for flags in (ALWAYS, EVERY_SECOND):
        # What it says must not go to the full disk.
        server = trial.new_server(*flags, "--logfile", "/dev/null")
        with SmallDisk(server, "3m") as disk:
            try:
                fill_and_recover(server, disk)
            finally:
                end(server)


def start_quietly(server):
    """With a log that takes no room."""
    server.log_writer = os.open(os.devnull, os.O_WRONLY)
    server.start()


def end(server):
    """Ends it, also where it cannot save."""
    if server.process and server.process.poll() is None:
        server.kill()


def is_answered(client, other):
    """Whether a reply comes. With `always` it is held back when the file takes no more."""
    def has_reply():
        return bool(select.select([client.sock], [], [], 0.01)[0])

    until(lambda: has_reply() or figures(other)["aof_last_write_status"] == "err", "either")
    return has_reply()


def fill_and_recover(server, disk):
    start_quietly(server)
    # Bytes that no base holds in less: or a rewrite might make room by itself.
    acknowledged, value = 0, random.Random(1).randbytes(2000)
    with server.client() as client, server.client() as waiting:
        waiting.write(encode("SET", "first", "v"))
        waiting.read()
        while acknowledged < 5000:
            client.write(encode("SET", f"k{acknowledged}", value))
            if not is_answered(client, waiting):
                break
            answer = client.read()
            if is_error(answer, "MISCONF"):
                break
            assert answer == b"OK", answer
            acknowledged += 1
        assert 100 < acknowledged < 5000, acknowledged
        until(lambda: is_error(waiting.call("CONFIG", "SET", "maxmemory", "0"), "nothing")
              or figures(waiting)["aof_last_write_status"] == "err", "it is said")
        assert is_error(waiting.call("SET", "k", "v"), "MISCONF")
        waiting.want(b"v", "GET", "first")
    disk.remount("size=64m")
    with server.client() as client:
        until(lambda: client.call("SET", "again", "v") == b"OK", "writes are taken again")
        for number in range(200):
            client.want(b"OK", "SET", f"after{number}", "v")
        if "everysec" in server.flags:
            client.want([1, 0], "WAITAOF", 1, 0, 60_000)
    server.kill()
    start_quietly(server)
    with server.client() as client:
        loaded(client)
        names = [f"k{n}" for n in range(acknowledged)] + [f"after{n}" for n in range(200)]
        assert client.call("EXISTS", "first", "again", *names) == len(names) + 2


@scenario(watched=False, started=False)
def read_only_directory(trial):
    """A directory in which nothing can be written refuses an append-only file and every save, in
    words; with writing allowed again all is well."""
    server = trial.new_server("--save", "3600 1")
    with SmallDisk(server, "64m") as disk:
        disk.remount("ro")
        try:
            refused = subprocess.run([*server.command(), *EVERY_SECOND], capture_output=True,
                                     text=True, timeout=DEADLINE_S, check=False)
            said = refused.stdout + refused.stderr
            assert refused.returncode != 0 and "Read-only file system" in said, said
            start_quietly(server)
            with server.client() as client:
                client.want(b"OK", "SET", "k", "v")
                assert is_error(client.call("SAVE"), "Read-only file system")
                assert is_error(client.call("CONFIG", "SET", "appendonly", "yes"))
                client.want([b"appendonly", b"no"], "CONFIG", "GET", "appendonly")
                client.want(b"Background saving started", "BGSAVE")
                until(lambda: figures(client)["rdb_last_bgsave_status"] == "err", "it fails")
                assert is_error(client.call("SET", "k", "w"), "MISCONF")
                client.want(b"v", "GET", "k")
                disk.remount("rw")
                client.want(b"OK", "SAVE")
                client.want(b"Background saving started", "BGSAVE")
                until(lambda: figures(client)["rdb_last_bgsave_status"] == "ok", "it is saved")
                client.want(b"OK", "SET", "k", "w")
                client.want(b"OK", "CONFIG", "SET", "appendonly", "yes")
                until(lambda: client.call("WAITAOF", 1, 0, 60_000) == [1, 0], "it is appended")
        finally:
            end(server)


@scenario(watched=False, started=False)
def damaged_parts(trial):
    """A closed increment that became shorter, a lost line of the manifest and a pipe in the place
    of a file refuse the start, by name; put back, all is there."""
    from scenarios.circumstances import run_to_end
    server = trial.new_server(*EVERY_SECOND)
    server.start()
    try:
        with server.client() as client:
            client.call("RPUSH", "list", *range(152))
            # The rewrite begins a second increment, and the base never comes.
            client.want(b"OK", "CONFIG", "SET", "rdb-key-save-delay", 10_000_000)
            client.call("BGREWRITEAOF")
            files = Path(server.directory) / "appendonlydir"
            second = files / "appendonly.aof.2.incr.aof"
            until(second.exists, "it is begun")
            for number in range(48):
                client.call("RPUSH", "list", number)
            client.call("WAITAOF", 1, 0, 0)
        server.kill()
        first, manifest = files / "appendonly.aof.1.incr.aof", files / "appendonly.aof.manifest"
        text, steps = manifest.read_bytes(), first.read_bytes()
        lines = text.splitlines(keepends=True)
        assert len(lines) == 3, text

        def refuses(path, words):
            code, said = run_to_end(server)
            assert code == 1 and str(path) in said and words in said, f"{code}: {said}"

        first.write_bytes(b"")
        refuses(first, "its end is lost")
        first.write_bytes(steps)
        for lost in lines:
            manifest.write_bytes(b"".join(line for line in lines if line != lost))
            refuses(manifest, "a line is lost")
        manifest.write_bytes(text)
        for path in (first, second, manifest, files / "appendonly.aof.1.base.rdb"):
            content = path.read_bytes()
            path.unlink()
            os.mkfifo(path)
            refuses(path, "it is a pipe, not a file")
            path.unlink()
            path.write_bytes(content)
        server.start()
        with server.client() as client:
            loaded(client).want(200, "LLEN", "list")
    finally:
        server.stop()


@scenario(*EVERY_SECOND, watched=False)
def swapped_while_keys_expire(trial):
    """SWAPDB while keys of the same names expire in one of the two databases: what is recorded of
    the expired ones removes none of the others."""
    server = trial.server
    names, where, chance = [f"key:{number}" for number in range(300)], 0, random.Random(7)
    with server.client() as client:
        for name in names:
            client.write(encode("SET", name, "stays"))
        for _ in names:
            client.read()
        for _ in range(400 if trial.is_long else 40):
            client.want(b"OK", "SELECT", 1 - where)
            for name in names:
                client.write(encode("SET", name, "goes", "PX", chance.randrange(1, 20)))
            for _ in names:
                client.read()
            while client.call("DBSIZE") > 10:
                for _ in range(chance.choice((1, 2, 3))):
                    client.want(b"OK", "SWAPDB", 0, 1)
                    where = 1 - where
                client.want(b"OK", "SELECT", 1 - where)
    server.kill()
    server.start()
    with server.client() as client:
        client.want(b"OK", "SELECT", where)
        found = client.call("MGET", *names)
        left = sum(1 for value in found if value == b"stays")
        assert left == len(names), f"{left} of {len(names)} are there"


@scenario(started=False, watched=False)
def first_base_is_waited_for(trial):
    """WAITAOF after CONFIG SET appendonly yes: what it confirms outlives kill -9, also what was
    written before recording began."""
    for flips in [1, 2] * (50 if trial.is_long else 6):
        server = trial.new_server("--appendonly", "no")
        server.start()
        with server.client() as client:
            client.want(b"OK", "DEBUG", "POPULATE", 2_000)
            for _ in range(flips - 1):
                client.want(b"OK", "CONFIG", "SET", "appendonly", "yes")
                client.want(b"OK", "CONFIG", "SET", "appendonly", "no")
            until(lambda: client.call("CONFIG", "SET", "appendonly", "yes") == b"OK", "it is on")
            client.want(b"OK", "SET", "key", "value")
            client.want([1, 0], "WAITAOF", 1, 0, 60_000)
        server.kill()
        server.flags = ["--appendonly", "yes"]
        server.start()
        with loaded(server.client()) as client:
            client.want(b"value", "GET", "key")
            client.want(2_001, "DBSIZE")
        server.stop()
