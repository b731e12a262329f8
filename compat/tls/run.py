#!/usr/bin/env python3
"""TLS as clients and strangers see it: real clients with certificates, and tricks by openssl.

    run.py --server 'COMMAND with {port}, {dir} and {tls}' [--only NAME]

{tls} becomes the settings of TLS: the port, and certificates that are made here by openssl. Clients
must show one. What is not installed (Go, Node with ioredis, Java with Maven) is told and left out.
Exit code 1 when anything fails.
"""

import argparse
import functools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from certificates import Certificates  # noqa: E402
from server import Server  # noqa: E402

REPOSITORY = HERE.parents[1]
NODE_MODULES = REPOSITORY / "target" / "apps" / "node_modules"


class Serving(Server):
    """A server with TLS on a port of its own; it ends with the block."""

    def __init__(self, command, certificates):
        settings = shlex.join(["--tls-port", "{port}", *certificates.settings()])
        super().__init__(command.replace("{port}", "0").replace("{tls}", settings))
        self.certificates = certificates

    def is_ready(self):
        return self.cli("PING").stdout == "PONG\n"

    def cli(self, *words, certificate="client"):
        """redis-cli, with a certificate or without."""
        line = ["redis-cli", "-p", str(self.port), "--tls", *self.certificates.of_cli(certificate)]
        return subprocess.run([*line, *words], capture_output=True, text=True, timeout=120,
                              check=False)


@functools.cache
def java_libraries():
    """Where the libraries of Java's client are; Maven brings them. "": it is not there."""
    if not shutil.which("java") or not shutil.which("mvn"):
        return ""
    listed = REPOSITORY / "target" / "jedis.classpath"
    listed.parent.mkdir(exist_ok=True)
    words = ["mvn", "-q", "-B", "-f", str(HERE / "java"), "dependency:build-classpath"]
    ran = subprocess.run([*words, f"-Dmdep.outputFile={listed}"], capture_output=True, check=False)
    return listed.read_text().strip() if ran.returncode == 0 else ""


def clients(port, directory):
    """(name, command line, whether it can be had)"""
    address, directory = f"127.0.0.1:{port}", str(directory)
    tricks = [sys.executable, str(HERE / "tricks.py"), address, directory]
    yield "tricks by openssl", tricks, shutil.which("openssl") and shutil.which("redis-cli")
    checks = [sys.executable, str(HERE.parent / "clients" / "redis_py.py"), address]
    yield "redis-py", checks, True
    go = ["go", "run", "-C", str(HERE / "go"), ".", address, directory]
    yield "go-redis", go, shutil.which("go")
    proxied = [sys.executable, str(HERE / "proxy.py"), address, directory, "--", "cargo", "run",
               "--quiet", "--package", "pantala-compat", "--bin", "compat", "--", "run",
               "--lacks", "plain", "--address", "{address}"]
    yield "transcripts", proxied, shutil.which("cargo")
    has_node = shutil.which("node") and (NODE_MODULES / "ioredis").exists()
    yield "ioredis", ["node", str(HERE / "ioredis.cjs"), address, directory], has_node
    libraries = java_libraries()
    java = ["java", "-cp", libraries, str(HERE / "java" / "Client.java"), address, directory]
    yield "jedis", java, libraries


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="command line with {port}, {dir}, {tls}")
    parser.add_argument("--only", default="", help="one of the clients")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        certificates = Certificates(directory)
        for index, (name, *_) in enumerate(clients(0, directory)):
            if options.only not in ("", name):
                continue
            with Serving(options.server, certificates) as server:
                _, line, is_there = list(clients(server.port, directory))[index]
                if not is_there:
                    print(f"{name}: not installed, left out")
                    continue
                environment = os.environ | {"NODE_PATH": str(NODE_MODULES),
                                            "TLS_CERTIFICATES": directory}
                ran = subprocess.run(line, capture_output=True, text=True, check=False,
                                     env=environment)
                told = ran.stdout.strip() or ran.stderr.strip() or "nothing said"
                is_good = ran.returncode == 0 and server.is_alive()
                failed += not is_good
                print(f"{name}: {told.splitlines()[-1]}", flush=True)
                if not is_good:
                    print(told, ran.stderr, sep="\n")
                    print(server.log_text()[-4000:])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
