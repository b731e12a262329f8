"""What RQ's workers run."""

import os
import time

from rq import get_current_job


def add(a, b):
    return a + b


def total():
    """The sum of what the jobs before it returned."""
    job = get_current_job()
    return sum(dependency.return_value() for dependency in job.fetch_dependencies())


def fail(text="on purpose"):
    raise ValueError(text)


def fail_until(times):
    """Fails the first `times` times it is tried."""
    job = get_current_job()
    tried = job.connection.incr(f"tried:{job.id}")
    if tried <= times:
        raise ValueError(f"try {tried}")
    return tried


def note(text):
    get_current_job().connection.rpush("notes", text)
    return os.getpid()


def linger():
    """Works until it is stopped; says that it began."""
    get_current_job().connection.set("lingering", 1)
    time.sleep(60)


def most_at_once():
    """How many of this job run at the same time at most."""
    connection = get_current_job().connection
    running = connection.incr("running")
    connection.eval(
        "if tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[1]) or '0') then "
        "redis.call('SET', KEYS[1], ARGV[1]) end",
        1,
        "most",
        running,
    )
    connection.decr("running")


def happy(job, connection, result):
    connection.rpush("callbacks", f"happy {result}")


def unhappy(job, connection, kind, value, trace):
    connection.rpush("callbacks", f"unhappy {value}")
