"""A few questions to a server over one short connection, in RESP2 or memcached text."""

import socket

TIMEOUT_S = 60


class ServerError(Exception):
    """The server answered with an error."""


class Connection:
    """One connection; use as a context manager."""

    def __init__(self, port, timeout_s=TIMEOUT_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def command(self, *words):
        """Sends a RESP command and returns its reply."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))
        return read_reply(self.file)

    def memcached_stats(self):
        """memcached's `stats` as a dict of strings."""
        self.socket.sendall(b"stats\r\n")
        stats = {}
        while (line := self.file.readline().decode().split()) and line[0] == "STAT":
            stats[line[1]] = " ".join(line[2:])
        return stats


def read_reply(file):
    """One RESP2 reply: str for a status, bytes, int, list or None; raises ServerError."""
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest.decode()
    if kind == b"-":
        raise ServerError(rest.decode(errors="replace"))
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return None if rest == b"-1" else [read_reply(file) for _ in range(int(rest))]
    raise ConnectionError(f"not a RESP2 reply: {line[:40]!r}")


def info(port, section):
    """INFO's fields as a dict of strings; empty when the server knows no INFO."""
    with Connection(port) as connection:
        try:
            text = connection.command("INFO", section).decode(errors="replace")
        except ServerError:
            return {}
    return parse_info(text)


def parse_info(text):
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, colon, value in lines if colon}
