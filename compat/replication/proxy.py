"""A way between a replica and its primary that the test can cut, hold, slow down and count.

    replica -- proxy.address --> Proxy -- target --> primary

`down` is what the primary sends, `up` what the replica sends. Each connection has two threads, one
for each direction; all of them end when the proxy is closed.
"""

import contextlib
import socket
import threading

from nodes import DEADLINE_S

PIECE = 1 << 16
# With a limit of bytes a second: how much goes at once, in parts of a second.
STEP_S = 0.02


class Proxy:
    """Listens from its making on; ends with `close`."""

    def __init__(self, target):
        self.target = target
        self.passed = {"up": 0, "down": 0}
        self.connections, self.refuses = 0, False
        # More are refused while so many are open; None is no limit.
        self.most_connections = None
        # Bytes a second downwards; None is no limit.
        self.bytes_a_second = None
        # How long each piece is under way.
        self.latency_s = 0
        self._cut_at, self._refuses_then = None, False
        self._open, self._lock = [], threading.RLock()
        self._flows, self._closed = threading.Event(), threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = self._listener.getsockname()
        self._threads = []
        self._begin(self._accept)

    def _begin(self, body, *arguments):
        thread = threading.Thread(target=body, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self):
        self._closed.set()
        self._flows.set()
        with contextlib.suppress(OSError):
            # Wakes the thread that accepts.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def cut(self):
        """Ends all connections at both sides. New ones may come at once."""
        with self._lock:
            ends, self._open = self._open, []
        for pair in ends:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut_newest(self):
        """Ends the connection that came last."""
        with self._lock:
            pair = self._open.pop()
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_full(self):
        with self._lock:
            return self.most_connections is not None and len(self._open) >= self.most_connections

    def cut_after(self, count, refuses=False):
        """Cuts when the primary has sent so many more bytes; once. Then it may refuse everybody."""
        with self._lock:
            self._cut_at, self._refuses_then = self.passed["down"] + count, refuses

    def has_cut(self):
        return self._cut_at is None

    def half_close(self, side):
        """Tells one side, `primary` or `replica`, that nothing more comes; the other not."""
        with self._lock:
            ends = list(self._open)
        for replica, primary in ends:
            with contextlib.suppress(OSError):
                (primary if side == "primary" else replica).shutdown(socket.SHUT_WR)

    def hold(self):
        """Lets nothing through from now on; connections stay."""
        self._flows.clear()

    def release(self):
        self._flows.set()

    def _accept(self):
        while not self._closed.is_set():
            try:
                replica, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses or self._is_full():
                replica.close()
                continue
            try:
                primary = socket.create_connection(self.target, DEADLINE_S)
            except OSError:
                replica.close()
                continue
            for end in (replica, primary):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._open.append((replica, primary))
            self._begin(self._pass, replica, primary, "up")
            self._begin(self._pass, primary, replica, "down")

    def _pass(self, source, sink, way):
        """One direction of a connection, to its end."""
        try:
            while piece := source.recv(self._most(way)):
                self._flows.wait()
                if self.latency_s:
                    self._closed.wait(self.latency_s)
                keeps, is_last = self._counted(piece, way)
                sink.sendall(piece[:keeps])
                if is_last:
                    self.cut()
                    return
                if way == "down" and self.bytes_a_second:
                    self._closed.wait(keeps / self.bytes_a_second)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            # A reset: the other side shall hear of it, too.
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _most(self, way):
        if way == "down" and self.bytes_a_second:
            return max(1, min(PIECE, int(self.bytes_a_second * STEP_S)))
        return PIECE

    def _counted(self, piece, way):
        """How much of a piece goes on, and whether the connection ends behind it."""
        with self._lock:
            keeps, is_last = len(piece), False
            if way == "down" and self._cut_at is not None:
                room = self._cut_at - self.passed["down"]
                if room <= keeps:
                    keeps, is_last, self._cut_at = max(room, 0), True, None
                    self.refuses |= self._refuses_then
            self.passed[way] += keeps
            return keeps, is_last
