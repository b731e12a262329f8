#!/usr/bin/env python3
"""Append-only files of ours, read by another server at its start, rewritten by it, and read back.

    python3 compat/clients/aof_files.py EXAMPLES SERVER [seed]

EXAMPLES is the directory of crates/persistence's built examples, SERVER a redis-server or
valkey-server to start. Each file has rewrites in it and ends inside a transaction. Exit code 1 when
something differs.
"""

import pathlib
import random
import subprocess
import sys
import tempfile

from rdb_files import ask
from server import PLACE, Server, until


def number_of(port, db, key):
    """What a key holds."""
    lines = ask(port, f"SELECT {db}\r\nGET {key}").split(b"\r\n")
    while len(lines) < 4:
        lines = ask(port, f"SELECT {db}\r\nGET {key}").split(b"\r\n")
    return lines[2].decode()


def served(server, directory, preamble, expected):
    """Has the server load the file, compares what it has, and lets it rewrite the file."""
    words = [server, *PLACE, "--appendonly", "yes", "--aof-use-rdb-preamble", preamble]
    with Server(words, directory) as running:
        return differences(running.port, expected)


def differences(port, expected):
    """How many keys are other than expected; lets the server rewrite the file."""
    wrong = 0
    for line in expected:
        db, key, number = line.split()
        found = number_of(port, db, key)
        if found != number:
            print(f"{key} of {db}: {found} instead of {number}")
            wrong += 1
    keys = sum(1 for line in expected if line.startswith("0 "))
    if not ask(port, "DBSIZE").startswith(b":%d\r\n" % keys):
        print(f"not {keys} keys")
        wrong += 1
    ask(port, "BGREWRITEAOF")
    for told in (b"aof_rewrite_in_progress:0", b"aof_last_bgrewrite_status:ok"):
        until(lambda told=told: told in ask(port, "INFO", "persistence"), told)
    return wrong


def main():
    """With snapshots as bases and with commands."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, server = pathlib.Path(sys.argv[1]) / "aof_files", sys.argv[2]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    print(f"seed {seed}")
    wrong = 0
    for preamble in ["yes", "no"]:
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            expected = subprocess.check_output([tool, "write", directory, str(seed)], text=True)
            wrong += served(server, directory, preamble, expected.splitlines())
            again = subprocess.check_output([tool, "read", directory], text=True)
            if again != expected:
                print(f"preamble {preamble}: what {server} wrote is read otherwise")
                wrong += 1
            print(f"preamble {preamble}: {len(expected.splitlines())} keys")
        seed += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
