"""Random commands that change something, by family. A seed gives the same commands again.

What a command answers may depend on chance only where the server tells its replicas the outcome
(SPOP); scripts here do not depend on it at all.
"""

KEYS = 12
FAR_S = 3_600

LIBRARY = """#!lua name=writers
redis.register_function('put', function(keys, args)
    redis.call('SET', keys[1], args[1]); redis.call('INCR', keys[2]); return args[1] end)
redis.register_function('drop', function(keys, args) return redis.call('DEL', unpack(keys)) end)
"""
SEVERAL_WRITES = """
redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])
if redis.call('LLEN', KEYS[1]) > 30 then redis.call('LTRIM', KEYS[1], 0, 10) end
redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
return redis.call('SADD', KEYS[3], ARGV[2])"""
ENDS_IN_THE_MIDDLE = """
redis.call('SET', KEYS[1], ARGV[1])
redis.call('INCR', KEYS[2])
return redis.call('SET', KEYS[1])"""
DELETES_AN_ENTRY = """
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 2)[2]
return first and redis.call('XDEL', KEYS[1], first[1])"""
LONG = "x" * 300
MANY_ENTRIES = """
for _ = 1, ARGV[1] do
    local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
    local ms = last and string.match(last[1], '%d+') or '0'
    redis.pcall('XADD', KEYS[1], ms .. '-*', 'a', ARGV[2])
end"""


class Maker:
    """Makes steps: lists of commands that are sent together."""

    def __init__(self, rng, fields, wild, short, families=(), own=False):
        self.rng, self.fields, self.wild, self.short = rng, fields, wild, short
        self.own = own
        self.weights = {family: weight for family, weight in FAMILIES.items()
                        if not families or family.__name__ in families}

    def chance(self, part):
        return self.rng.random() < part

    def key(self, kind):
        return f"{kind}:{self.rng.randrange(KEYS)}"

    def keys(self, kind, most=3):
        return [self.key(kind) for _ in range(self.rng.randint(1, most))]

    def text(self):
        kind = self.rng.random()
        if kind < 0.4:
            return str(self.rng.randrange(-300, 70000))
        length = self.rng.choice([0, 1, 5, 20, 63, 64, 65, 200, 3000])
        return self.rng.randbytes(length) if kind < 0.7 else "xyz"[:1 + length % 3] * length

    def word(self):
        return f"m{self.rng.randrange(40)}"

    def number(self):
        return self.rng.randrange(-20, 100)

    def deadline_ms(self):
        """Passes at once, or not in this test."""
        passes = self.chance(0.5) and self.short
        return self.rng.randint(1, 60) if passes else FAR_S * 1000 + self.number()

    def command(self):
        if self.own and self.chance(0.5):
            command = our_own(self)
            return in_a_script(command) if self.chance(0.2) else command
        family = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
        if family is field_deadlines and not self.fields:
            family = hashes
        return family(self)

    def step(self):
        kind = self.rng.random()
        if self.wild and kind < 0.01:
            return [self.rng.choice([("FLUSHDB",), ("FLUSHALL",), ("FLUSHALL", "ASYNC"),
                                     ("SWAPDB", 0, 1), ("SWAPDB", 1, 2), ("SWAPDB", 2, 0)])]
        commands = [self.command() for _ in range(self.rng.randint(1, 12))]
        if kind < 0.15:
            return [("MULTI",), *commands, ("EXEC",)]
        return commands


def strings(m):
    key, of = m.key("string"), m.rng.choice
    return of([
        lambda: ("SET", key, m.text()), lambda: ("SET", key, m.text(), "PX", m.deadline_ms()),
        lambda: ("SET", key, m.text(), "KEEPTTL"), lambda: ("SET", key, m.text(), "NX"),
        lambda: ("SET", key, m.text(), "XX", "GET"), lambda: ("SETEX", key, FAR_S, m.text()),
        lambda: ("PSETEX", key, m.deadline_ms(), m.text()), lambda: ("SETNX", key, m.text()),
        lambda: ("GETSET", key, m.text()), lambda: ("GETDEL", key),
        lambda: ("GETEX", key, "PX", m.deadline_ms()), lambda: ("GETEX", key, "PERSIST"),
        lambda: ("APPEND", key, m.text()), lambda: ("SETRANGE", key, m.rng.randrange(90), "ab"),
        lambda: ("MSET", key, m.text(), m.key("string"), m.text()),
        lambda: ("MSETNX", key, m.text(), m.key("string"), m.text()),
    ])()


