"""Commands that wait: for keys, for partitions, for a script; and what becomes of who waits."""

import select
import threading

from client import encode
from server import until
from trial import scenario

from .scripts import NEVER_BUSY, figure
from .threads import worker_count

# A script that does not end, and says so once its keys are locked. Lines of a script that can be
# undone wait for its end; one of more than 64 KiB does not. What other clients meet (a busy
# partition, a thread of the lane at work) proves nothing: both come before the script has its keys.
HOLD_AND_TELL = """redis.log(redis.LOG_WARNING, 'it holds its key' .. string.rep('.', 70000))
                   while true do end"""
# More than a worker copies into a reply.
LARGE_BYTES = 3 << 20


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
        # It waits long before that, however busy the machine is.
        at = now_ms(client) + 2000
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


def has_reply(client):
    return bool(select.select([client.sock], [], [], 0)[0])


@scenario()
def time_of_who_runs_again(trial):
    """A command that waits is run again and again, by SWAPDB here: its time ends all the same."""
    with trial.client() as client, trial.client() as waiter:
        client.want(b"OK", "SELECT", "1")
        client.want(b"1-0", "XADD", "stream", "1-0", "f", "v")
        waiter.write(encode("XREAD", "BLOCK", "1000", "STREAMS", "stream", "5-0"))
        until(lambda: b"blocked_clients:1" in client.call("INFO", "clients"), "it waits")

        def swapped():
            client.want(b"OK", "SWAPDB", "0", "1")
            return has_reply(waiter)

        until(swapped, "its time is over")
        assert waiter.read() is None


@scenario(*NEVER_BUSY)
def time_of_who_runs_again_on_the_lane(trial):
    """A command that waited runs again, and meets a destination that a script holds: its time ends
    all the same, and CLIENT UNBLOCK finds it."""
    trial.need("EVAL", "return 1", "0")
    with trial.client() as client, trial.client() as script, \
            trial.client() as patient, trial.client() as short:
        number = patient.call("CLIENT", "ID")
        patient.write(encode("BLMOVE", "source", "held", "LEFT", "RIGHT", "0"))
        short.write(encode("BLMOVE", "source", "held", "LEFT", "RIGHT", "3"))
        until(lambda: b"blocked_clients:2" in client.call("INFO", "clients"), "both wait")
        script.write(encode("EVAL", HOLD_AND_TELL, "1", "held"))
        until(lambda: "it holds its key" in trial.server.log_text(), "it has its key")
        client.want(1, "RPUSH", "source", "a")
        assert short.read() is None
        until(lambda: client.call("CLIENT", "UNBLOCK", number) == 1, "it is there to be unblocked")
        assert patient.read() is None
        client.want(b"OK", "SCRIPT", "KILL")
        assert "killed" in script.read()
        client.want([b"a"], "LRANGE", "source", "0", "-1")
        client.want(0, "EXISTS", "held")
        assert b"blocked_clients:0" in client.call("INFO", "clients")
        for one in (patient, short):
            one.want(b"PONG", "PING")


@scenario()
def time_of_who_moves(trial):
    """A command that waits moves to another worker: its time goes on, and does not begin anew."""
    with trial.client() as client:
        threads = client.call("CONFIG", "GET", "threads")[1]
        client.want(b"OK", "CONFIG", "SET", "threads", "3")
        waiters = [trial.client() for _ in range(6)]
        for waiter in waiters:
            waiter.write(encode("BLPOP", "list", "3"))
        until(lambda: b"blocked_clients:6" in client.call("INFO", "clients"), "they wait")
        begun = now_ms(client)
        until(lambda: now_ms(client) >= begun + 1500, "half of their time is over")
        client.want(b"OK", "CONFIG", "SET", "threads", "1")
        until(lambda: worker_count(trial.server) == 1, "one worker serves all")
        with trial.client() as later:
            assert later.call("BLPOP", "list", "2") is None
        for waiter in waiters:
            assert has_reply(waiter), "its time began anew"
            assert waiter.read() is None
            waiter.close()
        client.want(b"OK", "CONFIG", "SET", "threads", threads)


@scenario(*NEVER_BUSY)
def worker_goes_before_an_answer(trial):
    """A client goes, then its worker, and the lane ends its command after that: what the command
    has begun is ended all the same."""
    with trial.client() as client:
        threads = client.call("CONFIG", "GET", "threads")[1]
        for _ in range(4):
            client.want(b"OK", "CONFIG", "SET", "threads", "3")
            goes = trial.client()
            goes.write(encode("MULTI") + encode("SUBSCRIBE", "channel")
                       + encode("EVAL", "while true do end", "0") + encode("EXEC"))
            until(lambda: client.call("PUBSUB", "CHANNELS") == [b"channel"], "it runs")
            goes.abort()
            until(lambda: b"cmd=exec" not in client.call("CLIENT", "LIST"), "it is heard to go")
            client.want(b"OK", "CONFIG", "SET", "threads", "1")
            until(lambda: client.call("SCRIPT", "KILL") == b"OK", "it is listed, and ends")
            until(lambda: client.call("PUBSUB", "CHANNELS") == [], "nobody has subscribed")
            until(lambda: worker_count(trial.server) == 1, "the others have gone")
        client.want(b"OK", "CONFIG", "SET", "threads", threads)


