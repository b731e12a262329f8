"""What a fresh server refuses, hides and renames, as the operator meant it."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import tempfile
from pathlib import Path

from client import Client, encode
from server import until
from trial import Skip, is_error, scenario

RENAMES = ('rename-command FLUSHALL ""', "rename-command SET put",
           "rename-command CONFIG hidden-away", "rename-command DEL remove")


@scenario(started=False, watched=False)
def renamed_commands(trial):
    """`rename-command`: only the new name is known, to clients, scripts and MULTI; none where it is
    empty; CONFIG tells neither; a rewritten file and the append-only file keep them."""
    server = trial.server
    file = Path(server.directory) / "renames.conf"
    file.write_text("\n".join(RENAMES) + "\n")
    plain = server.command
    more = ["--appendonly", "yes", "--appendfsync", "always", "--rename-command", "GET", "fetch"]
    server.command = lambda: [plain()[0], str(file), *plain()[1:], *more]
    server.start()
    with trial.client() as client:
        client.want(b"OK", "put", "k", "v")
        client.want(b"v", "FETCH", "k")
        client.want(b"OK", "put", "gone", "v", "px", "1")
        until(lambda: client.call("fetch", "gone") is None, "it expires")
        client.want(b"OK", "put", "removed", "v")
        client.want(1, "remove", "removed")
        for name in ("SET", "get", "flushall", "CONFIG", "del"):
            reply = client.call(name, "k", "v")
            assert is_error(reply, f"unknown command '{name}'"), reply
        script = "redis.call('put', 'b', '1') return redis.pcall('set', 'b', '2')['err']"
        assert b"Unknown" in client.call("EVAL", script, 0)
        client.want(b"OK", "MULTI")
        client.want(b"QUEUED", "put", "c", "1")
        assert is_error(client.call("SET", "c", "2"), "unknown command")
        assert is_error(client.call("EXEC"), "EXECABORT")
        client.want([], "hidden-away", "GET", "rename-command", "rename*")
        client.want([None], "COMMAND", "INFO", "get")
        assert client.call("COMMAND", "INFO", "fetch")[0][0] == b"get"
        assert b"flushall" not in client.call("COMMAND", "LIST")
        client.want(b"OK", "hidden-away", "REWRITE")
    text = file.read_text()
    assert all(line in text for line in RENAMES), text
    assert "fetch" not in server.log_text() and "hidden" not in server.log_text()
    server.kill()
    server.start()
    with trial.client() as client:
        client.want(b"v", "fetch", "k")
        client.want(b"1", "fetch", "b")
        client.want(0, "EXISTS", "gone", "removed", "c")
    server.process.terminate()
    server.process.wait()


@scenario(started=False, watched=False)
def wrong_renames(trial):
    """A rename of what is not there, or to what is, ends the start; the log tells no new name."""
    for words, why in ((["NOPE", "secret-name"], "no such command"), (["GET", "SET"], "that name"),
                       (["GET"], "needs a command")):
        command = [*trial.server.command(), "--rename-command", *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        text = ended.stdout + ended.stderr
        assert ended.returncode == 1 and why in text, text
        assert "secret-name" not in text, text


def other_address():
    """An address of this machine that is not its own loopback."""
    text = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout
    found = [word for word in text.split() if "." in word and not word.startswith("127.")]
    if not found:
        raise Skip("this machine has no address but 127.0.0.1")
    return found[0]


@scenario(started=False, watched=False)
def protected_mode(trial):
    """Without a password only clients of this machine are served, also where `bind` names an
    address; with one, or told so, all are."""
    address = other_address()
    server = trial.new_server(bind=address)
    server.bind = "0.0.0.0"
    server.start()
    try:
        far = (address, server.port)
        with server.client() as near:
            for setting, value, is_served in (
                ("protected-mode", "yes", False), ("protected-mode", "no", True),
                ("protected-mode", "yes", False), ("requirepass", "x", True),
            ):
                near.want(b"OK", "CONFIG", "SET", setting, value)
                with Client(far) as client:
                    if is_served:
                        reply = client.call("PING")
                        assert reply == b"PONG" or is_error(reply, "NOAUTH"), reply
                    else:
                        answer = client.rest()
                        assert answer.startswith(b"-DENIED Running in protected mode"), answer
            near.want(b"OK", "CONFIG", "SET", "requirepass", "")
    finally:
        server.stop()


@scenario(watched=False)
def files_elsewhere(trial):
    """The classic way in: write a snapshot over somebody's crontab or keys. Where it is written is
    not for clients to say."""
    with trial.client() as client:
        client.want(b"OK", "SET", "x", "\n\n*/1 * * * * sh\n\n")
        elsewhere = Path(trial.server.directory) / "elsewhere"
        elsewhere.mkdir()
        for setting, value in (("dir", str(elsewhere)), ("dbfilename", "root")):
            reply = client.call("CONFIG", "SET", setting, value)
            assert is_error(reply, "can't set protected config"), reply
        for setting, value in (
            ("appenddirname", str(elsewhere)), ("appendfilename", "../root"), ("logfile", "/root"),
            ("pidfile", "/root"), ("unixsocket", str(elsewhere / "s")), ("aclfile", "x"),
            ("enable-protected-configs", "yes"), ("enable-debug-command", "yes"),
            ("enable-module-command", "yes"), ("load", "../x"),
        ):
            reply = client.call("CONFIG", "SET", setting, value)
            assert is_error(reply, "immutable"), f"{setting}: {reply}"
        for command in (("SAVE", str(elsewhere / "x")), ("BGSAVE", str(elsewhere / "x")),
                        ("MODULE", "LOAD", "/x.so"), ("DEBUG", "RELOAD", "../x")):
            reply = client.call(*command)
            assert is_error(reply), f"{command}: {reply}"
        client.want(b"OK", "SAVE")
        assert not list(elsewhere.iterdir())


@scenario("--loglevel", "debug", watched=False)
def secrets_stay(trial):
    """A password stands nowhere afterwards: not in the log, the slow log, MONITOR, INFO, CLIENT
    LIST, an error, or LATENCY; and a file that is written with it is its owner's alone."""
    secret = "s3cret-" + os.urandom(4).hex()
    with trial.client() as watcher, trial.client() as client:
        client.want(b"OK", "CONFIG", "SET", "slowlog-log-slower-than", 0)
        watcher.want(b"OK", "MONITOR")
        client.want(b"OK", "CONFIG", "SET", "masterauth", secret, "requirepass", secret)
        with trial.client() as guest:
            for command in (
                ("AUTH", secret + "x"), ("AUTH", "default", secret + "x"),
                ("HELLO", "3", "AUTH", "default", secret + "x"), ("AUTH", secret, "x", "y"),
                ("SET", secret, "x"), ("AUTH", secret),
            ):
                reply = guest.call(*command)
                assert secret not in str(reply), f"{command}: {reply}"
            guest.want([b"n"], "EVAL", "return {KEYS[1]}", 1, "n")
        client.call("MIGRATE", "127.0.0.1", 1, "nothing", 0, 10, "AUTH2", "default", secret)
        client.call("MIGRATE", "127.0.0.1", 1, "nothing", 0, 10, "AUTH", secret)
        client.want(b"OK", "CONFIG", "SET", "requirepass", "")
        shown = [client.call("SLOWLOG", "GET", -1), client.call("INFO", "everything"),
                 client.call("CLIENT", "LIST"), client.call("LATENCY", "DOCTOR"),
                 client.call("COMMANDLOG", "GET", -1, "large-request")]
        with contextlib.suppress(TimeoutError):
            watcher.sock.settimeout(1)
            while True:
                shown.append(watcher.read())
                watcher.sock.settimeout(1)
        shown.append(trial.server.log_text())
        for number, text in enumerate(shown):
            assert secret not in str(text), f"the secret stands in place {number}"


