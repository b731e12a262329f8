"""Snapshots on bad days: the server is killed while it saves, the disk is full or gone, files are
damaged, somebody changes their mind. A FIFO in the place of the temporary file holds up a save for
as long as a scenario wants."""

import contextlib
import os
import resource
import shutil
import signal
import threading
from pathlib import Path

from client import Closed, encode
from server import DEADLINE_S, until
from transfers import ACCOUNTS, Transfers, amounts
from trial import fill, is_error, scenario

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def figures(client):
    lines = client.call("INFO", "persistence").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def file_of(server):
    return Path(server.directory) / "dump.rdb"


def settle(client):
    """Waits until nothing is being loaded; how many keys there are."""
    until(lambda: not is_error(client.call("DBSIZE"), "LOADING"), "it is loaded")
    return client.call("DBSIZE")


def begin_save(client):
    """BGSAVE, and waits for its end; whether it went well."""
    client.want(b"Background saving started", "BGSAVE")
    until(lambda: figures(client)["rdb_bgsave_in_progress"] == "0", "the save ends")
    return figures(client)["rdb_last_bgsave_status"] == "ok"


class HeldUp:
    """While it lasts every save waits at the beginning of its file."""

    def __init__(self, server):
        self.path = Path(server.directory) / f"temp-{server.pid}.rdb"
        self.reader = None

    def __enter__(self):
        os.mkfifo(self.path)
        return self

    def __exit__(self, *_):
        self.let_go()
        if self.reader is not None:
            os.close(self.reader)

    def forget(self):
        """The save was called off, before it came here or after."""
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)
        self.reader = reader

    def let_go(self):
        """The save goes on, and fails: a FIFO cannot be synced."""
        if self.path.exists():
            try:
                reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
            except FileNotFoundError:
                return
            try:
                until(lambda: not self.path.exists(), "the save ends")
            finally:
                os.close(reader)


@scenario(watched=False, started=False)
def data_survives_a_restart(trial):
    """With nothing set a clean stop saves, by SIGTERM, SIGINT and SHUTDOWN, and a start loads."""
    server = trial.new_server()
    # As somebody starts it who has read nothing.
    server.command = lambda: [arg for arg in type(server).command(server) if arg != "--save"
                              and arg != ""]
    try:
        for count, how in enumerate(("SIGTERM", "SIGINT", "SHUTDOWN")):
            server.start()
            with server.client() as client:
                assert settle(client) == count
                client.want(b"OK", "SET", how, "v")
                if how == "SHUTDOWN":
                    client.write(encode(how))
                else:
                    server.process.send_signal(getattr(signal, how))
                assert server.process.wait(DEADLINE_S) == 0, how
    finally:
        server.stop()


@scenario(watched=False, slack_mb=None)
def kill_while_saving(trial):
    """kill -9 at any moment of a save leaves a file that is whole, the old one or the new."""
    server, saved = trial.server, 0
    rounds = 20 if trial.is_long else 6
    for turn in range(rounds):
        with server.client() as client:
            assert settle(client) >= saved
            fill(client, 3_000 * (turn + 1))
            client.want(b"OK", "SAVE")
            saved = client.call("DBSIZE")
            size = file_of(server).stat().st_size
            client.want(b"Background saving started", "BGSAVE")
            # Somewhere in its midst: as long as some of it is written.
            temporary = Path(server.directory) / f"temp-{server.pid}.rdb"
            part = size * turn // rounds
            until(lambda: size_or_end(temporary) >= part, "a part")
            server.kill()
        server.start()
        temporary.unlink(missing_ok=True)