def numbers(m):
    key, of = m.key("number"), m.rng.choice
    return of([
        lambda: ("INCR", key), lambda: ("DECR", key), lambda: ("INCRBY", key, m.number()),
        lambda: ("DECRBY", key, m.number()), lambda: ("INCRBYFLOAT", key, m.number() / 8),
        lambda: ("SET", key, m.number()), lambda: ("DEL", key),
    ])()


def bits(m):
    key, of = m.key("bits"), m.rng.choice
    return of([
        lambda: ("SETBIT", key, m.rng.randrange(2000), m.rng.randrange(2)),
        lambda: ("BITFIELD", key, "SET", "u8", "#3", m.number() % 99, "INCRBY", "i5", 100, 3),
        lambda: ("BITFIELD", key, "OVERFLOW", "FAIL", "INCRBY", "u2", 102, 1),
        lambda: ("BITOP", m.rng.choice(["AND", "OR", "XOR"]), key, *m.keys("bits")),
        lambda: ("BITOP", "NOT", key, m.key("bits")),
    ])()


def counters(m):
    key, of = m.key("hll"), m.rng.choice
    return of([
        lambda: ("PFADD", key, *(m.word() for _ in range(5))), lambda: ("PFCOUNT", key),
        lambda: ("PFADD", key, *(m.number() for _ in range(300))),
        lambda: ("PFMERGE", key, *m.keys("hll")), lambda: ("PFCOUNT", *m.keys("hll")),
    ])()


def lists(m):
    key, of = m.key("list"), m.rng.choice
    return of([
        lambda: ("LPUSH", key, m.text(), m.text()), lambda: ("RPUSH", key, m.text(), m.word()),
        lambda: ("RPUSH", key, m.word()), lambda: ("LPUSHX", key, m.word()),
        lambda: ("LPOP", key), lambda: ("RPOP", key, 2), lambda: ("LTRIM", key, 0, 25),
        lambda: ("LSET", key, m.rng.randrange(4), m.text()), lambda: ("LREM", key, 1, m.word()),
        lambda: ("LINSERT", key, "BEFORE", m.word(), m.text()),
        lambda: ("LMOVE", key, m.key("list"), "LEFT", "RIGHT"),
        lambda: ("RPOPLPUSH", key, m.key("list")),
        lambda: ("LMPOP", 2, key, m.key("list"), "LEFT", "COUNT", 3),
        lambda: ("SORT", key, "ALPHA", "STORE", m.key("list")),
    ])()


def sets(m):
    key, of = m.key("set"), m.rng.choice
    return of([
        lambda: ("SADD", key, m.word(), m.number(), m.text()), lambda: ("SADD", key, m.number()),
        lambda: ("SREM", key, m.word(), m.number()), lambda: ("SPOP", key),
        lambda: ("SPOP", key, 3), lambda: ("SPOP", key, 1000),
        lambda: ("SMOVE", key, m.key("set"), m.word()),
        lambda: ("SUNIONSTORE", key, *m.keys("set")), lambda: ("SDIFFSTORE", key, *m.keys("set")),
        lambda: ("SINTERSTORE", key, *m.keys("set")),
    ])()


def hashes(m):
    key, of = m.key("hash"), m.rng.choice
    return of([
        lambda: ("HSET", key, m.word(), m.text(), m.word(), m.text()),
        lambda: ("HSETNX", key, m.word(), m.text()), lambda: ("HDEL", key, m.word(), m.word()),
        lambda: ("HINCRBY", key, "n", m.number()),
        lambda: ("HINCRBYFLOAT", key, "x", m.number() / 4),
        lambda: ("HMSET", key, m.word(), m.text()), lambda: ("HSET", key, m.word(), m.number()),
    ])()