@scenario("--loglevel", "debug", watched=False)
def control_characters(trial):
    """What a client sends breaks no line of the log and moves no terminal."""
    nasty = b"a\r\n1:M fake line\x1b[2J\x07\x00\xc2\x9b31m"
    with trial.client() as client:
        client.call("CLIENT", "SETNAME", nasty)
        client.call(nasty, nasty)
        client.call("EVAL", b"error(ARGV[1])", 0, nasty)
        client.call("EVAL", "redis.log(redis.LOG_WARNING, ARGV[1])", 0, nasty)
        client.call("CONFIG", "SET", nasty, nasty)
        client.call("SELECT", nasty)
        client.call("FUNCTION", "LOAD", b"#!lua name=" + nasty)
        client.write(b"POST \x1b[2J\r\n")
        assert client.rest() == b""
    until(lambda: "SECURITY" in trial.server.log_text(), "it is logged")
    raw = (Path(trial.server.directory) / "log").read_bytes()
    for line in raw.splitlines():
        assert not line.startswith(b"1:M fake"), line
        assert not any(byte < 0x20 and byte != 9 or byte == 0x7F for byte in line), line
        assert b"\xc2\x9b" not in line, line


@scenario(started=False, watched=False)
def log_rotation(trial):
    """A log that was moved away is begun anew with SIGHUP; its form changes while the server runs,
    and a forged line stays one line in each."""
    server = trial.server
    log, moved = (Path(server.directory) / name for name in ("server.log", "server.log.1"))
    server.flags += ["--logfile", str(log), "--log-format", "json",
                     "--log-timestamp-format", "iso8601"]
    server.start()
    forged = "a\r\n1:M fake line\x1b[2J\x7f\" x="
    with trial.client() as client:
        for form, begin in (("json", '{"timestamp":"20'), ("logfmt", "pid="), ("legacy", "")):
            client.want(b"OK", "CONFIG", "SET", "log-format", form)
            script = "redis.log(redis.LOG_WARNING, ARGV[1])"
            client.want(None, "EVAL", script, 0, forged)
            log.rename(moved)
            server.process.send_signal(signal.SIGHUP)
            until(lambda: log.exists() and "SIGHUP" in log.read_text(), "it is begun anew")
            lines = moved.read_text().splitlines()
            assert "fake line" in lines[-1] and "\\" in lines[-1], lines[-1]
            assert lines[-1].startswith(begin), lines[-1]
            assert not any(char < " " or char == "\x7f" for char in "".join(lines)), lines
            if form == "json":
                assert [json.loads(line) for line in lines][-1]["message"] == forged, lines[-1]
            moved.unlink()
        client.want(b"OK", "CONFIG", "SET", "loglevel", "nothing")
        size = log.stat().st_size
        client.want(None, "EVAL", "redis.log(redis.LOG_WARNING, 'unheard')", 0)
        assert log.stat().st_size == size