def size_or_end(file):
    """How many bytes a file has; no end of them when it has been given another name."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        # Or it has not been begun: then the kill comes before the save.
        return float("inf")


@scenario(watched=False, slack_mb=None)
def transfers_while_saving(trial):
    """Money goes from account to account while ten files are written: in each the sum is right."""
    server = trial.server
    with server.client() as client:
        fill(client, 20_000)
        transfers, files = Transfers(server), []
        for turn in range(10):
            enough = transfers.count + ACCOUNTS
            until(lambda enough=enough: transfers.count > enough, "some were made")
            client.want(b"OK", "SAVE")
            files.append(Path(server.directory) / f"saved-{turn}.rdb")
            shutil.copy(file_of(server), files[-1])
        transfers.end()
    seen = set()
    for file in files:
        other = trial.new_server()
        shutil.copy(file, file_of(other))
        other.start()
        try:
            with other.client() as client:
                assert settle(client) == 20_000 + ACCOUNTS
                seen.add(amounts(client))
        finally:
            other.stop()
    assert len(seen) > 5, "the files are of different moments"


@scenario("--save", "3600 1", slack_mb=None)
def disk_full(trial):
    """No room for the file: it is said, writes are refused, reads go on; then all is well again."""
    with trial.client() as client:
        fill(client, 10_000)
        client.want(b"OK", "SAVE")
        size = file_of(trial.server).stat().st_size
        resource.prlimit(trial.server.pid, resource.RLIMIT_FSIZE, (size // 2, UNLIMITED[1]))
        assert not begin_save(client)
        assert file_of(trial.server).stat().st_size == size, "the old file is there"
        assert os.listdir(trial.server.directory).count(f"temp-{trial.server.pid}.rdb") == 0
        reply = client.call("SET", "k", "v")
        assert is_error(reply, "MISCONF"), reply
        client.want(b"value", "GET", "key:0000001")
        assert is_error(client.call("SAVE")), "it is still full"
        assert "cannot write" in trial.server.log_text(), trial.server.log_text()[-900:]
        resource.prlimit(trial.server.pid, resource.RLIMIT_FSIZE, UNLIMITED)
        assert begin_save(client)
        client.want(b"OK", "SET", "k", "v")
        # Who does not want that is not refused.
        resource.prlimit(trial.server.pid, resource.RLIMIT_FSIZE, (size // 2, UNLIMITED[1]))
        assert not begin_save(client)
        client.want(b"OK", "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        client.want(b"OK", "SET", "k", "v")
        resource.prlimit(trial.server.pid, resource.RLIMIT_FSIZE, UNLIMITED)


@scenario(watched=False, started=False)
def directory_gone(trial):
    """Where the directory has gone nothing can be saved: a server told to stop says so and runs
    on, and ends when it is forced to."""
    server = trial.new_server("--save", "3600 1", "--logfile", "/dev/null")
    server.start()
    elsewhere = f"{server.directory}-elsewhere"
    try:
        with server.client() as client:
            client.want(b"OK", "SET", "k", "v")
            os.rename(server.directory, elsewhere)
            assert is_error(client.call("SHUTDOWN"), "ERR Errors trying to SHUTDOWN")
            server.process.terminate()
            client.want(b"OK", "SET", "k", "w")
            assert is_error(client.call("SHUTDOWN", "SAVE", "NOW"), "ERR Errors trying")
            client.want(b"OK", "SET", "k", "w")
            client.write(encode("SHUTDOWN", "FORCE"))
            assert server.process.wait(DEADLINE_S) == 0
    finally:
        os.rename(elsewhere, server.directory)
        server.stop()


@scenario("--save", "3600 1", watched=False)
def shutdown_is_called_off(trial):
    """While a SHUTDOWN saves, changes wait and reads do not; SHUTDOWN ABORT calls it off."""
    with trial.client() as client, trial.client() as stopper, trial.client() as writer, \
            HeldUp(trial.server) as held:
        client.want(b"OK", "SET", "k", "v")
        stopper.write(encode("SHUTDOWN"))
        until(lambda: "Saving the final RDB snapshot" in trial.server.log_text(), "it saves")
        writer.write(encode("SET", "k", "w"))
        client.want(b"v", "GET", "k")
        client.want(b"OK", "SHUTDOWN", "ABORT")
        held.let_go()
        assert is_error(stopper.read(), "ERR Errors trying to SHUTDOWN")
        assert writer.read() == b"OK"
        client.want(b"w", "GET", "k")
        assert is_error(client.call("SHUTDOWN", "ABORT"), "ERR No shutdown in progress")


@scenario(watched=False)
def background_save_is_called_off(trial):
    """BGSAVE CANCEL; meanwhile there is no second one, and INFO tells of the first."""
    with trial.client() as client, HeldUp(trial.server) as held:
        client.want(b"OK", "SET", "k", "v")
        assert is_error(client.call("BGSAVE", "CANCEL"), "not in progress")
        client.want(b"Background saving started", "BGSAVE")
        assert figures(client)["rdb_bgsave_in_progress"] == "1"
        for command in (("BGSAVE",), ("BGSAVE", "SCHEDULE"), ("SAVE",)):
            assert is_error(client.call(*command), "already in progress")
        scheduled = b"Background append only file rewriting scheduled"
        for _ in range(3):
            client.want(scheduled, "BGREWRITEAOF")
        assert figures(client)["aof_rewrite_scheduled"] == "1"
        # Large values and small ones change while nothing can be written.
        client.want(b"OK", "SET", "k", b"w" * 1_000_000)
        client.want(b"Background saving cancelled", "BGSAVE", "CANCEL")
        held.let_go()
        until(lambda: figures(client)["rdb_bgsave_in_progress"] == "0", "it ends")
        assert figures(client)["rdb_last_bgsave_status"] == "ok", "to call off is not to fail"
        assert not file_of(trial.server).exists()
        client.want(b"OK", "SAVE")


@scenario(watched=False, started=False)
def a_second_sigint(trial):
    """The first SIGINT saves, which hangs; the second ends the process at once."""
    server = trial.new_server("--save", "3600 1")
    server.start()
    try:
        with server.client() as client:
            client.want(b"OK", "SET", "k", "v")
            os.mkfifo(Path(server.directory) / f"temp-{server.pid}.rdb")
            server.process.send_signal(signal.SIGINT)
            until(lambda: "Saving the final RDB snapshot" in server.log_text(), "it saves")
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(DEADLINE_S) == 1
    finally:
        server.stop()


@scenario(watched=False, started=False)
def sigterm_saves_beside_scripts(trial):
    """A script that has not written is ended, so that there is a moment to save; one that has and
    does not end is not waited for."""
    for body, is_saved in (("while true do end", True),
                           ("redis.call('SET', 'half', 1) while true do end", False)):
        server = trial.new_server("--save", "3600 1", "--busy-reply-threshold", "0")
        server.start()
        try:
            with server.client() as client, server.client() as script:
                client.want(b"OK", "SET", "k", "v")
                script.write(encode("EVAL", body, "0"))
                until(lambda: is_error(client.call("SCRIPT", "FLUSH", "x"))
                      and b"lane_running:1" in client.call("INFO", "pantala"), "it runs")
                server.process.terminate()
                code = server.process.wait(DEADLINE_S)
            assert code == 0, f"{body}: {code}, {server.log_text()[-300:]}"
            assert file_of(server).exists() == is_saved, server.log_text()[-900:]
        finally:
            server.stop()


@scenario(watched=False, started=False)
def sigterm_while_the_lane_has_writes(trial):
    """Writes that wait for a thread of the slow lane when a server begins to save before it stops
    are in the file if they were acknowledged; they go on when that is called off."""
    server = trial.new_server("--slow_lane_threads", "1")
    server.command = lambda: [arg for arg in type(server).command(server) if arg != "--save"
                              and arg != ""]
    server.start()
    acknowledged = set()

    def write(number):
        with server.client() as client, contextlib.suppress(OSError, Closed):
            if client.call("SADD", f"set{number}", *range(3000)) == 3000:
                acknowledged.add(number)

    def begin(numbers):
        # Inside a transaction it holds up nobody else.
        sleeper.want(b"OK", "MULTI")
        for _ in range(2):
            sleeper.want(b"QUEUED", "DEBUG", "SLEEP", "1")
        sleeper.write(encode("EXEC"))
        threads = [threading.Thread(target=write, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        until(lambda: b"lane_waiting:0" not in client.call("INFO", "pantala"), "some wait")
        server.process.terminate()
        return threads

    def end(threads):
        for thread in threads:
            thread.join(DEADLINE_S)

    try:
        with server.client() as client, server.client() as sleeper:
            client.want(b"OK", "DEBUG", "POPULATE", 200_000, "key", 300)
            with HeldUp(server) as held:
                threads = begin(range(12))
                until(lambda: client.call("SHUTDOWN", "ABORT") == b"OK", "it is called off")
                assert sleeper.read() == [b"OK", b"OK"]
                held.forget()
                end(threads)
                assert len(acknowledged) == 12, "they go on"
            threads = begin(range(12, 24))
            assert server.process.wait(DEADLINE_S) == 0
            end(threads)
        server.start()
        with server.client() as client:
            settle(client)
            lost = [n for n in acknowledged if client.call("SCARD", f"set{n}") != 3000]
            assert not lost, f"{lost} of {acknowledged} were acknowledged and are lost"
    finally:
        server.stop()


def repeat_until_gone(server, *command):
    with contextlib.suppress(OSError, Closed), server.client() as client:
        while True:
            client.call(*command)


@scenario(watched=False, started=False)
def sigterm_beside_saves_and_rewrites(trial):
    """Clients save and rewrite in loops: SIGTERM saves and ends the server all the same."""
    for _ in range(3):
        server = trial.new_server("--save", "3600 1", "--appendonly", "yes")
        server.start()
        try:
            with server.client() as client:
                fill(client, 20_000)
                loops = [threading.Thread(target=repeat_until_gone, args=(server, name))
                         for name in ("BGSAVE", "BGREWRITEAOF")]
                for loop in loops:
                    loop.start()
                until(lambda: int(figures(client)["aof_rewrites"]) > 3, "they are at it")
                server.process.terminate()
            code = server.process.wait(DEADLINE_S)
            for loop in loops:
                loop.join(DEADLINE_S)
            assert code == 0, f"{code}: {server.log_text()[-600:]}"
            assert "trying to shut down" not in server.log_text(), server.log_text()[-600:]
            assert file_of(server).exists()
        finally:
            server.stop()


@scenario(watched=False, started=False)
def damaged_file(trial):
    """A file that is not whole refuses the start: file, byte, and what had to be there are told."""
    from scenarios.circumstances import run_to_end
    server = trial.new_server()
    server.start()
    with server.client() as client:
        fill(client, 1_000)
        client.want(b"OK", "SAVE")
        client.write(encode("SHUTDOWN", "NOSAVE"))
    server.process.wait(DEADLINE_S)
    sound = file_of(server).read_bytes()
    flipped = bytearray(sound)
    flipped[len(sound) // 2] ^= 0x55
    for content in (sound[:len(sound) // 2], sound[:5], b"", bytes(flipped), b"not a snapshot"):
        file_of(server).write_bytes(content)
        code, text = run_to_end(server)
        assert code == 1, f"exit code {code}: {text}"
        assert str(file_of(server)) in text and "byte " in text and "expected" in text, text
        assert file_of(server).read_bytes() == content, "and it is left as it is"
    file_of(server).write_bytes(sound)
    server.start()
    with server.client() as client:
        assert settle(client) == 1_000
    server.stop()
