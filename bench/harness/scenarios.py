"""The table of what is measured. A new row is one entry here; nothing else needs to change.

Kinds (each is a function in measure.py):
  commands  server CPU per command under redis-benchmark or pantala-load
  threads   the same with one and with two server threads, both on both cores: how much it grows
  memory    RSS per key over several sizes
  idle      an empty server: its RSS, and what it costs while nothing happens
  family    `commands` for each command of a family; the median over the commands decides

The budgets are those of the architecture paper, section 5.
"""

from dataclasses import dataclass, field, replace

ALL = ("pantala", "valkey", "redis", "memcached")
RESP = ("pantala", "valkey", "redis")

VALUE = "__value__"  # last in a command: random bytes of the scenario's length, given on stdin
KEY = "key:__rand_int__"  # redis-benchmark puts a random number of 12 digits there


@dataclass(frozen=True)
class Budget:
    """An upper limit for Pantala's `figure`: a ratio to the server `against`, or absolute."""

    figure: str
    limit: float
    against: str | None = None
    strictly: bool = False  # below the limit, not at it

    def is_met(self, value):
        return value < self.limit if self.strictly else value <= self.limit

    def text(self):
        sign = "<" if self.strictly else "<="
        unit = f"x {self.against}" if self.against else UNITS.get(self.figure, "")
        return f"{sign} {self.limit:g} {unit}".strip()


@dataclass(frozen=True)
class Step:
    """A command of a family, or of its preparation."""

    command: str
    requests: int = 0  # 0: the scenario's


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    kind: str
    figure: str  # the figure that decides, and that the plot shows
    group: str = "core"
    servers: tuple = RESP
    keys: int = 1_000_000
    value_bytes: int = 100
    command: str = ""
    load: str = "redis-benchmark"
    get_percent: int = 100  # pantala-load only
    clients: int = 50
    pipeline: int = 1
    requests: int = 0
    must_hit: bool = False  # a GET that finds nothing fails the run
    prepare: tuple = ()
    steps: tuple = ()
    sizes: tuple = ()
    idle_s: float = 5.0
    across: str = "median"  # how the parts of a scenario (sizes, commands) make one figure
    budgets: tuple = ()
    quick: dict = field(default_factory=dict)  # what is smaller under --quick

    def for_quick(self):
        return replace(self, **self.quick)


# What a figure is called and measured in.
UNITS = {
    "cpu_us": "µs",
    "requests_per_s": "/s",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "p999_ms": "ms",
    "growth": "x",
    "bytes_per_key": "B",
    "rss_mb": "MB",
    "idle_cpu_percent": "%",
    "switches_per_s": "/s",
}
FIGURES = {
    "cpu_us": "server CPU per command",
    "requests_per_s": "requests per second",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "growth": "CPU per command, two threads against one",
    "bytes_per_key": "RSS per key",
    "rss_mb": "RSS",
    "idle_cpu_percent": "CPU while idle",
    "switches_per_s": "context switches while idle",
}
HIGHER_IS_BETTER = {"requests_per_s"}

SIZES = (1_000_000, 1_414_214, 2_000_000, 2_828_427, 4_000_000)
QUICK_SIZES = (20_000, 40_000)
QUICK_LOAD = {"keys": 50_000, "requests": 30_000}
QUICK_PIPELINED = {"keys": 50_000, "requests": 300_000}


def against_valkey(limit):
    return (Budget("cpu_us", limit, "valkey"),)


def commands(name, title, command, **more):
    more = {"requests": 1_000_000, "quick": QUICK_LOAD} | more
    return Scenario(name, title, "commands", "cpu_us", command=command, **more)


def pipelined(name, title, command, **more):
    more = {"pipeline": 30, "requests": 5_000_000, "quick": QUICK_PIPELINED} | more
    return commands(name, title, command, **more)


def memory(value_bytes, limit):
    return Scenario(
        f"memory-{value_bytes}",
        f"memory, 16-byte key and {value_bytes:,} random bytes",
        "memory",
        "bytes_per_key",
        servers=ALL,
        value_bytes=value_bytes,
        sizes=SIZES,
        across="mean",
        budgets=(Budget("bytes_per_key", limit, strictly=True),),
        quick={"sizes": QUICK_SIZES},
    )


def by_own_load(name, title, get_percent, pipeline, requests, quick):
    return Scenario(
        name,
        title,
        "commands",
        "cpu_us",
        servers=ALL,
        load="pantala-load",
        get_percent=get_percent,
        pipeline=pipeline,
        requests=requests,
        quick=quick,
    )


CORE = (
    commands("get", "GET", f"GET {KEY}", must_hit=True, budgets=against_valkey(0.88)),
    commands("set", "SET", f"SET {KEY} {VALUE}", budgets=against_valkey(0.90)),
    pipelined(
        "get-p30", "GET, pipeline 30", f"GET {KEY}", must_hit=True, budgets=against_valkey(0.50)
    ),
    pipelined("set-p30", "SET, pipeline 30", f"SET {KEY} {VALUE}", budgets=against_valkey(0.55)),
    pipelined(
        "get-10m",
        "GET, pipeline 30, 10 M keys",
        f"GET {KEY}",
        keys=10_000_000,
        must_hit=True,
        budgets=against_valkey(0.50),
        quick={"keys": 500_000, "requests": 300_000},
    ),
    Scenario(
        "two-threads",
        "two threads against one, GET, pipeline 30",
        "threads",
        "growth",
        servers=("pantala", "valkey"),
        command=f"GET {KEY}",
        must_hit=True,
        pipeline=30,
        requests=5_000_000,
        budgets=(Budget("growth", 1.10),),
        quick=QUICK_PIPELINED,
    ),
    memory(8, 45),
    memory(100, 142),
    memory(1_024, 1_095),
    Scenario(
        "empty",
        "empty server",
        "idle",
        "rss_mb",
        servers=ALL,
        budgets=(Budget("rss_mb", 25.0), Budget("idle_cpu_percent", 0.05, strictly=True)),
        quick={"idle_s": 1.0},
    ),
    by_own_load("load-get", "GET by pantala-load", 100, 1, 1_000_000, QUICK_LOAD),
    by_own_load("load-set", "SET by pantala-load", 0, 1, 1_000_000, QUICK_LOAD),
    by_own_load(
        "load-get-p30", "GET, pipeline 30, by pantala-load", 100, 30, 5_000_000, QUICK_PIPELINED
    ),
    by_own_load(
        "load-set-p30", "SET, pipeline 30, by pantala-load", 0, 30, 5_000_000, QUICK_PIPELINED
    ),
)