def field_deadlines(m):
    key, of, name = m.key("fields"), m.rng.choice, m.word()
    return of([
        lambda: ("HSET", key, name, m.text(), m.word(), m.text()),
        lambda: ("HPEXPIRE", key, m.deadline_ms(), "FIELDS", 1, name),
        lambda: ("HEXPIRE", key, FAR_S, "FIELDS", 2, name, m.word()),
        lambda: ("HPERSIST", key, "FIELDS", 1, name),
        lambda: ("HSETEX", key, "PX", m.deadline_ms(), "FIELDS", 1, name, m.text()),
        lambda: ("HGETEX", key, "PX", m.deadline_ms(), "FIELDS", 1, name),
        lambda: ("HDEL", key, name),
    ])()


def sorted_sets(m):
    key, of = m.key("zset"), m.rng.choice
    return of([
        lambda: ("ZADD", key, m.number() / 3, m.word(), m.number(), m.text()),
        lambda: ("ZADD", key, "GT", "CH", m.number(), m.word()),
        lambda: ("ZADD", key, "INCR", m.number() / 7, m.word()),
        lambda: ("ZINCRBY", key, m.number() / 9, m.word()), lambda: ("ZREM", key, m.word()),
        lambda: ("ZPOPMIN", key), lambda: ("ZPOPMAX", key, 2),
        lambda: ("ZMPOP", 2, key, m.key("zset"), "MIN", "COUNT", 2),
        lambda: ("ZREMRANGEBYRANK", key, 20, -1), lambda: ("ZREMRANGEBYSCORE", key, 1, 3),
        lambda: ("ZUNIONSTORE", key, 2, m.key("zset"), m.key("zset"), "WEIGHTS", 1, 0.5),
        lambda: ("ZINTERSTORE", key, 2, m.key("zset"), m.key("zset"), "AGGREGATE", "MAX"),
        lambda: ("ZDIFFSTORE", key, 2, m.key("zset"), m.key("zset")),
        lambda: ("ZRANGESTORE", key, m.key("zset"), 0, 10),
    ])()


def places(m):
    key, of = m.key("geo"), m.rng.choice
    return of([
        lambda: ("GEOADD", key, m.number() / 2, m.number() / 3, m.word()),
        lambda: ("GEOSEARCHSTORE", m.key("geo"), key, "FROMLONLAT", 10, 10, "BYRADIUS", 3000,
                 "km", "ASC"),
        lambda: ("ZREM", key, m.word()),
    ])()


def streams(m):
    key, of, group = m.key("stream"), m.rng.choice, f"g{m.rng.randrange(3)}"
    consumer = f"c{m.rng.randrange(3)}"
    return of([
        lambda: ("XADD", key, "*", m.word(), m.text()),
        lambda: ("XADD", key, "MAXLEN", "~", 40, "*", "a", m.text(), "b", m.number()),
        lambda: ("XADD", key, "NOMKSTREAM", "MAXLEN", 25, "*", "a", m.text()),
        lambda: ("XTRIM", key, "MAXLEN", 20),
        lambda: ("XGROUP", "CREATE", key, group, of(["0", "$"]), "MKSTREAM"),
        lambda: ("XGROUP", "DESTROY", key, group),
        lambda: ("EVAL", DELETES_AN_ENTRY, 1, key),
        lambda: ("XGROUP", "SETID", key, group, "$"),
        lambda: ("XGROUP", "CREATECONSUMER", key, group, consumer),
        lambda: ("XGROUP", "DELCONSUMER", key, group, consumer),
        lambda: ("XREADGROUP", "GROUP", group, consumer, "COUNT", 3, "STREAMS", key, ">"),
        lambda: ("XREADGROUP", "GROUP", group, consumer, "COUNT", 2, "NOACK", "STREAMS", key, ">"),
        lambda: ("XAUTOCLAIM", key, group, consumer, 0, "0", "COUNT", 2),
        lambda: ("DEL", key) if m.chance(0.1) else ("XLEN", key),
    ])()


