"""Full copies over several connections, where somebody does what no server of ours does: replicas
that lie, connections that bring damaged frames, commands that change much meanwhile."""

import contextlib
import random
import socket
import struct
import sys
import tempfile
import threading
from pathlib import Path

from client import Closed, encode
from contents import equal
from nodes import DEADLINE_S, linked, until
from ports import free_port
from trial import fill, is_error, scenario

from .parts import KEYS, LIBRARY, OURS, SIZE, SLOW_BYTES_A_SECOND, copies_in_parts

sys.path.append(str(Path(__file__).parents[2] / "tls"))

from certificates import Certificates  # noqa: E402

# What stands before the bytes of a frame.
HEAD_BYTES = 17


class FalseReplica:
    """Asks for a full copy, and takes as much of it as the test wants."""

    def __init__(self, primary, capability="parts-4"):
        self.primary, self.parts = primary, []
        self.link = primary.client()
        self.link.want(b"PONG", "PING")
        words = ("eof", "psync2", "pantala", capability)
        words = [word for capa in words for word in ("capa", capa)]
        self.link.call("REPLCONF", *words)
        self.link.write(encode("PSYNC", "?", -1))

    def line(self):
        """The next line that is not empty."""
        while True:
            line = bytearray()
            while not line.endswith(b"\n"):
                byte = self.link.sock.recv(1)
                if not byte:
                    raise Closed
                line += byte
            if line.strip():
                return bytes(line.strip())

    def join(self, count, token):
        for _ in range(count):
            part = self.primary.client()
            part.want(b"OK", "REPLCONF", "copy-part", token)
            self.parts.append(part)

    def close(self):
        for client in (self.link, *self.parts):
            client.close()


def no_copy_is_left(primary):
    until(lambda: primary.info()["connected_slaves"] == "0", "they have been given up")


@scenario(rows=OURS)
def how_many_parts(trial):
    """A replica that asks for ten thousand connections, or for none, gets as many as there are
    workers, or its copy over the link."""
    primary = trial.node(0, threads=3)
    fill(primary, 50)
    for wanted, invited in (("10000", 3), ("99999999999999999999", 0), ("-5", 0), ("1", 0),
                            ("", 0), ("x", 0), ("2", 2)):
        false = FalseReplica(primary, f"parts-{wanted}")
        first = false.line()
        if invited:
            word, token, count = first.split()
            assert (word, int(count)) == (b"+PARTS", invited), first
            false.join(invited, token)
            with primary.client() as client:
                assert is_error(client.call("REPLCONF", "copy-part", token), "ERR")
            first = false.line()
        assert first.startswith(b"+FULLRESYNC"), first
        false.close()
        no_copy_is_left(primary)


@scenario(rows=OURS)
def link_ends_before_parts(trial):
    """A replica goes when some of its connections have come: the primary closes those, too."""
    primary = trial.node(0, threads=4)
    fill(primary, KEYS, SIZE)
    for joins in (1, 2, 3, 4):
        false = FalseReplica(primary)
        _, token, count = false.line().split()
        assert int(count) == 4, count
        false.join(joins, token)
        false.link.close()
        for part in false.parts:
            while part.sock.recv(1 << 16):
                pass
        false.close()
        no_copy_is_left(primary)


@scenario(rows=OURS)
def rights_of_parts(trial):
    """With TLS, the connections of a copy have the rights of the replica's user, and need them."""
    with tempfile.TemporaryDirectory() as directory:
        words = Certificates(directory).settings()
        tls = {name[2:].replace("-", "_"): value for name, value in zip(words[::2], words[1::2])}
        tls |= {"tls_replication": "yes"}
        primary = trial.not_started(0, **tls)
        primary.settings["tls-port"] = port = free_port()
        primary.start()
        fill(primary, KEYS)
        for rights, parts in (("+psync +replconf +ping", 1), ("+psync +ping", 0), ("+@all", 1)):
            primary.want(b"OK", "ACL", "SETUSER", "who", "reset", "on", ">secret", *rights.split())
            before = copies_in_parts(primary)
            replica = trial.node(1, masteruser="who", masterauth="secret", **tls)
            replica.follow(("127.0.0.1", port))
            linked(replica)
            assert equal(primary, replica) == KEYS
            assert copies_in_parts(primary) - before == parts, (rights, primary.log_text()[-900:])
            replica.kill()
        primary.want(b"OK", "ACL", "SETUSER", "who", "reset", "on", ">secret", "+replconf", "+ping")
        replica = trial.node(1, masteruser="who", masterauth="secret", **tls)
        replica.follow(("127.0.0.1", port))
        until(lambda: "NOPERM" in replica.log_text(), "it may not")
        assert primary.info()["connected_slaves"] == "0", primary.info()
        replica.want(0, "DBSIZE")


