#!/usr/bin/env python3
"""RQ at work: workers that fork and that do not, dependencies, retries, the scheduler, registries.

rq_app.py HOST:PORT. The server is emptied between the checks.
"""

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import redis
from rq import Callback, Queue, Repeat, Retry, SimpleWorker, Worker
from rq.command import send_stop_job_command
from rq.exceptions import DuplicateJobError
from rq.group import Group
from rq.job import Dependency, Job, JobStatus
from rq.rate_limit import RateLimit
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.suspension import resume, suspend

import rq_jobs
from checks import PATIENCE_S, Checks, address, end, equal, raises, until

HOST, PORT = address()
checks = Checks("rq")
QUIET = {"logging_level": "CRITICAL"}


class running_worker:
    """`rq worker` as a process of its own, with the scheduler, for as long as the block lasts."""

    def __init__(self, *queues, options=()):
        self.command = [sys.executable, "-m", "rq.cli", "worker", "--with-scheduler"]
        self.command += ["--logging_level", "CRITICAL", "--url", f"redis://{HOST}:{PORT}"]
        self.command += [*options, *queues]

    def __enter__(self):
        folder = os.path.dirname(os.path.abspath(__file__))
        environment = os.environ | {"PYTHONPATH": folder}
        self.process = subprocess.Popen(self.command, cwd=folder, env=environment)
        return self.process

    def __exit__(self, *_):
        end(self.process, deadline_s=PATIENCE_S)


def status(job):
    return job.get_status(refresh=True)


@checks("100 jobs of enqueue_many, by a worker in this process")
def _(r, q):
    datas = [Queue.prepare_data(rq_jobs.add, (number, 1)) for number in range(100)]
    jobs = q.enqueue_many(datas)
    equal(len(q), 100)
    assert SimpleWorker([q], connection=r).work(burst=True, **QUIET)
    equal([job.return_value() for job in jobs], [number + 1 for number in range(100)])
    equal(len(FinishedJobRegistry(queue=q)), 100)
    equal((len(q), q.started_job_registry.count), (0, 0))


@checks("jobs by a worker that forks, with priority by the order of queues")
def _(r, q):
    low = Queue("low", connection=r)
    for number in range(3):
        low.enqueue(rq_jobs.note, f"low{number}")
        q.enqueue(rq_jobs.note, f"high{number}")
    first = q.enqueue(rq_jobs.note, "first", at_front=True)
    Worker([q, low], connection=r).work(burst=True, **QUIET)
    notes = [text.decode() for text in r.lrange("notes", 0, -1)]
    equal(notes, ["first", "high0", "high1", "high2", "low0", "low1", "low2"])
    assert first.return_value() != os.getpid()


@checks("jobs that depend on jobs, also on ones that may fail")
def _(r, q):
    parts = [q.enqueue(rq_jobs.add, number, number) for number in range(1, 5)]
    whole = q.enqueue(rq_jobs.total, depends_on=parts)
    after = q.enqueue(rq_jobs.add, 1, 1, depends_on=whole)
    bad = q.enqueue(rq_jobs.fail)
    never = q.enqueue(rq_jobs.add, 1, 1, depends_on=bad)
    anyway = q.enqueue(rq_jobs.add, 2, 2, depends_on=Dependency(jobs=[bad], allow_failure=True))
    equal({status(job) for job in (whole, after, never, anyway)}, {JobStatus.DEFERRED})
    SimpleWorker([q], connection=r).work(burst=True, **QUIET)
    equal((whole.return_value(), after.return_value(), anyway.return_value()), (20, 2, 4))
    equal((status(bad), status(never)), (JobStatus.FAILED, JobStatus.DEFERRED))


@checks("retries, the registry of what failed, and requeueing from it")
def _(r, q):
    again = q.enqueue(rq_jobs.fail_until, 2, retry=Retry(max=3))
    never = q.enqueue(rq_jobs.fail, "no luck", retry=Retry(max=1))
    SimpleWorker([q], connection=r).work(burst=True, **QUIET)
    equal((status(again), again.return_value()), (JobStatus.FINISHED, 3))
    registry = FailedJobRegistry(queue=q)
    equal(registry.get_job_ids(), [never.id])
    assert "no luck" in never.latest_result().exc_string
    registry.requeue(never.id)
    equal((len(registry), q.job_ids), (0, [never.id]))
    SimpleWorker([q], connection=r).work(burst=True, **QUIET)
    equal(registry.get_job_ids(), [never.id])


