"""Scripts that do not end: only who needs what they hold waits for them."""

import os
import random
import select

from client import Closed, encode
from server import DEADLINE_S, until
from trial import is_error, scenario

# Longer than any scenario: nobody is told BUSY.
NEVER_BUSY = ("--busy-reply-threshold", "600000")
# More than a script may have changed and still be undone; bytes that no list folds to less.
LARGE = [random.Random(1).randbytes(1000)] * 600


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
        until(lambda: client.call("SCRIPT", "KILL") == b"OK", "it is listed, and ends")
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
            until(lambda: client.call("SCRIPT", "KILL") == b"OK", "it is listed, and ends")
            assert script.read() == 0
            assert "killed" in endless.read()
            client.want(len(LARGE) + 65, "LLEN", "large")
    finally:
        server.kill()
        server.stop()


# A script is too slow for those who wait after so many milliseconds.
SOON_BUSY = ("--busy-reply-threshold", "100")
HOLD = "redis.call('GET', KEYS[1]) while true do end"
READ = "return redis.call('EXISTS', KEYS[1])"
# The most threads that the lane can have, and more than these.
LANE_THREADS = 64
CROWD = 70


def run_endless(trial, client, body, *keys):
    """A client whose script has begun and does not end."""
    script = trial.client()
    before = figure(client, "lane_running")
    script.write(encode("EVAL", body, str(len(keys)), *keys))
    until(lambda: figure(client, "lane_running") == before + 1, "the script runs")
    return script


def kill(client, *scripts):
    """Ends endless scripts that have changed nothing."""
    until(lambda: client.call("SCRIPT", "KILL") == b"OK", "it is listed, and ends")
    for script in scripts:
        assert "killed" in script.read()
        script.close()


def is_busy(reply):
    return is_error(reply, "BUSY Valkey is busy running a script")


@scenario(*NEVER_BUSY)
def crowd_waits_for_script(trial):
    """Many scripts wait for an endless one: they take no thread from others."""
    with trial.client() as client:
        endless = run_endless(trial, client, HOLD, "held")
        crowd = [trial.client() for _ in range(CROWD)]
        for one in crowd:
            one.write(encode("EVAL", READ, "1", "held"))
        until(lambda: figure(client, "lane_waiting") == CROWD, "all of them wait")
        until(lambda: figure(client, "lane_running") == 1, "none of them has a thread")
        client.want(0, "EVAL", READ + " ", "1", "other")
        kill(client, endless)
        for one in crowd:
            assert one.read() == 0
            one.close()


@scenario(*NEVER_BUSY)
def lane_full_of_waiting(trial):
    """All threads of the lane wait for an endless script: others are heard all the same."""
    with trial.client() as client:
        client.want(b"OK", "SET", "held", "x")
        endless = run_endless(trial, client, HOLD, "held")
        crowd = [trial.client() for _ in range(CROWD)]
        for one in crowd:
            one.write(encode("KEYS", "*"))
        until(lambda: figure(client, "lane_running") + figure(client, "lane_waiting") == CROWD + 1,
              "all of them are on the lane")
        client.want(0, "EVAL", READ + " ", "1", "other")
        numbers = until(lambda: who_asks(client, "keys", CROWD), "all of them are listed")
        client.want(1, "CLIENT", "KILL", "ID", numbers[0])
        client.want(b"OK", "MEMORY", "PURGE")
        kill(client, endless)
        ends = [end_of(one) for one in crowd]
        assert ends.count(None) == 1 and ends.count([b"held"]) == CROWD - 1
        for one in crowd:
            one.close()


def who_asks(client, command, count):
    """The numbers of the clients whose command it is; None until there are so many."""
    lines = client.call("CLIENT", "LIST").decode().splitlines()
    asking = [line.split()[0].split("=")[1] for line in lines if f"cmd={command} " in line]
    return asking if len(asking) == count else None


def end_of(client):
    """The reply that was waited for; None if the connection was closed instead."""
    try:
        return client.read()
    except (Closed, OSError):
        return None


