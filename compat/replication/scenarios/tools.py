"""Programs that speak as replicas do: redis-cli takes copies and looks at the stream."""

import os
import subprocess
import threading

from contents import contents, equal
from nodes import DEADLINE_S, linked, until
from trial import fill, scenario

CLI = ("redis-cli", "-h", "127.0.0.1", "-p")


@scenario(ends=1)
def copy_by_redis_cli(trial):
    """redis-cli --rdb takes a file that the same kind loads; then replicas are as before."""
    primary, replica = trial.node(0), trial.node(0)
    fill(primary, 300)
    replica.follow(primary.address)
    linked(replica)
    # What it is given must be readable by old servers, which know no deadlines of fields.
    with trial.writers(primary, fields=False) as writers:
        writers.wait_for(500).end()
    equal(primary, replica)
    other = trial.not_started(0)
    taken = subprocess.run([*CLI, str(primary.port), "--rdb", other.directory / "dump.rdb"],
                           capture_output=True, timeout=DEADLINE_S, check=False)
    assert taken.returncode == 0, taken.stderr
    other.start()
    assert contents(other)["databases"] == contents(primary)["databases"]
    equal(primary, replica)


@scenario(ends=1)
def stream_by_redis_cli(trial):
    """redis-cli --replica shows the commands of the stream."""
    primary = trial.node(0)
    shows = subprocess.Popen([*CLI, str(primary.port), "--replica"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, env={**os.environ, "FAKETTY": "1"})
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(iter(shows.stdout.readline, b"")))
    reader.start()
    try:
        until(lambda: primary.info()["connected_slaves"] == "1", "it is there")
        until(lambda: "state=online" in primary.info()["slave0"], "it is online")
        primary.want(b"OK", "SET", "k", "first")
        primary.want(2, "RPUSH", "l", "a", "b")
        for _ in range(3_000):
            # It writes when its buffer is full.
            primary.want(b"OK", "SET", "more", "x" * 20)
        until(lambda: any(b"first" in line for line in seen), "it shows the first")
    finally:
        shows.terminate()
        shows.wait()
        reader.join()
    assert any(b"rpush" in line.lower() for line in seen), seen[:9]
    until(lambda: primary.info()["connected_slaves"] == "0", "it is gone")


