"""Ports for the servers of tests.

Another test may take a port between the look at it and the start of the server there. So ports are
of a range that the kernel gives to nobody (it has its own for outgoing connections, of which tests
make thousands), and each is claimed, by a Unix socket without a file, against other tests that
look at the same moment. `client.rs` of the transcripts claims ports in the same way.
"""

import collections
import random
import socket

PORTS = range(10_000, 32_000)
# A server has its port long before so many more are claimed.
_claims = collections.deque(maxlen=64)


def free_port(host="127.0.0.1", family=socket.AF_INET):
    """A port at which nobody listens, and which no other test is about to use."""
    while True:
        port = random.choice(PORTS)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0pantala-test-port-{port}")
            with socket.socket(family) as probe:
                probe.bind((host, port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
