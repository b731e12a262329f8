#!/usr/bin/env python3
"""Snapshots in object storage, against emulators of S3 and Azure.

    python3 compat/clients/objects.py --server PANTALA --moto MOTO_SERVER --azurite AZURITE_BLOB

Saved there and loaded at the next start (after kill -9), the data is the same; a bucket that is not
there, or storage that has gone, is an error that leaves the server and the last file as they were.

An upload that kill -9 has broken off is given up at the next start.

Google's storage is not among them: its emulators lack the XML interface for uploads in parts.
"""

import argparse
import base64
import contextlib
import datetime
import hashlib
import hmac
import os
import pathlib
import random
import sys
import tempfile
import urllib.error
import urllib.request

import redis

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from ports import free_port  # noqa: E402
from server import DEADLINE_S, Server, listens, until  # noqa: E402

KEYS = 20_000
LARGE_BYTES = 40 << 20  # more than two parts of an upload
AZURE_ACCOUNT = "devstoreaccount1"
# The emulator's, known to everybody.
AZURE_KEY = ("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
             "/K1SZFPTOtr/KBHBeksoGMGw==")


def wait_for(what, condition):
    def holds():
        with contextlib.suppress(OSError, redis.RedisError, urllib.error.URLError):
            return condition()

    until(holds, what)


@contextlib.contextmanager
def running(process):
    """Lives as long as the block, and is killed then."""
    try:
        yield process.start()
    finally:
        process.kill()
        process.stop()


class Emulator(Server):
    """What stands for the cloud."""

    def __init__(self, storage):
        super().__init__(storage.line, port=storage.port, is_served=listens)


class S3:
    dir = "s3://bucket/some/where"
    absent = "s3://nobodys/where"

    def __init__(self, program):
        self.port = free_port()
        self.line = [program, "-p", str(self.port)]
        self.environment = {
            "AWS_ENDPOINT": f"http://127.0.0.1:{self.port}", "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}

    def make_bucket(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/bucket", method="PUT")
        return urllib.request.urlopen(request).status == 200


class Azure:
    dir = "az://bucket/some/where"
    absent = "az://nobodys/where"

    def __init__(self, program):
        self.port = free_port()
        self.line = ["node", program, "--blobPort", str(self.port), "--inMemoryPersistence",
                     "--silent", "--skipApiVersionCheck"]
        self.environment = {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{self.port}"}

    def make_bucket(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        date = now.strftime("%a, %d %b %Y %H:%M:%S GMT")
        version = "2021-08-06"
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n"
        signed += f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/bucket\nrestype:container"
        key = base64.b64decode(AZURE_KEY)
        proof = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())
        headers = {"x-ms-date": date, "x-ms-version": version, "Content-Length": "0",
                   "Authorization": f"SharedKey {AZURE_ACCOUNT}:{proof.decode()}"}
        where = f"http://127.0.0.1:{self.port}/{AZURE_ACCOUNT}/bucket?restype=container"
        request = urllib.request.Request(where, method="PUT", headers=headers)
        return urllib.request.urlopen(request).status == 201


class Checks:
    passed = failed = 0

    def equal(self, what, found, expected):
        if found == expected:
            self.passed += 1
        else:
            self.failed += 1
            print(f"{what}: {found!r}, not {expected!r}")

    def refused(self, what, act):
        try:
            found = act()
        except redis.ResponseError:
            self.passed += 1
        else:
            self.failed += 1
            print(f"{what}: {found!r}, not an error")


@contextlib.contextmanager
def server(program, storage, directory):
    """The server, loaded, and a client."""
    words = [program, "--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--dir", directory,
             "--enable-protected-configs", "yes", "--enable-debug-command", "yes"]
    with running(Server(words, env=os.environ | storage.environment)) as process:
        yield redis.Redis(port=process.port, socket_timeout=DEADLINE_S)


def fill(client):
    client.execute_command("DEBUG", "POPULATE", KEYS, "key", 300)
    chance = random.Random(1)
    client.set("large", chance.randbytes(LARGE_BYTES))
    client.hset("hash", mapping={f"field:{number}": number for number in range(1000)})
    # Needs a newer file than the beginning of it says, so its head is written anew.
    client.execute_command("HEXPIRE", "hash", 10_000, "FIELDS", 1, "field:1")


def check(checks, program, storage):
    name = type(storage).__name__
    with running(Emulator(storage)) as emulator:
        wait_for("the bucket", storage.make_bucket)
        with server(program, storage, storage.dir) as client:
            checks.equal(f"{name}: empty", client.dbsize(), 0)
            fill(client)
            digest = client.execute_command("DEBUG", "DIGEST")
            checks.equal(f"{name}: save", client.execute_command("SAVE"), True)
        with server(program, storage, storage.dir) as client:
            checks.equal(f"{name}: loaded", client.execute_command("DEBUG", "DIGEST"), digest)
            client.config_set("dir", storage.absent)
            checks.refused(f"{name}: no bucket", lambda: client.execute_command("SAVE"))
            client.config_set("dir", storage.dir)
            client.set("one", "more")
            checks.equal(f"{name}: again", client.execute_command("SAVE"), True)
        with server(program, storage, storage.dir) as client:
            checks.equal(f"{name}: the last", client.get("one"), b"more")
            emulator.kill()
            checks.refused(f"{name}: gone", lambda: client.execute_command("SAVE"))
            checks.equal(f"{name}: goes on", client.dbsize(), KEYS + 3)


def uploads(storage):
    """How many uploads have begun and not ended, as S3 tells it."""
    where = f"http://127.0.0.1:{storage.port}/bucket?uploads"
    return urllib.request.urlopen(where).read().count(b"<UploadId>")


def check_unfinished(checks, program, storage):
    """S3 only: Azure forgets by itself what was not finished."""
    with running(Emulator(storage)):
        wait_for("the bucket", storage.make_bucket)
        with server(program, storage, storage.dir) as client:
            fill(client)
            client.config_set("rdb-key-save-delay", 10_000)
            client.bgsave()
            # What somebody wants to change is written first.
            begins = lambda: client.append("large", "x") and uploads(storage) == 1  # noqa: E731
            wait_for("an upload", begins)
            wait_for("its note", lambda: notes(storage) == 1)
        checks.equal("unfinished: it is left", (uploads(storage), notes(storage)), (1, 1))
        with server(program, storage, storage.dir) as client:
            checks.equal("unfinished: given up", (uploads(storage), notes(storage)), (0, 0))
            fill(client)
            checks.equal("unfinished: a new one", client.execute_command("SAVE"), True)
            checks.equal("unfinished: no note", (uploads(storage), notes(storage)), (0, 0))


def notes(storage):
    where = f"http://127.0.0.1:{storage.port}/bucket?list-type=2"
    return urllib.request.urlopen(where).read().count(b"temp-upload.dump.rdb")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--moto", required=True)
    parser.add_argument("--azurite", required=True)
    given = parser.parse_args()
    given.server, given.moto, given.azurite = map(
        os.path.abspath, (given.server, given.moto, given.azurite))
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for storage in (S3(given.moto), Azure(given.azurite)):
            check(checks, given.server, storage)
        check_unfinished(checks, given.server, S3(given.moto))
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
