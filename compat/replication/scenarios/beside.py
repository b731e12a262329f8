"""Full copies that are loaded beside the old data (repl-diskless-load swapdb): who reads meanwhile
sees the old data or the new, never a mix."""

import threading

from contents import contents, differences, equal
from nodes import linked, settle, until
from trial import fill, is_error, scenario

KEYS, SIZE = 1_500, 1_000
BYTES_A_SECOND = 800_000
# Keys that are the same at any moment.
VERSIONS = [f"version:{number}" for number in range(40)]
LIBRARY = "#!lua name=lib\nredis.register_function{{function_name='v', callback=function() " \
    "return '{}' end, flags={{'no-writes'}}}}"


def set_version(primary, version):
    """All of them, in databases 0 and 3, and a function that says it."""
    with primary.client() as client:
        for db in (0, 3):
            client.want(b"OK", "SELECT", db)
            client.want(b"OK", "MSET", *(word for key in VERSIONS for word in (key, version)))
        assert client.call("FUNCTION", "LOAD", "REPLACE", LIBRARY.format(version)) == b"lib"


class Reader(threading.Thread):
    """Reads what belongs together, again and again, until `end`."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.seen, self.refused, self.wrong = node, [], 0, None
        self._ends = threading.Event()
        self.start()

    def run(self):
        try:
            with self.node.client() as client:
                while not self._ends.is_set():
                    self._look(client)
        except (AssertionError, OSError) as error:
            self.wrong = error

    def _look(self, client):
        assert client.call("MULTI") == b"OK"
        for command in (("MGET", *VERSIONS), ("FCALL_RO", "v", 0), ("SELECT", 3),
                        ("MGET", *VERSIONS), ("SELECT", 0)):
            client.call(*command)
        reply = client.call("EXEC")
        if not isinstance(reply, list):
            assert "LOADING" in str(reply) or "EXECABORT" in str(reply), reply
            self.refused += 1
            return
        seen = {*reply[0], reply[1], *reply[3]}
        assert len(seen) == 1, f"a mix: {seen}"
        if seen != set(self.seen[-1:]):
            self.seen += seen

    def end(self):
        self._ends.set()
        self.join(30)
        assert self.wrong is None, self.wrong
        return self


def settings_of(kind):
    """A replica that loads beside, and looks after its clients meanwhile."""
    settings = {"repl_diskless_load": "swapdb"}
    if kind != "pantala":
        settings["loading_process_events_interval_bytes"] = 1024
    return settings


def behind(trial):
    """A replica that has version 1, and whose primary has version 2 and not what lies between; the
    link is slow, and refused for now."""
    backlog = {"repl_backlog_size": "16kb"}
    primary, replica, proxy = trial.proxied(backlog, settings_of(trial.kinds[1]))
    set_version(primary, "1")
    fill(primary, KEYS, SIZE)
    settle(primary, replica)
    proxy.refuses = True
    proxy.cut()
    until(lambda: not replica.is_linked(), "the replica sees it")
    # Not what the replica waits for, whose connection the primary may not have seen end.
    until(lambda: primary.info()["connected_slaves"] == "0", "the primary sees it")
    fill(primary, KEYS, SIZE, prefix="more")
    set_version(primary, "2")
    proxy.bytes_a_second = BYTES_A_SECOND
    return primary, replica, proxy


def is_loading(replica, name="async_loading"):
    return replica.info("persistence")[name] == "1"


@scenario()
def old_data_is_served(trial):
    """A full copy of the same history: the old data is read until the new one is there at once."""
    primary, replica, proxy = behind(trial)
    reader = Reader(replica)
    proxy.refuses = False
    until(lambda: is_loading(replica), "it loads")
    assert not is_loading(replica, "loading")
    assert replica.call("DBSIZE") == KEYS + len(VERSIONS)
    assert is_error(replica.call("REPLICAOF", "NO", "ONE"), "LOADING")
    assert is_error(replica.call("BGSAVE"), "LOADING")
    assert is_error(replica.call("SET", "k", "v"), "READONLY")
    if trial.kinds[1] == "pantala":
        for what in ("RELOAD", "LOADAOF"):
            assert is_error(replica.call("DEBUG", what), "LOADING"), what
    with replica.client() as watcher:
        watcher.want(b"OK", "WATCH", "version:0")
        watcher.want(b"1", "GET", "version:0")
        assert is_loading(replica), "it has loaded before it was looked at"
        proxy.bytes_a_second = None
        linked(replica)
        watcher.want(b"OK", "MULTI")
        assert watcher.call("GET", "version:0") == b"QUEUED"
        watcher.want(None, "EXEC")
    assert not is_loading(replica)
    seen = reader.end()
    assert seen.seen in ([b"1", b"2"], [b"1"]) and seen.refused == 0, (seen.seen, seen.refused)
    equal(primary, replica)
    assert primary.stat("sync_full") == 2, primary.info("stats")


@scenario()
def old_data_stays(trial):
    """The primary is killed in the midst of such a copy: the old data is there, and its history."""
    primary, replica, proxy = behind(trial)
    before, history = contents(replica), replica.info()
    primary.want(b"OK", "SAVE")
    proxy.refuses = False
    until(lambda: is_loading(replica), "it loads")
    passed = proxy.passed["down"]
    until(lambda: proxy.passed["down"] > passed + KEYS * SIZE // 4, "a part of the copy")
    primary.kill()
    # What is under way is lost with it.
    proxy.cut()
    until(lambda: not is_loading(replica), "it has given up")
    found = differences(before, contents(replica))
    assert not found, found[:5]
    now = replica.info()
    for name in ("master_replid", "slave_repl_offset"):
        assert now[name] == history[name], (name, now[name], history[name])
    proxy.bytes_a_second = None
    primary.start()
    linked(replica)
    equal(primary, replica)
    replica.want(b"2", "GET", "version:0")


@scenario()
def other_data_comes_back(trial):
    """Another history is loaded beside, too, with -LOADING meanwhile: if that fails the old data is
    back; if not all is as it should be."""
    primary, replica = trial.node(0), trial.node(1, **settings_of(trial.kinds[1]))
    set_version(replica, "1")
    fill(replica, 50, prefix="own")
    before = contents(replica)
    set_version(primary, "2")
    fill(primary, KEYS, SIZE)
    proxy = trial.proxy(primary.address)
    proxy.bytes_a_second = BYTES_A_SECOND
    proxy.cut_after(KEYS * SIZE // 2, refuses=True)
    reader = Reader(replica)
    replica.follow(proxy.address)
    until(lambda: is_loading(replica, "loading"), "it loads")
    assert is_error(replica.call("GET", "version:0"), "LOADING")
    until(proxy.has_cut, "it is cut")
    until(lambda: not is_loading(replica, "loading"), "it has given up")
    found = differences(before, contents(replica))
    assert not found, found[:5]
    proxy.bytes_a_second, proxy.refuses = None, False
    linked(replica)
    seen = reader.end()
    assert seen.seen in ([b"1", b"2"], [b"1"]) and seen.refused > 0, (seen.seen, seen.refused)
    equal(primary, replica)


@scenario(rows=("valkey>valkey", "pantala>pantala", "valkey>pantala", "redis>pantala"))
def with_append_only_file(trial):
    """A replica with an append-only file that has loaded beside: killed, it comes back with it."""
    primary, replica, proxy = behind(trial)
    replica.set("appendfsync", "always")
    replica.set("appendonly", "yes")
    replica.settings |= {"appendonly": "yes"}
    replica.write_file()
    proxy.bytes_a_second, proxy.refuses = None, False
    linked(replica)
    with trial.writers(primary) as writers:
        writers.wait_for(500).end()
    equal(primary, replica)
    until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", "a file")
    replica.kill()
    replica.start()
    assert replica.info()["role"] == "master"
    found = differences(contents(primary), contents(replica))
    assert not found, found[:5]


@scenario(ends=3)
def followed_meanwhile(trial):
    """A replica's replica follows while its primary loads beside, and gets all of it after."""
    primary, middle, proxy = behind(trial)
    last = trial.node(2)
    proxy.refuses = False
    proxy.bytes_a_second = None
    linked(middle)
    last.follow(middle.address)
    linked(last)
    set_version(primary, "3")
    proxy.refuses = True
    proxy.cut()
    until(lambda: primary.info()["connected_slaves"] == "0", "the primary sees it")
    fill(primary, KEYS, SIZE, prefix="again")
    set_version(primary, "4")
    proxy.refuses = False
    linked(middle, last)
    equal(primary, middle, last)
    last.want(b"4", "GET", "version:0")
