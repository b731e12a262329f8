"""A disk whose syncs take as long as a scenario wants, under the append-only file."""

from held_disk import HeldDisk
from server import until
from trial import scenario

from .persistence import figures, settle

EVERY_SECOND = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")


@scenario(watched=False, started=False)
def no_write_waits_for_a_sync(trial):
    """A rewrite begins, and every sync waits: changes of large values are answered all the same,
    and are there afterwards."""
    with HeldDisk() as disk:
        server = disk.under(trial.new_server(*EVERY_SECOND))
        server.start()
        try:
            with server.client() as client, server.client() as other:
                client.call("RPUSH", "list", *range(3_000))
                client.call("HSET", "hash", *range(10_000))
                client.call("SET", "text", "x" * 100_000)
                assert client.call("WAITAOF", 1, 0, 0)[0] == 1
                disk.hold()
                other.call("BGREWRITEAOF")
                disk.wait_for_sync()
                client.want(3_001, "RPUSH", "list", "last")
                client.want(1, "HSET", "hash", "last", "v")
                client.want(100_001, "APPEND", "text", "y")
                assert figures(other)["aof_rewrite_in_progress"] == "1", "syncs wait"
                disk.let_go()
                until(lambda: figures(other)["aof_rewrite_in_progress"] == "0", "it ends")
                assert figures(other)["aof_last_bgrewrite_status"] == "ok"
                assert client.call("WAITAOF", 1, 0, 0)[0] == 1
            server.kill()
            server.start()
            with server.client() as client:
                settle(client)
                client.want(3_001, "LLEN", "list")
                client.want(5_001, "HLEN", "hash")
                client.want(100_001, "STRLEN", "text")
        finally:
            disk.let_go()
            server.stop()
