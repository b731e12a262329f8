#!/usr/bin/env python3
"""Slots of a cluster: each command to a node of ours and to one of Valkey; the replies must be the
same, but for ids, ports and times.

    python3 compat/clients/cluster_slots.py PANTALA VALKEY

Both are two nodes: slots 0 to 8191 belong to the first, the others to the second. Valkey's nodes
meet; ours are told of each other by the file that keeps a cluster. Exit code 1 when a reply
differs.
"""

import re
import sys
from pathlib import Path

from redis.cluster import RedisCluster

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from client import Client, encode  # noqa: E402
from ports import free_port  # noqa: E402
from server import PLACE, Server, until  # noqa: E402

IDS = ("a" * 40, "b" * 40)
SHARDS = ("c" * 40, "d" * 40)
HALVES = ("0-8191", "8192-16383")
# A key of the first half, of slot 5061; foo, of slot 12182, is one of the second.
HERE_KEY = "bar"

# What is sent to the first node, a line each; `|` separates the commands of one connection.
# {me} and {other} are ids, {slot} is that of HERE_KEY.
CASES = """
CLUSTER KEYSLOT bar
CLUSTER KEYSLOT {{x}}y
GET bar
GET foo
SET foo 1
SET bar 1
GET bar
MGET bar foo
MGET bar b
MSET bar 1 b 2
MGET foo b
DEL bar foo
COPY bar b
RENAME bar b
BLPOP bar b 1
OBJECT ENCODING foo
MEMORY USAGE foo
XREAD STREAMS foo 0
XREADGROUP GROUP a b STREAMS foo >
SORT bar BY w_*
SORT bar GET foo
SORT {{bar}}l GET #
SORT {{bar}}l BY {{bar}}w*
SORT {{bar}}l BY w*{{bar}}
SORT {{bar}}l BY x?{{bar}}*
SORT {{bar}}l GET {{bar}}* GET x
MULTI | GET bar | GET foo | EXEC
MULTI | GET bar | GET b | EXEC
MULTI | SET bar 1 | INCR bar | EXEC
MULTI | GET foo | DISCARD
MULTI | PING | EXEC
WATCH foo
WATCH bar b
ASKING | GET foo
ASKING | PING | GET foo
READONLY | GET foo | READWRITE | GET foo
EVAL return(1) 0
EVAL return(1) 1 foo
EVAL return(1) 2 bar b
EVAL_RO return(1) 1 foo
EVAL return(redis.call('get','foo')) 0
EVAL return(redis.pcall('get','foo')) 0
EVAL return(redis.call('get',KEYS[1])) 1 bar
EVAL return({{redis.call('get','bar'),redis.call('get','b')}}) 0
EVAL #!lua\\nreturn(redis.call('get','b')) 1 bar
EVAL #!lua\\nreturn({{redis.call('get','bar'),redis.call('get','b')}}) 0
EVAL #!lua~flags=allow-cross-slot-keys\\nreturn({{redis.call('get','bar'),redis.call('get','b')}}) 0
FCALL none 1 foo
SSUBSCRIBE foo
SPUBLISH foo 1
SPUBLISH bar 1
SUNSUBSCRIBE foo
PUBLISH foo 1
SELECT 1
SWAPDB 0 1
SWAPDB x y
REPLICAOF 127.0.0.1 1
MOVE bar 1
CONFIG GET cluster-enabled
CONFIG GET databases
INFO cluster
DBSIZE
KEYS *
CLUSTER MYID
CLUSTER MYSHARDID
CLUSTER SLOTS
CLUSTER LINKS x
CLUSTER COUNTKEYSINSLOT 5061
CLUSTER COUNTKEYSINSLOT 16384
CLUSTER GETKEYSINSLOT 5061 10
CLUSTER GETKEYSINSLOT 5061 -1
CLUSTER COUNT-FAILURE-REPORTS {other}
CLUSTER COUNT-FAILURE-REPORTS x
CLUSTER REPLICAS {me}
CLUSTER REPLICAS x
CLUSTER SLOT-STATS SLOTSRANGE 8191 8192
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 DESC
CLUSTER ADDSLOTS 0
CLUSTER ADDSLOTS 9000
CLUSTER ADDSLOTS x
CLUSTER ADDSLOTS 16384
CLUSTER ADDSLOTS -1
CLUSTER ADDSLOTSRANGE 5 1
CLUSTER ADDSLOTSRANGE 1 2 3
CLUSTER ADDSLOTSRANGE 1 x
CLUSTER DELSLOTS 1 1
CLUSTER DELSLOTSRANGE 1 2 2 3
CLUSTER SETSLOT 5
CLUSTER SETSLOT 5 x
CLUSTER SETSLOT 5 STABLE
CLUSTER SETSLOT 5 NODE
CLUSTER SETSLOT 16384 STABLE
CLUSTER SETSLOT 5 IMPORTING {other}
CLUSTER SETSLOT 9000 IMPORTING x
CLUSTER SETSLOT 9000 IMPORTING {me}
CLUSTER SETSLOT 9000 MIGRATING {other}
CLUSTER SETSLOT 5 MIGRATING {me}
CLUSTER SETSLOT 5 MIGRATING x
CLUSTER SETSLOT 5 NODE x
CLUSTER SETSLOT 5061 NODE {other}
CLUSTER SET-CONFIG-EPOCH 5
CLUSTER SET-CONFIG-EPOCH -1
CLUSTER SET-CONFIG-EPOCH x
CLUSTER FORGET {me}
CLUSTER FORGET x
CLUSTER REPLICATE {me}
CLUSTER REPLICATE x
CLUSTER REPLICATE {other}
CLUSTER REPLICATE NO ONE
CLUSTER FAILOVER
CLUSTER FAILOVER FORCE
CLUSTER FAILOVER x
CLUSTER RESET x
CLUSTER RESET
CLUSTER SAVECONFIG
CLUSTER CANCELSLOTMIGRATIONS
CLUSTER GETSLOTMIGRATIONS
CLUSTER NONE
SET bar 1
CLUSTER SETSLOT 5061 MIGRATING {other}
CLUSTER NODES
GET bar
GET {{bar}}1
MGET bar {{bar}}1
MSET {{bar}}1 1 {{bar}}2 2
MULTI | GET {{bar}}1 | EXEC
MULTI | GET bar | GET {{bar}}1 | EXEC
MULTI | GET bar | EXEC
EVAL return(redis.call('get',KEYS[1])) 1 {{bar}}1
EVAL return(redis.call('get',KEYS[1])) 1 bar
SPUBLISH bar 1
CLUSTER SETSLOT 5061 STABLE
GET {{bar}}1
CLUSTER SETSLOT 12182 IMPORTING {other}
GET foo
ASKING | GET foo
ASKING | GET foo | GET foo
ASKING | MGET foo {{foo}}1
ASKING | SET foo 1
ASKING | MGET foo {{foo}}1
ASKING | MULTI | GET foo | SET foo 2 | EXEC | GET foo
RESTORE-ASKING {{foo}}2 0 x
CLUSTER SETSLOT 12182 NODE {me}
GET foo
CLUSTER NODES
CLUSTER INFO
DEL foo
CLUSTER DELSLOTS 100
CLUSTER DELSLOTS 100
CLUSTER INFO
GET bar
GET foo
SET bar 1
CONFIG SET cluster-allow-reads-when-down yes
GET bar
SET bar 1
MULTI | GET bar | EXEC
MULTI | SET bar 1 | EXEC
SPUBLISH bar 1
CONFIG SET cluster-allow-pubsubshard-when-down no
SPUBLISH bar 1
CONFIG SET cluster-require-full-coverage no
CLUSTER ADDSLOTS 100
DEL bar
CLUSTER FLUSHSLOTS
GET bar
CLUSTER BUMPEPOCH
FLUSHALL
CLUSTER RESET SOFT
CLUSTER INFO
CLUSTER ADDSLOTSRANGE 0 16383
EVAL return(redis.call('mset','b',1,'bar',2)) 0
"""

