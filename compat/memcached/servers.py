"""Servers of a test's own, on free ports, stopped by the process id that was started."""

import contextlib
import pathlib
import shlex
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from ports import free_port  # noqa: E402

LONGEST_S = 60
MEMCACHED = "memcached -l 127.0.0.1 -p {port} -U 0 -t 1 -u nobody -o no_lru_maintainer"


@contextlib.contextmanager
def running(command):
    """Runs a command line with {port} (and {dir}) in it until it answers; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        words = [word.format(port=port, dir=folder) for word in shlex.split(command)]
        log = pathlib.Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for(process, port, log)
            yield ("127.0.0.1", port)
        finally:
            process.terminate()
            process.wait(LONGEST_S)


def wait_for(process, port, log):
    """Until somebody listens there."""
    end = time.monotonic() + LONGEST_S
    while True:
        assert process.poll() is None, f"it has ended: {log.read_text(errors='replace')}"
        assert time.monotonic() < end, "nobody listens"
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.01)
