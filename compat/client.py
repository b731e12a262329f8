"""A small client over plain sockets, which can also misbehave.

It does nothing behind the caller's back: no reconnecting, no retries. Every wait has a deadline.
"""

import errno
import socket
import struct

# A limit only for what will never come: a machine may be busy with other things.
TIMEOUT_S = 120


class ErrorReply(str):
    """An error the server answered with, without its `-`."""


class Closed(Exception):
    """The server has closed the connection."""


def encode(*args):
    """One command as bytes."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        raw = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


def connect(address, timeout_s=TIMEOUT_S, source=None):
    """A socket connected to (host, port) or to the path of a Unix socket."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout_s)
        sock.connect(address)
        return sock
    sock = socket.create_connection(address, timeout_s, source)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def abort(sock):
    """Closes with a reset instead of an orderly end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def shut_writing(sock):
    """Says that nothing more is sent. The server may have closed before: then nothing is left."""
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


class Client:
    """One connection."""

    def __init__(self, address, timeout_s=TIMEOUT_S):
        self.sock = connect(address, timeout_s)
        self.buffer = bytearray()
        self.at = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def abort(self):
        abort(self.sock)

    def half_close(self):
        shut_writing(self.sock)

    def write(self, raw):
        self.sock.sendall(raw)

    def call(self, *args):
        """Sends a command, gives its reply; errors are returned, not raised."""
        self.write(encode(*args))
        return self.read()

    def want(self, wanted, *args):
        """Like `call`, and the reply must be this one."""
        got = self.call(*args)
        assert got == wanted, f"{args[:2]} gave {got!r:.120}, not {wanted!r:.120}"

    def read(self):
        """The next reply."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bytes(int(rest))
        if kind in (b"*", b">"):
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return [self.read() for _ in range(2 * int(rest))]
        if kind == b"_":
            return None
        raise AssertionError(f"no reply begins like this: {line!r:.100}")

    def at_end(self):
        """Whether nothing more comes: an end or a reset. Waits for it."""
        try:
            return not self.buffer[self.at:] and self.sock.recv(1 << 16) == b""
        except ConnectionError:
            return True

    def count_bytes(self, wanted):
        """Reads and throws away so many bytes; the last few of them."""
        left = wanted - (len(self.buffer) - self.at)
        tail = bytes(self.buffer[self.at:])
        self.buffer, self.at = bytearray(), 0
        assert left >= 0, "more was read already"
        room = bytearray(1 << 20)
        while left > 0:
            got = self.sock.recv_into(room, min(left, len(room)))
            if got == 0:
                raise Closed(f"{left} bytes before the end")
            left -= got
            tail = bytes(room[max(0, got - 16):got])
        return tail[-16:]

    def rest(self):
        """Everything up to the end of the connection; a reset is an end too."""
        out = bytearray(self.buffer[self.at:])
        try:
            while piece := self.sock.recv(1 << 20):
                out += piece
        except ConnectionError:
            pass
        return bytes(out)

    def _more(self):
        if self.at > 1 << 20:
            del self.buffer[:self.at]
            self.at = 0
        piece = self.sock.recv(1 << 18)
        if not piece:
            raise Closed("the server has closed the connection")
        self.buffer += piece

    def _line(self):
        while (end := self.buffer.find(b"\r\n", self.at)) < 0:
            self._more()
        line = bytes(self.buffer[self.at:end])
        self.at = end + 2
        return line

    def _bytes(self, length):
        while len(self.buffer) < self.at + length + 2:
            self._more()
        value = bytes(self.buffer[self.at:self.at + length])
        self.at += length + 2
        return value