def rubbish(rng):
    """What a connection of a copy never says."""
    return rng.choice([
        b"hello\r\n", b"*3\r\n$8\r\nREPL", b"\x00" * 5_000, b"x" * 300_000, b"*1000000000\r\n",
        encode("SET", "k", "v"), encode("PSYNC", "?", -1), encode("REPLCONF", "ACK", 10 ** 18),
        encode("REPLCONF", "ACK", -1), encode("REPLCONF", "copy-part", "0" * 40), b"\n" * 1_000,
        encode("REPLCONF", "capa", "parts-8", "rdb-only", 1), encode("QUIT"),
        encode("MULTI") + encode("EXEC"), b"$-1\r\n",
    ])


@scenario(rows=OURS)
def parts_that_speak(trial):
    """Replicas whose connections bring rubbish, read nothing, or end at any moment: the primary
    goes on, and the next one gets its copy."""
    rng = random.Random(trial.seed)
    primary = trial.node(0, threads=3)
    fill(primary, 4 * KEYS, SIZE)
    for _ in range(40 if trial.is_long else 12):
        false = FalseReplica(primary)
        with contextlib.suppress(OSError, Closed, AssertionError):
            _, token, count = false.line().split()
            joins = rng.randrange(int(count) + 1)
            false.join(joins, token)
            if rng.randrange(3) == 0:
                false.link.close()
            for part in false.parts:
                if rng.randrange(2):
                    part.sock.recv(rng.randrange(1, 100_000))
                if rng.randrange(2):
                    part.write(rubbish(rng))
                if rng.randrange(3) == 0:
                    part.abort()
        false.close()
        primary.want(b"PONG", "PING")
    replica = trial.node(1)
    replica.follow(primary.address)
    linked(replica)
    assert equal(primary, replica) == 4 * KEYS
    assert copies_in_parts(primary) >= 1, primary.log_text()[-900:]
    replica.lead()
    no_copy_is_left(primary)
    assert int(primary.info("memory")["mem_clients_slaves"]) < 1 << 20, primary.info("memory")


class Tamper:
    """A way to a primary on which one frame of one connection is another one, once.

    `how` is told the frame, and gives what is sent instead, and whether the connection ends there.
    """

    def __init__(self, target, at, how):
        self.target, self.at, self.how, self.is_done = target, at, how, False
        self.frames, self.ends, self.lock = 0, [], threading.Lock()
        # Those connections that frames come over.
        self.of_parts = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = self.listener.getsockname()
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                replica, _ = self.listener.accept()
            except OSError:
                return
            primary = socket.create_connection(self.target, DEADLINE_S)
            for end in (replica, primary):
                end.settimeout(None)
            self.ends += [replica, primary]
            for body, words in ((self.up, ()), (self.down, ())):
                thread = threading.Thread(target=self.quietly, daemon=True,
                                          args=(body, replica, primary, *words))
                self.threads.append(thread)
                thread.start()

    @staticmethod
    def quietly(body, replica, primary):
        try:
            body(replica, primary)
        except OSError:
            pass
        for end in (replica, primary):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def up(self, replica, primary):
        while piece := replica.recv(1 << 16):
            if b"copy-part" in piece:
                self.of_parts.add(replica)
            primary.sendall(piece)

    def down(self, replica, primary):
        buffer, answer = bytearray(), len(b"+OK\r\n")
        while piece := primary.recv(1 << 16):
            if replica not in self.of_parts:
                replica.sendall(piece)
                continue
            # Its answer, and then frames.
            replica.sendall(piece[:answer])
            buffer += piece[answer:]
            answer -= len(piece[:answer])
            if not self.whole_frames(buffer, replica):
                return

    def whole_frames(self, buffer, replica):
        while len(buffer) >= HEAD_BYTES:
            stored, = struct.unpack_from("<I", buffer, 1)
            if len(buffer) < HEAD_BYTES + stored:
                break
            frame = bytes(buffer[:HEAD_BYTES + stored])
            del buffer[:len(frame)]
            with self.lock:
                self.frames += 1
                is_it = not self.is_done and self.frames == self.at
                self.is_done |= is_it
            if is_it:
                instead, goes_on = self.how(frame)
                replica.sendall(instead)
                if not goes_on:
                    return False
            else:
                replica.sendall(frame)
        return True

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(DEADLINE_S)


