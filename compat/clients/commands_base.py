#!/usr/bin/env python3
"""Append-only files of ours whose base is commands, loaded by another server and saved by it.

    python3 compat/clients/commands_base.py PANTALA EXAMPLES SERVER [seed]

PANTALA is the binary, EXAMPLES the directory of crates/rdb's built examples, SERVER a redis-server
or valkey-server. Pantala loads random values from a snapshot and writes them as commands; what
SERVER then saves must hold the same, as `compare_files` sees it, but for consumers of streams, of
which commands tell less. Exit code 1 when something differs.
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile

from rdb_files import save
from server import PLACE, Server

KEYS = 1500
# What `compare_files` shows of a stream, and first: length, last id, largest deleted id, count.
STREAM = "StreamId {"
COUNTERS = re.compile(r'"(\d+ StreamId [^}]*} StreamId [^}]*} \d+)')


def run(words, directory, work):
    """Starts a server on a free port, does some work with it, and stops it."""
    flags = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]
    with Server([*words, *PLACE, *flags], directory) as server:
        work(server.port)


def nothing(_port):
    """At the start the append-only file is begun with the snapshot."""


def differences(examples, original, anew):
    """What differs, but for what streams have of consumers; and how many streams do so."""
    told = subprocess.run([examples / "compare_files", original, anew],
                          stdout=subprocess.PIPE, check=False, text=True).stdout.splitlines()
    print(told[-1])
    pairs = [(here, told[at + 1]) for at, here in enumerate(told) if here.startswith("database ")]
    streams = [pair for pair in pairs if STREAM in pair[0]]
    counters = [[COUNTERS.findall(line)[:1] for line in pair] for pair in streams]
    wrong = [pair for pair in pairs if STREAM not in pair[0]]
    wrong += [pair for pair, (one, other) in zip(streams, counters) if one != other]
    return wrong, len(streams)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    pantala, examples, server = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(2**32)
    print(f"seed {seed}")
    wrong = 0
    for age in ["old"] if "redis-server" in server else ["old", "new"]:
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            original = directory / "dump.rdb"
            original.write_bytes(subprocess.check_output(
                [examples / "random_file", str(seed), str(KEYS), "plain", age]))
            kept = directory / "original"
            kept.write_bytes(original.read_bytes())
            run([pantala], directory, nothing)
            bases = list(directory.glob("appendonlydir/*.base.aof"))
            if len(bases) != 1:
                sys.exit(f"one base was to be written: {bases}")
            original.unlink()
            run([server], directory, save)
            found, streams = differences(examples, kept, original)
            for pair in found:
                print(*pair, sep="\n")
            wrong += len(found)
            print(f"{age}: {streams} streams differ in their consumers")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
