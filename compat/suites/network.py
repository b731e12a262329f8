"""A suite beside a server of its own, in a network of its own.

Most suites have port 6379 written into them. So each command runs in a network namespace in which
that port is free, with nothing but the loopback device. Where a namespace is not allowed, commands
run one at a time in the machine's own network, and 6379 must be free there.

As a program, inside of the namespace: network.py DIR SERVER -- COMMAND..
"""

import contextlib
import dataclasses
import fcntl
import functools
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

from server import Process, Server, answers, until, valkey  # noqa: E402

PORT = 6379
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
# Exit code: the suite may have ended well, the server has not.
SERVER_FAULT = 90
# What tells a server where it is: its port, its directory, what is saved.
PLACE = re.compile(r"--(port|dir|bind|save)[ =]('[^']*'|\S+)")
FAULTS = re.compile(r"panicked|\bERROR\b")


@dataclasses.dataclass
class Case:
    name: str
    outcome: str  # ok, failed, skipped
    detail: str = ""


def reference():
    return f"{valkey()} --port {{port}} --dir {{dir}} --save '' --enable-debug-command yes"


@functools.cache
def namespace():
    """The words that give a command a network of its own; none where that is forbidden."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    return []


class Alone:
    """Runs commands, each beside a fresh server at 127.0.0.1:6379."""

    def __init__(self, server):
        self.server = server
        self.turn = threading.BoundedSemaphore(os.cpu_count() if namespace() else 1)

    def own(self):
        """The server's program and flags, for who starts it with a place of its own."""
        return PLACE.sub("", self.server)

    def run(self, command, cwd, patience_s, environment=None, is_served=True):
        """What it printed, and what went wrong with the server or the time, or None."""
        with self.turn, contextlib.closing(Suite(cwd, environment)) as suite:
            server = self.server if is_served else ""
            return suite.run([sys.executable, __file__, suite.place, server, "--", *command],
                             patience_s)


class Suite(Process):
    """A command in a network of its own, and all that it starts."""

    def __init__(self, cwd, environment):
        super().__init__(in_group=True, cwd=cwd, env=os.environ | (environment or {}))
        # The server's own folder.
        self.place = self.directory / "server"
        self.place.mkdir()

    def run(self, command, patience_s):
        """What it printed, and what went wrong with the server or the time, or None."""
        self.words, fault = [*namespace(), *command], None
        try:
            if self.spawn().process.wait(patience_s) == SERVER_FAULT:
                fault = "the server: " + (self.place / "fault").read_text()
        except subprocess.TimeoutExpired:
            fault = f"still running after {patience_s} s"
        self.end()
        return self.log_text(), fault

    def close(self):
        self.stop()


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, b"lo".ljust(18, b"\0")))
        up = struct.pack("16sh", b"lo", flags[1] | IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, up)


def inside(folder, server, command):
    """Starts the server, runs the command, looks at how the server has fared, stops it."""
    folder = pathlib.Path(folder)
    if namespace_is_ours():
        loopback_up()
    if not server:
        return min(abs(subprocess.run(command).returncode), SERVER_FAULT - 1)
    running = Server(server, folder, PORT)
    if answers(running.address):
        (folder / "fault").write_text("something listens on port 6379 already")
        return SERVER_FAULT
    # Not in the command's process group: a suite may end its own.
    running.spawn()
    until(lambda: not running.is_alive() or answers(running.address), "the server answers")
    status = subprocess.run(command).returncode if running.is_alive() else SERVER_FAULT
    ended = running.process.poll()
    running.kill()
    said = running.log_text()
    if ended is not None or FAULTS.search(said):
        (folder / "fault").write_text(f"ended with {ended}\n{said[-4000:]}")
        return SERVER_FAULT
    return min(abs(status), SERVER_FAULT - 1)


def namespace_is_ours():
    """A fresh namespace has a loopback device and nothing else."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


if __name__ == "__main__":
    sys.exit(inside(sys.argv[1], sys.argv[2], sys.argv[4:]))
