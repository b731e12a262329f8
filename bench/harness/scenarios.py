"""The table of what is measured. A new row is one entry here; nothing else needs to change.

Kinds (kinds.py names the function of each):
  commands  server CPU per command under redis-benchmark or pantala-load
  threads   the same with one and with two server threads, both on both cores: how much it grows
  memory    RSS per key over several sizes
  idle      an empty server: its RSS, and what it costs while nothing happens
  crowd     server CPU per delivered message: one publisher, many subscribers
  family    `commands` for each command of a family; the median over the commands decides

The data types have a table of their own, with further kinds: datatypes.py. The budgets here are
those of the architecture paper, section 5.
"""

import hashlib

from . import cache, datatypes, persistence, replication, tls
from .scenario import ALL, KEY, VALUE, Budget, R, Scenario, Step

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


QUICK_FAMILY = {"keys": 5_000, "requests": 30_000}


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
        **({"budgets": against_valkey(0.80), "quick": QUICK_FAMILY} | more),
    )


GET_SCRIPT = "return(redis.call('GET',KEYS[1]))"

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
            f"EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 {KEY} {VALUE}",
            f"EVAL return(redis.call('INCR','counter')) 1 {KEY}",
        ],
    ),
    family(
        "evalsha",
        [(f"SCRIPT LOAD {GET_SCRIPT}", 1)],
        [f"EVALSHA {hashlib.sha1(GET_SCRIPT.encode()).hexdigest()} 1 {KEY}"],
        budgets=against_valkey(0.70),
    ),
)


def by_memcached(name, title, limit, **more):
    """Beside memcached, in its text protocol."""
    shape = {"requests": 1_000_000, "quick": QUICK_LOAD} | more
    return Scenario(
        f"memcached-{name}",
        f"memcached's protocol, {title}",
        "commands",
        "cpu_us",
        group="memcached",
        servers=("pantala", "memcached"),
        protocol="memcached",
        load="pantala-load",
        budgets=(Budget("cpu_us", limit, "memcached"),),
        **shape,
    )


def memcached_memory(value_bytes):
    return Scenario(
        f"memcached-memory-{value_bytes}",
        f"memcached's protocol, memory, {value_bytes:,} random bytes",
        "memory",
        "bytes_per_key",
        group="memcached",
        servers=("pantala", "memcached"),
        protocol="memcached",
        value_bytes=value_bytes,
        sizes=SIZES,
        across="mean",
        budgets=(Budget("bytes_per_key", 1.0, "memcached", strictly=True),),
        quick={"sizes": QUICK_SIZES},
    )


MEMCACHED = (
    by_memcached("get", "get", 0.95, must_hit=True),
    by_memcached("set", "set", 0.95, get_percent=0),
    by_memcached(
        "multi-get",
        "get of 30 keys, a key",
        0.80,
        must_hit=True,
        multi_get=True,
        pipeline=30,
        requests=5_000_000,
        quick=QUICK_PIPELINED,
    ),
    memcached_memory(8),
    memcached_memory(100),
    memcached_memory(1_024),
)


def crowd(name, title, command, pipeline, messages):
    """One publisher, and 1,000 subscribers on 100 channels."""
    return Scenario(
        f"pubsub-{name}",
        f"{title}; 1,000 subscribers on 100 channels",
        "crowd",
        "cpu_us_delivered",
        group="pubsub",
        command=command,
        clients=1_000,
        keys=100,
        pipeline=pipeline,
        requests=messages,
        budgets=(Budget("cpu_us_delivered", 1.0, "valkey"),),
        quick={"clients": 50, "keys": 10, "requests": messages // 20},
    )


CROWDS = (
    crowd("one", "PUBLISH, one by one", "PUBLISH", 1, 10_000),
    crowd("p100", "PUBLISH, 100 at once", "PUBLISH", 100, 50_000),
    crowd("p2000", "PUBLISH, 2,000 at once", "PUBLISH", 2_000, 200_000),
    crowd("slot", "SPUBLISH, 100 at once", "SPUBLISH", 100, 50_000),
)

ROWS = CORE + MEMCACHED + FAMILIES + CROWDS
SCENARIOS = ROWS + datatypes.ALL + persistence.ALL + cache.ROWS + tls.ROWS + replication.ALL
