"""A server as a child process: on a free port of this machine, in a directory of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

# How often a starting server is asked.
PAUSE_S = 0.01
# A port that was free a moment ago may be taken: then another is tried.
ATTEMPTS = 5


def binary() -> Path:
    """The path of the server's binary."""
    return Path(__file__).parent / "bin" / "pantala"


class Server:
    """A server that runs from `start()` to `stop()`, or inside of `with`.

    `flags` are those of the command line. Nothing is kept on disk, unless a flag says so; the
    server's directory goes with it.
    """

    host = "127.0.0.1"

    def __init__(self, *flags: str, start_timeout_s: float = 30.0) -> None:
        self.flags = flags
        self.start_timeout_s = start_timeout_s
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = ""

    @property
    def url(self) -> str:
        """As clients take it."""
        return f"redis://{self.host}:{self.port}/0"

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        return (Path(self._directory) / "log").read_text(errors="replace")

    def start(self) -> Server:
        """Starts the server and waits until it answers.

        Raises RuntimeError, with what the server said, if it ends or does not answer in time.
        """
        if self._process:
            raise RuntimeError("the server runs already")
        self._directory = tempfile.mkdtemp(prefix="pantala-")
        for attempt in range(ATTEMPTS):
            self._launch()
            if self._answers():
                return self
            said, is_taken = self.log, "in use" in self.log.lower()
            self._end()
            if not is_taken or attempt == ATTEMPTS - 1:
                break
        shutil.rmtree(self._directory, ignore_errors=True)
        raise RuntimeError(f"the server did not start:\n{said}")

    def stop(self) -> None:
        """Ends the server. It may be started again, and is empty then."""
        self._end()
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)

    def flush(self) -> None:
        """Removes every key."""
        answer = self._ask(b"FLUSHALL\r\n", timeout_s=self.start_timeout_s)
        if answer != b"+OK\r\n":
            raise RuntimeError(f"FLUSHALL: {answer.decode(errors='replace').strip()}")

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_why: object) -> None:
        self.stop()

    def _launch(self) -> None:
        self.port = _free_port(self.host)
        command = [str(binary()), "--port", str(self.port), "--bind", self.host,
                   "--dir", self._directory, "--save", "", *self.flags]
        with open(Path(self._directory) / "log", "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log)

    def _answers(self) -> bool:
        """Waits for the first answer; whether there was one."""
        end = time.monotonic() + self.start_timeout_s
        while self._process and self._process.poll() is None and time.monotonic() < end:
            try:
                # One that asks for a password answers, too.
                if self._ask(b"PING\r\n", timeout_s=1)[:7] in (b"+PONG\r\n", b"-NOAUTH"):
                    return True
            except OSError:
                pass
            time.sleep(PAUSE_S)
        return False

    def _ask(self, command: bytes, timeout_s: float) -> bytes:
        with socket.create_connection((self.host, self.port), timeout_s) as connection:
            connection.sendall(command)
            answer = b""
            while not answer.endswith(b"\r\n"):
                part = connection.recv(4096)
                if not part:
                    break
                answer += part
            return answer

    def _end(self) -> None:
        if not self._process:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
