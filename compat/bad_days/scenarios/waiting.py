"""Commands that wait: for keys, for partitions, for a script; and what becomes of who waits."""

from client import encode
from server import until
from trial import scenario

from .scripts import figure


def quick_script(client, body, *args):
    """Runs a script until a worker runs it."""
    while True:
        client.call("EVAL", body, *args)
        before = figure(client, "lane_commands")
        client.call("EVAL", body, *args)
        if figure(client, "lane_commands") == before:
            return


def now_ms(client):
    seconds, microseconds = client.call("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


@scenario()
def expired_under_undone_script(trial):
    """A stream expires under a script that is undone after that: who waits for it is told."""
    body = "redis.call('EXISTS', KEYS[1]) for i = 1, tonumber(ARGV[1]) do end return 1"
    with trial.client() as client, trial.client() as waiter:
        client.want(b"OK", "DEBUG", "SET-ACTIVE-EXPIRE", "0")
        quick_script(client, body, "1", "stream", "1")
        client.want(b"OK", "XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")
        at = now_ms(client) + 300
        client.want(1, "PEXPIREAT", "stream", at)
        waiter.write(encode("XREADGROUP", "GROUP", "group", "me", "BLOCK", "0",
                            "STREAMS", "stream", ">"))
        until(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "it waits")
        until(lambda: now_ms(client) > at, "the stream has expired")
        before = figure(client, "lane_commands")
        client.want(1, "EVAL", body, "1", "stream", "30000000")
        assert figure(client, "lane_commands") == before + 1, "the script was not undone"
        assert "NOGROUP" in waiter.read()
        client.want(b"OK", "DEBUG", "SET-ACTIVE-EXPIRE", "1")