def trimmed(m):
    """Streams with ids of their own, cut in every way, whose counters are set. Their entries are
    so long that a node of Valkey and Redis has about a dozen, which `~` and LIMIT count in."""
    if m.chance(0.3):
        return lowered(m)
    key, of, group = m.key("trimmed"), m.rng.choice, f"g{m.rng.randrange(2)}"
    number, id_ = m.rng.randrange, some_id(m)
    limit, sign = ("LIMIT", of([0, 1, 12, 30, 100])), of(["~", "="])
    some = ("~", number(60), *limit) if m.chance(0.6) else (sign, number(60))
    above = ("~", id_, *limit) if m.chance(0.6) else (sign, id_)
    later = f"{number(400, 900)}-{number(3)}"
    return of([
        lambda: ("XADD", key, "MAXLEN", *some, f"{number(400)}-*", "a", LONG),
        lambda: ("XADD", key, "MINID", *above, f"{number(400)}-*", "a", LONG),
        lambda: ("XADD", key, "NOMKSTREAM", "MAXLEN", *some, id_, "a", LONG),
        lambda: ("EVAL", MANY_ENTRIES, 1, key, of([3, 20, 60]), LONG),
        lambda: ("XTRIM", key, "MAXLEN", *some), lambda: ("XTRIM", key, "MINID", *above),
        lambda: ("XSETID", key, later),
        lambda: ("XSETID", key, later, "ENTRIESADDED", number(900), "MAXDELETEDID", id_),
        lambda: group_of(m, key, group), lambda: group_of(m, key, group),
        lambda: of([("DEL", key), ("COPY", key, m.key("trimmed"), "REPLACE"),
                    ("RENAME", key, m.key("trimmed"))]) if m.chance(0.2) else ("XLEN", key),
    ])()


def lowered(m):
    """Streams whose ids go back. They are not cut by ids: Redis 7.0 tells its replicas one of an
    entry that was deleted, though lower ones have come since."""
    key, number, id_ = m.key("lowered"), m.rng.randrange, some_id(m)
    return m.rng.choice([
        lambda: ("XADD", key, "MAXLEN", "~", number(60), "LIMIT", 12, f"{number(400)}-*", "a",
                 LONG),
        lambda: ("EVAL", MANY_ENTRIES, 1, key, 20, LONG),
        lambda: ("XSETID", key, id_), lambda: ("XTRIM", key, "MAXLEN", "=", number(20)),
        lambda: ("XSETID", key, id_, "ENTRIESADDED", number(300), "MAXDELETEDID", "0-0"),
        lambda: ("XSETID", key, id_, "ENTRIESADDED", number(300), "MAXDELETEDID", id_),
        lambda: group_of(m, key, "g0"), lambda: group_of(m, key, "g1"),
        lambda: ("RENAME", key, m.key("lowered")) if m.chance(0.2) else ("XLEN", key),
    ])()


def group_of(m, key, group):
    consumer, id_, of = f"c{m.rng.randrange(3)}", some_id(m), m.rng.choice
    return of([
        lambda: ("XDEL", key, id_, some_id(m)), lambda: ("EVAL", DELETES_AN_ENTRY, 1, key),
        lambda: ("XGROUP", "CREATE", key, group, of(["0", "$", id_]), "MKSTREAM"),
        lambda: ("XGROUP", "SETID", key, group, id_),
        lambda: ("XGROUP", "SETID", key, group, id_, "ENTRIESREAD", m.rng.randrange(200)),
        lambda: ("XREADGROUP", "GROUP", group, consumer, "COUNT", 7, "STREAMS", key, ">"),
        lambda: ("XREADGROUP", "GROUP", group, consumer, "NOACK", "STREAMS", key, ">"),
        lambda: ("XACK", key, group, id_, some_id(m)),
        lambda: ("XCLAIM", key, group, consumer, 0, id_, "FORCE"),
        lambda: ("XCLAIM", key, group, consumer, 0, id_, "FORCE", "JUSTID", "LASTID", id_),
        lambda: ("XAUTOCLAIM", key, group, consumer, 0, of(["0", id_]), "COUNT", 4, "JUSTID"),
        lambda: ("XAUTOCLAIM", key, group, consumer, 0, "-"),
    ])()


def some_id(m):
    return f"{m.rng.randrange(400)}-{m.rng.randrange(3)}"


def keyspace(m):
    kind = m.rng.choice(["string", "list", "set", "hash", "zset", "stream", "bits"])
    key, other, of = m.key(kind), m.key(kind), m.rng.choice
    return of([
        lambda: ("DEL", key, other), lambda: ("UNLINK", key), lambda: ("RENAME", key, other),
        lambda: ("RENAMENX", key, other), lambda: ("COPY", key, other, "REPLACE"),
        lambda: ("COPY", key, other, "DB", m.rng.randrange(3)),
        lambda: ("MOVE", key, m.rng.randrange(3)), lambda: ("PERSIST", key),
        lambda: ("PEXPIRE", key, m.deadline_ms()), lambda: ("EXPIRE", key, FAR_S, "NX"),
        lambda: ("EXPIREAT", key, 4_000_000_000), lambda: ("PEXPIRE", key, -1),
        lambda: ("TOUCH", key),
    ])()