@scenario(*SOON_BUSY)
def who_waits_for_script_gets_busy(trial):
    """Whatever waits for a script that is too slow is told so, wherever it waits."""
    with trial.client() as client:
        client.want(b"OK", "SET", "held", "x")
        endless = run_endless(trial, client, HOLD, "held")
        wide = ["k%d" % number for number in range(3000)]
        calls = [
            ["EVAL", READ, "1", "held"],
            ["EVAL", "redis.call('SET', 'mine', 1) return redis.call('GET', 'held')", "0"],
            ["EVAL", "return redis.call('KEYS', '*')", "0"],
            ["GET", "held"], ["MGET", "held", *wide], ["KEYS", "*"],
            ["FLUSHALL"], ["FLUSHDB"], ["SWAPDB", "0", "1"], ["DEBUG", "JMAP"],
        ]
        for call in calls:
            for _ in range(CROWD if call[0] == "EVAL" and call[2] == "1" else 2):
                reply = client.call(*call)
                assert is_busy(reply), (call[:2], reply)
        client.want(0, "EVAL", READ + " ", "1", "other")
        client.want(0, "EXISTS", "mine")
        for queued in ("GET held", "KEYS *"):
            client.want(b"OK", "MULTI")
            client.want(b"QUEUED", *queued.split())
            reply = client.call("EXEC")
            assert is_error(reply, "EXECABORT") and "BUSY" in reply, reply
        kill(client, endless)
        client.want([b"held"], "KEYS", "*")
        client.want(b"OK", "FLUSHALL")


@scenario(*SOON_BUSY)
def lane_full_of_endless_scripts(trial):
    """As many endless scripts as the lane can have threads: who needs one is told BUSY."""
    with trial.client() as client:
        crowd = [trial.client() for _ in range(CROWD)]
        for one in crowd:
            one.write(encode("EVAL", "while true do end", "0"))
        refused = set()
        while len(refused) < CROWD - LANE_THREADS:
            readable, _, _ = select.select([one.sock for one in crowd], [], [], DEADLINE_S)
            assert readable, "more scripts than threads, and nobody is refused"
            for one in [one for one in crowd if one.sock in readable]:
                assert is_busy(one.read())
                crowd.remove(one)
                refused.add(one)
        for call in (["KEYS", "*"], ["FLUSHALL"], ["EVAL", READ, "1", "other"]):
            assert is_busy(client.call(*call)), call
        client.want(b"OK", "SET", "some", "key")
        kill(client, *crowd)
        client.want([b"some"], "KEYS", "*")


@scenario(*SOON_BUSY)
def script_that_holds_nothing_is_busy(trial):
    """A script without keys is in the way of FLUSHALL too, and of nothing else."""
    with trial.client() as client:
        endless = run_endless(trial, client, "while true do end")
        for call in (["FLUSHALL"], ["FLUSHDB"], ["SWAPDB", "0", "1"]):
            assert is_busy(client.call(*call)), call
        client.want([], "KEYS", "*")
        kill(client, endless)
        client.want(b"OK", "FLUSHALL")


@scenario(started=False)
def script_with_the_token_is_busy(trial):
    """A script that can not be undone any more, and who needs the same right."""
    server = trial.new_server(*SOON_BUSY, threads=1)
    server.start()
    try:
        with server.client() as script, server.client() as client:
            for key in ("large", "other"):
                client.want(len(LARGE), "RPUSH", key, *LARGE)
            push = "redis.call('RPUSH', KEYS[1], 'x')"
            script.write(encode("EVAL", push + " while true do end", "1", "large"))
            until(lambda: is_busy(client.call("LLEN", "large")), "the script is too slow")
            assert is_busy(client.call("EVAL", push, "1", "other"))
            client.want(len(LARGE), "LLEN", "other")
    finally:
        server.kill()
        server.stop()


@scenario(*SOON_BUSY)
def script_waits_for_busy_script(trial):
    """A script that waits with keys in hand is undone; where it can not be, its keys are busy."""
    with trial.client() as client:
        client.want(len(LARGE), "RPUSH", "large", *LARGE)
        endless = run_endless(trial, client, HOLD, "held")
        until(lambda: is_busy(client.call("GET", "held")), "it is too slow")
        body = "redis.call('SET', 'mine', 1) return redis.call('GET', KEYS[2])"
        assert is_busy(client.call("EVAL", body, "2", "mine", "held"))
        body = "redis.call('SET', 'mine', 1) return redis.call('GET', 'held')"
        assert is_busy(client.call("EVAL", body, "0"))
        client.want(None, "GET", "mine")
        with trial.client() as final:
            body = "redis.call('RPUSH', 'large', 'x') return redis.call('EXISTS', 'held')"
            final.write(encode("EVAL", body, "0"))
            until(lambda: is_busy(client.call("LLEN", "large")), "who holds the list waits")
            kill(client, endless)
            assert final.read() == 0
        client.want(len(LARGE) + 1, "LLEN", "large")
        client.want(1, "DEL", "large")


