"""Outputs and records that several tests read."""

BENCHMARK = (
    "GET key:__rand_int__: rps=0.0 (overall: nan) avg_msec=nan (overall: nan)\r"
    "GET key:__rand_int__: rps=512000.0 (overall: 512000.0) avg_msec=1.6 (overall: 1.6)\r"
    """
====== GET key:__rand_int__ ======
  20010 requests completed in 0.03 seconds
  50 parallel clients
  41 bytes payload
  keep alive: 1
  host configuration "save":
  host configuration "appendonly": no
  multi-thread: no

Latency by percentile distribution:
0.000% <= 0.511 milliseconds (cumulative count 30)
50.000% <= 1.623 milliseconds (cumulative count 10160)
99.609% <= 2.311 milliseconds (cumulative count 19970)
99.902% <= 2.343 milliseconds (cumulative count 19999)
100.000% <= 3.501 milliseconds (cumulative count 20000)

Cumulative distribution of latencies:
0.000% <= 0.103 milliseconds (cumulative count 0)
100.000% <= 3.103 milliseconds (cumulative count 20000)

Summary:
  throughput summary: 800400.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        1.618     0.504     1.623     2.111     2.255     3.501
"""
)

ENVIRONMENT = {
    "kind": "environment",
    "date": "2030-01-02",
    "topic": "test",
    "quick": False,
    "rounds": 3,
    "commit": "0123abc",
    "uncommitted_changes": True,
    "command_line": "bench/run",
    "server_cores": [0],
    "load_cores": [1],
    "cpu": "A Processor",
    "cores": 2,
    "governor": "unknown",
    "memory_mb": 1000,
    "kernel": "Linux 6",
    "python": "3.11",
    "load_at_start": [0.1, 0.2, 0.3],
    "versions": {"pantala": "0.1.0", "valkey": "9.1.2", "redis": "7.0.1"},
    "expected_versions": {"valkey": "9.1.2", "redis": "7.0.15"},
    "tools": {"redis-benchmark": "7.0.15"},
    "missing": {"memcached": "no memcached"},
}


def run(scenario, server, turn, part="", **figures):
    """A record of one run."""
    return {
        "kind": "run",
        "scenario": scenario,
        "server": server,
        "round": turn,
        "part": part,
        "figures": figures,
        "foreign_percent": 0.5,
        "server_wait_percent": 0.1,
        "marks": [],
    }


def three_rounds(scenario, figure, **by_server):
    """Records of three rounds; server=(first, second, third)."""
    return [
        run(scenario, server, turn, **{figure: value})
        for server, values in by_server.items()
        for turn, value in enumerate(values)
    ]
