"""Suites of Python libraries, from their source packages, under pytest."""

import os
import pathlib
import tempfile
import xml.etree.ElementTree as xml

import bring
from network import Case

SUITE_S = 1800


def rq(expected):
    sum_ = "b41e39b3c36ec3faf9e2402c638a0b25fe18ebb93a1cb15193bc69694f054618"
    return suite(bring.sdist("rq", "3.0.0", sum_), ["tests"], expected)


def kombu(expected):
    sum_ = "31e62fdfd2381caa3422f8e02b84a491d9a2180ddda74507b57f4cb1e1c2c2c9"
    folder = bring.sdist("kombu", "5.7.0", sum_)
    return suite(folder, ["t/integration/test_redis.py"], expected)


# Of redis-py's: what speaks with one plain server. The rest is of clusters, sentinels, modules, TLS
# and Redis's services, or never opens a connection.
REDIS_PY_PLACES = ("tests", "tests/test_asyncio")
REDIS_PY = (
    "cache client command_parser commands connect connection connection_pool cwe_404 encoding "
    "function hash keyspace_notifications lock monitor multiprocessing pipeline pubsub retry "
    "scripting"
).split()
NOT_OF_REDIS_PY = "onlycluster or redismod or ssl or replica or cp_integration"


def redis_py(expected):
    sum_ = "6e1a19beef9225c83efd689c7e6b7da2d5215b1f42cd13b7fc3714d0a09c7b25"
    folder = bring.sdist("redis", "8.1.0", sum_)
    named = [folder / place / f"test_{name}.py" for place in REDIS_PY_PLACES for name in REDIS_PY]
    files = [file.relative_to(folder) for file in named if file.exists()]
    marks = ["-m", f"not ({NOT_OF_REDIS_PY})"]
    return suite(folder, ["--tb=short", *marks, *files], expected, ["sentinel", "ssl"])


def suite(folder, arguments, expected, left_out=()):
    python = bring.python()
    # Its programs, too, such as rqworker.
    environment = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    if names := [*left_out, *(case.rpartition(".")[2] for case in expected.left_out())]:
        arguments = ["-k", f"not ({' or '.join(names)})", *arguments]

    def play(alone):
        with tempfile.TemporaryDirectory() as reports:
            report = pathlib.Path(reports) / "report.xml"
            flags = ["-q", "--timeout=120", "-p", "no:cacheprovider", f"--junit-xml={report}"]
            text, fault = alone.run(
                [python, "-m", "pytest", *flags, *arguments], folder, SUITE_S, environment
            )
            if report.exists():
                yield from read(xml.parse(report))
            else:
                fault = f"{fault or 'no report'}\n{text[-3000:]}"
        if fault is not None:
            yield Case("as a whole", "failed", fault)

    return play


def read(report):
    for case in report.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        trouble = [child for child in case if child.tag in ("failure", "error")]
        if trouble:
            text = trouble[0].get("message", "") + "\n" + (trouble[0].text or "")[-800:]
            yield Case(name, "failed", text)
        else:
            yield Case(name, "ok" if case.find("skipped") is None else "skipped")
