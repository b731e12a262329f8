#!/usr/bin/env python3
"""Celery at work: the Redis transport and result backend, real worker processes and a beat.

celery_app.py HOST:PORT. The server is emptied before the workers start.
"""

import os
import subprocess
import sys
import tempfile
import time

HOST, PORT = sys.argv[1].rsplit(":", 1)
os.environ["APPS_REDIS"] = sys.argv[1]

import redis
from celery import chain, chord, group
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult

import celery_tasks as tasks
from checks import Checks, end, equal, raises, until

checks = Checks("celery")
PATIENCE_S = 60
FOLDER = os.path.dirname(os.path.abspath(__file__))


def start(*words):
    command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "celery_tasks", "--quiet"]
    command += [*words, "--loglevel", "CRITICAL"]
    return subprocess.Popen(command, cwd=FOLDER, env=os.environ | {"PYTHONPATH": FOLDER})


def get(result):
    return result.get(timeout=PATIENCE_S)


@checks("both workers answer ping, and tell what they do")
def _():
    def ping():
        answers = tasks.app.control.ping(timeout=1)
        names = sorted(name for answer in answers for name in answer)
        return names == ["one@pantala", "two@pantala"]

    until(ping, "two workers")
    # Who does not answer in this time is left out.
    inspect = tasks.app.control.inspect(timeout=2)
    names = ["one@pantala", "two@pantala"]
    until(lambda: sorted(inspect.stats() or {}) == names, "what both tell of themselves")
    registered = until(lambda: (inspect.registered() or {}).get(names[0]), "what one has")
    assert "celery_tasks.add" in registered


@checks("300 tasks, their results by pub/sub")
def _():
    results = [tasks.add.delay(number, number) for number in range(300)]
    equal([get(result) for result in results], [2 * number for number in range(300)])
    assert all(result.successful() for result in results)
    results[0].forget()
    equal(results[0].state, "PENDING")


