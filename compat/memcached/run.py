#!/usr/bin/env python3
"""Memcached's protocols as a whole: transcripts, random sessions, and clients at work.

    run.py --server 'COMMAND with {port} and {dir}' [--seconds N]

The server listens for Memcached's clients on {port}. What is not installed (memccapable of the
package libmemcached-tools, pylibmc, Go, Java with Maven) is told and left out. Exit code 1 when
anything differs.
"""

import argparse
import functools
import importlib.util
import pathlib
import shutil
import subprocess
import sys

import servers

HERE = pathlib.Path(__file__).parent
CLIENTS = HERE.parent / "clients"
REPOSITORY = HERE.parents[1]


def clients(address):
    """(name, command line, whether it can be had)"""
    host, port = address
    python = lambda name: [sys.executable, str(CLIENTS / f"{name}_client.py"), f"{host}:{port}"]
    has_module = lambda name: importlib.util.find_spec(name) is not None
    memccapable = shutil.which("memccapable")
    for flag, protocol in (("-a", "text"), ("-b", "binary")):
        line = [memccapable, "-h", host, "-p", str(port), flag]
        yield f"memccapable, {protocol}", line, memccapable
    for name in ("pymemcache", "pylibmc"):
        yield name, python(name), has_module(name)
    go = ["go", "run", "-C", str(HERE / "go"), ".", f"{host}:{port}"]
    yield "gomemcache", go, shutil.which("go")
    libraries = java_libraries()
    log = "-Dnet.spy.log.LoggerImpl=net.spy.memcached.compat.log.SunLogger"
    java = ["java", log, "-cp", libraries, str(HERE / "java" / "Spy.java"), f"{host}:{port}"]
    yield "spymemcached", java, libraries


@functools.cache
def java_libraries():
    """Where the libraries of Java's client are; Maven brings them. "": it is not there."""
    if not shutil.which("java") or not shutil.which("mvn"):
        return ""
    listed = REPOSITORY / "target" / "spymemcached.classpath"
    listed.parent.mkdir(exist_ok=True)
    words = ["mvn", "-q", "-B", "-f", str(HERE / "java"), "dependency:build-classpath"]
    ran = subprocess.run([*words, f"-Dmdep.outputFile={listed}"], capture_output=True, check=False)
    return listed.read_text().strip() if ran.returncode == 0 else ""


def run_clients(server):
    """How many failed, each on a server of its own."""
    failed = 0
    with servers.running(server) as probe:
        names = [name for name, *_ in clients(probe)]
    for index, name in enumerate(names):
        with servers.running(server) as address:
            _, line, is_there = list(clients(address))[index]
            if not is_there:
                print(f"{name}: not installed, left out")
                continue
            ran = subprocess.run(line, capture_output=True, text=True, check=False)
            failed += ran.returncode != 0
            told = ran.stdout + ran.stderr
            print(f"{name}: {told.strip().splitlines()[-1] if told.strip() else 'nothing said'}")
            if ran.returncode:
                print(told)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="command line with {port} and {dir}")
    parser.add_argument("--seconds", default="20", help="of random sessions")
    options = parser.parse_args()
    python = lambda name, *arguments: subprocess.run(
        [sys.executable, str(HERE / name), *arguments], check=False
    ).returncode
    failed = python("transcripts.py", "play")
    failed += python("transcripts.py", "play", "--server", options.server)
    failed += python("differ.py", "--server", options.server, "--seconds", options.seconds)
    failed += run_clients(options.server)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
