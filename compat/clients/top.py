#!/usr/bin/env python3
"""`pantala top` in a terminal: pages, a new size, a client that is killed, hot keys, the end.

    python3 compat/clients/top.py PANTALA HOST:PORT

PANTALA is the program; the server may be any of this protocol, and has no other clients. Exit code
1 when something is missing on the screen.
"""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time

DEADLINE_S = 60
# What moves the cursor, sets colours, clears; or a character.
PARTS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|(.)", re.DOTALL)


class Screen:
    """A process in a terminal of its own."""

    def __init__(self, words):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execvp(words[0], words)
        self.resize(40, 120)
        self.seen = b""

    def resize(self, lines, columns):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        os.kill(self.pid, signal.SIGWINCH)

    def press(self, keys):
        os.write(self.terminal, keys)

    def shows(self, word):
        """Waits until a word is on the screen."""
        end = time.monotonic() + DEADLINE_S
        while word not in self.text():
            assert time.monotonic() < end, f"{word} is not on the screen:\n{self.text()}"
            self.read()

    def text(self):
        """The screen, as what was written has made it."""
        cells, line, column = {}, 0, 0
        for values, kind, char in PARTS.findall(self.seen.decode(errors="ignore")):
            if kind == "H":
                line, column = ([int(value) for value in values.split(";") if value] or [1, 1])
            elif kind == "J" and values == "2":
                cells = {}
            elif char:
                cells[line, column] = char
                column += 1
        lines = {line for line, _ in cells}
        widest = max((column for _, column in cells), default=0)
        rows = ("".join(cells.get((line, at), " ") for at in range(widest + 1))
                for line in sorted(lines))
        return "\n".join(rows)

    def read(self):
        ready, _, _ = select.select([self.terminal], [], [], 0.5)
        if not ready:
            return True
        try:
            part = os.read(self.terminal, 1 << 16)
        except OSError:
            return False
        self.seen += part
        return bool(part)

    def ends(self):
        """Waits for its end; its status."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main(program, address):
    host, port = address.rsplit(":", 1)
    victim = socket.create_connection((host, int(port)), DEADLINE_S)
    victim.sendall(b"PING\r\n")
    assert victim.recv(64) == b"+PONG\r\n"
    screen = Screen([program, "top", f"redis://{address}", "-i", "0.2"])
    for word in ("Families", "commands/s", "memory", "server"):
        screen.shows(word)
    screen.press(b"2")
    screen.shows("info")
    screen.resize(24, 80)
    screen.shows("Families")
    screen.press(b"3")
    screen.shows("address")
    screen.press(b"k")
    screen.shows("Kill")
    screen.press(b"y")
    screen.shows("killed")
    assert victim.recv(64) == b"", "it is connected"
    screen.press(b"\t")
    screen.press(b"\t")
    look_for_hot_keys(screen, (host, int(port)))
    screen.press(b"q")
    assert screen.ends() == 0
    assert b"\x1b[?1049l" in screen.seen, "the terminal is as it was"


def look_for_hot_keys(screen, address):
    with socket.create_connection(address, DEADLINE_S) as client:
        client.sendall(b"HOTKEYS GET\r\n")
        if client.recv(64).startswith(b"-"):
            return screen.shows("unknown")
        screen.shows("begins")
        screen.press(b"h")
        is_over = threading.Event()

        def write():
            while not is_over.wait(0.01):
                client.sendall(b"SET burning 1\r\n")
                client.recv(1 << 16)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            screen.shows("burning")
        finally:
            is_over.set()
            writer.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