@scenario(started=False, watched=False)
def no_core_file(trial):
    """A core file would hold every key and password: none is written, unless that is wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        for flags, is_small in ((["--core_dumps", "no"], True), ([], True),
                                (["--core_dumps", "yes"], False)):
            server = trial.new_server(*flags)
            server.start()
            most, _ = resource.prlimit(server.pid, resource.RLIMIT_CORE)
            server.stop()
            # One byte: a limit of none would not keep the kernel from feeding a program.
            assert (most == 1) == (is_small or hard == 1), f"{flags}: {most} bytes"
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@scenario(started=False, watched=False)
def landlocked(trial):
    """`landlock yes`: the server does all it has to in its directory, and can write nowhere else,
    whatever it is told, though it runs as root."""
    server = trial.server
    flags = ["--landlock", "yes", "--enable-protected-configs", "yes", "--appendonly", "yes",
             "--unixsocket", f"{server.directory}/socket"]
    plain = server.command
    server.command = lambda: [*plain(), *flags]
    try:
        server.start()
    except AssertionError:
        if "the kernel has no Landlock" in server.log_text():
            raise Skip("this kernel has no Landlock") from None
        raise
    elsewhere = Path(tempfile.mkdtemp(prefix="bad-days-"))
    try:
        with trial.client() as client:
            client.want(b"OK", "SET", "k", "v")
            client.want(b"OK", "SAVE")
            client.want(b"Background append only file rewriting started", "BGREWRITEAOF")
            until(lambda: b"aof_rewrite_in_progress:0" in client.call("INFO", "persistence"), "it")
            assert b"aof_last_bgrewrite_status:ok" in client.call("INFO", "persistence")
            client.want(b"OK", "CONFIG", "SET", "appendonly", "no")
            client.want(b"OK", "CONFIG", "SET", "dir", str(elsewhere))
            reply = client.call("SAVE")
            assert is_error(reply), reply
            below = Path(server.directory) / "below"
            below.mkdir()
            client.want(b"OK", "CONFIG", "SET", "dir", str(below))
            client.want(b"OK", "SAVE")
            memory = client.call("INFO", "memory").decode()
            assert "total_system_memory:0" not in memory, memory
            reply = client.call("MIGRATE", "127.0.0.1", server.port, "k", 1, 1000, "COPY")
            assert reply == b"OK", reply
        assert not list(elsewhere.iterdir())
        server.process.terminate()
        assert server.process.wait() == 0
        assert not (Path(server.directory) / "socket").exists()
    finally:
        elsewhere.rmdir()


@scenario(watched=False)
def smuggled(trial):
    """Bytes of other protocols on the port: nothing in them runs, or all that does was meant."""
    inner = encode("SET", "smuggled", "1")
    prefixes = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-x\r\n", b"EHLO x\r\n",
        b"\x00\x00\x00\x0cSELECT 1", b"*-1\r\n", b"$5\r\nhello\r\n",
        b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    with trial.client() as other:
        for prefix in prefixes[-2:]:
            with trial.client() as client:
                client.write(prefix + inner)
                client.rest()
            other.want(0, "EXISTS", "smuggled")
        for prefix in prefixes[:-2]:
            with trial.client() as client:
                client.write(prefix + inner)
                client.half_close()
                client.rest()
            other.want(b"PONG", "PING")
