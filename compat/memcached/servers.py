"""Servers of a test's own, on free ports, stopped by the process id that was started."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from server import Server, listens  # noqa: E402

MEMCACHED = "memcached -l 127.0.0.1 -p {port} -U 0 -t 1 -u nobody -o no_lru_maintainer"


@contextlib.contextmanager
def running(command):
    """Runs a command line with {port} (and {dir}) in it until somebody listens; yields where."""
    with Server(command, is_served=listens) as server:
        yield server.address
