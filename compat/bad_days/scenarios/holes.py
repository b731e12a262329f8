"""Known holes of other servers that a transcript cannot hold; SECURITY.md names them."""

import random
import struct
from pathlib import Path

from client import ErrorReply, connect, encode
from ports import free_port
from server import MB, until
from trial import is_error, scenario

from .values_in_use import COMMON, USES

# What a length becomes that lies.
BYTES = [0, 1, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0xC0, 0xC3, 0xE0, 0xF0, 0xF1, 0xF4, 0xFD, 0xFE, 0xFF]
WORDS = [b"\xff" * 2, b"\xff" * 4, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff",
         b"\xff" * 7 + b"\x7f", b"\x7f" + b"\xff" * 7, b"\0" * 8, b"\x80\xff\xff\xff\xff",
         b"\x81" + b"\xff" * 8, b"\x81\x7f" + b"\xff" * 7]
FOOTER_BYTES = 10
PAYLOADS = 3_000


def make_values(client):
    """Values of every type and form; their payloads by name."""
    for command in (
            ("SET", "text", "hello" * 10),
            ("HSET", "hash", *[f"{part}{at}" for at in range(8) for part in "fv"]),
            ("HSET", "large hash", *[f"{part}{at}" for at in range(600) for part in "fv"]),
            ("HSET", "timed hash", "a", 1, "b", 2),
            ("HPEXPIRE", "timed hash", 10**7, "FIELDS", 1, "a"),
            ("SADD", "set", *[f"m{at}" for at in range(8)]),
            ("SADD", "ints", *range(-3, 9), 70_000, 2**40),
            ("SADD", "large set", *[f"m{at}" * 10 for at in range(300)]),
            ("ZADD", "zset", *[part for at in range(8) for part in (at * 1.5, f"m{at}")]),
            ("ZADD", "large zset", *[part for at in range(200) for part in (at, f"m{at}")]),
            ("RPUSH", "list", *range(20), "x" * 70),
            ("RPUSH", "large list", *[f"e{at}" * 30 for at in range(400)]),
            ("PFADD", "sketch", *range(30)), ("PFADD", "dense sketch", *range(3000)),
            *[("XADD", "stream", f"{at + 1}-{at}", "a", 1, "b", at) for at in range(10)],
            ("XADD", "stream", "20-1", "other", 1), ("XGROUP", "CREATE", "stream", "g", 0),
            ("XREADGROUP", "GROUP", "g", "c1", "COUNT", 3, "STREAMS", "stream", ">"),
            ("XREADGROUP", "GROUP", "g", "c2", "COUNT", 3, "STREAMS", "stream", ">"),
            ("XDEL", "stream", "2-1"), ("XACK", "stream", "g", "1-0")):
        reply = client.call(*command)
        assert not isinstance(reply, ErrorReply), f"{command[:2]}: {reply}"
    names = client.call("KEYS", "*")
    return {name: client.call("DUMP", name) for name in sorted(names)}


def damaged(chance, payload):
    """One to six lies; the seal is left to DEBUG."""
    body = bytearray(payload[:-FOOTER_BYTES])
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(body) + 1 if chance.random() < 0.7 else min(len(body), 40) + 1)
        way = chance.randrange(6)
        if way == 0:
            body[at:at + 1] = bytes([chance.choice(BYTES)])
        elif way == 1:
            word = chance.choice(WORDS)
            body[at:at + len(word)] = word
        elif way == 2:
            body[at:at] = chance.choice(WORDS)
        elif way == 3:
            del body[at:at + chance.randrange(1, 6)]
        elif way == 4:
            body[at:at] = body[at:at + chance.randrange(1, 20)]
        elif at < len(body):
            body[at] ^= 1 << chance.randrange(8)
    return bytes(body) + payload[-FOOTER_BYTES:]


@scenario("--enable-debug-command", "yes", slack_mb=96)
def payloads_that_lie(trial):
    """RESTORE of thousands of damaged payloads; what is taken is used by every command."""
    chance, taken = random.Random(8), 0
    with trial.client() as client:
        payloads = make_values(client)
        client.want(b"OK", "DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
        for _ in range(PAYLOADS * (20 if trial.is_long else 1)):
            payload = damaged(chance, chance.choice(list(payloads.values())))
            reply = client.call("RESTORE", "k", 0, payload, "REPLACE")
            if reply != b"OK":
                assert is_error(reply, "ERR "), reply
                continue
            taken += 1
            commands = [*USES.get(client.call("TYPE", "k"), ())]
            chance.shuffle(commands)
            client.write(b"".join(encode(*command.split()) for command in commands + COMMON))
            for _ in commands + COMMON:
                client.read()
        client.want(b"OK", "FLUSHALL")
    assert taken > PAYLOADS // 20, f"{taken} were taken"
    trial.note(f"{taken} taken")


@scenario("--enable-debug-command", "yes", "--rdbchecksum", "no", watched=False, slack_mb=96)
def files_that_lie(trial):
    """Damaged snapshot files are loaded into a running server: refused, or taken as a whole."""
    chance, taken = random.Random(9), 0
    file = Path(trial.server.directory) / "dump.rdb"
    with trial.client() as client:
        make_values(client)
        client.want(b"OK", "SAVE")
        whole = file.read_bytes()
        for _ in range(200 * (20 if trial.is_long else 1)):
            file.write_bytes(damaged(chance, whole))
            reply = client.call("DEBUG", "RELOAD", "NOSAVE")
            taken += reply == b"OK"
            assert reply == b"OK" or is_error(reply), reply
        file.write_bytes(whole)
        client.want(b"OK", "DEBUG", "RELOAD", "NOSAVE")
        client.want(b"OK", "FLUSHALL")
    trial.note(f"{taken} taken")


def header(opcode, key=0, extras=0, body=0):
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, key, extras, 0, 0, body, 1, 0)