@checks("scheduled jobs and retries after a while, by a worker process with the scheduler")
def _(r, q):
    soon = q.enqueue_in(timedelta(seconds=1), rq_jobs.add, 1, 2)
    past = q.enqueue_at(datetime.now(timezone.utc) - timedelta(seconds=1), rq_jobs.add, 2, 2)
    far = q.enqueue_in(timedelta(days=1), rq_jobs.add, 5, 5)
    again = q.enqueue(rq_jobs.fail_until, 1, retry=Retry(max=2, interval=[1, 1]))
    often = q.enqueue(rq_jobs.note, "again", repeat=Repeat(times=2, interval=1))
    equal(sorted(ScheduledJobRegistry(queue=q).get_job_ids()), sorted([soon.id, past.id, far.id]))
    with running_worker("default"):
        due = (soon, past, again)
        until(lambda: {status(job) for job in due} == {JobStatus.FINISHED}, "the jobs")
        until(lambda: r.llen("notes") == 3, "the third run of a job that repeats")
    equal((soon.return_value(), past.return_value(), again.return_value()), (3, 4, 2))
    equal((status(far), often.return_value() is None), (JobStatus.SCHEDULED, False))


@checks("a job is stopped while it runs; suspended workers take nothing; a worker ends in peace")
def _(r, q):
    with running_worker("default") as process:
        job = q.enqueue(rq_jobs.linger)
        until(lambda: r.get("lingering"), "the beginning of the job")
        suspend(r)
        send_stop_job_command(r, job.id)
        until(lambda: status(job) in (JobStatus.STOPPED, JobStatus.FAILED), "the end of the job")
        until(lambda: Worker.all(connection=r)[0].get_state() == "suspended", "a suspended worker")
        waits = q.enqueue(rq_jobs.add, 1, 1)
        equal(status(waits), JobStatus.QUEUED)
        resume(r)
        until(lambda: status(waits) == JobStatus.FINISHED, "the job after resuming")
    equal(process.returncode, 0)
    equal(Worker.count(connection=r), 0)


@checks("two worker processes share 200 jobs")
def _(r, q):
    with running_worker("default", options=["--worker-class", "rq.SimpleWorker"]):
        with running_worker("default", options=["--worker-class", "rq.SimpleWorker"]):
            until(lambda: Worker.count(connection=r) == 2, "two workers")
            jobs = [q.enqueue(rq_jobs.note, str(number)) for number in range(200)]
            until(lambda: q.finished_job_registry.count == 200, "the jobs")
    notes = sorted(int(text) for text in r.lrange("notes", 0, -1))
    equal(notes, list(range(200)))
    equal(len({job.return_value() for job in jobs}), 2)


@checks("unique jobs, callbacks, groups, cancelling, deleting")
def _(r, q):
    q.enqueue(rq_jobs.add, 1, 1, job_id="only", unique=True, on_success=Callback(rq_jobs.happy))
    raises(DuplicateJobError, q.enqueue, rq_jobs.add, 1, 1, job_id="only", unique=True)
    q.enqueue(rq_jobs.fail, "so", on_failure=Callback(rq_jobs.unhappy))
    group = Group.create(connection=r)
    group.enqueue_many(q, [Queue.prepare_data(rq_jobs.add, (1, number)) for number in range(5)])
    cancelled, deleted = q.enqueue(rq_jobs.add, 1, 1), q.enqueue(rq_jobs.add, 1, 1)
    cancelled.cancel()
    deleted.delete()
    equal(len(q), 7)
    SimpleWorker([q], connection=r).work(burst=True, **QUIET)
    equal(r.lrange("callbacks", 0, -1), [b"happy 2", b"unhappy so"])
    equal(sorted(job.return_value() for job in group.get_jobs()), [1, 2, 3, 4, 5])
    equal((status(cancelled), Job.exists(deleted.id, connection=r)), (JobStatus.CANCELED, False))
    equal(q.empty(), 0)
    q.delete(delete_jobs=True)
    equal(Queue.all(connection=r), [])


@checks("a rate limit: two of a kind at once at most")
def _(r, q):
    limit = RateLimit("kind", concurrency=2)
    jobs = [q.enqueue(rq_jobs.most_at_once, rate_limit=limit) for _ in range(10)]
    equal(len(q), 2)
    with running_worker("default"), running_worker("default"), running_worker("default"):
        until(lambda: all(status(job) == JobStatus.FINISHED for job in jobs), "the jobs")
    assert 1 <= int(r.get("most")) <= 2, r.get("most")


def main():
    r = redis.Redis(host=HOST, port=PORT)

    def emptied(function):
        def run():
            r.flushall()
            return function(r, Queue(connection=r))

        return run

    checks.checks = [(title, emptied(function)) for title, function in checks.checks]
    checks.run()


if __name__ == "__main__":
    main()
