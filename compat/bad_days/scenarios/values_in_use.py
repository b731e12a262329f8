"""Commands that use a value `k` of each type in every way: for those made from damage."""

USES = {
    b"string": """GET k|APPEND k x|SETRANGE k 3 zz|PFCOUNT k|PFADD k a b|PFMERGE k2 k
        PFDEBUG GETREG k|PFDEBUG DECODE k|PFDEBUG TODENSE k|INCR k|BITCOUNT k
        BITFIELD k INCRBY u8 100 1|BITPOS k 1|GETRANGE k 0 -1|SETBIT k 100 1|BITOP NOT k2 k
        LCS k k2 LEN""",
    b"hash": """HGETALL k|HLEN k|HRANDFIELD k -5 WITHVALUES|HRANDFIELD k 50|HSET k f3 new nf v
        HKEYS k|HDEL k f3 f0 a|HSCAN k 0|HINCRBY k f1 1|HTTL k FIELDS 2 f1 a
        HPERSIST k FIELDS 1 f1|HPEXPIRE k 100000 FIELDS 2 f1 f2|HGETEX k FIELDS 1 f2
        HGETDEL k FIELDS 1 f2|HSTRLEN k f1""",
    b"set": """SMEMBERS k|SCARD k|SRANDMEMBER k -9|SRANDMEMBER k 9|SADD k 5 m1 new|SREM k m1 3
        SPOP k 2|SSCAN k 0|SISMEMBER k m2|SUNIONSTORE k2 k k|SINTER k k2|SDIFF k k2
        SMOVE k k2 m3|SORT k ALPHA""",
    b"zset": """ZRANGE k 0 -1 WITHSCORES|ZCARD k|ZADD k 3 m1 4 new|ZINCRBY k 5 m2|ZRANK k m3
        ZREVRANK k m3|ZCOUNT k -inf +inf|ZLEXCOUNT k - +|ZRANDMEMBER k -9 WITHSCORES
        ZRANDMEMBER k 30|ZRANGEBYSCORE k 1 5|ZREM k m1|ZPOPMIN k|ZPOPMAX k|ZSCAN k 0
        ZUNIONSTORE k2 2 k k|GEOSEARCH k FROMLONLAT 13 38 BYRADIUS 100 km
        ZREMRANGEBYRANK k 0 0|ZREMRANGEBYSCORE k 2 3|ZMSCORE k m1 a""",
    b"list": """LRANGE k 0 -1|LLEN k|LPOS k 3|LINDEX k -1|LINDEX k 5|LSET k 0 q
        LINSERT k BEFORE 5 new|LREM k 0 7|LPUSH k a|RPUSH k b|LPOP k 2|RPOP k 2|LTRIM k 1 -2
        LMOVE k k2 LEFT RIGHT|SORT k ALPHA""",
    b"stream": """XRANGE k - +|XREVRANGE k + -|XLEN k|XINFO STREAM k FULL|XINFO STREAM k
        XINFO GROUPS k|XINFO CONSUMERS k g|XPENDING k g|XPENDING k g - + 10
        XPENDING k g IDLE 1 - + 10 c1|XREADGROUP GROUP g c1 STREAMS k >
        XREADGROUP GROUP g c2 STREAMS k 0|XAUTOCLAIM k g c3 0 0|XCLAIM k g c4 0 4-3 5-4 FORCE
        XACK k g 4-3|XADD k * n v|XADD k MAXLEN 5 * n v|XDEL k 4-3 20-1
        XDELEX k DELREF IDS 1 5-4|XACKDEL k g ACKED IDS 1 6-5|XTRIM k MAXLEN 2
        XGROUP DELCONSUMER k g c1|XGROUP SETID k g 0|XGROUP DESTROY k g
        XSETID k 99999999999999-1""",
}
USES = {kind: [part.strip() for line in text.splitlines() for part in line.split("|")]
        for kind, text in USES.items()}
COMMON = ["DUMP k", "OBJECT ENCODING k", "MEMORY USAGE k", "COPY k k3 REPLACE",
          "DEBUG DIGEST-VALUE k", "UNLINK k", "DEL k2 k3"]