# Why a reply is not the same, by the line.
REASONS = {
    "CLUSTER LINKS x": "the text of HELP differs",
    "CLUSTER BUMPEPOCH": "epochs are not gossiped",
}


class Node(Server):
    """A node; ours has its file of the cluster when it starts."""

    def __init__(self, program, bus_flag):
        self.bus = free_port()
        words = [program, *PLACE, "--cluster-enabled", "yes", bus_flag, str(self.bus)]
        super().__init__(words)

    def call(self, *words):
        with Client(self.address) as client:
            return client.call(*words)


def pantala_nodes(program):
    nodes = [Node(program, "--cluster-announce-bus-port") for _ in range(2)]
    for me in nodes:
        lines = []
        for at, node in enumerate(nodes):
            flags = "myself,master" if node is me else "master"
            lines.append(f"{IDS[at]} {node.place}@{node.bus},,shard-id={SHARDS[at]} {flags} - 0 0 "
                         f"{at + 1} connected {HALVES[at]}\n")
        lines.append("vars currentEpoch 2 lastVoteEpoch 0\n")
        (me.directory / "nodes.conf").write_text("".join(lines))
    return nodes


def valkey_nodes(program):
    return [Node(program, "--cluster-port") for _ in range(2)]


def join_valkeys(first, second):
    for at, node in enumerate((first, second)):
        node.call("CLUSTER", "ADDSLOTSRANGE", *HALVES[at].split("-"))
        node.call("CLUSTER", "SET-CONFIG-EPOCH", str(at + 1))
    first.call("CLUSTER", "MEET", "127.0.0.1", str(second.port), str(second.bus))
    for node in (first, second):
        until(lambda node=node: b"cluster_state:ok" in node.call("CLUSTER", "INFO"), "it is up")