def queue(client, *calls):
    """A transaction of these, up to EXEC."""
    client.want(b"OK", "MULTI")
    for call in calls:
        client.want(b"QUEUED", *call)


@scenario(*SOON_BUSY)
def transaction_waits_for_busy_script(trial):
    """EXEC with a script that names a key of one that is too slow: all of it is undone, it is told
    so and holds nothing; where it can not be undone, its keys are busy."""
    with trial.client() as client:
        client.want(len(LARGE), "RPUSH", "large", *LARGE)
        client.want(b"OK", "SET", "mine", "before")
        endless = run_endless(trial, client, HOLD, "held")
        until(lambda: is_busy(client.call("GET", "held")), "it is too slow")
        read_held = "redis.call('SET', 'other', 1) return redis.call('EXISTS', 'held')"
        client.want(b"OK", "CONFIG", "RESETSTAT")
        client.want(b"OK", "WATCH", "mine")
        queue(client, ["SET", "mine", "after"], ["SELECT", "1"], ["INCR", "n"],
              ["EVAL", read_held, "0"])
        reply = client.call("EXEC")
        assert is_error(reply, "EXECABORT") and "BUSY" in reply, reply
        stats = client.call("INFO", "commandstats").decode()
        for name in ("set", "incr", "eval", "exists"):
            assert "cmdstat_%s:" % name not in stats, stats
        client.want(b"before", "GET", "mine")
        client.want(0, "EXISTS", "other", "n")
        queue(client, ["EVAL", "return redis.call('EXISTS', 'other')", "0"])
        client.want([0], "EXEC")
        with trial.client() as final:
            queue(final, ["RPUSH", "large", "x"], ["EVAL", read_held, "0"])
            final.write(encode("EXEC"))
            until(lambda: is_busy(client.call("LLEN", "large")), "who holds the list waits")
            kill(client, endless)
            reply = final.read()
            assert reply == [len(LARGE) + 1, 0], reply
        client.want(2, "DEL", "large", "other")


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


# Tables of many references to one whose slots are many and empty; patterns with a long class.
EMPTIED = ("local e = {} for i = 1, 1000000 do e[i] = i end for i = 1, 1000000 do e[i] = nil end "
           "local t = {} for i = 1, 1000000 do t[i] = e end ")
CLASS = "local c = '[' .. ('a'):rep(1000000) .. ']' local s = ('b'):rep(1000000) "
INSIDE_LIBRARIES = [
    EMPTIED + "return #cjson.encode(t)",
    EMPTIED + "return #cmsgpack.pack(t)",
    EMPTIED + "cjson.encode_max_depth(9) return #cjson.encode(t)",
    CLASS + "return s:find(c)",
    CLASS + "return s:gsub(c .. '*x', '')",
]


@scenario(*NEVER_BUSY, slack_mb=None)
def script_inside_library_is_killed(trial):
    """SCRIPT KILL ends a script that spends its time inside a function of a library."""
    trial.need("EVAL", "return 1", "0")
    with trial.client() as client:
        for body in INSIDE_LIBRARIES:
            with trial.client() as script:
                script.write(encode("EVAL", body, "0"))
                until(lambda: client.call("SCRIPT", "KILL") == b"OK", "there is one to kill")
                assert "killed" in script.read()
        # What a library does while it is loaded has half a second.
        reply = client.call("FUNCTION", "LOAD", "#!lua name=l\n" + CLASS + "local x = s:find(c)")
        assert is_error(reply, "ERR Error registering functions: ERR FUNCTION LOAD timeout"), reply


@scenario(*NEVER_BUSY, "--enable-debug-command", "yes", slack_mb=None)
def script_of_slow_commands_is_killed(trial):
    """SCRIPT KILL ends a script of few commands that take long each."""
    trial.need("EVAL", "return 1", "0")
    with trial.client() as client, trial.client() as script:
        client.want(b"OK", "DEBUG", "POPULATE", "200000")
        # Fewer commands than the host looks at the clock for, and nothing in between.
        body = ("for i = 1, 60 do redis.call('KEYS', '*no?such*key*') end "
                "return 'it came to its end'")
        script.write(encode("EVAL", body, "0"))
        until(lambda: client.call("SCRIPT", "KILL") == b"OK", "there is one to kill")
        assert "killed" in script.read()


