"""Full copies: while clients write, by socket and by file, to many at once, cut and killed."""

from contents import equal
from nodes import linked, until
from trial import fill, scenario

# Enough that a copy can be met in its midst.
KEYS, SIZE = 1_500, 1_000
SLOW_BYTES_A_SECOND = 2_000_000


@scenario()
def copied_while_written(trial):
    """A full copy, by socket and by file, while clients write: the same contents."""
    for diskless in ("yes", "no"):
        primary = trial.node(0, repl_diskless_sync=diskless)
        replica = trial.node(1)
        fill(primary, KEYS)
        with trial.writers(primary) as writers:
            writers.wait_for(2_000)
            replica.follow(primary.address)
            linked(replica)
            writers.wait_for(2_000).end()
        equal(primary, replica)
        assert primary.stat("sync_full") == 1, primary.info("stats")


@scenario(long=True)
def ways_to_load(trial):
    """Each way of a replica to take a full copy, over data of its own, replaces all of it."""
    primary = trial.node(0)
    fill(primary, KEYS)
    for way in ("disabled", "on-empty-db", "swapdb"):
        replica = trial.node(1, repl_diskless_load=way)
        fill(replica, 100, prefix="own")
        replica.want(1, "SADD", "key:1", "another type")
        replica.follow(primary.address)
        linked(replica)
        equal(primary, replica)


@scenario()
def own_data_is_replaced(trial):
    """What a replica held before its first full copy is gone after it, functions too."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, 10)
    fill(replica, 20, prefix="own")
    replica.call("FUNCTION", "LOAD", "#!lua name=own\nredis.register_function('f', print)")
    with replica.client() as client:
        client.want(b"OK", "SELECT", 5)
        client.want(b"OK", "SET", "far", "away")
    replica.follow(primary.address)
    linked(replica)
    assert equal(primary, replica) == 10


@scenario()
def entries_of_all_lengths(trial):
    """Long elements around the length at which Redis and Valkey write listpacks differently."""
    checks = {} if trial.kinds[1] == "pantala" else {"sanitize_dump_payload": "yes"}
    primary, replica = trial.node(0), trial.node(1, **checks)
    with primary.client() as client:
        for length in range(16_374, 16_384):
            value = "x" * length
            client.call("XADD", f"stream:{length}", "1-1", "f", value)
            client.call("XADD", f"stream:{length}", "1-2", "f", "after it")
            client.want(3, "RPUSH", f"list:{length}", "a", value, "b")
    replica.follow(primary.address)
    linked(replica)
    assert equal(primary, replica) == 20


@scenario()
def several_at_once(trial):
    """Three replicas ask for a full copy at the same time, while clients write."""
    primary = trial.node(0)
    fill(primary, KEYS)
    replicas = [trial.node(1) for _ in range(3)]
    with trial.writers(primary) as writers:
        for replica in replicas:
            replica.follow(primary.address)
        linked(*replicas)
        writers.wait_for(1_000).end()
    equal(primary, *replicas)
    assert primary.stat("sync_full") == 3, primary.info("stats")
    assert primary.info()["connected_slaves"] == "3", primary.info()


@scenario()
def cut_during_the_copy(trial):
    """The link breaks in the handshake and at several places of the copy; then it succeeds."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, KEYS, SIZE)
    proxy = trial.proxy(primary.address)
    whole = KEYS * SIZE
    with trial.writers(primary) as writers:
        replica_follows = False
        for count in (3, 80, 200, whole // 3, whole - 100_000):
            proxy.cut_after(count)
            if not replica_follows:
                replica.follow(proxy.address)
                replica_follows = True
            until(proxy.has_cut, f"it is cut after {count} bytes")
        linked(replica)
        writers.wait_for(500).end()
    equal(primary, replica)
    assert proxy.connections >= 6, proxy.connections


@scenario()
def primary_killed_during_the_copy(trial):
    """kill -9 of the primary in the midst of a full copy; it comes back with what it had saved."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, KEYS, SIZE)
    primary.want(b"OK", "SAVE")
    proxy = trial.proxy(primary.address)
    proxy.bytes_a_second = SLOW_BYTES_A_SECOND
    replica.follow(proxy.address)
    until(lambda: proxy.passed["down"] > KEYS * SIZE // 4, "a part of the copy")
    assert not replica.is_linked()
    primary.kill()
    replica.want(b"PONG", "PING")
    proxy.bytes_a_second = None
    primary.start()
    linked(replica)
    assert equal(primary, replica) == KEYS


@scenario(long=True)
def primary_killed_at_each_phase(trial):
    """kill -9 of the primary at each phase: in each line of the handshake, at the head of the copy,
    in its midst, at its very end, in the stream; it comes back with what it had saved."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, KEYS, SIZE)
    primary.want(b"OK", "SAVE")
    proxy = trial.proxy(primary.address)
    replica.follow(proxy.address)
    linked(replica)
    whole = proxy.passed["down"]
    points = [*range(1, 240, 16), *(whole * part // 6 for part in range(1, 6)),
              *(whole - left for left in (60, 41, 20, 1)), whole + 20]
    for count in points:
        primary.kill()
        proxy.cut_after(count)
        primary.start()
        until(proxy.has_cut, f"the copy is at byte {count} of {whole}")
        replica.call("PING")
    primary.kill()
    primary.start()
    linked(replica)
    assert equal(primary, replica) == KEYS
    trial.note(f"killed {len(points)} times")


@scenario()
def all_leave_while_a_file_is_written(trial):
    """A copy that goes into a file first ends when nobody waits for it any more."""
    primary = trial.node(0, repl_diskless_sync="no", rdb_key_save_delay=1_000_000)
    replica = trial.node(1)
    fill(primary, 300)
    replica.follow(primary.address)
    state = lambda: primary.info().get("slave0", "")
    is_writing = lambda: primary.info("persistence")["rdb_bgsave_in_progress"] == "1"
    until(lambda: "state=wait_bgsave" in state() and is_writing(), "the file is written")
    replica.lead()
    until(lambda: not is_writing(), "nobody writes it")
    primary.set("rdb-key-save-delay", 0)
    replica.follow(primary.address)
    linked(replica)
    equal(primary, replica)


@scenario()
def replica_killed_during_the_copy(trial):
    """kill -9 of a replica in the midst of a full copy: the other one gets its own."""
    primary, replica, other = trial.node(0), trial.node(1), trial.node(1)
    fill(primary, KEYS, SIZE)
    proxy = trial.proxy(primary.address)
    proxy.bytes_a_second = SLOW_BYTES_A_SECOND
    replica.follow(proxy.address)
    other.follow(primary.address)
    until(lambda: proxy.passed["down"] > KEYS * SIZE // 4, "a part of the copy")
    replica.kill()
    linked(other)
    proxy.bytes_a_second = None
    replica.start()
    replica.follow(proxy.address)
    linked(replica)
    equal(primary, replica, other)


@scenario(long=True)
def slow_link(trial):
    """A full copy over a slow link while clients write: nothing is lost, others go on."""
    primary, replica = trial.node(0), trial.node(1)
    fill(primary, 2 * KEYS, SIZE)
    proxy = trial.proxy(primary.address)
    proxy.bytes_a_second = SLOW_BYTES_A_SECOND // 4
    with trial.writers(primary) as writers:
        replica.follow(proxy.address)
        until(lambda: proxy.passed["down"] > KEYS * SIZE, "half of the copy")
        writers.wait_for(500).end()
    proxy.bytes_a_second = None
    linked(replica)
    equal(primary, replica)
