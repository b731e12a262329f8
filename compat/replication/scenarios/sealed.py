"""Links over TLS: which certificate a replica shows, and to whom."""

import sys
from pathlib import Path

from nodes import linked, settle, until
from ports import free_port
from trial import is_error, scenario

sys.path.append(str(Path(__file__).parents[2] / "tls"))

from certificates import Certificates  # noqa: E402

# The wheel's Valkey speaks no TLS.
ROWS = ("redis>redis", "redis>pantala", "pantala>redis", "pantala>pantala")


@scenario(rows=ROWS)
def client_certificate(trial):
    """A replica shows tls-client-cert-file where that is named, else tls-cert-file."""
    primary, replica = trial.not_started(0), trial.not_started(1)
    files = Certificates(primary.directory)
    doors = [free_port(), free_port()]
    for node, door, own in zip((primary, replica), doors, ("server", "stranger")):
        words = files.settings(own)
        node.settings |= {"tls-port": door, "tls-auth-clients": "yes", "tls-replication": "yes"}
        node.settings |= {name[2:]: value for name, value in zip(words[::2], words[1::2])}
        node.start()
    primary.want(b"OK", "SET", "k", "v")
    replica.follow(("127.0.0.1", doors[0]))
    until(lambda: refused(primary), f"{primary} refuses a stranger")
    assert not replica.is_linked()

    client = ["tls-client-cert-file", files.path("client.crt"), "tls-client-key-file"]
    wrong = replica.call("CONFIG", "SET", *client, files.path("server.key"))
    assert is_error(wrong, "ERR"), f"a key that is not the certificate's: {wrong}"
    replica.want(b"OK", "CONFIG", "SET", *client, files.path("client.key"))
    linked(replica)
    settle(primary, replica)
    replica.want(b"v", "GET", "k")


def refused(node):
    """Whether somebody's certificate was not believed."""
    if node.kind == "pantala":
        return int(node.info("tls")["tls_handshakes_failed"]) > 0
    return "Error accepting a client connection" in node.log_text()
