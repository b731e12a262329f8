#!/usr/bin/env python3
"""What programs do with redis-py, done to the server at HOST:PORT (default 127.0.0.1:6379).

    python3 compat/clients/redis_py.py 127.0.0.1:6379 [part of a check's name]

Where $TLS_CERTIFICATES names a directory with ca.crt, client.crt and client.key, over TLS.
Every check runs in RESP2 and RESP3 on an emptied server: THE SERVER'S DATA IS LOST. Needs the
package redis and no test framework. Exit code 1 when a check fails; a check that needs a command
which the server does not know is counted as left out and does not fail.
"""

import datetime
import os
import sys
import threading
import time
import traceback

import redis
from redis.backoff import NoBackoff
from redis.cache import CacheConfig
from redis.exceptions import ConnectionError, DataError, NoScriptError
from redis.exceptions import ResponseError, TimeoutError, WatchError
from redis.retry import Retry

HOST, PORT = "127.0.0.1", 6379
# A limit only for what will never come: a machine may be busy with other things.
LONGEST_S = 120
CHECKS = []


def tls_options():
    """What a connection with TLS takes beside `ssl`; empty where none is wanted."""
    files = os.environ.get("TLS_CERTIFICATES")
    return files and {
        "ssl_ca_certs": f"{files}/ca.crt",
        "ssl_certfile": f"{files}/client.crt",
        "ssl_keyfile": f"{files}/client.key",
    }


TLS = tls_options() or {}


def check(function):
    """Marks a function (client, protocol) as a check."""
    CHECKS.append(function)
    return function


def connect(protocol, **options):
    options.setdefault("socket_timeout", LONGEST_S)
    if TLS:
        options |= {"ssl": True, **TLS}
    return redis.Redis(host=HOST, port=PORT, protocol=protocol, **options)


