#!/usr/bin/env python3
"""What programs do with pymemcache, done to the memcached port HOST:PORT (or 127.0.0.1:11211).

    python3 compat/clients/pymemcache_client.py 127.0.0.1:11211 [part of a check's name]

THE SERVER'S DATA IS LOST. Needs the package pymemcache and no test framework. Exit code 1 when a
check fails. memcached 1.6.18 passes all.
"""

import sys
import threading
import time
import traceback

from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError
from pymemcache.exceptions import MemcacheServerError

ADDRESS = ("127.0.0.1", 11211)
# A limit only for what will never come: a machine may be busy with other things.
LONGEST_S = 120
CHECKS = []


def check(function):
    """Marks a function (client) as a check."""
    CHECKS.append(function)
    return function


def connect(**options):
    return Client(ADDRESS, timeout=LONGEST_S, default_noreply=False, **options)


def equal(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


def raises(kind, function, *args, **options):
    try:
        got = function(*args, **options)
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}, got {got!r}")


def until(condition):
    """Waits until the condition holds."""
    end = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < end, f"did not come true within {LONGEST_S} seconds"
        time.sleep(0.02)


@check
def set_and_get(c):
    equal(c.get("k"), None)
    equal(c.get("k", "default"), "default")
    equal(c.set("k", "v"), True)
    equal(c.get("k"), b"v")
    equal(c.set("k", b"\x00\r\n\xff"), True)
    equal(c.get("k"), b"\x00\r\n\xff")
    equal(c.set("k", ""), True)
    equal(c.get("k"), b"")
    equal(c.delete("k"), True)
    equal(c.delete("k"), False)


@check
def add_replace_append_prepend(c):
    equal(c.replace("k", "v"), False)
    equal(c.append("k", "v"), False)
    equal(c.prepend("k", "v"), False)
    equal(c.add("k", "b"), True)
    equal(c.add("k", "x"), False)
    equal(c.append("k", "c"), True)
    equal(c.prepend("k", "a"), True)
    equal(c.get("k"), b"abc")
    equal(c.replace("k", "v"), True)
    equal(c.get("k"), b"v")


@check
def compare_and_set(c):
    c.set("k", "one")
    value, token = c.gets("k")
    equal(value, b"one")
    equal(c.cas("k", "two", token), True)
    equal(c.cas("k", "three", token), False)
    equal(c.cas("missing", "v", token), None)
    equal(c.get("k"), b"two")
    _, token = c.gets("k")
    c.append("k", "!")
    equal(c.cas("k", "x", token), False)
    equal(c.gets("missing"), (None, None))


@check
def counting(c):
    equal(c.incr("n", 1), None)
    c.set("n", "10")
    equal(c.incr("n", 5), 15)
    equal(c.decr("n", 4), 11)
    equal(c.decr("n", 100), 0)
    c.set("n", str(2**64 - 1))
    equal(c.incr("n", 1), 0)
    c.set("n", "text")
    raises(MemcacheClientError, c.incr, "n", 1)


@check
def many_at_once(c):
    values = {f"k{n}": str(n).encode() for n in range(500)}
    equal(c.set_many(values), [])
    equal(c.get_many(list(values) + ["missing"]), values)
    found = c.gets_many(["k1", "k2"])
    equal({key: value for key, (value, _) in found.items()}, {"k1": b"1", "k2": b"2"})
    equal(c.delete_many(list(values)), True)
    equal(c.get_many(list(values)), {})
    equal(c.get_many([]), {})


@check
def deadlines(c):
    c.set("k", "v", expire=1)
    equal(c.get("k"), b"v")
    until(lambda: c.get("k") is None)
    c.set("k", "v", expire=-1)
    equal(c.get("k"), None)
    c.set("k", "v", expire=int(time.time()) + 1000)
    equal(c.get("k"), b"v")
    equal(c.touch("k", -1), True)
    equal(c.get("k"), None)
    equal(c.touch("k", 10), False)