def mask(text, nodes):
    """A reply without what differs from run to run."""
    for at, node in enumerate(nodes):
        text = text.replace(str(node.bus), f"BUS{at}").replace(str(node.port), f"PORT{at}")
        text = text.replace(node.id, f"ID{at}").replace(node.shard, f"SHARD{at}")
    text = re.sub(r"(master|slave)(\S*) (\S+) \d+ \d+ (\d+) ", r"\1\2 \3 PING PONG \4 ", text)
    # What Valkey's nodes send each other; the address that a node learns of itself.
    text = re.sub(r"cluster_(stats_\w+|\w*epoch):\d+\\r\\n", "", text)
    text = re.sub(r"PONG \d+", "PONG EPOCH", text).replace("127.0.0.1:", ":")
    return "\n".join(sorted(text.split("\n")))


def told(reply):
    """A reply as text; one of several lines as it is."""
    return reply.decode() if isinstance(reply, bytes) and b" connected" in reply else repr(reply)


def run(node, nodes, line):
    """The replies to a line."""
    line = line.format(me=nodes[0].id, other=nodes[1].id, slot=5061)
    with Client(node.address) as client:
        replies = []
        for command in line.split(" | "):
            words = [word.replace("\\n", "\n").replace("~", " ") for word in command.split(" ")]
            replies.append(told(client.call(*words)))
    return mask(" | ".join(replies), nodes)


def check_blocked(first, second):
    """Clients that are blocked on a key learn that its slot has another owner, or none."""
    slot = first.call("CLUSTER", "KEYSLOT", HERE_KEY)
    moved = f"MOVED {slot} 127.0.0.1:{second.port}"
    changes = ((("SETSLOT", slot, "NODE", second.id), moved),
               (("DELSLOTS", slot), "CLUSTERDOWN Hash slot not served"))
    for change, wanted in changes:
        first.call("CLUSTER", "SETSLOT", slot, "NODE", first.id)
        with Client(first.address) as client:
            client.sock.sendall(encode("BLPOP", HERE_KEY, "0"))
            until(lambda: b"blocked_clients:1" in first.call("INFO", "clients"), "it is blocked")
            first.call("CLUSTER", *change)
            assert client.read() == wanted, change


