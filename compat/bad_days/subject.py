"""The server of a scenario: how it is started, and what the kernel knows of it."""

import os
import resource
import threading
import time
from pathlib import Path

import server
from client import TIMEOUT_S, Client, ErrorReply
from server import until

# So that two keys of a scenario share a partition always or never.
HASH_SEED = "bad days"


class Server(server.Server):
    """One process."""

    def __init__(self, binary, engine, flags=(), threads=2, descriptors=None, port=None,
                 bind="127.0.0.1"):
        super().__init__(port=port)
        self.binary, self.engine, self.flags = binary, engine, list(flags)
        self.threads, self.descriptors, self.bind = threads, descriptors, bind
        # Where the log goes in place of a file: a descriptor, which closes with the server.
        self.log_writer = None
        # The path of the socket it is reached by in place of the port.
        self.unix = None
        # Variables beside those of this process.
        self.variables = {}

    @property
    def address(self):
        return self.unix or super().address

    @property
    def log(self):
        return super().log if self.log_writer is None else self.log_writer

    def command(self):
        return [self.binary, "--port", str(self.port), "--bind", self.bind,
                "--threads", str(self.threads), "--io_engine", self.engine,
                "--dir", str(self.directory), "--save", "", "--hash-seed", HASH_SEED, *self.flags]

    def spawn(self):
        limit = self.descriptors

        def prepare():
            if limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)

        self.options = {"preexec_fn": prepare, "env": os.environ | self.variables}
        return super().spawn()

    def start(self):
        super().start()
        self.base_fds, self.base_rss = self._settled_fds(), self.rss()
        return self

    def _settled_fds(self):
        """The descriptors when those of the first PING are gone: ten looks that agree."""
        seen = []

        def agree():
            seen.append(self.fd_count())
            return len(set(seen[-10:])) == 1 and len(seen) >= 10

        until(agree, "the descriptors settle")
        return seen[-1]

    def stop(self):
        super().stop()
        if self.log_writer is not None:
            os.close(self.log_writer)
            self.log_writer = None
        self._remove_rings()

    def _remove_rings(self):
        """Those that one which was killed has left for the next start (FNV-1a of the manifest's
        path)."""
        number = 0xCBF29CE484222325
        for byte in os.fsencode(f"{self.directory}/appendonlydir/appendonly.aof.manifest"):
            number = (number ^ byte) * 0x100000001B3 % (1 << 64)
        for path in Path("/dev/shm").glob(f"pantala-{number:016x}-*.rings"):
            path.unlink(missing_ok=True)

    def client(self, timeout_s=TIMEOUT_S):
        return Client(self.address, timeout_s)

    def has(self, *command):
        """Whether it knows this command (it is really sent)."""
        with self.client() as client:
            got = client.call(*command)
            return not (isinstance(got, ErrorReply) and "unknown" in got.lower())

    # What the kernel knows of it.

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss(self):
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def cpu_s(self):
        """CPU time of all threads, from the scheduler: exact to the nanosecond."""
        return sum(int(text.split()[0]) for text in self._of_tasks("schedstat").values()) / 1e9

    def switches(self):
        """How often each thread has gone to sleep, by name and number."""
        counts = {}
        for task, text in self._of_tasks("status").items():
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            counts[f"{fields['Name'].strip()}/{task}"] = int(fields["voluntary_ctxt_switches"])
        return counts

    def _of_tasks(self, name):
        """A file of each thread; threads that end meanwhile are left out."""
        texts = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                texts[task.name] = (task / name).read_text()
            except (FileNotFoundError, ProcessLookupError):
                pass
        return texts


class CoreWaits:
    """How long the server's workers, and this thread, were ready to run but got no core: a wait
    for an answer without that is the server's own doing, however busy the machine is."""

    FRESH_S = 0.2

    def __init__(self, pid):
        self.pid, self.before, self.at = pid, {}, 0.0
        self.look()

    def look(self):
        """Remembers how things stand now, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self.at > self.FRESH_S:
            self.before, self.at = self._now(), now

    def since(self):
        """Seconds since the last look; too many rather than too few by what passed before."""
        now = self._now()
        grown = {task: waited - self.before.get(task, 0) for task, waited in now.items()}
        own = grown.pop("self", 0)
        return (own + max(grown.values(), default=0)) / 1e9

    def _now(self):
        waits = {}
        places = {"self": Path("/proc/thread-self")}
        places |= {task.name: task for task in Path(f"/proc/{self.pid}/task").iterdir()}
        for name, place in places.items():
            try:
                if name == "self" or (place / "comm").read_text().startswith("worker"):
                    waits[name] = int((place / "schedstat").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return waits


class Watcher:
    """A second client, in its own process, so that Python's lock does not delay it: it asks PING
    over and over and keeps the longest answer time, less what the machine took."""

    SLOW_S = 0.5

    def __init__(self, server):
        self.stop_read, self.stop_write = os.pipe()
        self.result_read, self.result_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(server)

    def _live(self, server):
        status = 1
        try:
            os.set_blocking(self.stop_read, False)
            os.close(self.stop_write)
            longest, client, core_waits = 0.0, Client(server.address), CoreWaits(server.pid)
            pause = threading.Event()
            while True:
                core_waits.look()
                began = time.monotonic()
                assert client.call("PING") == b"PONG"
                waited = time.monotonic() - began
                if waited > self.SLOW_S:
                    waited -= core_waits.since()
                longest = max(longest, waited)
                try:
                    if os.read(self.stop_read, 1) == b"":
                        break
                except BlockingIOError:
                    pass
                pause.wait(0.002)
            os.write(self.result_write, f"{longest:.6f}".encode())
            status = 0
        finally:
            os._exit(status)

    def finish(self):
        """Ends it; the longest answer time in seconds, or None if it got no answer."""
        os.close(self.stop_write)
        os.close(self.result_write)
        text = os.read(self.result_read, 64)
        os.close(self.result_read)
        os.close(self.stop_read)
        os.waitpid(self.pid, 0)
        return float(text) if text else None