@check
def get_and_touch(c):
    # pymemcache has no method for it
    equal(c.raw_command(b"gat 100 k"), b"END")
    c.set("k", "v")
    equal(c.raw_command(b"gat 100 k", b"END\r\n"), b"VALUE k 0 1\r\nv\r\n")
    equal(c.raw_command(b"gat -1 k", b"END\r\n"), b"VALUE k 0 1\r\nv\r\n")
    equal(c.get("k"), None)


@check
def without_replies(c):
    quiet = Client(ADDRESS, timeout=LONGEST_S, default_noreply=True)
    for n in range(1000):
        quiet.set(f"k{n}", str(n))
    quiet.delete("k0")
    quiet.incr("k1", 41)
    equal(quiet.get("k0"), None)
    equal(quiet.get("k1"), b"42")
    equal(quiet.get("k999"), b"999")
    quiet.close()


@check
def flags_and_objects(c):
    objects = connect(serde=serde.pickle_serde)
    for value in ["text", "ü", b"\x00", 42, 1.5, {"a": [1, None]}, ("t",)]:
        equal(objects.set("k", value), True)
        equal(objects.get("k"), value)
    equal(objects.set_many({"a": 1, "b": "two"}), [])
    equal(objects.get_many(["a", "b"]), {"a": 1, "b": "two"})
    objects.close()


@check
def keys_that_are_allowed(c):
    longest = "k" * 250
    equal(c.set(longest, "v"), True)
    equal(c.get(longest), b"v")
    raises(MemcacheIllegalInputError, c.set, "k" * 251, "v")
    raises(MemcacheIllegalInputError, c.get, "a b")
    unicode = connect(allow_unicode_keys=True)
    equal(unicode.set("ключ", "v"), True)
    equal(unicode.get("ключ"), b"v")
    unicode.close()


@check
def large_values(c):
    for size in [1 << 10, 1 << 16, 1_000_000]:
        value = bytes(range(256)) * (size // 256)
        equal(c.set("k", value), True)
        assert c.get("k") == value, f"{size} bytes came back changed"
    raises((MemcacheServerError, MemcacheClientError), c.set, "k", b"x" * (2 << 20))
    equal(c.set("k", "v"), True)


@check
def server_commands(c):
    assert c.version()
    stats = c.stats()
    for name in [b"pid", b"uptime", b"curr_items", b"get_hits", b"cmd_get", b"version"]:
        assert name in stats, f"stats has no {name}"
    c.set("k", "v")
    equal(c.flush_all(), True)
    equal(c.get("k"), None)
    equal(c.cache_memlimit(64), True)


@check
def a_pool_serves_threads(c):
    pool = PooledClient(ADDRESS, max_pool_size=4, timeout=LONGEST_S, default_noreply=False)
    pool.set("n", "0")

    def count():
        for _ in range(100):
            pool.incr("n", 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    equal(pool.get("n"), b"400")
    pool.close()


@check
def a_hash_client(c):
    hashed = HashClient([ADDRESS], timeout=LONGEST_S, default_noreply=False)
    hashed.set_many({"a": "1", "b": "2"})
    equal(hashed.get_many(["a", "b", "c"]), {"a": b"1", "b": b"2"})
    hashed.close()


@check
def raw_lines(c):
    equal(c.raw_command(b"mn"), b"MN")
    raises(MemcacheClientError, c.raw_command, b"nosuchcommand")
    equal(c.raw_command(b"set k 0 0 1\r\nv"), b"STORED")
    equal(c.raw_command(b"mg k v", b"v\r\n"), b"VA 1\r\n")
    equal(c.raw_command(b"mg missing v"), b"EN")


def main():
    global ADDRESS
    if len(sys.argv) > 1:
        host, _, port = sys.argv[1].rpartition(":")
        ADDRESS = (host, int(port))
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    passed, failed = 0, 0
    for function in CHECKS:
        if part not in function.__name__:
            continue
        client = connect()
        try:
            client.flush_all()
            function(client)
            passed += 1
        except Exception:
            failed += 1
            print(f"--- {function.__name__}\n{traceback.format_exc(limit=-2)}")
        finally:
            client.close()
    print(f"pymemcache: {passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
