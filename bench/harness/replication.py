"""The table of what replicas cost their primary (group replication).

The budgets are those of issue 14. Kinds:
  copy      a full copy to a replica while clients write: its time, the primary's peak of memory,
            p99.9 of the writers
  stream    server CPU of the primary per SET with a replica that follows, and without one in the
            same round
"""

from .scenario import KEY, RESP, VALUE, Budget, Scenario

SET = f"SET {KEY} {VALUE}"
QUICK_COPY = {"keys": 20_000, "idle_s": 0.5}

TO_VALKEY = Scenario(
    "copy-to-valkey",
    "full copy of 2 M x 1 KB to a valkey while 20 clients write",
    "copy",
    "memory_growth",
    group="replication",
    servers=("pantala", "valkey"),
    replica="valkey",
    keys=2_000_000,
    value_bytes=1_024,
    command=SET,
    clients=20,
    requests=1_000_000_000,  # ended when the copy has
    threads=(2,),
    rate=2_000,
    budgets=(Budget("memory_growth", 1.05), Budget("p999_growth", 2.0)),
    quick=QUICK_COPY,
)

BETWEEN = Scenario(
    "copy",
    "full copy of 2 M x 1 KB between two of a kind, nobody writes",
    "copy",
    "copy_s",
    group="replication",
    servers=RESP,
    keys=2_000_000,
    value_bytes=1_024,
    threads=(2,),
    budgets=(Budget("copy_s", 0.6, "valkey"),),
    quick=QUICK_COPY,
)

STREAM = Scenario(
    "replica-stream",
    "SET, pipeline 30, with a replica of the same kind and without",
    "stream",
    "cpu_us",
    group="replication",
    servers=RESP,
    command=SET,
    pipeline=30,
    requests=5_000_000,
    budgets=(Budget("stream_growth", 1.2), Budget("cpu_us", 0.6, "valkey")),
    quick={"keys": 50_000, "requests": 300_000},
)

ALL = (TO_VALKEY, BETWEEN, STREAM)
