#!/usr/bin/env python3
"""Stands where Redis's suite expects redis-server, redis-check-aof and redis-check-rdb, and starts
the server that $SERVER names: its first word is the program, the others are flags.

The process that the suite has started becomes the server, so it has the number that the suite
knows. What the suite looks for in a log is said in Redis's words, each before the server's own
line. What a panic says is kept in the file that $FAULTS names.
"""

import contextlib
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import threading

# What the suite looks for in a log, by what the server's log says.
PHRASES = [
    (r"Successful partial resynchronization with primary",
     "Successful partial resynchronization with master."),
    (r"PRIMARY <-> REPLICA sync: Finished", "MASTER <-> REPLICA sync: Finished with success"),
    (r"Replica generated a reply to command",
     "== CRITICAL == This master is sending an error to its replica: \\n"
     "# Replica can't interact with the keyspace"),
]
PHRASES = [(re.compile(pattern), phrase) for pattern, phrase in PHRASES]


# Settings of Redis that only its own faults are about, or what is not there yet.
UNKNOWN = ("use-exit-on-panic", "loading-process-events-interval-bytes", "tls-cluster",
           "tls-replication")


def serve(arguments):
    if arguments and not arguments[0].startswith("-"):
        file = pathlib.Path(arguments[0])
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if not line.startswith(UNKNOWN)))
    program, *flags = shlex.split(os.environ["SERVER"])
    pid = os.getpid()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(writing)
        follow(pid, port_of(arguments), os.fdopen(reading, errors="replace"))
        return
    os.close(reading)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.execvp(program, [program, *arguments, *flags])


def port_of(arguments):
    """Where the server will listen; 0 if that is not said."""
    text = " ".join(arguments)
    if arguments and not arguments[0].startswith("-"):
        text = pathlib.Path(arguments[0]).read_text() + text
    # With TLS the plain port is 0.
    found = re.findall(r"(?:^tls-port|^port|--port) ([1-9]\d*)", text, re.MULTILINE)
    return int(found[-1]) if found else 0


def follow(pid, port, log):
    """Copies the log. Redis tells its number when it listens, or has ended."""
    told = threading.Event()

    def tell():
        if not told.is_set():
            told.set()
            print(f"{pid}:M * PID: {pid}", flush=True)

    def wait():
        while not told.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                tell()
            told.wait(0.02)

    threading.Thread(target=wait, daemon=True).start()
    before = ""
    for line in log:
        # What refuses the start is told twice: in the log, and on standard error.
        if line.startswith("pantala: ") and line.removeprefix("pantala: ").strip() in before:
            continue
        before = line
        found = [(pattern.search(line), phrase) for pattern, phrase in PHRASES]
        said = [match.expand(phrase) for match, phrase in found if match]
        print(line, *(f"# {phrase}\n" for phrase in said), sep="", end="", flush=True)
        if "panicked" in line:
            with open(os.environ["FAULTS"], "a") as faults:
                faults.write(line)
        if os.environ.get("KEEPLOG"):
            with open(os.environ["KEEPLOG"], "a") as faults:
                faults.write(line)
    tell()


# Of a file that is checked: what is said of it here, and by redis-check-aof.
CHECKED = [
    (r"manifest: (no|a) base", "Start checking Multi Part AOF"),
    (r"base\.aof: snapshot", "Start to check BASE AOF (RDB format)."),
    (r"base\.aof: \d+ steps", "Start to check BASE AOF (RESP format)."),
    (r"snapshot, .*: whole", "RDB preamble is OK, proceeding with AOF tail..."),
    (r"base\.\w+: .*(?<!snapshot).*: whole", "BASE AOF is valid"),
    (r"incr\.aof: .*: whole", "Start to check INCR files.\nINCR AOF is valid"),
    (r"then (torn|damaged)", "AOF is not valid"),
    (r"cut", "Successfully truncated AOF"),
]


def check(arguments):
    program = shlex.split(os.environ["SERVER"])[0]
    done = subprocess.run([program, "check", *arguments], capture_output=True, text=True)
    for line in (done.stdout + done.stderr).splitlines():
        print(line, *(phrase for pattern, phrase in CHECKED if re.search(pattern, line)), sep="\n")
    return done.returncode


if __name__ == "__main__":
    if pathlib.Path(sys.argv[0]).name.startswith("redis-check"):
        sys.exit(check(sys.argv[1:]))
    serve(sys.argv[1:])
