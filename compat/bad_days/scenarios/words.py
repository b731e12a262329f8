"""The log says what Redis and Valkey say, in their words, where something goes wrong that they know
too: operators' tools and other people's suites look for them. What we know beside that follows."""

import shutil
import subprocess
from pathlib import Path

from client import encode
from server import DEADLINE_S, until
from trial import is_error, scenario

BASE, FIRST, SECOND = (f"appendonly.aof.{name}" for name in ("1.base.aof", "1.incr.aof",
                                                             "2.incr.aof"))
LINES = {
    BASE: f"file {BASE} seq 1 type b\n",
    FIRST: f"file {FIRST} seq 1 type i\n",
    SECOND: f"file {SECOND} seq 2 type i\n",
}
SET = encode("SET", "k", "v")
TORN = encode("MULTI") + encode("SET", "k", "w")

# A manifest, and what the server says of it.
BAD_MANIFESTS = [
    ("", "Found an empty AOF manifest"),
    (LINES[FIRST] + "\n" + LINES[SECOND], "Invalid AOF manifest file format"),
    (LINES[BASE].replace("file", "filx"), "Invalid AOF manifest file format"),
    (f"file {FIRST} type i\n", "Invalid AOF manifest file format"),
    (LINES[FIRST].replace("\n", " newkey\n"), "Invalid AOF manifest file format"),
    (LINES[SECOND] + LINES[FIRST], "Found a non-monotonic sequence number"),
    (LINES[BASE] * 2, "Found duplicate base file information"),
    (LINES[FIRST].replace("type i", "type x"), "Unknown AOF file type"),
    (LINES[FIRST].replace("\n", " a b" * 300 + "\n"),
     "The AOF manifest file contains too long line"),
    (LINES[FIRST].replace(FIRST, "a/b"), "File can't be a path, just a filename"),
]
# What the first increment has, a flag, and what the server says.
BAD_FILES = [
    (SET + b"!!!" + SET, "yes", "Bad file format reading the append only file"),
    (SET + TORN, "no", "Unexpected end of file reading the append only file"),
    (SET + SET[:-1], "no", "Unexpected end of file reading the append only file"),
    (SET + encode("bla", "k") + SET, "yes", "Unknown command 'bla' reading the append only file"),
]
# Of a snapshot.
HEAD = b"REDIS0010"
END = b"\xff" + bytes(8)
BAD_SNAPSHOTS = [
    (b"SOMETHING" + END, "Wrong signature trying to load DB from file"),
    (b"REDIS9999" + END, "Can't handle RDB format version 9999"),
    (HEAD + b"\xfe\x00\x00", "Short read or OOM loading DB. Unrecoverable error, aborting now"),
    (HEAD + b"\xff" + b"foobar00", "RDB CRC error"),
    (HEAD + b"\xfe\x00\x0d\x01k\x03abc" + END, "Hash ziplist integrity check failed"),
]


def refused(server, phrase, *flags):
    """The start ends with 1: the words are in the log, as its last line, and on standard error."""
    done = subprocess.run([*server.command(), *flags], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=DEADLINE_S, errors="replace")
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 1 and phrase in last, f"{phrase}: {done.returncode} {last}"
    assert done.stdout.count(phrase) == 1 and phrase in done.stderr, f"{phrase}: {done.stderr}"


def says(server, *phrases):
    for phrase in phrases:
        until(lambda phrase=phrase: phrase in server.log_text(), phrase)


def directory_of(server, manifest, files):
    directory = Path(server.directory) / "appendonlydir"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    (directory / "appendonly.aof.manifest").write_text(manifest)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def key(server):
    with server.client() as client:
        until(lambda: not is_error(client.call("DBSIZE"), "LOADING"), "it is loaded")
        return client.call("GET", "k")


@scenario(watched=False, started=False)
def words_of_an_append_only_file(trial):
    """A manifest or a file that is wrong refuses the start; a torn end is cut off and told."""
    server = trial.new_server("--appendonly", "yes", "--aof-load-truncated", "yes")
    whole = {BASE: SET, FIRST: SET, SECOND: SET}
    for manifest, phrase in BAD_MANIFESTS:
        directory_of(server, manifest, whole)
        refused(server, phrase)
    for content, is_cut, phrase in BAD_FILES:
        directory_of(server, LINES[FIRST], {FIRST: content})
        refused(server, phrase, "--aof-load-truncated", is_cut)
    directory_of(server, LINES[BASE] + LINES[FIRST], {BASE: SET})
    refused(server, f"{FIRST} length. stat: No such file or directory")
    directory_of(server, LINES[FIRST] + LINES[SECOND], {FIRST: SET[:-1], SECOND: SET})
    refused(server, "Fatal error: the truncated file is not the last file")
    directory_of(server, LINES[BASE] + LINES[FIRST], {BASE: HEAD + b"x", FIRST: SET})
    refused(server, "Error reading the RDB base file")

    # The second increment is not the next one: others load it, so it is loaded, and told.
    third = LINES[SECOND].replace("seq 2", "seq 3")
    directory_of(server, LINES[FIRST] + third, {FIRST: b"", SECOND: SET + TORN})
    server.start()
    try:
        assert key(server) == b"v"
        says(server, "the manifest has no increment of number 2",
             "Revert incomplete MULTI/EXEC transaction in AOF file",
             "!!! Warning: short read while loading the AOF file",
             f"at offset {len(SET)} !!!",
             "loaded anyway because aof-load-truncated is enabled",
             f"DB loaded from incr file {SECOND}: ",
             "DB loaded from append only file: ",
             f"Opening AOF incr file {SECOND} on server start")
        with server.client() as client:
            client.call("BGREWRITEAOF")
            says(server, "Background append only file rewriting started by pid",
                 "Background AOF rewrite terminated with success",
                 "Background AOF rewrite finished successfully")
            client.write(encode("SHUTDOWN", "NOSAVE"))
        says(server, "Calling fsync() on the AOF file.")
    finally:
        server.stop()


