#!/usr/bin/env python3
"""Snapshot files of random values, read by another server at its start and written by it anew.

    python3 compat/clients/rdb_files.py EXAMPLES SERVER [seed]

EXAMPLES is the directory of crates/rdb's built examples, SERVER a redis-server or valkey-server to
start. Each file that `random_file` writes is put where SERVER looks for it; what SERVER then saves
must hold the same, as `compare_files` sees it. Exit code 1 when something differs.
"""

import pathlib
import random
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from server import DEADLINE_S, PLACE, Server  # noqa: E402

KEYS = 1500


def ask(port, *words):
    """The first bytes of the answer to a command."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as client:
        client.sendall((" ".join(words) + "\r\n").encode())
        return client.recv(4096)


def save(port):
    answer = ask(port, "SAVE")
    if not answer.startswith(b"+OK"):
        raise SystemExit(f"it does not save: {answer}")


def saved_anew(server, original, directory):
    """Has the server read a file and write it anew; where that one is."""
    (directory / "dump.rdb").write_bytes(original.read_bytes())
    words = [server, *PLACE, "--sanitize-dump-payload", "yes"]
    with Server(words, directory) as running:
        save(running.port)
    return directory / "dump.rdb"


def main():
    """Files old and new, plain and compressed."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    examples, server = pathlib.Path(sys.argv[1]), sys.argv[2]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    print(f"seed {seed}")
    # Redis 7.0 does not know what is newer.
    ages = ["redis"] if "redis-server" in server else ["old", "new"]
    wrong = 0
    for age in ages:
        for strings in ["plain", "compressed"]:
            with tempfile.TemporaryDirectory() as name:
                directory = pathlib.Path(name)
                original = directory / "original.rdb"
                original.write_bytes(subprocess.check_output(
                    [examples / "random_file", str(seed), str(KEYS), strings, age]))
                anew = saved_anew(server, original, directory)
                print(age, strings, end=": ", flush=True)
                wrong += subprocess.call([examples / "compare_files", original, anew])
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