def flipped(frame, at):
    return frame[:at] + bytes([frame[at] ^ 0x10]) + frame[at + 1:]


# What comes instead of a frame, and whether anything follows it.
INSTEAD = {
    "closed before it": lambda frame: (b"", False),
    "half of it": lambda frame: (frame[:HEAD_BYTES + 3], False),
    "half a head": lambda frame: (frame[:5], False),
    "closed after it": lambda frame: (frame, False),
    "missing": lambda frame: (b"", True),
    "twice": lambda frame: (frame + frame, True),
    "checksum": lambda frame: (flipped(frame, 12), True),
    "bytes": lambda frame: (flipped(frame, len(frame) - 1), True),
    "giant": lambda frame: (b"L" + struct.pack("<II", 4 << 20, 0xFFFFFFFF) + bytes(8), True),
    "giant and plain": lambda frame: (b"P" + b"\xff" * 8 + bytes(8), True),
    "rubbish": lambda frame: (b"-ERR hello\r\n" * 50, True),
    "too early an end": lambda frame: (b"E" + bytes(16), True),
}


@scenario(rows=OURS)
def damaged_frames(trial):
    """Whatever comes instead of a frame of a part, the replica has its old data or none, and gets a
    right copy afterwards."""
    rng = random.Random(trial.seed)
    primary = trial.node(0, threads=3)
    fill(primary, KEYS, SIZE)
    loads = ("disabled", "swapdb", "flush-before-load")
    tests = list(INSTEAD) if trial.is_long else rng.sample(list(INSTEAD), 5)
    for number, name in enumerate(tests):
        load = loads[number % len(loads)]
        replica = trial.node(1, threads=3, repl_diskless_load=load)
        fill(replica, 10, prefix="own")
        tamper = Tamper(primary.address, rng.randrange(1, 12), INSTEAD[name])
        try:
            replica.follow(tamper.address)
            linked(replica)
            assert equal(primary, replica) == KEYS, name
            assert tamper.is_done, (name, tamper.at, tamper.frames)
            left = [one.name for one in replica.directory.glob("temp-*")]
            assert not left, left
        finally:
            tamper.close()
            replica.kill()