MEMCACHED_TEXTS = [
    b"get " + b" " * 5000 + b"a\r\n", b"get" + b" a" * 10_000 + b"\r\n",
    b"get " + b"a" * 3000 + b"\r\n", b"gets \n", b"set a 0 0 1\nx\n", b"set a 0 0 -1\r\n",
    b"set a 0 0 4294967295\r\n", b"set a 0 0 99999999999999999999\r\n", b"lru mode\r\n", b"lru\r\n",
    b"set a 4294967296 0 1\r\nx\r\n", b"add x 0 0 4294967294\r\n", b"append a 0 0 4294967295\r\nx",
    b"incr a 99999999999999999999\r\n", b"touch a -99999999999999999999\r\n", b"lru tune\r\n",
    b"slabs reassign\r\n", b"stats cachedump 4294967296 0\r\n", b"stats " + b"x" * 3000 + b"\r\n",
    b"mg\r\n", b"mg " + b"a" * 300 + b" v\r\n", b"mg a " + b"v " * 3000 + b"\r\n", b"mg a O\r\n",
    b"mg a O" + b"o" * 5000 + b"\r\n", b"ms a S\r\n", b"ms a 4294967295\r\n", b"ms a -1\r\n",
    b"ma a N0 J99999999999999999999\r\n", b"mn x\r\n", b"me\r\n", b"mg ==== b v\r\n", b"\0" * 100,
    b"set " + b"k " * 1000 + b"\r\n", b"\r\n" * 1000, b"a" * 70_000,
]


@scenario(watched=False, started=False)
def memcached_bytes_that_lie(trial):
    """Lengths of memcached's three protocols that contradict each other: see SECURITY.md."""
    port = free_port()
    trial.server.flags = ["--memcached_port", str(port)]
    trial.server.start()
    lengths = [(0, 0, 0), (0xFFFF, 0, 0), (0xFFFF, 0, 0xFFFF), (10, 0xFF, 5), (0, 0xFF, 0),
               (0xFFFF, 0xFF, 0xFFFFFFFF), (5, 8, 4), (5, 20, 1), (1, 0, 0xFFFFFFFE),
               (0, 8, 0xFFFFFFFF), (250, 8, 258), (251, 8, 259), (3, 8, 3)]
    binary = [header(opcode, *of) + b"A" * 300 for opcode in range(0x42) for of in lengths]
    for raw in binary + MEMCACHED_TEXTS:
        sock = connect(("127.0.0.1", port))
        try:
            sock.sendall(raw)
            sock.close()
        except ConnectionError:
            pass
    sock = connect(("127.0.0.1", port))
    sock.sendall(b"version\r\n")
    assert sock.recv(100).startswith(b"VERSION"), "it answers"
    sock.close()
    trial.look_after(48)


@scenario()
def waiting_clients_are_killed(trial):
    """CVE-2026-23479, redis 15594: clients that wait for one key are killed as they are served."""
    rounds = 60 if trial.is_long else 15
    with trial.client() as client:
        for number in range(rounds):
            waiting = [trial.client() for _ in range(20)]
            for one in waiting:
                one.write(encode("BLPOP", "k", "0") + encode("PING") * 50)
            until(lambda: blocked(client) == 20, "they wait")
            victims = ids(client)
            assert len(victims) == 20, victims
            kills = b"".join(encode("CLIENT", "KILL", "ID", each) for each in victims)
            push = encode("RPUSH", "k", *range(10))
            client.write(kills + push if number % 2 else push + kills)
            for _ in range(len(victims) + 1):
                client.read()
            given = sum(one.rest().count(b"$1\r\nk\r\n") for one in waiting)
            for one in waiting:
                one.close()
            until(lambda: blocked(client) == 0, "nobody waits")
            left = client.call("LLEN", "k")
            assert given + left <= 10, f"{given} were given, {left} are left, of 10"
            client.call("DEL", "k")


def blocked(client):
    info = client.call("INFO", "clients").decode()
    return int(info.split("blocked_clients:")[1].split()[0])


def ids(client):
    """Of those that wait."""
    lines = client.call("CLIENT", "LIST", "TYPE", "normal").decode().splitlines()
    return [line.split()[0][3:] for line in lines if " cmd=blpop " in line]


@scenario()
def own_messages(trial):
    """valkey 4253: replies and large messages to oneself are not torn into each other."""
    message = b"m" * MB
    with trial.client() as client:
        client.call("HELLO", "3")
        client.want([b"subscribe", b"c", 1], "SUBSCRIBE", "c")
        client.write((encode("PUBLISH", "c", message) + encode("ECHO", "x" * 100)) * 20)
        seen = [client.read() for _ in range(60)]
    assert seen.count([b"message", b"c", message]) == 20, "messages"
    assert seen.count(b"x" * 100) == 20 and seen.count(1) == 20, "replies"
