#!/usr/bin/env python3
"""What programs do with pylibmc (libmemcached), by both protocols, done to HOST:PORT.

    python3 compat/clients/pylibmc_client.py 127.0.0.1:11211

THE SERVER'S DATA IS LOST. Needs the package pylibmc. Exit code 1 when a check fails. memcached
1.6.18 passes all.
"""

import sys
import traceback

import pylibmc

CHECKS = []


def check(function):
    """Marks a function (client) as a check."""
    CHECKS.append(function)
    return function


def equal(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


@check
def values_of_all_kinds(c):
    for value in ("text", b"bytes\0\r\n", 7, 2**70, True, {"a": [1, 2]}, "x" * 100_000, b""):
        equal(c.set("k", value), True)
        equal(c.get("k"), value)


@check
def add_replace_delete(c):
    equal(c.add("k", 1), True)
    equal(c.add("k", 2), False)
    equal(c.replace("k", 3), True)
    try:
        equal(c.replace("missing", 3), False)
    except pylibmc.NotFound:
        # By the binary protocol it tells this from other reasons.
        pass
    equal(c.get("k"), 3)
    equal(c.delete("k"), True)
    equal(c.delete("k"), False)
    equal(c.get("k"), None)


@check
def append_and_prepend(c):
    c.set("k", b"b")
    equal(c.append("k", b"c"), True)
    equal(c.prepend("k", b"a"), True)
    equal(c.get("k"), b"abc")


@check
def many_at_once(c):
    items = {f"key:{number}": number for number in range(500)}
    equal(c.set_multi(items), [])
    equal(c.get_multi([*items, "missing"]), items)
    equal(c.delete_multi(list(items)), True)
    equal(c.get_multi(list(items)), {})


@check
def counting(c):
    c.set("n", 10)
    equal(c.incr("n"), 11)
    equal(c.incr("n", 5), 16)
    equal(c.decr("n", 20), 0)


@check
def cas(c):
    c.set("k", 1)
    value, unique = c.gets("k")
    equal(value, 1)
    equal(c.cas("k", 2, unique), True)
    equal(c.cas("k", 3, unique), False)
    equal(c.get("k"), 2)


@check
def time_to_live(c):
    c.set("k", 1, time=1000)
    equal(c.get("k"), 1)
    equal(c.touch("k", 2000), True)
    equal(c.touch("missing", 2000), False)
    c.set("k", 1, time=1_000_000_000)
    equal(c.get("k"), None)


@check
def figures(c):
    [(_, figures)] = c.get_stats()
    assert int(figures["pid"]) > 0
    equal(c.flush_all(), True)
    equal(c.get("k"), None)


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:11211"
    failed = 0
    for binary in (False, True):
        for function in CHECKS:
            behaviors = {"cas": True, "tcp_nodelay": True}
            client = pylibmc.Client([address], binary=binary, behaviors=behaviors)
            client.flush_all()
            try:
                function(client)
            except Exception:  # noqa: BLE001  A check may fail in any way.
                failed += 1
                print(f"FAILED {function.__name__}, binary={binary}")
                traceback.print_exc()
    print(f"pylibmc: {2 * len(CHECKS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
