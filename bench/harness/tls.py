"""The table of what encryption costs (group tls), and the certificates for it.

Beside redis-server: the wheel of valkey-server is built without TLS. Servers are asked, filled and
started by a plain port; what is measured goes to a second one, with TLS 1.3 and AES-256-GCM, the
choice of all of them. A `handshakes` scenario makes a connection for each request, with no ticket
of the one before: its figure is the CPU of a handshake and of one PING.
"""

import functools
import sys
import tempfile
from pathlib import Path

from .scenario import KEY, VALUE, Budget, Scenario

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "compat" / "tls"))

from certificates import Certificates  # noqa: E402

SERVERS = ("pantala", "redis")


@functools.cache
def certificates():
    """The files, and the directory that keeps them for as long as the bench runs."""
    directory = tempfile.TemporaryDirectory(prefix="bench-tls-")
    return Certificates(directory.name), directory


def server_settings(port, certificate):
    """For each of the servers."""
    own = certificates()[0].settings(certificate)
    return ["--tls-port", str(port), "--tls-auth-clients", "no", *own]


def load_options():
    """For redis-benchmark."""
    return ["--tls", *certificates()[0].of_cli(None)]


def encrypted(name, title, command, limit, certificate="server", **more):
    more = {"requests": 1_000_000, "quick": {"keys": 50_000, "requests": 30_000}} | more
    return Scenario(
        f"tls-{name}",
        f"TLS: {title}",
        "commands",
        "cpu_us",
        group="tls",
        servers=SERVERS,
        command=command,
        certificate=certificate,
        budgets=(Budget("cpu_us", limit, "redis"),),
        **more,
    )


def handshakes(name, title, certificate):
    sizes = {"keys": 1_000, "requests": 20_000, "keeps_connections": False}
    quick = {"requests": 2_000}
    return encrypted(name, title, "PING", 1.0, certificate, quick=quick, **sizes)


PIPELINED = {"pipeline": 30, "requests": 5_000_000, "quick": {"keys": 50_000, "requests": 300_000}}

ROWS = (
    encrypted("get", "GET", f"GET {KEY}", 0.8, must_hit=True),
    encrypted("get-p30", "GET, pipeline 30", f"GET {KEY}", 0.8, must_hit=True, **PIPELINED),
    encrypted("set", "SET", f"SET {KEY} {VALUE}", 0.8),
    encrypted(
        "get-100k",
        "GET of 100 KB",
        f"GET {KEY}",
        0.8,
        must_hit=True,
        keys=1_000,
        value_bytes=100_000,
        requests=100_000,
        quick={"requests": 3_000},
    ),
    handshakes("handshake", "a connection, P-256", "server"),
    handshakes("handshake-rsa", "a connection, RSA 2048", "rsa"),
)
