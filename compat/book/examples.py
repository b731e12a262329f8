"""Examples of a page, run in a shell, and what they show held against what comes."""

import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from ports import free_port

BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
SERVES = re.compile(r"^pantala\b(?!.*--port)(?! *(ping|check|top|doctor|sizing|journal)\b).*&$")
# What pages write, and what free ports take the place of.
PORTS = ("6379", "6380", "11211")
PATIENCE_SECONDS = 60
# Says that a command has ended, with its status.
END = "--the-end-of-a-command--"


def blocks(text):
    """Each command of the page with the lines that it must print."""
    steps = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif steps:
                steps[-1][1].append(line)
    return steps


def matches(expected, came):
    """Whether the lines are those, with `...` for anything."""
    if not expected:
        return not came
    first, rest = expected[0], expected[1:]
    if first == "...":
        return any(matches(rest, came[skipped:]) for skipped in range(len(came) + 1))
    if not came:
        return False
    pattern = ".*".join(re.escape(part) for part in first.split("..."))
    return bool(re.fullmatch(pattern, came[0])) and matches(rest, came[1:])


def run(steps, server):
    """What went wrong."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pantala-book-"))
    shell = Shell(folder, server)
    try:
        if not any(SERVES.match(command) for command, _ in steps):
            for command in ("pantala --port 6379 --bind 127.0.0.1 --save '' --logfile server.log &",
                            "until pantala ping 2>/dev/null; do sleep 0.1; done >/dev/null"):
                shell.run(command)
        for command, expected in steps:
            came, status = shell.run(command)
            if came is None:
                return [f"$ {command}", "it does not end", shell.errors()]
            # What is to fail shows its error.
            if status != 0 and "2>&1" not in command:
                return [f"$ {command}", f"status {status}", shell.errors()]
            if not matches(expected, came):
                lines = [f"- {line}" for line in expected] + [f"+ {line}" for line in came]
                return [f"$ {command}", *lines, shell.errors()]
        return []
    finally:
        shell.end()
        shutil.rmtree(folder, ignore_errors=True)


class Shell:
    """A shell with the programs that pages name, in a folder of its own."""

    def __init__(self, folder, server):
        self.ports = {port: str(free_port()) for port in PORTS}
        programs = folder / "programs"
        programs.mkdir()
        (programs / "pantala").symlink_to(server)
        cli = programs / "redis-cli"
        cli.write_text(f"#!/bin/sh\nexec {shutil.which('redis-cli')} "
                       f"-p {self.ports['6379']} \"$@\"\n")
        cli.chmod(0o755)
        work = folder / "work"
        work.mkdir()
        self.error_file = folder / "errors"
        known = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C",
                 "PANTALA_port": self.ports["6379"], "PANTALA_threads": "2"}
        with open(self.error_file, "wb") as errors:
            self.shell = subprocess.Popen(["bash", "--norc"], cwd=work, env=known,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=errors, start_new_session=True)

    def run(self, command):
        """The lines that a command prints, None if it does not end; and its status."""
        for port, free in self.ports.items():
            command = re.sub(rf"\b{port}\b", free, command)
        text = f"{{ {command}\n}} </dev/null\nstatus=$?; echo; echo {END} $status\n"
        self.shell.stdin.write(text.encode())
        self.shell.stdin.flush()
        printed = ""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (ended := re.search(rf"\n{END} (\d+)\n$", printed)):
            left = max(0, end - time.monotonic())
            ready, _, _ = select.select([self.shell.stdout], [], [], left)
            part = os.read(self.shell.stdout.fileno(), 1 << 16) if ready else b""
            if not part:
                return None, 0
            printed += part.decode(errors="replace")
        text = printed[:ended.start()]
        for port, free in self.ports.items():
            text = re.sub(rf"\b{free}\b", port, text)
        # Lines of INFO end with CR; redis-cli ends what it prints with an empty line.
        text = text.replace("\r\n", "\n").rstrip("\n")
        return text.split("\n") if text else [], int(ended[1])

    def errors(self):
        return self.error_file.read_text(errors="replace")[-2000:]

    def end(self):
        """Ends the shell and all that it has started; nothing of it is to be kept."""
        self.shell.stdin.close()
        try:
            os.killpg(self.shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.shell.wait()
        self.shell.stdout.close()