@scenario(rows=OURS)
def changes_during_parts(trial):
    """FLUSHALL, SWAPDB, libraries and settings while a copy in parts is on its way."""
    primary = trial.node(0, threads=3)
    for number, commands in enumerate([
        [("FLUSHALL",)],
        [("SWAPDB", 0, 3), ("SET", "after", 1)],
        [("FUNCTION", "FLUSH"), ("FUNCTION", "LOAD", LIBRARY)],
        [("FLUSHALL", "ASYNC"), ("SWAPDB", 0, 1), ("FLUSHDB",), ("SET", "after", 2)],
        [("CONFIG", "SET", "repl-copy-compression", "yes"),
         ("CONFIG", "SET", "repl-backlog-size", 16384),
         ("CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0"),
         ("CONFIG", "SET", "repl-diskless-sync", "no"),
         ("CONFIG", "SET", "maxmemory", "900mb"), ("CONFIG", "SET", "requirepass", ""),
         ("CONFIG", "SET", "repl-timeout", 5), ("SET", "after", 3)],
        [("BGSAVE",), ("DEBUG", "RELOAD"), ("SET", "after", 4)],
        [("BGREWRITEAOF",), ("CONFIG", "SET", "appendonly", "yes"), ("SET", "after", 5),
         ("CONFIG", "SET", "appendonly", "no")],
        [("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "replica")],
        [("CONFIG", "SET", "threads", 2), ("CONFIG", "SET", "threads", 4), ("SET", "after", 6)],
    ]):
        primary.want(b"OK", "FLUSHALL")
        primary.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        primary.set("repl-diskless-sync", "yes")
        fill(primary, 6 * KEYS, SIZE)
        load = ("disabled", "swapdb", "flush-before-load")[number % 3]
        replica, proxy = trial.node(1, repl_diskless_load=load), trial.proxy(primary.address)
        proxy.bytes_a_second = SLOW_BYTES_A_SECOND
        before = copies_in_parts(primary)
        replica.follow(proxy.address)
        until(lambda: copies_in_parts(primary) > before and proxy.passed["down"] > KEYS * SIZE // 4,
              "a part of the copy")
        for command in commands:
            with contextlib.suppress(Closed, ConnectionError):
                answer = primary.call(*command)
                trial.note(f"{command[0]} {answer}" if is_error(answer, "ERR") else command[0])
        proxy.bytes_a_second = None
        linked(replica)
        equal(primary, replica)
        proxy.close()
        replica.kill()


@scenario(long=True, rows=OURS)
def changes_at_the_replica(trial):
    """The same at the replica: settings, REPLICAOF, commands that need its data."""
    primary = trial.node(0, threads=3)
    fill(primary, 6 * KEYS, SIZE)
    for number, commands in enumerate([
        [("CONFIG", "SET", "maxmemory", 3_000_000),
         ("CONFIG", "SET", "replica-ignore-maxmemory", "no")],
        [("CONFIG", "SET", "maxmemory", 3_000_000)],
        [("CONFIG", "SET", "repl-diskless-load", "disabled"), ("CONFIG", "SET", "threads", 4)],
        [("CONFIG", "SET", "dir", "/tmp"), ("BGSAVE",)],
        [("REPLICAOF", "NO", "ONE"), "again"],
        [("REPLICAOF", "127.0.0.1", 1), "again"],
        [("FLUSHALL",), ("SWAPDB", 0, 1), ("FUNCTION", "FLUSH"), ("SET", "a", 1), ("DBSIZE",)],
        [("CONFIG", "SET", "appendonly", "yes"), ("DEBUG", "RELOAD"), ("BGREWRITEAOF",)],
        [("CONFIG", "SET", "masterauth", "x"), ("CONFIG", "SET", "replica-serve-stale-data", "no")],
        [("CLIENT", "KILL", "TYPE", "master"), ("CLIENT", "KILL", "TYPE", "normal")],
    ]):
        for load in ("swapdb", "disabled", "flush-before-load"):
            replica, proxy = trial.node(1, repl_diskless_load=load), trial.proxy(primary.address)
            fill(replica, 100, prefix="own")
            proxy.bytes_a_second = SLOW_BYTES_A_SECOND
            before = copies_in_parts(primary)
            replica.follow(proxy.address)
            until(lambda: copies_in_parts(primary) > before
                  and proxy.passed["down"] > KEYS * SIZE // 4, "a part of the copy")
            for command in commands:
                with contextlib.suppress(Closed, ConnectionError):
                    if command == "again":
                        until(lambda: not is_error(replica.call("REPLICAOF", *proxy.address), ""),
                              "it may follow again")
                    else:
                        answer = replica.call(*command)
                        if is_error(answer, "ERR"):
                            trial.note(f"{command[0]} {answer}")
            proxy.bytes_a_second = None
            linked(replica)
            replica.set("maxmemory", 0)
            assert equal(primary, replica) == 6 * KEYS, (number, load)
            left = [one.name for one in replica.directory.glob("temp-*")]
            assert not left, left
            proxy.close()
            replica.kill()


@scenario(rows=OURS)
def words_of_replicas(trial):
    """A replica that says what replicas do not say is disconnected, and the log tells what it was,
    in Valkey's words; an offset that is no number is refused."""
    primary = trial.node(0)
    for said, words in (
        (("PING",), ["Replica generated a reply to command 'ping', disconnecting it: "]),
        (("GET", "k"), ["Replica generated a reply to command 'get', disconnecting it: ",
                        "== CRITICAL == This primary is sending an error to its replica: 'Replica "
                        "can't interact with the keyspace' after processing the command 'get'"]),
    ):
        with primary.client() as client:
            client.write(encode("PSYNC", "?", -1) + encode(*said))
            client.rest()
        for one in words:
            until(lambda one=one: one in primary.log_text(), one)
    with primary.client() as client:
        answer = client.call("PSYNC", "?", "x")
        assert is_error(answer, "ERR value is not an integer"), answer
    assert "asks for synchronization but with a wrong offset" in primary.log_text()
