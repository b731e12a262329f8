#!/usr/bin/env python3
"""A cluster on etcd, with real processes: joining, slots, failover, hand-over, pauses, silence.

    python3 compat/clients/cluster_etcd.py PANTALA [--only NAME] [--rounds N]

`etcd` is on the PATH. Each scenario begins with servers of its own. It prints what it has measured,
and ends with code 1 when something that must hold does not.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from client import Client, Closed, encode  # noqa: E402
from etcd import EtcdCluster  # noqa: E402
from server import PLACE, Server, until  # noqa: E402

SLOTS = 16384


class Node(Server):
    """A node of the cluster."""

    def __init__(self, program, etcd, timeout_ms=5000, *more):
        super().__init__([program, *PLACE, "--cluster-enabled", "yes",
                          "--cluster-etcd", ",".join(etcd.endpoints),
                          "--cluster-node-timeout", str(timeout_ms),
                          "--repl-diskless-sync-delay", "0", *more])

    def call(self, *words):
        with Client(self.address, 10) as client:
            return client.call(*words)

    def info(self):
        return dict(line.split(":", 1) for line in text(self.call("CLUSTER", "INFO")).split("\r\n")
                    if ":" in line)

    def id(self):
        return text(self.call("CLUSTER", "MYID"))

    def line(self):
        """Its own line of NODES, in words."""
        lines = text(self.call("CLUSTER", "NODES")).splitlines()
        return next(line for line in lines if "myself" in line).split()

    def is_primary(self):
        return "master" in self.line()[2]

    def tries_to_write(self, key, value):
        """Whether a write was acknowledged; another answer, or none, is no."""
        try:
            with Client(self.address, 2) as client:
                return client.call("SET", key, value) in (b"OK", "OK")
        except (OSError, Closed):
            return False


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


class Cluster:
    """Nodes with an etcd: `primaries` of them own the slots, each followed by `replicas`."""

    def __init__(self, program, primaries, replicas=0, timeout_ms=5000, members=1):
        self.etcd = EtcdCluster(members)
        count = primaries * (1 + replicas)
        self.program, self.primaries = program, primaries
        self.timeout_ms, self.count = timeout_ms, count
        self.nodes = []

    def __enter__(self):
        self.etcd.start()
        try:
            for _ in range(self.count):
                node = Node(self.program, self.etcd, self.timeout_ms)
                self.nodes.append(node)
                node.start()
            if self.nodes:
                self.join()
        except BaseException:
            self.tell_logs()
            self.stop()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.tell_logs()
        self.stop()

    def stop(self):
        for node in self.nodes:
            if node.is_alive():
                os.kill(node.pid, signal.SIGCONT)
            node.end(signal.SIGKILL)
            node.stop()
        self.etcd.stop()

    def tell_logs(self):
        for node in self.nodes:
            try:
                print(f"--- {node.port}\n{node.log_text()[-2500:]}", file=sys.stderr)
            except OSError:
                pass

    def join(self):
        first = self.nodes[0]
        for node in self.nodes:
            host, port = first.address
            answer = text(node.call("CLUSTER", "MEET", host, str(port)))
            assert answer == "OK", answer
        for node in self.nodes:
            until(lambda node=node: node.info()["cluster_known_nodes"] == str(self.count),
                  "all are known")
        step = SLOTS // self.primaries
        for at, node in enumerate(self.nodes[:self.primaries]):
            last = SLOTS - 1 if at == self.primaries - 1 else (at + 1) * step - 1
            answer = node.call("CLUSTER", "ADDSLOTSRANGE", str(at * step), str(last))
            assert text(answer) == "OK", answer
        for at, node in enumerate(self.nodes[self.primaries:]):
            primary = self.nodes[at % self.primaries]
            answer = until(lambda: text(node.call("CLUSTER", "REPLICATE", primary.id())), "answer")
            assert answer == "OK", answer
        self.settle()

    def settle(self, nodes=None):
        for node in nodes or self.nodes:
            until(lambda node=node: node.info()["cluster_state"] == "ok", "the cluster is up")
        nodes = nodes or self.nodes
        until(lambda: len({str(node.call("CLUSTER", "SLOTS")) for node in nodes}) == 1,
              "all tell the same slots")
        replicas = [node for node in nodes or self.nodes if not node.is_primary()]
        primaries = [node for node in nodes or self.nodes if node.is_primary()]
        until(lambda: sum(len(entry) - 3 for entry in self.slots(primaries[0])) >= len(replicas),
              "replicas are in sync")

    def slots(self, node):
        answer = node.call("CLUSTER", "SLOTS")
        seen, unique = set(), []
        for entry in answer:
            if text(entry[2][2]) not in seen:
                seen.add(text(entry[2][2]))
                unique.append(entry)
        return unique


def lone(program, rounds):
    """A node that is alone owns slots, is restarted, and has them still."""
    with Cluster(program, 1) as cluster:
        node = cluster.nodes[0]
        assert node.tries_to_write("a", "1")
        identity = node.id()
        node.end(signal.SIGTERM)
        began = time.monotonic()
        node.start()
        until(lambda: node.tries_to_write("a", "2"), "it serves again")
        told("a node that was stopped serves again", time.monotonic() - began)
        assert node.id() == identity
        node.kill()
        began = time.monotonic()
        node.start()
        until(lambda: node.tries_to_write("a", "3"), "it serves again")
        told("a node that was killed serves again", time.monotonic() - began)


def failover(program, rounds):
    """The primary is killed: how long until a write is accepted."""
    for timeout_ms in (5000, 2000):
        times = []
        for _ in range(rounds):
            with Cluster(program, 1, 1, timeout_ms) as cluster:
                old, new = cluster.nodes
                with Client(old.address) as client:
                    client.want(b"OK", "SET", "k", "v")
                    client.want(1, "WAIT", "1", "5000")
                old.kill()
                began = time.monotonic()
                until(lambda new=new: new.tries_to_write("x", "1"), "the replica takes over")
                times.append(time.monotonic() - began)
                assert text(new.call("GET", "k")) == "v"
                old.start()
                until(lambda old=old: not old.is_primary() and
                      b"master_link_status:up" in bytes_of(old.call("INFO", "replication")),
                      "the old primary follows")
                assert text(old.call("CLUSTER", "INFO"))
        told(f"first write after SIGKILL, node timeout {timeout_ms} ms", *times)


def hand_over(program, rounds):
    """CLUSTER FAILOVER under load: nothing is lost, and how long writes stop."""
    with Cluster(program, 1, 1, 5000) as cluster:
        stalls = []
        for _ in range(rounds * 2):
            old = next(node for node in cluster.nodes if node.is_primary())
            new = next(node for node in cluster.nodes if node is not old)
            load = Load(cluster.nodes, "counter")
            load.start()
            until(lambda load=load: load.done > 200, "the load runs")
            answer = text(new.call("CLUSTER", "FAILOVER"))
            assert answer == "OK", answer
            until(lambda new=new: new.is_primary(), "it leads")
            mark = load.done
            until(lambda load=load, mark=mark: load.done > mark + 200, "the load goes on")
            load.stop()
            stalls.append(load.longest)
            value = int(text(new.call("GET", "counter")))
            assert value >= load.total(), (value, load.total())
            cluster.settle()
        told("longest stall of a write at a hand-over", *stalls)


def terminate(program, rounds):
    """SIGTERM hands over first."""
    with Cluster(program, 1, 1, 5000) as cluster:
        old, new = cluster.nodes
        load = Load(cluster.nodes, "counter")
        load.start()
        until(lambda: load.done > 200, "the load runs")
        old.end(signal.SIGTERM)
        mark = load.done
        until(lambda: load.done > mark + 200, "the load goes on")
        load.stop()
        told("longest stall of a write at SIGTERM of the primary", load.longest)
        value = int(text(new.call("GET", "counter")))
        assert value >= load.total(), (value, load.total())


def paused(program, rounds):
    """A primary that was stopped beyond the timeout acknowledges nothing when it wakes."""
    with Cluster(program, 1, 1, 2000) as cluster:
        old, new = cluster.nodes
        writer = Client(old.address, 30)
        for number in range(100):
            writer.want(b"OK", "SET", f"k{number}", "before")
        assert writer.call("WAIT", "1", "5000") == 1
        os.kill(old.pid, signal.SIGSTOP)
        until(lambda: is_stopped(old.pid), "all its threads stand still")
        for number in range(1000):
            writer.write(encode("SET", f"k{number % 100}", "asleep"))
        until(lambda: new.tries_to_write("k1", "after"), "the replica takes over")
        os.kill(old.pid, signal.SIGCONT)
        acknowledged = stale = 0
        try:
            for _ in range(1000):
                if writer.read() in (b"OK", "OK"):
                    acknowledged += 1
        except (Closed, OSError):
            pass
        for _ in range(50):
            try:
                if text(old.call("GET", "k1")) == "before":
                    stale += 1
            except (Closed, OSError):
                pass
        until(lambda: not old.is_primary(), "the old primary follows")
        assert (acknowledged, stale) == (0, 0), (acknowledged, stale)
        assert text(new.call("GET", "k1")) == "after"
        print("a primary that slept: 0 writes acknowledged, 0 stale reads")


def silent(program, rounds):
    """etcd is silent for longer than any lease: a primary goes on while its replica promises not to
    stand; without the replica it goes on, too, as nobody else may win."""
    with Cluster(program, 1, 1, 2000) as cluster:
        old, new = cluster.nodes
        stalled = cluster.etcd.stall_leader()
        load = Load(cluster.nodes, "counter")
        load.start()
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 8, "etcd is silent for long")
        mark = load.done
        until(lambda: load.done > mark + 100, "the primary goes on")
        assert old.is_primary() and not new.is_primary()
        stalled.resume()
        mark = load.done
        until(lambda: load.done > mark + 500, "the load goes on")
        load.stop()
        told("longest stall of a write while etcd was silent for 8 s", load.longest)
        primary = next(node for node in cluster.nodes if node.is_primary())
        assert int(text(primary.call("GET", "counter"))) >= load.total()


def alone(program, rounds):
    """Primary cut off from etcd and from its replica: it stops to write before the other begins."""
    with Cluster(program, 1, 1, 2000) as cluster:
        old, new = cluster.nodes
        cluster.etcd.stall_leader()
        os.kill(new.pid, signal.SIGSTOP)
        until(lambda: not old.tries_to_write("a", "b"), "the primary stops to write")
        answer = old.call("SET", "a", "b")
        assert "CLUSTERDOWN" in text(answer), answer
        os.kill(new.pid, signal.SIGCONT)
        until(lambda: old.tries_to_write("a", "c"), "its replica promises again, so it goes on")
        print("a primary that nobody promises anything refuses writes")


def members(program, rounds):
    """Three members of etcd, whose leader is lost: nothing that a client notices; then the data of
    all is restored from a snapshot, as a new cluster of etcd."""
    with Cluster(program, 1, 1, 2000, members=3) as cluster:
        load = Load(cluster.nodes, "counter")
        load.start()
        until(lambda: load.done > 200, "the load runs")
        lost = cluster.etcd.kill_leader()
        cluster.etcd.wait()
        mark = load.done
        until(lambda: load.done > mark + 1000, "the load goes on")
        lost.start()
        old, new = cluster.nodes
        old.kill()
        until(lambda: new.tries_to_write("x", "1"), "the replica takes over")
        load.stop()
        old.start()
        until(lambda: old.line()[2] == "myself,slave", "the old primary follows")
        assert new.tries_to_write("x", "2")


def forgotten(program, rounds):
    """A replica that was forgotten while it was down comes back, and meets the cluster again: it
    does not take the shard that it was of. Nodes that meet each other at once are one cluster."""
    with Cluster(program, 1, 1, 2000) as cluster:
        old, new = cluster.nodes
        assert old.tries_to_write("k", "before")
        identity = new.id()
        new.kill()
        until(lambda: text(old.call("CLUSTER", "FORGET", identity)) == "OK", "it is forgotten")
        assert old.tries_to_write("k", "after")
        new.start()
        meet = ("CLUSTER", "MEET", *map(str, old.address))
        until(lambda: text(new.call(*meet)) == "OK", "they meet")
        for node in cluster.nodes:
            until(lambda node=node: node.info()["cluster_known_nodes"] == "2", "both are known")
        assert old.is_primary() and text(old.call("GET", "k")) == "after"
        assert text(new.call("GET", "k")).startswith("MOVED"), "it has no slot"
        until(lambda: text(new.call("CLUSTER", "RESET", "HARD")) == "OK" or new.call("FLUSHALL"),
              "it leaves")
    with Cluster(program, 0) as cluster:
        nodes = [Node(program, cluster.etcd).start() for _ in range(4)]
        cluster.nodes += nodes
        meets = [threading.Thread(target=node.call, args=("CLUSTER", "MEET", *map(str, to.address)))
                 for node, to in zip(nodes, nodes[1:] + nodes[:1])]
        for meet in meets:
            meet.start()
        for meet in meets:
            meet.join()
        seen = [node.info()["cluster_known_nodes"] for node in nodes]
        ids = {line.split()[0] for node in nodes
               for line in text(node.call("CLUSTER", "NODES")).splitlines()}
        assert len(ids) == 4, (seen, "no node is lost")


def tools(program, rounds):
    """redis-cli --cluster: create, check, reshard, add-node, del-node, call, fix."""
    with Cluster(program, 0) as cluster:
        nodes = [Node(program, cluster.etcd).start() for _ in range(5)]
        cluster.nodes += nodes
        first, second, fifth = nodes[0], nodes[1], nodes[4]

        def run(*words, given=""):
            done = subprocess.run(["redis-cli", *words], input=given, capture_output=True,
                                  text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        places = [node.place for node in nodes[:3]]
        run("--cluster", "create", *places, "--cluster-yes")
        keys = range(300)
        port = str(first.port)
        answer = run("-c", "-p", port, given="\n".join(f"set key{key} {key}" for key in keys))
        assert answer.count("OK") == len(keys), answer
        run("--cluster", "add-node", nodes[3].place, first.place, "--cluster-slave",
            "--cluster-master-id", first.id())
        run("--cluster", "add-node", fifth.place, first.place)
        for node in nodes:
            until(lambda node=node: node.info()["cluster_known_nodes"] == "5", "all are known")
        move = ("--cluster", "reshard", first.place, "--cluster-yes", "--cluster-slots", "60")
        run(*move, "--cluster-from", "all", "--cluster-to", fifth.id())
        assert "All 16384 slots covered" in run("--cluster", "check", first.place)
        answer = run("-c", "-p", port, given="\n".join(f"get key{key}" for key in keys))
        assert {str(key) for key in keys} <= set(answer.split()), answer
        run(*move, "--cluster-from", fifth.id(), "--cluster-to", second.id())
        run("--cluster", "del-node", first.place, fifth.id())
        assert "[OK] 300 keys in 3 masters" in run("--cluster", "fix", first.place)
        until(lambda: fifth.info()["cluster_known_nodes"] == "1", "it is alone")


class Load(threading.Thread):
    """INCR of a counter, one after the other, wherever it is led; the longest time between two
    acknowledged ones."""

    def __init__(self, nodes, key):
        super().__init__(daemon=True)
        self.nodes, self.key = list(nodes), key
        self.done, self.longest, self.is_over = 0, 0.0, False
        self.base = None

    def run(self):
        client, last = None, time.monotonic()
        at = 0
        while not self.is_over:
            try:
                client = client or Client(self.nodes[at].address, 3)
                answer = client.call("INCR", self.key)
                if isinstance(answer, int):
                    if self.base is None:
                        self.base = answer - 1
                    now = time.monotonic()
                    self.longest, last = max(self.longest, now - last), now
                    self.done += 1
                    continue
            except (OSError, Closed):
                pass
            if client:
                client.close()
            client, at = None, (at + 1) % len(self.nodes)

    def stop(self):
        self.is_over = True
        self.join()

    def total(self):
        return self.base + self.done


def is_stopped(pid):
    """Whether all threads of a process stand still: a signal takes a moment."""
    states = [stat.read_text().rsplit(")", 1)[1].split()[0]
              for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def bytes_of(value):
    return value if isinstance(value, bytes) else str(value).encode()


def told(what, *times):
    middle = statistics.median(times)
    print(f"{what}: median {middle * 1000:.0f} ms, worst {max(times) * 1000:.0f} ms ({len(times)})",
          flush=True)


SCENARIOS = {f.__name__: f for f in
             (lone, failover, hand_over, terminate, paused, silent, alone, members,
              forgotten, tools)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", choices=SCENARIOS, action="append")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for name in options.only or SCENARIOS:
        SCENARIOS[name](str(Path(options.program).resolve()), options.rounds)
        print(f"ok {name}", flush=True)


if __name__ == "__main__":
    main()