def our_own(m):
    """What Redis 7.0 and Valkey, or one of them, do not know."""
    member, other, of = m.word(), m.word(), m.rng.choice
    time, key, zset = m.deadline_ms(), m.key("set"), m.key("zset")
    return of([
        lambda: ("SADDEX", key, FAR_S, member, other),
        lambda: ("SADDEX", key, "KEEPTTL", FAR_S, member, m.text()),
        lambda: ("FIELDEXPIRE", key, FAR_S, member),
        lambda: ("SPEXPIREAT", key, 4_000_000_000_000 + time, "MEMBERS", 2, member, other),
        lambda: ("ZPEXPIRE", zset, time, "MEMBERS", 1, member),
        lambda: ("ZEXPIRE", zset, FAR_S, "MEMBERS", 2, member, other),
        lambda: ("ZPERSIST", zset, "MEMBERS", 1, member), lambda: ("ZCOLLECT", zset),
        lambda: ("STICK", key, m.key("list")), lambda: ("UNSTICK", key),
        lambda: ("SET", m.key("string"), m.text(), "_MCFLAGS", m.rng.randrange(99)),
        lambda: ("SET", m.key("string"), m.text(), "XX", "PX", time, "_MCFLAGS", 7),
        lambda: ("SET", m.key("string"), m.text(), "IFEQ", m.text()),
        lambda: ("DELIFEQ", m.key("string"), m.text()), lambda: ("DELEX", m.key("string")),
        lambda: ("MSETEX", 2, m.key("string"), m.text(), m.key("string"), m.text(), "PX", time),
        lambda: ("BITOP", of(["DIFF", "DIFF1", "ANDOR"]), m.key("bits"), m.key("bits"),
                 *m.keys("bits")),
        lambda: ("BITOP", "ONE", m.key("bits"), *m.keys("bits")),
        lambda: ("GEOSEARCHSTORE", m.key("geo"), m.key("geo"), "BYPOLYGON", 4, -30, -30, 40, -30,
                 40, 30, -30, 30),
        lambda: ("HSETEX", m.key("hash"), "PX", time, "FIELDS", 2, member, m.text(), other, 1),
        lambda: ("HSETEX", m.key("hash"), "KEEPTTL", "FIELDS", 1, member, m.text()),
        lambda: ("HPEXPIRE", m.key("hash"), time, "FIELDS", 2, member, other),
        lambda: ("HGETEX", m.key("hash"), "PERSIST", "FIELDS", 1, member),
        lambda: ("HGETDEL", m.key("hash"), "FIELDS", 1, member),
        lambda: ("XDELEX", m.key("stream"), "DELREF", "IDS", 1, "1-1"),
        lambda: ("XADD", m.key("stream"), "MAXLEN", "~", 40, "DELREF", "*", "a", m.text()),
    ])()


def in_a_script(command):
    return ("EVAL", "return redis.call(unpack(ARGV))", 0, *command)


def scripts(m):
    of = m.rng.choice
    return of([
        lambda: ("EVAL", SEVERAL_WRITES, 3, m.key("list"), m.key("hash"), m.key("set"), m.word(),
                 m.text()),
        lambda: ("EVAL", ENDS_IN_THE_MIDDLE, 2, m.key("string"), m.key("number"), m.text()),
        lambda: ("FCALL", "put", 2, m.key("string"), m.key("number"), m.text()),
        lambda: ("FCALL", "drop", 2, m.key("list"), m.key("set")),
        lambda: ("EVAL", "return redis.call('SPOP', KEYS[1], 2)", 1, m.key("set")),
    ])()


FAMILIES = {strings: 3, numbers: 2, bits: 1, counters: 1, lists: 3, sets: 3, hashes: 2,
            field_deadlines: 2, sorted_sets: 3, places: 1, streams: 4, trimmed: 3, keyspace: 2,
            scripts: 1}
