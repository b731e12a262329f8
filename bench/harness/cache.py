"""The table of what a cache does: hit rates, expiry, memory that comes back, writes at the limit.

The budgets are those of issue 11. Kinds:
  hitrate   traces played at the same memory limit; LRU and the optimum at the items each held
  wave      many keys that reach their deadline together, under steady writes
  comeback  RSS after most keys were deleted
  full      server CPU per SET at the memory limit, and below it in the same round
"""

from .scenario import ALL, KEY, RESP, VALUE, Budget, Scenario

MEMORY_MB = 64
VALUE_BYTES = 200
# A server holds some 220,000 such items; what is read is several times that.
KEYS = "1200000"
LOOPED = "320000"
REQUESTS = 2_400_000
# With this exponent most requests go to few keys: only a long trace over very many does not fit.
STEEP_KEYS = "100000000"
STEEP_REQUESTS = "6000000"
MIXED_RATE = "60000"


def trace(name, pattern, *more, keys=KEYS):
    return name, ("--trace", pattern, "--keys", keys, *more)


TRACES = (
    trace("Zipf 0.7", "zipf", "--zipf", "0.7"),
    trace("Zipf 0.9", "zipf", "--zipf", "0.9"),
    trace("Zipf 1.1", "zipf", "--zipf", "1.1", "--requests", STEEP_REQUESTS, keys=STEEP_KEYS),
    trace("shifting popularity", "shift", "--zipf", "0.9"),
    trace("a scan mixed in", "scan", "--zipf", "0.9"),
    trace("a loop larger than the cache", "loop", keys=LOOPED),
    trace("mixed lengths with deadlines", "mixed", "--zipf", "0.9", "--rate", MIXED_RATE),
)

HITRATE = Scenario(
    "hitrate",
    "hits of seven traces in 64 MB",
    "hitrate",
    "behind_points",
    group="cache",
    servers=ALL,
    value_bytes=VALUE_BYTES,
    requests=REQUESTS,
    memory_mb=MEMORY_MB,
    traces=TRACES,
    budgets=(Budget("behind_points", -0.5, across="worst"),),
    quick={"requests": 20_000, "traces": TRACES[:1], "keys": 1},
)

WAVE = Scenario(
    "wave",
    "5 M keys of 100 B that reach their deadline together",
    "wave",
    "peak_growth",
    group="cache",
    servers=RESP,
    keys=5_000_000,
    value_bytes=100,
    ttl_s=30,
    rate=2_000,
    requests=20_000,  # a second, of the steady writes
    probed_keys=1_000,
    budgets=(Budget("peak_growth", 1.1), Budget("p999_growth", 2.0)),
    quick={"keys": 5_000, "ttl_s": 2, "requests": 500, "probed_keys": 100},
)

COMEBACK = Scenario(
    "comeback",
    "3 M keys of 300 B, 90 % deleted at random",
    "comeback",
    "comeback",
    group="cache",
    servers=RESP,
    keys=3_000_000,
    value_bytes=300,
    idle_s=30.0,
    budgets=(Budget("comeback", 1.3),),
    quick={"keys": 3_000, "idle_s": 1.0},
)

FULL = Scenario(
    "set-full",
    "SET, pipeline 30, at the memory limit and below it",
    "full",
    "cpu_us",
    group="cache",
    servers=RESP,
    keys=1_000_000,
    value_bytes=100,
    command=f"SET {KEY} {VALUE}",
    pipeline=30,
    requests=3_000_000,
    memory_mb=80,
    budgets=(Budget("full_growth", 1.5), Budget("cpu_us", 0.6, "valkey")),
    quick={"keys": 1_000, "requests": 3_000},
)

ROWS = (HITRATE, WAVE, COMEBACK, FULL)