def family(name, prepare, steps, **more):
    """`steps` and `prepare` are command lines; a preparation may be (command, requests)."""
    as_step = lambda step: Step(step) if isinstance(step, str) else Step(*step)
    return Scenario(
        f"family-{name}",
        f"{name}, pipeline 30",
        "family",
        "cpu_us",
        group="families",
        keys=100_000,
        pipeline=30,
        requests=1_000_000,
        prepare=tuple(as_step(step) for step in prepare),
        steps=tuple(as_step(step) for step in steps),
        budgets=against_valkey(0.80),
        **({"quick": {"keys": 5_000, "requests": 30_000}} | more),
    )


R = "__rand_int__"
FAMILIES = (
    family(
        "keys",
        [],
        [
            f"EXISTS {KEY}",
            f"TYPE {KEY}",
            f"EXPIRE {KEY} 100000",
            f"TTL {KEY}",
            f"PERSIST {KEY}",
            f"TOUCH {KEY}",
            f"DEL {KEY}",
        ],
    ),
    family(
        "strings",
        [],
        [
            f"INCR counter:{R}",
            f"STRLEN {KEY}",
            f"GETRANGE {KEY} 10 19",
            f"SETRANGE {KEY} 10 0123456789",
            f"SETEX {KEY} 100000 {VALUE}",
            f"MGET {KEY} {KEY} {KEY} {KEY} {KEY}",
            f"MSET {KEY} 0123456789 {KEY} 0123456789 {KEY} {VALUE}",
            f"GETSET {KEY} {VALUE}",
        ],
    ),
    family(
        "hash",
        [f"HSET small:{R} a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8", f"HSET large field:{R} {VALUE}"],
        [
            f"HSET small:{R} c other",
            f"HGET small:{R} f",
            f"HMGET small:{R} a d h",
            f"HGETALL small:{R}",
            f"HINCRBY small:{R} b 1",
            f"HGET large field:{R}",
            f"HSET large field:{R} {VALUE}",
        ],
    ),
    family(
        "list",
        [f"RPUSH list:{R} a b c d e f g h", (f"RPUSH long {VALUE}", 100_000)],
        [
            f"LPUSH list:{R} {VALUE}",
            f"RPOP list:{R}",
            f"LRANGE list:{R} 0 9",
            f"LINDEX list:{R} 3",
            f"LLEN list:{R}",
            f"RPUSH long {VALUE}",
            "LPOP long",
        ],
    ),
    family(
        "set",
        [f"SADD set:{R} a b c d e f g h", f"SADD large member:{R}"],
        [
            f"SADD set:{R} member:{R}",
            f"SISMEMBER set:{R} f",
            f"SISMEMBER large member:{R}",
            f"SRANDMEMBER set:{R}",
            f"SMEMBERS set:{R}",
            f"SCARD set:{R}",
            f"SREM large member:{R}",
        ],
    ),
    family(
        "zset",
        [f"ZADD zset:{R} 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h", f"ZADD large {R} member:{R}"],
        [
            f"ZADD zset:{R} 9 a",
            f"ZSCORE zset:{R} d",
            f"ZRANGE zset:{R} 0 -1",
            f"ZADD large {R} member:{R}",
            f"ZSCORE large member:{R}",
            f"ZRANK large member:{R}",
            f"ZINCRBY large 1 member:{R}",
            "ZRANGE large 1000 1009",
        ],
    ),
    family(
        "stream",
        [(f"XADD log * field {VALUE}", 100_000), f"XADD log:{R} * a 1 b 2"],
        [
            f"XADD log * field {VALUE}",
            f"XADD log:{R} * a 1 b 2",
            f"XLEN log:{R}",
            f"XRANGE log:{R} - + COUNT 2",
            "XREVRANGE log + - COUNT 5",
        ],
    ),
    family(
        "bits-and-counts",
        [f"SETBIT bits:{R} 1000 1", f"PFADD hll:{R} a b c"],
        [
            f"SETBIT bits:{R} 7 1",
            f"GETBIT bits:{R} 999",
            f"BITCOUNT {KEY}",
            f"PFADD hll:{R} element:{R}",
            f"PFCOUNT hll:{R}",
        ],
    ),
    family(
        "geo",
        [f"GEOADD places:{R} 13.36 38.11 a 15.08 37.50 b 13.40 52.52 c"],
        [f"GEOADD places:{R} 2.35 48.85 d", f"GEODIST places:{R} a b", f"GEOPOS places:{R} c"],
    ),
    family(
        "scripting",
        [],
        [
            "EVAL return(1) 0",
            f"EVAL return(redis.call('GET',KEYS[1])) 1 {KEY}",
        ],
    ),
)

SCENARIOS = CORE + FAMILIES
