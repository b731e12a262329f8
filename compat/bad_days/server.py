"""A server under test: started on a free port, looked at from outside, stopped by its pid."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from client import TIMEOUT_S, Client, ErrorReply

sys.path.insert(0, str(Path(__file__).parents[1]))

from ports import free_port  # noqa: E402

# A limit only for what will never be: a machine may be busy with other things.
DEADLINE_S = 120
MB = 1 << 20
# So that two keys of a scenario share a partition always or never.
HASH_SEED = "bad days"


def until(condition, what, deadline_s=DEADLINE_S):
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


class Server:
    """One process."""

    def __init__(self, binary, engine, flags=(), threads=2, descriptors=None, port=None,
                 bind="127.0.0.1"):
        self.binary, self.engine, self.flags = binary, engine, list(flags)
        self.threads, self.descriptors, self.bind = threads, descriptors, bind
        self.directory = tempfile.mkdtemp(prefix="bad-days-")
        self.port = port or free_port()
        # Where the log goes in place of a file: a descriptor.
        self.log_writer = None
        # The path of the socket it is reached by in place of the port.
        self.unix = None
        # Variables beside those of this process.
        self.variables = {}
        self.process = None

    @property
    def address(self):
        return self.unix or ("127.0.0.1", self.port)

    @property
    def pid(self):
        return self.process.pid

    def command(self):
        return [self.binary, "--port", str(self.port), "--bind", self.bind,
                "--threads", str(self.threads), "--io_engine", self.engine,
                "--dir", self.directory, "--save", "", "--hash-seed", HASH_SEED, *self.flags]

    def start(self):
        limit = self.descriptors

        def prepare():
            if limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)

        self.log = open(self.log_writer or Path(self.directory) / "log", "ab")
        self.process = subprocess.Popen(self.command(), stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL, preexec_fn=prepare,
                                        env={**os.environ, **self.variables})
        until(self._answers, "the server answers PING")
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

    def _answers(self):
        assert self.process.poll() is None, f"it ended at once: {self.log_text()[-500:]}"
        try:
            with Client(self.address, 5) as client:
                answer = client.call("PING")
                return answer == b"PONG" or str(answer).startswith("NOAUTH")
        except OSError:
            return False

    def stop(self):
        """Ends it, whatever state it is in."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"SIGTERM did not end it within {DEADLINE_S} s") from None
            finally:
                self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._remove_rings()

    def _remove_rings(self):
        """Those that one which was killed has left for the next start (FNV-1a of the manifest's
        path)."""
        number = 0xCBF29CE484222325
        for byte in os.fsencode(f"{self.directory}/appendonlydir/appendonly.aof.manifest"):
            number = (number ^ byte) * 0x100000001B3 % (1 << 64)
        for path in Path("/dev/shm").glob(f"pantala-{number:016x}-*.rings"):
            path.unlink(missing_ok=True)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def client(self, timeout_s=TIMEOUT_S):
        return Client(self.address, timeout_s)

    def has(self, *command):
        """Whether it knows this command (it is really sent)."""
        with self.client() as client:
            got = client.call(*command)
            return not (isinstance(got, ErrorReply) and "unknown" in got.lower())

    def log_text(self):
        return (Path(self.directory) / "log").read_text(errors="replace")

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
