#!/usr/bin/env python3
"""What strangers try at a port with TLS, by openssl and plain sockets: tricks.py HOST:PORT FILES

Clients must show a certificate there. After each trick the server still serves.
"""

import errno
import pathlib
import socket
import ssl
import subprocess
import sys

# A limit only for what will never come.
LONGEST_S = 120
TRICKS = []


def trick(function):
    TRICKS.append(function)
    return function


class Place:
    def __init__(self, address, files):
        host, port = address.rsplit(":", 1)
        self.address, self.files = (host, int(port)), pathlib.Path(files)

    def file(self, name):
        return str(self.files / name)

    def context(self, certificate="client", **limits):
        context = ssl.create_default_context(cafile=self.file("ca.crt"))
        if certificate:
            own = [self.file(f"{certificate}.{kind}") for kind in ("crt", "key")]
            context.load_cert_chain(*own)
        for name, value in limits.items():
            setattr(context, name, value)
        return context

    def plain(self):
        sock = socket.create_connection(self.address, LONGEST_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def client(self, context=None):
        return (context or self.context()).wrap_socket(self.plain(), server_hostname="localhost")

    def serves(self):
        with self.client() as client:
            client.sendall(b"PING\r\n")
            assert client.recv(100) == b"+PONG\r\n"

    def openssl(self, *words, said=b"", is_known=True):
        """openssl s_client, with what it is told; its output."""
        own = ["-cert", self.file("client.crt"), "-key", self.file("client.key")]
        line = ["openssl", "s_client", "-connect", "{}:{}".format(*self.address), "-CAfile",
                self.file("ca.crt"), *(own if is_known else []), *words]
        ran = subprocess.run(line, input=said, capture_output=True, timeout=LONGEST_S, check=False)
        return (ran.stdout + ran.stderr).decode(errors="replace")


def is_refused(place, context):
    """Whether a connection comes to nothing: at the handshake, or (TLS 1.3) right after it."""
    try:
        with place.client(context) as client:
            client.sendall(b"PING\r\n")
            return client.recv(100) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@trick
def renegotiation_is_refused(place):
    # `R` on a line of its own asks for it. The connection goes on, or ends; nobody else notices.
    told = place.openssl("-tls1_2", said=b"PING\r\nR\nPING\r\n")
    assert "no_renegotiation" in told or "renegotiation" in told.lower(), told[-500:]


@trick
def key_updates_are_followed(place):
    told = place.openssl("-tls1_3", "-ign_eof", said=b"PING\r\nK\nPING\r\nk\nPING\r\nQUIT\r\n")
    assert told.count("+PONG") == 3 and "+OK" in told, told[-800:]


@trick
def old_versions_and_weak_ciphers_are_refused(place):
    for words in (["-tls1"], ["-tls1_1"], ["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"],
                  ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0"]):
        told = place.openssl(*words)
        assert "Cipher is (NONE)" in told or "Cipher    : 0000" in told, told[-500:]


@trick
def certificates_that_are_not_believed_do_not_come_in(place):
    assert is_refused(place, place.context(certificate=None))
    assert is_refused(place, place.context(certificate="stranger"))
    assert not is_refused(place, place.context())


@trick
def records_of_one_byte_and_hellos_in_pieces(place):
    context = place.context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with place.plain() as sock:
        def pump():
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))

        def until_done(step):
            while True:
                try:
                    done = step()
                    pump()
                    return done
                except ssl.SSLWantReadError:
                    pump()
                    incoming.write(sock.recv(1 << 16))

        until_done(client.do_handshake)
        for byte in b"*1\r\n$4\r\nPING\r\n":
            client.write(bytes([byte]))
            pump()
        assert until_done(lambda: client.read(100)) == b"+PONG\r\n"


@trick
def halves_of_handshakes_and_garbage(place):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = place.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = outgoing.read()
    for raw in (b"", hello[:1], hello[:5], hello[:100], hello + b"\x17\x03\x03\0\x20" + b"x" * 32,
                hello[:-1] + b"\xff", b"\x16\x03\x01\xff\xff" + b"x" * 70_000,
                b"\x15\x03\x03\0\x02\x02\x28", b"\x17\x03\x03\0\x05hello", b"\x80\x2e\x01\x03\x01",
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PING\r\n", hello * 50):
        with place.plain() as sock:
            try:
                sock.sendall(raw)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except ConnectionError:
                pass
            except OSError as error:
                # The server may have closed the connection before this side ends its own.
                if error.errno != errno.ENOTCONN:
                    raise
        place.serves()


@trick
def sessions_are_resumed(place):
    context = place.context()
    with context.wrap_socket(place.plain(), server_hostname="localhost") as first:
        first.sendall(b"PING\r\n")
        assert first.recv(100) == b"+PONG\r\n"
        session = first.session
    again = {"server_hostname": "localhost", "session": session}
    with context.wrap_socket(place.plain(), **again) as second:
        second.sendall(b"PING\r\n")
        assert second.recv(100) == b"+PONG\r\n"
        assert second.session_reused, "the ticket is good"


@trick
def an_end_is_said(place):
    with place.client() as client:
        client.sendall(b"PING\r\nQUIT\r\n")
        got = b""
        # An end that is not said is an error here.
        while piece := client.recv(100):
            got += piece
        assert got == b"+PONG\r\n+OK\r\n", got


@trick
def values_of_megabytes(place):
    value = bytes(range(256)) * 40_000
    with place.client() as client:
        bulk = b"$%d\r\n%b\r\n" % (len(value), value)
        client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n" + bulk + b"GET k\r\n")
        wanted = b"+OK\r\n" + bulk
        got = bytearray()
        while len(got) < len(wanted):
            got += client.recv(1 << 20)
        assert bytes(got) == wanted


def main():
    place, failed = Place(*sys.argv[1:3]), 0
    for body in TRICKS:
        try:
            body(place)
            place.serves()
        except Exception as why:
            failed += 1
            print(f"FAILED {body.__name__} {type(why).__name__}: {why}")
    print(f"{len(TRICKS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
