"""Values and commands that are large, in a copy and in the stream."""

from contents import equal
from nodes import linked
from trial import scenario

COUNT = 100_000
MAKE = """
for n = 1, tonumber(ARGV[1]) do
    redis.call('HSET', KEYS[1], n, 'value ' .. n)
    redis.call('ZADD', KEYS[2], n % 1000, 'member ' .. n)
    redis.call('RPUSH', KEYS[3], 'entry ' .. n)
    redis.call('SADD', KEYS[4], n * 7)
    redis.call('XADD', KEYS[5], n .. '-1', 'n', n)
end"""
KEYS = ("hash", "zset", "list", "set", "stream")


@scenario(long=True)
def large_values(trial):
    """Collections of a hundred thousand and strings of many megabytes reach a replica either way,
    and are changed there while others write."""
    primary, replica = trial.node(0), trial.node(1)
    with primary.client() as client:
        client.call("EVAL", MAKE, 5, *(f"copied:{key}" for key in KEYS), COUNT)
        client.want(b"OK", "SET", "copied:text", b"0123456789" * 3_000_000)
    with trial.writers(primary) as writers:
        replica.follow(primary.address)
        linked(replica)
        with primary.client() as client:
            client.call("EVAL", MAKE, 5, *(f"sent:{key}" for key in KEYS), COUNT // 5)
            client.want(b"OK", "SET", "sent:text", b"9876543210" * 2_000_000)
            client.want(30_000_006, "APPEND", "copied:text", "at end")
            client.want(COUNT, "ZUNIONSTORE", "sent:union", 1, "copied:zset")
            client.call("SPOP", "copied:set", 9)
            client.want(2, "DEL", "copied:hash", "sent:list")
        writers.wait_for(500).end()
    equal(primary, replica)


@scenario()
def long_commands(trial):
    """Commands of many arguments, of large ones and in long pipelines pass as they are."""
    primary, replica = trial.pair()
    with primary.client() as client:
        client.want(20_000, "RPUSH", "list", *range(20_000))
        client.want(b"OK", "MSET", *(text for n in range(5_000) for text in (f"k{n}", n)))
        client.want(b"OK", "SET", "text", b"x" * 3_000_000)
        client.want(3_000_003, "APPEND", "text", "end")
        client.want(b"OK", "MULTI")
        for number in range(3_000):
            client.want(b"QUEUED", "INCR", f"n{number % 100}")
        assert len(client.call("EXEC")) == 3_000
        client.want(4_000, "DEL", *(f"k{number}" for number in range(4_000)))
    assert equal(primary, replica) == 1_102
