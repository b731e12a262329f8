#!/usr/bin/env python3
"""Clients of a cluster, done to a server with `cluster_mode emulated` and to its replica.

    python3 compat/clients/cluster.py PANTALA [NODE_MODULES]

Starts both servers: redis-py's RedisCluster in RESP2 and RESP3, redis-cli, and ioredis where
NODE_MODULES is told. Exit code 1 when a check fails.
"""

import os
import pathlib
import subprocess
import sys

import redis
from redis.cluster import ClusterNode, LoadBalancingStrategy, RedisCluster

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import server  # noqa: E402
from server import DEADLINE_S, PLACE, until  # noqa: E402


class Server(server.Server):
    """An emulated node in a directory of its own."""

    def __init__(self, program, *more):
        super().__init__([program, *PLACE, "--cluster_mode", "emulated", *more])
        self.client = redis.Redis(port=self.port)
        self.start()


def check_redis_py(server, replica, protocol):
    node = ClusterNode("127.0.0.1", server.port)
    reads = LoadBalancingStrategy.ROUND_ROBIN
    cluster = RedisCluster(startup_nodes=[node], protocol=protocol, load_balancing_strategy=reads)
    cluster.flushall()
    assert [node.port for node in cluster.get_primaries()] == [server.port]
    assert [node.port for node in cluster.get_replicas()] == [replica.port]
    for number in range(200):
        assert cluster.set(f"key:{number}", number)
    until(lambda: replica.client.dbsize() == 200, "the replica has all")
    # Half of the reads go to the replica.
    assert [int(cluster.get(f"key:{number}")) for number in range(200)] == list(range(200))
    assert cluster.mget_nonatomic("key:1", "key:2") == [b"1", b"2"]
    assert cluster.delete("key:1", "key:2") == 2
    pipeline = cluster.pipeline()
    for number in range(10, 20):
        pipeline.incr(f"key:{number}")
    assert pipeline.execute() == list(range(11, 21))
    assert cluster.cluster_keyslot("foo") == 12182
    assert cluster.cluster_countkeysinslot(12182) == 0
    assert cluster.cluster_info()["cluster_state"] == "ok"
    assert sum(1 for _ in cluster.scan_iter("key:*")) == 198
    cluster.close()


def check_redis_cli(server):
    line = ["redis-cli", "-p", str(server.port)]
    run = lambda *words: subprocess.run([*line, *words], capture_output=True, text=True, check=True)
    # One command with keys of many slots, which a real cluster refuses.
    assert run("-c", "mset", "a", "1", "b", "2", "c", "3").stdout == "OK\n"
    assert run("-c", "mget", "a", "b", "c").stdout == "1\n2\n3\n"
    words = ["redis-cli", "--cluster", "check", f"127.0.0.1:{server.port}"]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    assert "All 16384 slots covered" in told, told


def check_ioredis(server, modules):
    line = ["node", HERE / "cluster.cjs", str(server.port)]
    environment = os.environ | {"NODE_PATH": modules}
    subprocess.run(line, env=environment, check=True, timeout=DEADLINE_S)


def main(program, modules=None):
    primary = Server(program)
    replica = None
    try:
        replica = Server(program, "--replicaof", "127.0.0.1", str(primary.port))
        told = lambda: replica.place in primary.client.execute_command("CLUSTER NODES")
        until(told, "the replica is told")
        for protocol in (2, 3):
            check_redis_py(primary, replica, protocol)
        check_redis_cli(primary)
        if modules:
            check_ioredis(primary, modules)
    finally:
        for one in filter(None, (replica, primary)):
            one.stop()
    print("the clients of a cluster are served")


if __name__ == "__main__":
    main(*sys.argv[1:])