@scenario(started=False)
def command_of_who_has_gone(trial):
    """Clients close while their commands wait for a script that is killed then: none begins. One
    worker, so that it has heard of what was sent before."""
    server = trial.new_server(*NEVER_BUSY, threads=1)
    server.start()
    try:
        for body, command in (("", ["FLUSHALL"]), ("", ["SWAPDB", "0", "1"]),
                              ("redis.call('GET', KEYS[1])", ["DEL", "key"]),
                              ("redis.call('GET', KEYS[1])", ["EVAL", FLUSH, "1", "key"])):
            for leave in ("close", "abort"):
                stops_with(server, body + " while true do end", command, leave)
    finally:
        server.kill()
        server.stop()


FLUSH = "redis.call('FLUSHALL')"


def stops_with(server, body, command, leave):
    """Runs an endless script, and a command that waits for it and whose client leaves."""
    with server.client() as script, server.client() as client:
        client.want(b"OK", "SET", "key", "1")
        script.write(encode("EVAL", body, "1", "key"))
        until(lambda: figure(client, "lane_running") == 1, "the script runs")
        goes = server.client()
        goes.write(encode(*command))
        begun = now_ms(client)
        until(lambda: now_ms(client) > begun + 50, "it waits")
        getattr(goes, leave)()
        client.want(b"PONG", "PING")
        until(lambda: client.call("SCRIPT", "KILL") == b"OK", "it is listed, and ends")
        assert "killed" in script.read()
        until(lambda: figure(client, "lane_running") + figure(client, "lane_waiting") == 0,
              "the lane is at rest")
        assert client.call("GET", "key") == b"1", f"{command} has run after {leave}"


@scenario(slack_mb=160)
def answers_after_half_close(trial):
    """Many clients close their sides behind commands for the lane: each gets all of its answers."""
    with trial.client() as client:
        client.want(b"OK", "SET", "large", b"v" * LARGE_BYTES)
    large = LARGE_BYTES + len("$%d\r\n\r\n" % LARGE_BYTES)
    kinds = ((encode("GET", "large") * 3, 3 * large),
             (encode("KEYS", "nothing"), len("*0\r\n")),
             ((encode("KEYS", "nothing") + encode("PING")) * 20, 20 * len("*0\r\n+PONG\r\n")))
    faults = []

    def close_behind(number):
        for turn in range(30):
            raw, length = kinds[(number + turn) % len(kinds)]
            with trial.client() as client:
                client.write(raw)
                client.half_close()
                got = len(client.rest())
                if got != length:
                    faults.append(f"{got} bytes of {length}")

    threads = [threading.Thread(target=close_behind, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]


WAITED_KEYS = 20_000


@scenario(slack_mb=96)
def one_client_waits_for_very_many_keys(trial):
    """Who changes them all, to what the client does not wait for, takes no longer for it."""
    keys = [b"w:%d" % number for number in range(WAITED_KEYS)]
    with trial.client() as waiting, trial.client() as client:
        waiting.write(encode("BLPOP", *keys, 0))
        until(lambda: b"total_blocking_keys:%d\r" % WAITED_KEYS in client.call("INFO", "clients"),
              "it waits for all of them")
        client.want(b"OK", "MSET", *[word for key in keys for word in (key, "v")])
        client.want(WAITED_KEYS, "DEL", *keys)
        client.want(1, "RPUSH", keys[-1], "e")
        assert waiting.read() == [keys[-1], b"e"]


@scenario(watched=False)
def waiting_outlasts_a_reload(trial):
    """Who waits for a key goes on to wait while DEBUG RELOAD loads, also where the connection goes
    to another worker meanwhile; who comes then is told that the server loads."""
    count = 2 * worker_count(trial.server)
    with trial.client() as client, trial.client() as loader:
        client.want(b"OK", "DEBUG", "POPULATE", "500")
        waiters = [trial.client() for _ in range(count)]
        for number, waiter in enumerate(waiters):
            waiter.write(encode("BLPOP", f"list:{number}", "0"))
        readers = [trial.client() for _ in range(count)]
        for reader in readers:
            reader.write(encode("XREAD", "BLOCK", "0", "STREAMS", "stream", "$"))
        until(lambda: f"blocked_clients:{2 * count}\r\n".encode() in client.call("INFO", "clients"),
              "all wait")
        client.want(b"OK", "CONFIG", "SET", "key-load-delay", "10000")
        loader.write(encode("DEBUG", "RELOAD"))
        until(lambda: b"loading:1\r\n" in client.call("INFO", "persistence"), "it loads")
        client.want(b"OK", "CONFIG", "SET", "threads", "1")
        assert "LOADING" in client.call("GET", "other")
        assert loader.read() == b"OK"
        until(lambda: worker_count(trial.server) == 1, "one worker is left")
        client.want(b"OK", "CONFIG", "SET", "key-load-delay", "0")
        for number, waiter in enumerate(waiters):
            assert not has_reply(waiter), waiter.read()
            client.want(1, "RPUSH", f"list:{number}", "v")
            assert waiter.read() == [f"list:{number}".encode(), b"v"]
        client.want(b"1-0", "XADD", "stream", "1-0", "f", "v")
        for reader in readers:
            assert reader.read() == [[b"stream", [[b"1-0", [b"f", b"v"]]]]]
        for one in (*waiters, *readers):
            one.close()
        client.want(b"OK", "CONFIG", "SET", "threads", str(trial.threads))
