"""The Celery application that client and workers share. `APPS_REDIS` is its broker, HOST:PORT."""

import os
import time

import redis
from celery import Celery

ADDRESS = os.environ["APPS_REDIS"]

app = Celery("work", broker=f"redis://{ADDRESS}/0", backend=f"redis://{ADDRESS}/1")
app.conf.update(
    task_default_queue="work",
    task_queue_max_priority=None,
    broker_transport_options={
        "visibility_timeout": 3_600,
        "priority_steps": [0, 3, 6, 9],
        "sep": ":",
        "queue_order_strategy": "priority",
    },
    broker_connection_retry_on_startup=True,
    result_expires=600,
    result_extended=True,
    task_track_started=True,
    task_routes={"celery_tasks.routed": {"queue": "other"}},
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=True,
    beat_schedule={"tick": {"task": "celery_tasks.tick", "schedule": 1.0}},
)


def notes():
    return redis.Redis.from_url(f"redis://{ADDRESS}/2", decode_responses=True)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail(text):
    raise ValueError(text)


@app.task
def recover(request, error, traceback):
    notes().rpush("recovered", f"{error!r}")


@app.task(bind=True, max_retries=5, default_retry_delay=0)
def fail_until(self, times):
    if self.request.retries < times:
        raise self.retry(exc=ValueError(f"try {self.request.retries}"), countdown=0)
    return self.request.retries


@app.task(bind=True, autoretry_for=(KeyError,), retry_backoff=1, retry_jitter=False)
def with_backoff(self, key):
    if notes().incr(f"tries:{key}") < 2:
        raise KeyError(key)
    return self.request.retries


@app.task
def note(text):
    notes().rpush(f"notes:{os.getppid()}", text)


@app.task
def routed():
    return "by the other queue"


@app.task
def tick():
    notes().incr("ticks")


@app.task
def linger(name):
    notes().set(f"lingering:{name}", 1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not notes().get(f"enough:{name}"):
        time.sleep(0.02)
    return name


@app.task(acks_late=True)
def linger_late(name):
    return linger(name)


@app.task(bind=True)
def progress(self):
    self.update_state(state="HALFWAY", meta={"done": 50})
    notes().set("halfway", 1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not notes().get("go on"):
        time.sleep(0.02)
    return 100
