"""Clients of Memcached's protocols that misbehave, at a port that they share with those of RESP."""

import random
import struct

from client import Closed, abort, connect
from server import MB
from trial import scenario

SHARED = ("--primary_port_memcached", "yes")
KEY = b"k" * 250


def binary(opcode, key=b"", extras=b"", value=b"", body_bytes=None):
    """A request of the binary protocol; its length may be a lie."""
    told = len(extras + key + value) if body_bytes is None else body_bytes
    head = struct.pack(">BBHBBHI4sQ", 0x80, opcode, len(key), len(extras), 0, 0, told, b"same", 0)
    return head + extras + key + value


def told(trial, raw, wanted):
    """Sends something on a fresh connection, and the answer must be this."""
    with trial.client() as client:
        client.write(raw)
        got = b""
        while len(got) < len(wanted):
            piece = client.sock.recv(1 << 16)
            assert piece, f"{raw[:60]!r}: the end after {got!r:.100}"
            got += piece
        assert got == wanted, f"{raw[:60]!r} gave {got!r:.100}, not {wanted!r:.100}"


@scenario(*SHARED)
def shared_port(trial):
    """First bytes of both protocols, of neither, and in pieces."""
    for _ in range(20):
        told(trial, b"set a 5 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 5 1\r\nx\r\nEND\r\n")
        told(trial, b"get a\r\nmn\r\n", b"VALUE a 5 1\r\nx\r\nEND\r\nMN\r\n")
        told(trial, b"GET a\r\n", b"$1\r\nx\r\n")
        told(trial, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n")
    chance = random.Random(1)
    firsts = [b"\x80", b"\x81", b"\0", b"\x16\x03\x01", b"get ", b"set ", b"mg ", b"touch ",
              b"\r\n", b"\n", b"*1\r\n", b"GET / HTTP/1.1\r\n", b"gets ", b"stats"]
    for number in range(300):
        raw = firsts[number % len(firsts)] + chance.randbytes(chance.choice([0, 1, 30, 5_000]))
        with trial.client() as client:
            try:
                size = chance.choice([7, 100, 10_000])
                for at in range(0, len(raw), size):
                    client.write(raw[at:at + size])
                client.half_close()
            except ConnectionError:
                continue
            client.rest()


@scenario(*SHARED)
def keys_of_items(trial):
    """Keys of 250 bytes are stored; of 251 they are refused, and the connection goes on."""
    told(trial, b"set %b 0 0 1\r\nx\r\nmg %b v\r\n" % (KEY, KEY), b"STORED\r\nVA 1\r\nx\r\n")
    bad = b"CLIENT_ERROR bad command line format\r\n"
    told(trial, b"set %bk 0 0 1\r\nmn\r\n" % KEY, bad + b"MN\r\n")
    told(trial, b"mg %bk v\r\nmn\r\n" % KEY, bad + b"MN\r\n")
    told(trial, b"gets %bk\r\nmn\r\n" % KEY, bad + b"MN\r\n")
    with trial.client() as client:
        client.write(binary(0x00, KEY) + binary(0x00, KEY + b"k"))
        answer = client.sock.recv(24, 0x100)
        assert answer[:2] == b"\x81\0" and answer[6:8] == b"\0\0", f"{answer!r}"


@scenario(*SHARED)
def items_at_their_limit(trial):
    """What is larger than an item may be is thrown away; the next request is answered."""
    large = b"x" * (3 * MB)
    told(trial, b"set a 0 0 1\r\nx\r\nset a 0 0 %d\r\n%b\r\nget a b\r\n" % (len(large), large),
         b"STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n")
    told(trial, b"set a 0 0 2147483648\r\nmn\r\n",
         b"CLIENT_ERROR bad command line format\r\nMN\r\n")
    for raw in (binary(0x01, b"k", b"\0" * 8, body_bytes=0xFFFFFFFF), binary(0x01, body_bytes=3)):
        with trial.client() as client:
            client.write(raw)
            client.half_close()
            client.rest()
    assert trial.rss_grown() < 64 * MB, f"{trial.rss_grown() >> 20} MB for what was thrown away"


@scenario(*SHARED)
def gone_amid_an_item(trial):
    """Clients that leave at a random byte of what they send: what is whole is stored, else not."""
    chance = random.Random(2)
    whole = b"".join(b"set k%d 0 0 1000 noreply\r\n%b\r\n" % (number, b"v" * 1000)
                     for number in range(50))
    numbers = b"".join(binary(0x11, b"b%d" % number, b"\0" * 8, b"v" * 1000)
                       for number in range(50))
    for number in range(300):
        raw = (whole, numbers)[number % 2]
        sock = connect(trial.server.address)
        try:
            sock.sendall(raw[:chance.randrange(1, len(raw))])
            abort(sock) if chance.random() < 0.5 else sock.close()
        except ConnectionError:
            sock.close()
    with trial.client() as client:
        for key in [b"k%d" % number for number in range(50)]:
            assert client.call("STRLEN", key) in (0, 1000), "half an item was stored"
        client.call("FLUSHALL")


@scenario(*SHARED)
def slow_clients_of_items(trial):
    """200 clients send an item byte by byte; 50 ask for much and read nothing."""
    request = b"set slow 0 0 30\r\n" + b"v" * 30 + b"\r\nget slow\r\n"
    slow = [trial.client() for _ in range(200)]
    told(trial, b"set large 0 0 900000\r\n%b\r\n" % (b"x" * 900_000), b"STORED\r\n")
    deaf = [trial.client() for _ in range(50)]
    for client in deaf:
        client.write(b"get large large large large\r\n")
    for at in range(len(request)):
        for client in slow:
            client.write(request[at:at + 1])
    wanted = b"STORED\r\nVALUE slow 0 30\r\n" + b"v" * 30 + b"\r\nEND\r\n"
    for client in slow:
        got = b""
        while len(got) < len(wanted):
            got += client.sock.recv(1 << 16)
        assert got == wanted, f"{got!r:.100}"
        client.close()
    for client in deaf:
        client.abort()


@scenario(*SHARED)
def a_thousand_clients_of_items(trial):
    """1,000 connections that count the same number by all three protocols: none is lost."""
    told(trial, b"set n 0 0 1\r\n0\r\n", b"STORED\r\n")
    step = struct.pack(">QQI", 1, 0, 0xFFFFFFFF)
    asks = [b"incr n 1\r\n" * 5, b"ma n v\r\n" * 5, binary(0x05, b"n", step) * 5]
    crowd = [connect(trial.server.address) for _ in range(1_000)]
    for number, sock in enumerate(crowd):
        sock.sendall(asks[number % 3])
    for number, sock in enumerate(crowd):
        ends, got = (5, 10, 0)[number % 3], b""
        while got.count(b"\r\n") < ends if ends else len(got) < 5 * 32:
            piece = sock.recv(1 << 16)
            if not piece:
                raise Closed("one of the crowd was closed")
            got += piece
    with trial.client() as client:
        client.want(b"5000", "GET", "n")
        client.call("DEL", "n")
    for sock in crowd:
        sock.close()
