"""The table of what keeping data costs: saving, loading, the append-only file (group persistence).

The budgets are those of issue 10. Kinds:
  saving    a BGSAVE while clients write: its time, the peak of memory, p99.9 of the writers
  loading   a start with the file that such a save has left
  journal   server CPU per SET with the append-only file, and without it in the same round
  always    appendfsync always: the throughput of writers, and p99 of GETs beside them
"""

from . import feed
from .scenario import KEY, RESP, VALUE, Budget, Neighbour, Scenario

QUICK_SAVING = {"keys": 20_000, "idle_s": 0.5}
SET = f"SET {KEY} {VALUE}"

SAVING = Scenario(
    "saving",
    "BGSAVE of 2 M x 1 KB while 20 clients write",
    "saving",
    "save_s",
    group="persistence",
    servers=RESP,
    keys=2_000_000,
    value_bytes=1_024,
    command=SET,
    clients=20,
    requests=1_000_000_000,  # ended when the save has
    threads=(2,),
    rate=2_000,
    budgets=(
        Budget("save_s", 0.7, "valkey"),
        Budget("memory_growth", 1.05),
        Budget("p999_growth", 2.0),
    ),
    quick=QUICK_SAVING,
)

FIELDS = 10_000_000

LARGE_HASH = Scenario(
    "saving-hash",
    "BGSAVE of a hash of 10 M fields under HSET",
    "saving",
    "max_ms",
    group="persistence",
    servers=RESP,
    keys=100_000,
    value_bytes=16,
    command=f"HSET large field:__rand_int__ {VALUE}",
    clients=5,
    requests=1_000_000_000,
    threads=(2,),
    rate=1_000,
    neighbours=(
        Neighbour(
            "hash", "build",
            (feed.collect("HSET large", "field:__n__ __bytes(16)__", FIELDS, 1_000),),
        ),
    ),
    quick=QUICK_SAVING | {"scale": 1_000},
)

LOADING = Scenario(
    "loading",
    "start with a file of 2 M x 1 KB",
    "loading",
    "load_s",
    group="persistence",
    servers=RESP,
    keys=2_000_000,
    value_bytes=1_024,
    threads=(2,),
    budgets=(Budget("load_s", 0.6, "valkey"),),
    quick={"keys": 20_000},
)

EVERYSEC = Scenario(
    "journal-everysec",
    "SET, pipeline 30, with the append-only file (everysec) and without",
    "journal",
    "cpu_us",
    group="persistence",
    servers=RESP,
    command=SET,
    pipeline=30,
    requests=5_000_000,
    budgets=(Budget("journal_growth", 1.15), Budget("cpu_us", 0.6, "valkey")),
    quick={"keys": 50_000, "requests": 300_000},
)

TWO_THREADS = Scenario(
    "journal-threads",
    "two threads against one, SET, pipeline 30, everysec",
    "threads",
    "growth",
    group="persistence",
    servers=("pantala",),
    command=SET,
    pipeline=30,
    requests=5_000_000,
    more=("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"),
    budgets=(Budget("growth", 1.10),),
    quick={"keys": 50_000, "requests": 300_000},
)

ALWAYS = Scenario(
    "journal-always",
    "appendfsync always: 50 clients SET, others GET",
    "always",
    "set_us",
    group="persistence",
    servers=RESP,
    keys=100_000,
    command=SET,
    requests=50_000,
    rate=2_000,
    budgets=(Budget("set_us", 1.0, "valkey"), Budget("p99_ms", 0.2, "valkey")),
    quick={"keys": 1_000, "requests": 2_000},
)

ALL = (SAVING, LARGE_HASH, LOADING, EVERYSEC, TWO_THREADS, ALWAYS)