def equal(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


def raises(kind, text, function, *args, **options):
    try:
        got = function(*args, **options)
    except kind as error:
        assert text in str(error), f"expected {text!r} in {error!r}"
        return
    raise AssertionError(f"expected {kind.__name__} {text!r}, got {got!r}")


def until(condition):
    """Waits until the condition holds."""
    end = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < end, f"did not come true within {LONGEST_S} seconds"
        time.sleep(0.005)


# --- connections -----------------------------------------------------------------------------


@check
def ping_and_echo(r, protocol):
    equal(r.ping(), True)
    equal(r.echo("hello"), b"hello")
    equal(r.echo(b"\x00\xff\r\n"), b"\x00\xff\r\n")
    equal(r.execute_command("ECHO", ""), b"")


@check
def the_client_tells_its_library(r, protocol):
    info = r.client_info()
    equal(info["lib-name"].startswith("redis-py"), True)
    equal(info["lib-ver"], redis.__version__)
    equal(info["resp"], str(protocol))


@check
def names(r, protocol):
    equal(r.client_getname(), None)
    equal(r.client_setname("worker-1"), True)
    assert r.client_getname() in ("worker-1", b"worker-1")
    raises(ResponseError, "Client names cannot contain", r.client_setname, "a b")
    named = connect(protocol, client_name="named")
    equal(named.client_info()["name"], "named")
    found = [client for client in r.client_list() if client["name"] == "named"]
    equal(len(found), 1)
    equal(r.client_list(client_id=[found[0]["id"]])[0]["name"], "named")
    named.close()


@check
def ids_and_kill(r, protocol):
    with connect(protocol, single_connection_client=True, retry=Retry(NoBackoff(), 0)) as other:
        number = other.client_id()
        assert number > 0
        equal(r.client_kill_filter(_id=number), 1)
        raises(ConnectionError, "", other.ping)
    equal(r.client_kill_filter(_id=number), 0)
    raises(ResponseError, "No such client", r.client_kill, "127.0.0.1:1")


@check
def databases(r, protocol):
    r.set("k", "zero")
    with connect(protocol, db=1) as one:
        equal(one.get("k"), None)
        one.set("k", "one")
        equal(one.dbsize(), 1)
        equal(one.swapdb(0, 1), True)
        equal(one.get("k"), b"zero")
    equal(r.get("k"), b"one")
    raises(ResponseError, "out of range", connect(protocol, db=99).ping)


@check
def a_pool_serves_threads(r, protocol):
    limits = {"max_connections": 4, "timeout": LONGEST_S, **TLS}
    if TLS:
        limits["connection_class"] = redis.SSLConnection
    pool = redis.BlockingConnectionPool(host=HOST, port=PORT, protocol=protocol, **limits)
    client = redis.Redis(connection_pool=pool)

    def count():
        for _ in range(100):
            client.incr("n")

    threads = [threading.Thread(target=count) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    equal(client.get("n"), b"800")
    pool.disconnect()
    equal(client.get("n"), b"800")
    pool.disconnect()


@check
def an_address_as_url(r, protocol):
    scheme = "rediss" if TLS else "redis"
    url = f"{scheme}://{HOST}:{PORT}/2?protocol={protocol}&decode_responses=True"
    client = redis.from_url(url, **TLS)
    client.set("k", "v")
    equal(client.get("k"), "v")
    equal(client.connection_pool.connection_kwargs["db"], 2)
    client.close()


@check
def a_lost_connection_is_opened_again(r, protocol):
    client = connect(protocol, retry=Retry(NoBackoff(), 1), retry_on_error=[ConnectionError])
    number = client.client_id()
    equal(r.client_kill_filter(_id=number), 1)
    equal(client.ping(), True)
    assert client.client_id() != number
    client.close()


@check
def health_checks(r, protocol):
    client = connect(protocol, health_check_interval=1, single_connection_client=True)
    equal(client.set("k", "v"), True)
    client.connection.next_health_check = 1
    equal(client.get("k"), b"v")
    assert client.connection.next_health_check > 1
    client.close()


@check
def a_timeout_is_an_error(r, protocol):
    client = connect(protocol, socket_timeout=0.05, retry=Retry(NoBackoff(), 0))
    client.ping()
    r.execute_command("CLIENT", "PAUSE", "300", "ALL")
    raises(TimeoutError, "", client.ping)
    until(lambda: client_answers(client))
    client.close()


def client_answers(client):
    try:
        return client.ping()
    except TimeoutError:
        return False


# --- strings ---------------------------------------------------------------------------------


@check
def set_and_get(r, protocol):
    equal(r.get("k"), None)
    equal(r.set("k", "v"), True)
    equal(r.get("k"), b"v")
    equal(r["k"], b"v")
    r["k"] = "w"
    equal("k" in r, True)
    del r["k"]
    raises(KeyError, "k", lambda: r["k"])
    equal(r.set("n", 5), True)
    equal(r.set("f", 1.5), True)
    equal(r.mget("n", "f"), [b"5", b"1.5"])
    raises(DataError, "Invalid input of type", r.set, "k", None)


@check
def set_options(r, protocol):
    equal(r.set("k", "v", nx=True), True)
    equal(r.set("k", "w", nx=True), None)
    equal(r.set("missing", "w", xx=True), None)
    equal(r.set("k", "w", xx=True), True)
    equal(r.set("k", "x", get=True), b"w")
    equal(r.set("k", "x", ex=100), True)
    assert 0 <= r.ttl("k") <= 100
    equal(r.set("k", "y", keepttl=True), True)
    assert 0 <= r.ttl("k") <= 100
    equal(r.set("k", "y", px=100_000), True)
    assert 0 <= r.pttl("k") <= 100_000
    equal(r.set("k", "y", exat=33_177_117_420), True)
    equal(r.expiretime("k"), 33_177_117_420)
    equal(r.set("k", "y", pxat=33_177_117_420_123), True)
    equal(r.pexpiretime("k"), 33_177_117_420_123)
    equal(r.set("k", "y", ex=datetime.timedelta(minutes=1)), True)
    raises(ResponseError, "invalid expire time in 'set' command", r.set, "k", "v", ex=0)


@check
def other_string_commands(r, protocol):
    equal(r.mset({"a": 1, "b": "two", "c": b"\x00"}), True)
    equal(r.mget(["a", "b", "missing", "c"]), [b"1", b"two", None, b"\x00"])
    equal(r.msetnx({"c": 1, "d": 2}), False)
    equal(r.setnx("d", 1), True)
    equal(r.setex("e", 100, "v"), True)
    equal(r.psetex("e", 100_000, "v"), True)
    equal(r.getset("a", 2), b"1")
    equal(r.getdel("a"), b"2")
    equal(r.getdel("a"), None)
    equal(r.getex("b", ex=100), b"two")
    assert r.ttl("b") > 0
    equal(r.getex("b", persist=True), b"two")
    equal(r.ttl("b"), -1)
    equal(r.append("b", "!"), 4)
    equal(r.strlen("b"), 4)
    equal(r.getrange("b", 0, 1), b"tw")
    equal(r.substr("b", -2, -1), b"o!")
    equal(r.setrange("b", 6, "x"), 7)
    equal(r.get("b"), b"two!\x00\x00x")
    r.mset({"x": "ohmytext", "y": "mynewtext"})
    equal(r.lcs("x", "y"), b"mytext")
    equal(r.lcs("x", "y", len=True), 6)


@check
def counting(r, protocol):
    equal(r.incr("n"), 1)
    equal(r.incr("n", 5), 6)
    equal(r.incrby("n", -2), 4)
    equal(r.decr("n"), 3)
    equal(r.decrby("n", 10), -7)
    equal(r.incrbyfloat("f", 0.1), 0.1)
    equal(r.incrbyfloat("f", "0.2"), 0.3)
    r.set("n", 2**63 - 1)
    raises(ResponseError, "increment or decrement would overflow", r.incr, "n")
    r.set("n", "text")
    raises(ResponseError, "value is not an integer or out of range", r.incr, "n")


@check
def any_text(r, protocol):
    for text in ["", "ü", "日本語", "🦀", "a\u0000b", "\r\n", "x" * 1000]:
        equal(r.set(text, text), True)
        equal(r.get(text), text.encode())
    equal(sorted(r.keys("日*")), ["日本語".encode()])
    latin = connect(protocol, encoding="latin-1", decode_responses=True)
    latin.set("l", "ü")
    equal(r.get("l"), b"\xfc")
    equal(latin.get("l"), "ü")
    latin.close()


@check
def decoded_replies(r, protocol):
    client = connect(protocol, decode_responses=True)
    client.set("k", "ü")
    equal(client.get("k"), "ü")
    equal(client.mget("k", "missing"), ["ü", None])
    equal(client.keys(), ["k"])
    equal(list(client.scan_iter()), ["k"])
    equal(client.type("k"), "string")
    equal(client.config_get("timeout"), {"timeout": "0"})
    r.set("broken", b"\xff")
    raises(UnicodeDecodeError, "", client.get, "broken")
    equal(client.get("k"), "ü")
    client.close()


@check
def large_values(r, protocol):
    for size in [1 << 16, 1 << 20, (1 << 24) + 1]:
        value = bytes(range(256)) * (size // 256) + b"!"
        equal(r.set("k", value), True)
        equal(r.strlen("k"), len(value))
        assert r.get("k") == value, f"{size} bytes came back changed"
    equal(r.getrange("k", -2, -1), b"\xff!")


# --- keys ------------------------------------------------------------------------------------


@check
def keys_and_types(r, protocol):
    r.mset({"a": 1, "b": 2, "c": 3})
    equal(r.exists("a", "b", "x", "a"), 3)
    equal(r.delete("a", "x"), 1)
    equal(r.unlink("b"), 1)
    equal(r.type("c"), b"string")
    equal(r.type("x"), b"none")
    equal(r.keys(), [b"c"])
    equal(r.randomkey(), b"c")
    equal(r.rename("c", "d"), True)
    equal(r.renamenx("d", "e"), True)
    equal(r.copy("e", "f"), True)
    equal(r.copy("e", "f"), False)
    equal(r.copy("e", "f", replace=True), True)
    equal(r.touch("e", "f", "x"), 2)
    equal(r.move("e", 1), True)
    equal(r.dbsize(), 1)
    equal(r.object("ENCODING", "f"), b"int")
    raises(ResponseError, "no such key", r.rename, "x", "y")


@check
def scanning(r, protocol):
    r.mset({f"key:{n}": n for n in range(1000)})
    r.mset({f"other:{n}": n for n in range(1000)})
    equal(sorted(r.scan_iter("key:*")), sorted(f"key:{n}".encode() for n in range(1000)))
    equal(len(set(r.scan_iter(count=7))), 2000)
    equal(len(set(r.scan_iter("*:1?", count=1000))), 20)
    equal(len(list(r.scan_iter("nothing"))), 0)
    cursor, seen = 0, []
    while True:
        cursor, keys = r.scan(cursor, match="key:9*", count=50)
        seen += keys
        if cursor == 0:
            break
    equal(len(set(seen)), 111)
    equal(len(set(r.scan_iter(_type="STRING", count=100))), 2000)


@check
def a_scan_sees_what_stays_while_keys_come_and_go(r, protocol):
    r.mset({f"stay:{n}": n for n in range(500)})
    seen = set()
    for at, key in enumerate(r.scan_iter(count=10)):
        seen.add(key)
        r.set(f"new:{at}", 1)
        r.delete(f"new:{at - 3}")
        if at > 20_000:
            raise AssertionError("the scan does not end")
    missing = {f"stay:{n}".encode() for n in range(500)} - seen
    equal(missing, set())


@check
def deadlines(r, protocol):
    r.set("k", "v")
    equal(r.ttl("k"), -1)
    equal(r.ttl("x"), -2)
    equal(r.expire("k", 1000), True)
    equal(r.expire("x", 1000), False)
    assert 1000 - LONGEST_S <= r.ttl("k") <= 1000
    equal(r.expire("k", datetime.timedelta(hours=1)), True)
    assert 3600 - LONGEST_S <= r.ttl("k") <= 3600
    equal(r.expire("k", 1000, nx=True), False)
    equal(r.expire("k", 1000, gt=True), False)
    equal(r.expire("k", 1000, lt=True), True)
    equal(r.persist("k"), True)
    equal(r.persist("k"), False)
    moment = datetime.datetime.now() + datetime.timedelta(days=1)
    equal(r.expireat("k", moment), True)
    equal(r.expiretime("k"), int(moment.timestamp()))
    equal(r.pexpireat("k", 33_177_117_420_123), True)
    equal(r.pexpiretime("k"), 33_177_117_420_123)
    equal(r.pexpire("k", 1), True)
    until(lambda: r.get("k") is None)
    equal(r.exists("k"), 0)


@check
def deadlines_pass_without_being_looked_at(r, protocol):
    for n in range(200):
        r.set(f"k{n}", "v", px=20)
    until(lambda: r.dbsize() == 0)


# --- pipelines and errors --------------------------------------------------------------------


@check
def pipelines(r, protocol):
    with r.pipeline(transaction=False) as pipe:
        pipe.set("a", 1).incr("a").get("a").get("missing").mget("a", "missing")
        equal(pipe.execute(), [True, 2, b"2", None, [b"2", None]])
        for n in range(10_000):
            pipe.set(f"k{n}", n)
        equal(pipe.execute(), [True] * 10_000)
        for n in range(10_000):
            pipe.get(f"k{n}")
        equal(pipe.execute(), [str(n).encode() for n in range(10_000)])


@check
def errors_in_a_pipeline(r, protocol):
    with r.pipeline(transaction=False) as pipe:
        pipe.set("k", "text").incr("k").get("k")
        raises(ResponseError, "of pipeline caused error: value is not an integer", pipe.execute)
        pipe.set("k", "text").incr("k").get("k")
        got = pipe.execute(raise_on_error=False)
        equal((got[0], type(got[1]), got[2]), (True, ResponseError, b"text"))


@check
def transactions(r, protocol):
    with r.pipeline() as pipe:
        pipe.set("a", 1).incr("a").get("a")
        equal(pipe.execute(), [True, 2, b"2"])
        pipe.watch("a")
        r.set("a", 100)
        pipe.multi()
        pipe.set("a", 3)
        raises(WatchError, "Watched variable changed", pipe.execute)
    equal(r.get("a"), b"100")

    def double(pipe):
        value = int(pipe.get("a"))
        pipe.multi()
        pipe.set("a", value * 2)

    equal(r.transaction(double, "a"), [True])
    equal(r.get("a"), b"200")


@check
def errors(r, protocol):
    raises(ResponseError, "unknown command 'NOSUCH'", r.execute_command, "NOSUCH", "a")
    raises(ResponseError, "wrong number of arguments for 'get' command", r.execute_command, "GET")
    raises(ResponseError, "syntax error", r.execute_command, "SET", "a", "b", "FOO")
    equal(r.ping(), True)


@check
def wrong_types(r, protocol):
    r.rpush("l", "a")
    raises(ResponseError, "Operation against a key holding the wrong kind of value", r.get, "l")
    raises(ResponseError, "WRONGTYPE", r.incr, "l")


# --- server ----------------------------------------------------------------------------------


@check
def info(r, protocol):
    everything = r.info()
    for name in ["redis_version", "uptime_in_seconds", "connected_clients", "used_memory", "role"]:
        assert name in everything, f"INFO has no {name}"
    equal(isinstance(everything["used_memory"], int), True)
    equal(everything["role"], "master")
    r.mset({"a": 1, "b": 2})
    r.expire("a", 100)
    keyspace = r.info("keyspace")["db0"]
    equal((keyspace["keys"], keyspace["expires"]), (2, 1))
    equal("redis_version" in r.info("server"), True)
    equal("used_memory" in r.info("server"), False)
    version = everything["redis_version"].split(".")
    assert int(version[0]) >= 7, version


@check
def config(r, protocol):
    equal(r.config_get("maxmemory"), {"maxmemory": "0"})
    equal(set(r.config_get("maxmemory", "timeout")), {"maxmemory", "timeout"})
    assert len(r.config_get()) > 50
    equal(r.config_set("timeout", 100), True)
    equal(r.config_get("timeout"), {"timeout": "100"})
    equal(r.config_set("timeout", 0), True)
    raises(ResponseError, "Unknown option", r.config_set, "nosuch", 1)
    equal(r.config_resetstat(), True)


@check
def clocks_and_logs(r, protocol):
    seconds, microseconds = r.time()
    assert abs(seconds - time.time()) < LONGEST_S and 0 <= microseconds < 1_000_000
    assert isinstance(r.lastsave(), datetime.datetime)
    r.config_set("slowlog-log-slower-than", 0)
    r.slowlog_reset()
    r.set("k", "v")
    r.config_set("slowlog-log-slower-than", 10_000)
    assert b"SET k v" in [entry["command"] for entry in r.slowlog_get(10)]
    assert r.slowlog_len() >= 1
    equal(r.slowlog_reset(), True)


@check
def commands(r, protocol):
    assert r.command_count() > 50
    table = r.command()
    get = table["get"] if isinstance(table, dict) else next(c for c in table if c["name"] == "get")
    equal(get["arity"], 2)
    texts = lambda names: [name.decode() if isinstance(name, bytes) else name for name in names]
    equal(texts(r.command_getkeys("MSET", "a", 1, "b", 2)), ["a", "b"])
    assert "get" in texts(r.command_list())


@check
def flushing(r, protocol):
    r.set("a", 1)
    equal(r.flushdb(), True)
    equal(r.dbsize(), 0)
    r.set("a", 1)
    equal(r.flushall(asynchronous=True), True)
    equal(r.dbsize(), 0)


@check
def memory(r, protocol):
    r.set("k", "x" * 1000)
    assert 1000 <= r.memory_usage("k") <= 2500
    equal(r.memory_usage("missing"), None)
    assert "total.allocated" in r.memory_stats()


@check
def monitoring(r, protocol):
    with r.monitor() as monitor:
        r.set("k", "ü v")
        for entry in monitor.listen():
            if entry["command"].startswith("SET"):
                equal(entry["db"], 0)
                assert entry["command"].startswith("SET k "), entry
                break


# --- other families --------------------------------------------------------------------------


@check
def collections(r, protocol):
    equal(r.rpush("l", 1, 2, 3), 3)
    equal(r.lrange("l", 0, -1), [b"1", b"2", b"3"])
    equal(r.blpop(["none", "l"], timeout=1)[1], b"1")
    equal(r.hset("h", mapping={"f": 1, "g": "two"}), 2)
    equal(r.hgetall("h"), {b"f": b"1", b"g": b"two"})
    equal(r.sadd("s", "a", "b"), 2)
    equal(r.smembers("s"), {b"a", b"b"})
    equal(r.zadd("z", {"a": 1.5, "b": 2}), 2)
    equal(r.zscore("z", "a"), 1.5)
    # redis-py gives pairs as lists in RESP3
    pairs = r.zrange("z", 0, -1, withscores=True)
    equal([tuple(pair) for pair in pairs], [(b"a", 1.5), (b"b", 2.0)])
    equal(r.xadd("x", {"f": "v"}, id="1-1"), b"1-1")
    equal(r.xrange("x"), [(b"1-1", {b"f": b"v"})])


@check
def publishing(r, protocol):
    # the default handler of RESP3 prints every message
    quiet = {"push_handler_func": lambda message: message} if protocol == 3 else {}
    subscriber = r.pubsub(ignore_subscribe_messages=True, **quiet)
    subscriber.subscribe("ch")
    subscriber.psubscribe("p*")
    until(lambda: r.pubsub_numsub("ch") == [(b"ch", 1)] or r.pubsub_numsub("ch") == {b"ch": 1})
    equal(r.publish("ch", "hello"), 1)
    equal(r.publish("pattern", "ü"), 1)
    got = []

    def both_came():
        message = subscriber.get_message(timeout=0.1)
        got.extend([message["data"]] if message else [])
        return len(got) == 2

    until(both_came)
    equal(got, [b"hello", "ü".encode()])
    subscriber.close()


def messages_of(subscriber, count):
    """The next messages, confirmations too."""
    got = []

    def all_came():
        message = subscriber.get_message(timeout=0.1)
        got.extend([message] if message else [])
        return len(got) == count

    until(all_came)
    return [(one["type"], one["pattern"], one["channel"], one["data"]) for one in got]


@check
def subscriptions(r, protocol):
    quiet = {"push_handler_func": lambda message: message} if protocol == 3 else {}
    subscriber = r.pubsub(**quiet)
    subscriber.subscribe("a", "b")
    subscriber.psubscribe("a*")
    subscriber.ssubscribe("s")
    expected = [("subscribe", None, b"a", 1), ("subscribe", None, b"b", 2)]
    expected += [("psubscribe", None, b"a*", 3), ("ssubscribe", None, b"s", 1)]
    equal(messages_of(subscriber, 4), expected)
    equal(r.publish("a", b"\x00\r\n"), 2)
    expected = [("message", None, b"a", b"\x00\r\n"), ("pmessage", b"a*", b"a", b"\x00\r\n")]
    equal(messages_of(subscriber, 2), expected)
    equal(r.execute_command("SPUBLISH", "s", "x"), 1)
    until(lambda: subscriber.get_sharded_message(timeout=0.1) is not None)
    subscriber.ping()
    until(lambda: subscriber.get_message(timeout=0.1) is not None)
    with r.pipeline() as pipe:
        equal(pipe.publish("b", 1).set("k", "v").publish("b", 2).execute(), [1, True, 1])
    expected = [("message", None, b"b", b"1"), ("message", None, b"b", b"2")]
    equal(messages_of(subscriber, 2), expected)
    equal(sorted(r.pubsub_channels()), [b"a", b"b"])
    equal(r.pubsub_numpat(), 1)
    subscriber.unsubscribe()
    subscriber.punsubscribe()
    subscriber.sunsubscribe()
    equal(sorted(left for *_, left in messages_of(subscriber, 4)), [0, 0, 1, 2])
    equal(r.publish("a", "x"), 0)
    subscriber.close()


@check
def many_subscribers(r, protocol):
    heard, lock = [], threading.Lock()

    def hear(message):
        with lock:
            heard.append(message["data"])

    quiet = {"push_handler_func": lambda message: message} if protocol == 3 else {}
    subscribers = [r.pubsub(ignore_subscribe_messages=True, **quiet) for _ in range(10)]
    for subscriber in subscribers:
        subscriber.subscribe(**{"ch": hear})
    threads = [subscriber.run_in_thread(sleep_time=0.05) for subscriber in subscribers]
    until(lambda: dict(r.pubsub_numsub("ch"))[b"ch"] == 10)
    for number in range(100):
        equal(r.publish("ch", number), 10)
    until(lambda: len(heard) == 1000)
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join()


def caching(most):
    """A client that caches. redis-py asks for a server that says it is Redis 7.4 or later."""
    return connect(3, cache_config=CacheConfig(max_size=most))


def counted(client, method, *args):
    """What a call answers, and how many commands it sent: a separate client asks the server."""
    before = client.calls()
    answer = getattr(client.cached, method)(*args)
    return answer, client.calls() - before


class Cached:
    """A client that keeps what it has read until the server says that it has changed."""

    # What the server counts of these commands, whatever they ask for.
    COMMANDS = ["get", "mget", "hgetall", "lrange"]

    def __init__(self, r):
        self.r, self.cached = r, caching(100)

    def calls(self):
        statistics = self.r.info("commandstats")
        return sum(statistics.get(f"cmdstat_{name}", {}).get("calls", 0) for name in self.COMMANDS)


@check
def client_side_caching(r, protocol):
    # A copy may be given up once in vain: what is asked for right behind a change.
    client = Cached(r)
    equal(counted(client, "get", "k"), (None, 1))
    r.set("k", 1)
    until(lambda: client.cached.get("k") == b"1")
    until(lambda: counted(client, "get", "k") == (b"1", 0))
    # What another changes, and what it changes itself.
    r.set("k", 2)
    until(lambda: client.cached.get("k") == b"2")
    client.cached.set("k", 3)
    equal(client.cached.get("k"), b"3")
    until(lambda: counted(client, "get", "k") == (b"3", 0))
    r.mset({"a": 1, "b": 2})
    equal(counted(client, "mget", "a", "b"), ([b"1", b"2"], 1))
    until(lambda: counted(client, "mget", "a", "b") == ([b"1", b"2"], 0))
    r.rename("a", "b")
    until(lambda: client.cached.mget("a", "b") == [None, b"1"])
    r.hset("h", "f", "v")
    equal(counted(client, "hgetall", "h"), ({b"f": b"v"}, 1))
    until(lambda: counted(client, "hgetall", "h") == ({b"f": b"v"}, 0))
    r.hexpire("h", 0, "f")
    until(lambda: client.cached.hgetall("h") == {})
    r.set("k", 4, px=200)
    until(lambda: client.cached.get("k") == b"4")
    until(lambda: client.cached.get("k") is None)
    r.rpush("l", "x")
    equal(client.cached.lrange("l", 0, -1), [b"x"])
    r.flushall()
    until(lambda: client.cached.lrange("l", 0, -1) == [])
    client.cached.close()


@check
def a_cache_is_never_stale_for_long(r, protocol):
    """Many write, many keep copies: in the end every copy is that of the server."""
    caches = [caching(1000) for _ in range(4)]
    names = [f"k{number}" for number in range(20)]

    def write(seed):
        writer = connect(protocol)
        for number in range(100):
            writer.set(names[(number * seed) % len(names)], f"{seed}-{number}")
        writer.close()

    def read(cache):
        for number in range(200):
            cache.get(names[number % len(names)])

    threads = [threading.Thread(target=write, args=[seed]) for seed in [3, 7, 11]]
    threads += [threading.Thread(target=read, args=[cache]) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cache in caches:
        until(lambda: [cache.get(name) for name in names] == r.mget(names))
        cache.close()


@check
def scripts(r, protocol):
    equal(r.eval("return redis.call('SET', KEYS[1], ARGV[1])", 1, "k", "v"), b"OK")
    script = r.register_script("return {KEYS[1], redis.call('GET', KEYS[1])}")
    equal(script(keys=["k"]), [b"k", b"v"])
    raises(NoScriptError, "No matching script", r.evalsha, "0" * 40, 0)
    with r.lock("lock", timeout=LONGEST_S):
        equal(r.exists("lock"), 1)
    equal(r.exists("lock"), 0)


def run(function, protocol):
    """None when it passed, "" when the server lacks a command, else what went wrong."""
    client = connect(protocol)
    try:
        client.flushall()
        function(client, protocol)
        return None
    except ResponseError as error:
        lacking = "unknown command" in str(error) or "unknown subcommand" in str(error)
        return "" if lacking and "NOSUCH" not in str(error) else traceback.format_exc(limit=-2)
    except Exception:
        return traceback.format_exc(limit=-2)
    finally:
        client.close()


def main():
    global HOST, PORT
    if len(sys.argv) > 1:
        HOST, _, port = sys.argv[1].rpartition(":")
        PORT = int(port)
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    passed, failed, lacking = 0, 0, []
    for function in CHECKS:
        if part not in function.__name__:
            continue
        for protocol in [2, 3]:
            trouble = run(function, protocol)
            if trouble is None:
                passed += 1
            elif trouble == "":
                lacking.append(f"{function.__name__} (RESP{protocol})")
            else:
                failed += 1
                print(f"--- {function.__name__} in RESP{protocol}\n{trouble}")
    for name in lacking:
        print(f"left out, the server lacks a command: {name}")
    left_out = f"{len(lacking)} left out"
    print(f"redis-py {redis.__version__}: {passed} passed, {failed} failed, {left_out}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
