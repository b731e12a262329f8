#!/usr/bin/env python3
"""redis-py at work: lock, pipelines, WATCH, scripts, pub/sub thread, cache in the client, asyncio.

redis_py.py HOST:PORT. The server is emptied between the checks.
"""

import asyncio
import threading

import redis
import redis.asyncio
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection
from redis.exceptions import LockError, LockNotOwnedError, NoScriptError, ResponseError, WatchError

from checks import Checks, address, equal, raises, until

HOST, PORT = address()
checks = Checks("redis-py")


def client(**named):
    return redis.Redis(host=HOST, port=PORT, decode_responses=True, **named)


def together(count, work):
    """Runs `work(number)` in threads; the first failure is raised here."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


@checks("a lock has one owner, and only the owner releases it")
def _(r):
    mine, other = r.lock("lock", timeout=60), r.lock("lock", timeout=60)
    assert mine.acquire()
    assert not other.acquire(blocking=False)
    assert not other.acquire(blocking_timeout=0.05)
    assert mine.locked() and mine.owned() and not other.owned()
    raises(LockError, other.release)
    r.set("lock", "a thief's token")
    raises(LockNotOwnedError, mine.release)
    r.delete("lock")
    assert other.acquire(blocking=False)
    other.release()
    assert not r.exists("lock")


@checks("eight threads count to 400 under a lock, reading and writing")
def _(r):
    def work(_number):
        own = client()
        for _ in range(50):
            with own.lock("lock", timeout=60, sleep=0.001):
                own.set("count", int(own.get("count") or 0) + 1)
        own.close()

    together(8, work)
    equal(r.get("count"), "400")


@checks("a lock's time runs out, is extended, is begun anew")
def _(r):
    short = r.lock("lock", timeout=0.05)
    assert short.acquire()
    waiting = r.lock("lock", timeout=60, sleep=0.005)
    assert waiting.acquire(blocking_timeout=20)
    raises(LockNotOwnedError, short.extend, 10)
    raises(LockNotOwnedError, short.release)
    raises(LockError, short.extend, 10)
    assert waiting.extend(40) and 60_000 < r.pttl("lock") <= 100_000
    assert waiting.extend(30, replace_ttl=True) and r.pttl("lock") <= 30_000
    assert waiting.reacquire() and 30_000 < r.pttl("lock") <= 60_000
    waiting.release()
    raises(LockError, waiting.release)


@checks("pipelines: 3,000 commands, as a transaction and not, and errors in between")
def _(r):
    for transaction in (True, False):
        with r.pipeline(transaction=transaction) as pipe:
            for number in range(1_000):
                pipe.set(f"k{number}", number).incr("sum").get(f"k{number}")
            replies = pipe.execute()
        equal(len(replies), 3_000)
        equal(replies[2::3], [str(number) for number in range(1_000)])
        with r.pipeline(transaction=transaction) as pipe:
            pipe.set("text", "x").incr("text").lpush("list", "a").get("list").get("text")
            replies = pipe.execute(raise_on_error=False)
        assert isinstance(replies[1], ResponseError) and isinstance(replies[3], ResponseError)
        equal(replies[4], "x")
    equal(r.get("sum"), "2000")


@checks("WATCH: a conflict is noticed; six threads with transaction() count exactly")
def _(r):
    with r.pipeline() as pipe:
        pipe.watch("watched")
        r.set("watched", "changed")
        pipe.multi()
        pipe.set("watched", "mine")
        raises(WatchError, pipe.execute)
    equal(r.get("watched"), "changed")

    def work(_number):
        own = client()
        for _ in range(50):
            def step(pipe):
                count, other = int(pipe.get("{a}") or 0), int(pipe.get("b") or 0)
                pipe.multi()
                pipe.set("{a}", count + 1)
                pipe.set("b", other + 2)

            own.transaction(step, "{a}", "b")
        own.close()

    together(6, work)
    equal(r.mget("{a}", "b"), ["300", "600"])


@checks("scripts: registered, in pipelines, after SCRIPT FLUSH, with errors")
def _(r):
    move = r.register_script(
        """
        local moved = {}
        for i = 1, tonumber(ARGV[1]) do
            local item = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
            if not item then break end
            moved[#moved + 1] = item
        end
        return {#moved, moved, cjson.encode({left = redis.call('LLEN', KEYS[1]), first = moved[1]})}
        """
    )
    r.rpush("from", *range(10))
    count, moved, told = move(keys=["from", "to"], args=[3])
    equal((count, moved), (3, ["9", "8", "7"]))
    assert told in ('{"left":7,"first":"9"}', '{"first":"9","left":7}'), told
    r.script_flush()
    raises(NoScriptError, r.evalsha, move.sha, 2, "from", "to", 1)
    equal(move(keys=["from", "to"], args=[100])[0], 7)
    equal(r.script_exists(move.sha, "0" * 40), [True, False])
    r.script_flush()
    with r.pipeline() as pipe:
        pipe.rpush("from", 1, 2)
        move(keys=["from", "to"], args=[1], client=pipe)
        pipe.llen("to")
        pushed, (count, moved, _told), length = pipe.execute()
        equal((pushed, count, moved, length), (2, 1, ["2"], 11))
    failure = raises(ResponseError, r.eval, "return redis.call('INCR', KEYS[1])", 1, "to")
    assert "WRONGTYPE" in str(failure), failure
    equal(r.eval("return {1, 'two', false, 4}", 0), [1, "two", None, 4])


@checks("a library of functions")
def _(r):
    r.function_load(
        "#!lua name=shop\n"
        "redis.register_function('sell', function(keys, args)\n"
        "  local left = tonumber(redis.call('GET', keys[1]) or '0')\n"
        "  if left < tonumber(args[1]) then return redis.error_reply('SOLDOUT nothing left') end\n"
        "  return redis.call('DECRBY', keys[1], args[1])\n"
        "end)\n"
        "redis.register_function{function_name='left', flags={'no-writes'},\n"
        "  callback=function(keys) return redis.call('GET', keys[1]) end}\n",
        replace=True,
    )
    r.set("stock", 5)
    equal(r.fcall("sell", 1, "stock", 3), 2)
    assert "SOLDOUT" in str(raises(ResponseError, r.fcall, "sell", 1, "stock", 3))
    equal(r.fcall_ro("left", 1, "stock"), "2")
    r.function_delete("shop")
    raises(ResponseError, r.fcall, "sell", 1, "stock", 1)


@checks("a pub/sub thread hears 600 messages of three publishers in their order")
def _(r):
    heard, patterns = [], []
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe(news=lambda message: heard.append(message["data"]))
    p.psubscribe(**{"new?": lambda message: patterns.append(message["data"])})
    thread = p.run_in_thread(sleep_time=0.01, daemon=True)
    until(lambda: r.pubsub_numsub("news") == [("news", 1)] and r.pubsub_numpat() == 1,
          "both subscriptions")

    def work(number):
        own = client()
        for i in range(200):
            equal(own.publish("news", f"{number}:{i}"), 2)
        own.close()

    together(3, work)
    until(lambda: len(heard) >= 600 and len(patterns) >= 600, "600 messages")
    thread.stop()
    thread.join(10)
    p.close()
    for number in range(3):
        mine = [f"{number}:{i}" for i in range(200)]
        equal([text for text in heard if text.startswith(f"{number}:")], mine)
        equal([text for text in patterns if text.startswith(f"{number}:")], mine)
    until(lambda: r.pubsub_channels() == [], "the end of subscriptions")


@checks("shard channels")
def _(r):
    p = r.pubsub()
    p.ssubscribe("orders")
    until(lambda: p.get_message(timeout=1), "a message")
    equal(r.spublish("orders", "one"), 1)
    message = until(lambda: p.get_message(timeout=1))
    equal((message["type"], message["channel"], message["data"]), ("smessage", "orders", "one"))
    equal(r.pubsub_shardnumsub("orders"), [("orders", 1)])
    p.close()


@checks("a listener hears what happens to keys")
def _(r):
    r.config_set("notify-keyspace-events", "KEA")
    p = r.pubsub(ignore_subscribe_messages=True)
    p.psubscribe("__keyevent@0__:*")
    until(lambda: r.pubsub_numpat() == 1,
          "both subscriptions")
    r.set("k", "v", px=20)
    r.rpush("list", 1)
    r.rename("list", "other")
    heard = []

    def listen():
        message = p.get_message(timeout=0.05)
        if message:
            heard.append((message["channel"].split(":", 1)[1], message["data"]))
        return ("expired", "k") in heard

    until(listen, "the event of a key whose time is over")
    r.config_set("notify-keyspace-events", "")
    p.close()
    told = [("set", "k"), ("expire", "k"), ("rpush", "list"), ("rename_from", "list")]
    told += [("rename_to", "other"), ("expired", "k")]
    equal(sorted(heard), sorted(told))


@checks("a cache in the client is told what changed")
def _(r):
    # It asks for the server's name and for a version of Redis that no tracking needs.
    name = client(protocol=3).execute_command("HELLO", 3)["server"]
    CacheProxyConnection.DEFAULT_SERVER_NAME = name
    CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"
    cached = client(protocol=3, cache_config=CacheConfig(max_size=100))
    cache = cached.get_cache()
    r.set("k", "old")
    equal(cached.get("k"), "old")
    equal(cached.get("k"), "old")
    equal(len(cache.collection), 1)
    r.set("k", "new")
    until(lambda: cached.get("k") == "new", "the new value")
    r.flushall()
    until(lambda: cached.get("k") is None, "nothing")
    cached.close()


@checks("a group of consumers shares a stream, and what died is claimed")
def _(r):
    r.xgroup_create("jobs", "group", id="0", mkstream=True)
    for number in range(300):
        r.xadd("jobs", {"number": number})
    seen = []

    def work(number):
        own = client()
        while True:
            found = own.xreadgroup("group", f"c{number}", {"jobs": ">"}, count=7, block=200)
            if not found:
                break
            for identifier, fields in found[0][1]:
                if int(fields["number"]) % 10 == number:
                    continue  # left behind
                seen.append(int(fields["number"]))
                own.xack("jobs", "group", identifier)
        own.close()

    together(4, work)
    cursor, left = "0-0", True
    while left:
        cursor, left, _deleted = r.xautoclaim("jobs", "group", "rescue", 0, cursor, count=10)
        seen += [int(fields["number"]) for _, fields in left]
        if left:
            r.xack("jobs", "group", *(identifier for identifier, _ in left))
    equal(sorted(seen), list(range(300)))
    equal(r.xpending("jobs", "group")["pending"], 0)


@checks("asyncio: forty workers on one list, a barrier by BLPOP")
def _(r):
    async def main():
        pool = redis.asyncio.Redis(host=HOST, port=PORT, decode_responses=True, max_connections=60)
        done = []

        async def worker():
            while True:
                _, item = await pool.blpop(["work", "stop"], timeout=30)
                if item == "stop":
                    return
                done.append(int(item))

        workers = [asyncio.create_task(worker()) for _ in range(40)]
        async with pool.pipeline(transaction=False) as pipe:
            for number in range(1_000):
                pipe.rpush("work", number)
            await pipe.execute()
        await pool.rpush("stop", *["stop"] * 40)
        await asyncio.wait_for(asyncio.gather(*workers), 30)
        async with pool.lock("lock", timeout=10):
            assert not await pool.lock("lock", timeout=10).acquire(blocking=False)
        await pool.aclose()
        return done

    equal(sorted(asyncio.run(main())), list(range(1_000)))


@checks("SCAN and its kin see 5,000 keys and members once")
def _(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(5_000):
            pipe.set(f"key:{number}", number).hset("hash", number, number)
            pipe.zadd("zset", {number: number})
        pipe.execute()
    equal(len(set(r.scan_iter("key:*", count=500))), 5_000)
    equal(len(dict(r.hscan_iter("hash", count=500))), 5_000)
    equal(len(dict(r.zscan_iter("zset", count=500))), 5_000)
    equal(r.zrange("zset", 10, 12, withscores=True), [("10", 10.0), ("11", 11.0), ("12", 12.0)])


def main():
    r = client()

    def emptied(function):
        def run(*arguments):
            r.flushall()
            return function(*arguments)

        return run

    checks.checks = [(title, emptied(function)) for title, function in checks.checks]
    checks.run(r)


if __name__ == "__main__":
    main()
