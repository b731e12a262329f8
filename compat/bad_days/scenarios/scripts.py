"""Scripts that do not end: only who needs what they hold waits for them."""

from client import encode
from server import until
from trial import scenario

# Longer than any scenario: nobody is told BUSY.
NEVER_BUSY = ("--busy-reply-threshold", "600000")
LARGE = ["x" * 100] * 100


def figure(client, name):
    """One line of what INFO says of the workers and the lane."""
    lines = client.call("INFO", "pantala").decode().splitlines()
    return int(dict(line.split(":", 1) for line in lines if ":" in line)[name])


@scenario(*NEVER_BUSY)
def flush_waits_for_script(trial):
    """FLUSHALL and SWAPDB wait for an endless script; other work of the lane goes on."""
    trial.need("EVAL", "return 1", "0")
    with trial.client() as script, trial.client() as client:
        script.write(encode("EVAL", "while true do end", "0"))
        until(lambda: figure(client, "lane_running") == 1, "the script runs")
        waiting = [trial.client() for _ in range(5)]
        for number, one in enumerate(waiting):
            one.write(encode(*(["FLUSHALL"] if number % 2 else ["SWAPDB", "0", "1"])))
        until(lambda: figure(client, "lane_running") == 1 + len(waiting), "all of them wait")
        for _ in range(5):
            client.want([], "KEYS", "*")
        client.want(b"OK", "SCRIPT", "KILL")
        for one in waiting:
            assert one.read() == b"OK"
            one.close()
        assert "killed" in script.read()


@scenario(started=False)
def endless_script_with_large_value(trial):
    """A script that was quick changes what is too large to be put back, and never ends: not on a
    worker."""
    server = trial.new_server(*NEVER_BUSY, threads=1)
    server.start()
    try:
        with server.client() as script, server.client() as client:
            client.want(len(LARGE), "RPUSH", "large", *LARGE)
            body = run_until_quick(client)
            script.write(encode("EVAL", body, "1", "large", "endless"))
            until(lambda: figure(client, "lane_running") == 1, "the script is on the lane")
            client.want(b"PONG", "PING")
    finally:
        server.kill()
        server.stop()


@scenario(started=False)
def quick_script_meets_endless_one(trial):
    """A script that was quick many times changes what is too large to be put back, and then names
    a key that an endless script holds: it waits, and nobody else."""
    server = trial.new_server(*NEVER_BUSY, threads=1)
    server.start()
    try:
        with server.client() as script, server.client() as endless, server.client() as client:
            client.want(len(LARGE), "RPUSH", "large", *LARGE)
            body = ("redis.call('RPUSH', KEYS[1], 'x') "
                    "return redis.call('EXISTS', ARGV[1])")
            for _ in range(64):
                client.want(0, "EVAL", body, "1", "large", "other")
            endless.write(encode("EVAL", "redis.call('GET', 'held') while true do end", "0"))
            until(lambda: figure(client, "lane_running") == 1, "the endless one runs")
            script.write(encode("EVAL", body, "1", "large", "held"))
            until(lambda: figure(client, "lane_running") + figure(client, "lane_waiting") == 2,
                  "the quick one waits")
            client.want(b"PONG", "PING")
            client.want(b"OK", "SCRIPT", "KILL")
            assert script.read() == 0
            assert "killed" in endless.read()
            client.want(len(LARGE) + 65, "LLEN", "large")
    finally:
        server.kill()
        server.stop()


def run_until_quick(client):
    """A script that a worker runs by now."""
    number = 0
    while True:
        number += 1
        body = ("local n = redis.call('RPUSH', KEYS[1], 'x') "
                "while ARGV[1] == 'endless' do end return %d" % number)
        client.want(number, "EVAL", body, "1", "small", "")
        before = figure(client, "lane_commands")
        client.want(number, "EVAL", body, "1", "small", "")
        if figure(client, "lane_commands") == before:
            return body