def check_channels(first, second):
    """Clients that listen to a shard channel learn that its slot has left."""
    slot = first.call("CLUSTER", "KEYSLOT", HERE_KEY)
    first.call("CLUSTER", "SETSLOT", slot, "NODE", first.id)
    with Client(first.address) as client:
        client.want([b"ssubscribe", HERE_KEY.encode(), 1], "SSUBSCRIBE", HERE_KEY)
        first.call("CLUSTER", "SETSLOT", slot, "NODE", second.id)
        assert client.read() == [b"sunsubscribe", HERE_KEY.encode(), 0]
        # The connection takes commands again.
        client.want(b"PONG", "PING")
    first.call("CLUSTER", "SETSLOT", slot, "NODE", first.id)


def check_client(first, second):
    """A cluster client finds both nodes, and each key at its own."""
    cluster = RedisCluster(host="127.0.0.1", port=second.port)
    assert {node.port for node in cluster.get_primaries()} == {first.port, second.port}
    for number in range(200):
        cluster.set(f"key:{number}", number)
    assert [int(cluster.get(f"key:{number}")) for number in range(200)] == list(range(200))
    sizes = [node.call("DBSIZE") for node in (first, second)]
    assert sum(sizes) == 200 and min(sizes) > 0, sizes
    cluster.flushall()
    cluster.close()


def check_replica(first, second):
    """A node follows another one, also after a kill; when it leaves it has no data."""
    second.call("CLUSTER", "FLUSHSLOTS")
    for node in (first, second):
        node.call("CONFIG", "SET", "cluster-require-full-coverage", "no")
    first.call("SET", HERE_KEY, "1")
    assert second.call("CLUSTER", "REPLICATE", first.id) == b"OK"
    slot = first.call("CLUSTER", "KEYSLOT", HERE_KEY)
    moved = f"MOVED {slot} 127.0.0.1:{first.port}"
    for _ in range(2):
        until(lambda: b"master_link_status:up" in second.call("INFO", "replication"), "it follows")
        with Client(second.address) as client:
            client.want(moved, "GET", HERE_KEY)
            client.want(b"OK", "READONLY")
            client.want(b"1", "GET", HERE_KEY)
            client.want(moved, "SET", HERE_KEY, "2")
        second.kill()
        second.start()
        second.call("CONFIG", "SET", "cluster-require-full-coverage", "no")
    assert second.call("CLUSTER", "REPLICATE", "NO", "ONE") == b"OK"
    assert b"role:master" in second.call("INFO", "replication")
    assert second.call("DBSIZE") == 0
    assert first.call("DBSIZE") == 1


def check_restart(node):
    """A node knows its slots again."""
    node.call("CLUSTER", "ADDSLOTSRANGE", "100", "200")
    before = told(node.call("CLUSTER", "NODES"))
    node.kill()
    node.start()
    assert told(node.call("CLUSTER", "NODES")) == before


def main(pantala, valkey):
    ours, theirs, others = pantala_nodes(pantala), valkey_nodes(valkey), pantala_nodes(pantala)
    passed, failed = 0, 0
    try:
        for node in (*ours, *theirs, *others):
            node.start()
        join_valkeys(*theirs)
        for node in (*ours, *theirs, *others):
            node.id = node.call("CLUSTER", "MYID").decode()
            node.shard = node.call("CLUSTER", "MYSHARDID").decode()
        check_client(*others)
        check_replica(*others)
        check_blocked(*ours)
        check_channels(*ours)
        for line in filter(None, CASES.split("\n")):
            a, b = run(ours[0], ours, line), run(theirs[0], theirs, line)
            if a == b or line in REASONS:
                passed += 1
                continue
            failed += 1
            print(f"FAIL {line}\n    pantala {a}\n    valkey  {b}")
        ours[0].call("CLUSTER", "RESET")
        check_restart(ours[0])
    finally:
        for node in (*ours, *theirs, *others):
            node.stop()
    print(f"cluster slots: {passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