@scenario(watched=False, started=False)
def words_of_a_snapshot(trial):
    """One that is damaged refuses the start; a payload is refused, and verbose logs say why."""
    server = trial.new_server("--loglevel", "verbose", "--enable-debug-command", "yes")
    path = Path(server.directory) / "dump.rdb"
    for content, phrase in BAD_SNAPSHOTS:
        path.write_bytes(content)
        refused(server, phrase)
        refused(server, "Fatal error loading the DB: ")
    path.write_bytes(HEAD + b"\xfe\x00\x02\x01e\x00\x00\x01k\x01v" + END)
    server.start()
    try:
        assert key(server) == b"v"
        says(server, "rdbLoadObject skipping empty key: e",
             "keys loaded: 1, keys expired: 0, empty keys skipped: 1.",
             "DB loaded from disk: ")
        with server.client() as client:
            client.want(b"OK", "DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
            for payload, phrase in [
                (b"\x0d\x03abc", "Hash ziplist integrity check failed"),
                (b"\x09\x02\x00\xfe", "Zipmap integrity check failed"),
                (b"\x0c\x03abc", "Zset ziplist integrity check failed"),
            ]:
                got = client.call("RESTORE", "x", "0", payload + b"\x09\x00" + bytes(8))
                assert is_error(got, "ERR Bad data format"), got
                says(server, phrase)
            client.want(b"Background saving started", "BGSAVE")
            says(server, "Background saving started by pid", "DB saved on disk",
                 "Background saving terminated with success")
            path.unlink()
            path.mkdir()
            client.want(b"Background saving started", "BGSAVE")
            says(server, "Write error saving DB on disk", "Background saving error")
    finally:
        server.stop()


@scenario(watched=False, started=False)
def words_of_a_stop(trial):
    """Who asked for it, why it did not come, which replicas lack something, and its end."""
    server = trial.new_server("--save", "3600 1", "--shutdown-timeout", "1")
    path = Path(server.directory) / "dump.rdb"
    server.start()
    try:
        path.mkdir()
        server.process.terminate()
        says(server, "Received SIGTERM scheduling shutdown...", "User requested shutdown...",
             "Saving the final RDB snapshot before exiting.",
             "Error trying to save the DB, can't exit.",
             "Errors trying to shut down the server.",
             "SIGTERM received but errors trying to shut down the server")
        with server.client() as replica, server.client() as client:
            # It never says how much it has.
            replica.write(encode("PSYNC", "?", "-1"))
            until(lambda: "state=online" in client.call("INFO", "replication").decode(), "a copy")
            client.call("SET", "k", "v")
            client.want(b"OK", "CONFIG", "SET", "shutdown-timeout", "3600")
            with server.client() as stopping:
                stopping.write(encode("SHUTDOWN", "NOSAVE"))
                says(server, "(user request from '", "Waiting for replicas before shutting down.")
                until(lambda: client.call("SHUTDOWN", "ABORT") == b"OK", "it is called off")
                says(server, "Shutdown manually aborted.")
                assert is_error(stopping.read(), "ERR Errors trying to SHUTDOWN")
            client.want(b"OK", "CONFIG", "SET", "shutdown-timeout", "1")
            client.write(encode("SHUTDOWN", "NOSAVE"))
            assert server.process.wait(DEADLINE_S) == 0
        says(server, "Lagging replica ", " behind master",
             "0 of 1 replicas are in sync when shutting down.",
             "is now ready to exit, bye bye...")
    finally:
        server.stop()


@scenario("--loglevel", "verbose")
def broken_requests(trial):
    """A request that cannot be read is logged: by whom, and its bytes if that is wanted."""
    for hides, shown in ("yes", "*redacted*"), ("no", "$blabla"):
        with trial.client() as client:
            client.want(b"OK", "CONFIG", "SET", "hide-user-data-from-log", hides)
            client.want(b"OK", "CLIENT", "SETNAME", f"hides-{hides}")
            client.write(b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n")
            assert is_error(client.read(), "ERR Protocol error: invalid bulk length")
        words = "Protocol error (invalid bulk length) from client: "
        said = lambda: [line for line in trial.server.log_text().splitlines() if words in line]
        until(lambda hides=hides: f"name=hides-{hides} " in (said() or [""])[-1], "it is logged")
        assert shown in said()[-1].partition("Query buffer: ")[2], said()
