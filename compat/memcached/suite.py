#!/usr/bin/env python3
"""memcached's own tests (t/*.t of its source), each against a fresh server.

    suite.py [--server 'COMMAND with {port} and {dir}'] [--source FOLDER] [NAME...]

The source is that of the distribution's package, fetched by apt into target/suites. Many tests
start memcached with options of its own or look into its slabs: through T_MEMD_USE_DAEMON, which
says that a server runs, memcached itself passes only those of `PASSED`. Of them the server may
fail `EXCUSED`. Exit code 1 when another one fails, 75 when there is no source.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import servers

REPOSITORY = pathlib.Path(__file__).parents[2]
LONGEST_S = 120
NOT_HERE = 75
PASSED = """
binary-get bogus-commands cas chunked-items evictions flags getandtouch getset incrdecr issue_108
issue_14 issue_152 issue_192 issue_22 issue_3 issue_41 issue_68 issue_70 line-lengths
malicious-commands misbehave multiversioning noreply quit stats-detail strtol-testing touch
""".split()
# Why a test says nothing about this server.
EXCUSED = {
    "issue_22": "counts what was evicted from one slab",
    "stats-detail": "counts commands by the prefix of keys",
    "strtol-testing": "the command slabs",
}


def source():
    """The folder of memcached's source, or None."""
    folder = REPOSITORY / "target" / "suites" / "memcached"
    if folder.is_dir():
        return folder
    lists = "/etc/apt/sources.list.d/debian.sources"
    if not shutil.which("apt-get") or not shutil.which("dpkg-source") or not os.path.exists(lists):
        return None
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "parts").mkdir()
        (scratch / "lists" / "partial").mkdir(parents=True)
        text = pathlib.Path(lists).read_text().replace("Types: deb\n", "Types: deb-src\n")
        (scratch / "parts" / "source.sources").write_text(text)
        apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourceparts={scratch}/parts"]
        apt += ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::State::lists={scratch}/lists"]
        for words in ([*apt, "update"], [*apt, "source", "--download-only", "memcached"]):
            if subprocess.run(words, cwd=scratch, capture_output=True, check=False).returncode:
                return None
        folder.parent.mkdir(parents=True, exist_ok=True)
        [description] = scratch.glob("*.dsc")
        words = ["dpkg-source", "--extract", str(description), str(folder)]
        if subprocess.run(words, cwd=scratch, capture_output=True, check=False).returncode:
            return None
    # Its tests look whether it was built.
    (folder / "memcached-debug").symlink_to(shutil.which("memcached"))
    return folder


def play(name, folder, server):
    """Whether a test passes; what it said if not."""
    with servers.running(server) as (host, port):
        ran = subprocess.run(
            ["timeout", str(LONGEST_S), "prove", "-q", f"t/{name}.t"],
            cwd=folder,
            env={**os.environ, "T_MEMD_USE_DAEMON": f"{host}:{port}"},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    if ran.returncode and name not in EXCUSED:
        print((ran.stdout + ran.stderr)[-2000:])
    return ran.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=servers.MEMCACHED)
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="instead of those that memcached passes")
    options = parser.parse_args()
    folder = options.source or source()
    if folder is None:
        print("memcached's source can not be had here")
        return NOT_HERE
    failed = 0
    for name in options.names or PASSED:
        passes = play(name, folder, options.server)
        excuse = "" if passes else EXCUSED.get(name, "")
        print(f"{name}: {'passes' if passes else 'fails'}{', ' * bool(excuse)}{excuse}", flush=True)
        failed += not passes and not excuse
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