@scenario(*NEVER_BUSY)
def monitor_of_a_script_that_is_undone(trial):
    """A script that was quick takes long on a worker and runs again on the lane: MONITOR shows it
    once."""
    trial.need("EVAL", "return 1", "0")
    body = "redis.call('SET', 'k', ARGV[1]) for i = 1, tonumber(ARGV[1]) do end"
    with trial.client() as client, trial.client() as monitor:
        for _ in range(20):
            client.want(None, "EVAL", body, "0", "1")
        monitor.want(b"OK", "MONITOR")
        client.want(None, "EVAL", body, "0", "50000000")
        client.want(b"end", "ECHO", "end")
        lines = []
        while not lines or "ECHO" not in lines[-1]:
            lines.append(monitor.read().decode())
        shown = [line for line in lines if "50000000" in line]
        assert len(shown) == 2 and "EVAL" in shown[0] and "lua" in shown[1], lines


@scenario(*NEVER_BUSY, started=False)
def sigterm_ends_script_inside_library(trial):
    """SIGTERM, and SHUTDOWN, while such scripts run."""
    for how in ("SIGTERM", "SHUTDOWN"):
        server = trial.new_server(*NEVER_BUSY)
        server.start()
        try:
            with server.client() as client:
                scripts = [server.client() for _ in INSIDE_LIBRARIES]
                for script, body in zip(scripts, INSIDE_LIBRARIES):
                    script.write(encode("EVAL", body, "0"))
                until(lambda: figure(client, "lane_running") == len(scripts), "they run")
                if how == "SIGTERM":
                    server.process.terminate()
                else:
                    client.write(encode("SHUTDOWN", "NOSAVE"))
                assert server.process.wait(DEADLINE_S) == 0, "it was not forced"
        finally:
            server.stop()


@scenario(started=False)
def sigterm_ends_what_does_not_answer(trial):
    """SIGTERM while the lane does what nothing stops: the process ends and says why."""
    server = trial.new_server("--enable-debug-command", "yes")
    server.start()
    try:
        with server.client() as sleeper, server.client() as client:
            # Alone it would hear that the server stops.
            queue(sleeper, *[["DEBUG", "SLEEP", "1"]] * 60)
            sleeper.write(encode("EXEC"))
            until(lambda: figure(client, "lane_running") == 1, "it sleeps")
            server.process.terminate()
            assert server.process.wait(DEADLINE_S) == 1
            assert "did not stop in time" in server.log_text()
    finally:
        server.stop()


@scenario(started=False)
def sigterm_ends_a_sleep(trial):
    """DEBUG SLEEP holds up all clients, as who tries out a failover expects it; SIGTERM meanwhile
    ends the process at once."""
    server = trial.new_server("--enable-debug-command", "yes")
    server.start()

    def is_served(client):
        client.write(encode("PING"))
        return bool(select.select([client.sock], [], [], 3)[0]) and client.read() == b"PONG"

    try:
        with server.client() as sleeper, server.client() as client:
            sleeper.write(encode("DEBUG", "SLEEP", "0.7"))
            sleeper.read()
            assert is_served(client), "it has woken"
            sleeper.write(encode("DEBUG", "SLEEP", "1000"))
            until(lambda: not is_served(client), "nobody is served")
            server.process.terminate()
            assert server.process.wait(DEADLINE_S) == 0, "it was not forced"
    finally:
        server.stop()


@scenario(started=False)
def sigterm_with_a_full_log(trial):
    """SIGTERM while nobody reads the log, which is a full pipe."""
    server = trial.new_server()
    reader, server.log_writer = os.pipe()
    try:
        server.start()
        with server.client() as script:
            body = "while true do redis.log(redis.LOG_WARNING, 'x') end"
            script.write(encode("EVAL", body, "0"))
            until(lambda: is_full(server.log_writer), "the log is full")
            server.process.terminate()
            assert server.process.wait(DEADLINE_S) == 1
    finally:
        os.close(reader)
        server.stop()


def is_full(pipe):
    """Whether a write into the pipe would have to wait."""
    return not select.select([], [pipe], [], 0)[1]