@checks("a chain, a group, a chord, a chord of chains, chunks and a map")
def _():
    equal(get(chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4))()), 10)
    equal(get(group(tasks.add.s(number, 1) for number in range(20))()), list(range(1, 21)))
    doubled = [tasks.add.s(number, number) for number in range(50)]
    equal(get(chord(doubled, tasks.total.s())()), 2_450)
    inner = [tasks.add.s(number, 1) | tasks.add.s(1) for number in range(10)]
    equal(get((group(inner) | tasks.total.s() | tasks.add.s(100))()), 165)
    chunks = tasks.add.chunks([(number, 1) for number in range(9)], 3)
    equal(get(chunks()), [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    equal(get(tasks.add.starmap([(1, 1), (2, 2)]).delay()), [2, 4])


@checks("errors: a failed task, its callback, a chord with one failure")
def _():
    result = tasks.fail.apply_async(("so",), link_error=tasks.recover.s())
    equal(str(raises(ValueError, get, result)), "so")
    equal((result.state, "ValueError: so" in result.traceback), ("FAILURE", True))
    until(lambda: tasks.notes().lrange("recovered", 0, -1) == ["ValueError('so')"], "the callback")
    broken = chord([tasks.add.s(1, 1), tasks.fail.s("broken")], tasks.total.s())()
    assert "broken" in str(raises(Exception, get, broken))


@checks("retries: at once, and with backoff")
def _():
    again, backoff = tasks.fail_until.delay(3), tasks.with_backoff.delay("a")
    equal(get(again), 3)
    equal(get(backoff), 1)
    raises(ValueError, get, tasks.fail_until.delay(9))


@checks("a countdown, a moment, and a task that comes too late")
def _():
    began = time.monotonic()
    later = tasks.add.apply_async((1, 1), countdown=1)
    late = tasks.add.apply_async((1, 1), countdown=1, expires=0.01)
    equal(get(later), 2)
    assert time.monotonic() - began >= 0.9
    raises(TaskRevokedError, get, late)


@checks("revoked before it begins, and killed while it runs")
def _():
    waits = tasks.add.apply_async((1, 1), countdown=8)
    running = tasks.linger.delay("killed")
    until(lambda: tasks.notes().get("lingering:killed"), "the running task")
    until(lambda: running.state == "STARTED", "its state")
    waits.revoke()
    tasks.app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    raises(TaskRevokedError, get, running)
    inspect = tasks.app.control.inspect(timeout=2)

    def everybody_knows():
        revoked = inspect.revoked() or {}
        return len(revoked) == 2 and all(waits.id in ids for ids in revoked.values())

    until(everybody_knows, "the revoked id")
    equal(get(tasks.add.delay(2, 2)), 4)


@checks("states of its own, read while the task runs")
def _():
    result = tasks.progress.delay()
    until(lambda: tasks.notes().get("halfway"), "half of the task")
    equal((result.state, result.info), ("HALFWAY", {"done": 50}))
    tasks.notes().set("go on", 1)
    equal(get(result), 100)
    equal(AsyncResult(result.id, app=tasks.app).name, "celery_tasks.progress")


@checks("another queue, a consumer that is added and cancelled, a purge")
def _():
    result = tasks.routed.delay()
    client = redis.Redis(HOST, int(PORT))
    until(lambda: client.llen("other") == 1, "the message in its queue")
    tasks.app.control.add_consumer("other", destination=["one@pantala"])
    equal(get(result), "by the other queue")
    tasks.app.control.cancel_consumer("other", destination=["one@pantala"])
    inspect = tasks.app.control.inspect(["one@pantala"], timeout=2)

    def is_cancelled():
        queues = (inspect.active_queues() or {}).get("one@pantala")
        return queues and "other" not in [queue["name"] for queue in queues]

    until(is_cancelled, "the consumer's end")
    waiting = tasks.routed.delay()
    until(lambda: client.llen("other") == 1, "the message in its queue")
    with tasks.app.connection_for_write() as connection:
        equal(connection.default_channel.queue_purge("other"), 1)
    equal(waiting.state, "PENDING")


@checks("priorities: what is urgent comes first")
def _():
    # A worker does one and may have fetched one more, so with three both are busy.
    lingering = [tasks.linger.delay(f"slot{number}") for number in range(3)]
    until(lambda: len(tasks.notes().keys("lingering:slot*")) == 2, "both workers busy")
    for number in range(10):
        tasks.note.apply_async((f"low{number}",), priority=9)
    for number in range(3):
        tasks.note.apply_async((f"high{number}",), priority=0)
    for number in range(3):
        tasks.notes().set(f"enough:slot{number}", 1)
    [get(result) for result in lingering]

    def by_worker():
        kept = tasks.notes()
        return [kept.lrange(key, 0, -1) for key in kept.keys("notes:*")]

    until(lambda: sum(map(len, by_worker())) == 13, "the tasks")
    for texts in by_worker():
        # What a worker had fetched ahead comes first.
        kinds = [text.startswith("low") for text in texts[2:]]
        equal(kinds, sorted(kinds))


@checks("a beat sends a task each second")
def _():
    with tempfile.TemporaryDirectory() as folder:
        beat = start("beat", "--schedule", f"{folder}/schedule", "--pidfile", f"{folder}/pid")
        try:
            until(lambda: int(tasks.notes().get("ticks") or 0) >= 2, "two ticks")
        finally:
            end(beat, deadline_s=PATIENCE_S)


@checks("nothing is left unacknowledged, also not what is acknowledged late")
def _():
    client = redis.Redis(HOST, int(PORT))
    result = tasks.linger_late.delay("kept")
    until(lambda: tasks.notes().get("lingering:kept"), "the running task")
    assert client.hlen("unacked") >= 1
    tasks.notes().set("enough:kept", 1)
    equal(get(result), "kept")
    until(lambda: client.hlen("unacked") == 0, "the acknowledgement")
    equal(client.zcard("unacked_index"), 0)


def main():
    redis.Redis(HOST, int(PORT)).flushall()
    words = ("worker", "--pool", "prefork", "--concurrency", "1", "--queues", "work")
    workers = [start(*words, "--hostname", f"{name}@pantala") for name in ("one", "two")]
    try:
        checks.run()
    finally:
        for worker in workers:
            end(worker, deadline_s=PATIENCE_S)


if __name__ == "__main__":
    main()
