"""Suites of Go modules: their tests become programs first, and run without the network."""

import pathlib
import re
import tempfile
import xml.etree.ElementTree as xml

import bring
from network import Case

SUITE_S = 1200


def asynq(_expected):
    folder = bring.go_module("github.com/hibiken/asynq", "v0.26.0")
    packages = [".", "./internal/rdb"]
    programs = {package: bring.go_test(folder, package) for package in packages}

    def play(alone):
        for package, program in programs.items():
            where = folder / package
            text, fault = alone.run([program, "-test.v"], where, SUITE_S)
            prefix = "asynq" if package == "." else package.removeprefix("./")
            yield from read_verbose(prefix, text)
            if fault is not None:
                yield Case(f"{prefix}: as a whole", "failed", fault)

    return play


# Of clusters, rings of servers, sentinels, TLS, ACL, Redis's modules and types that only Redis has;
# or of nothing but the library.
NOT_OF_GO_REDIS = (
    "acl_commands array_commands himport hotkeys internal json osscluster probabilistic ring "
    "search sentinel timeseries tls universal vectorset"
).split()
# Managed by somebody else: then it does not look for clusters and sentinels before it begins.
GO_REDIS = {"RE_CLUSTER": "true", "REDIS_VERSION": "8.4"}


def go_redis(expected):
    folder = bring.go_module("github.com/redis/go-redis/v9", "v9.23.0")
    program = bring.go_test(folder, ".")
    flags = [f"-ginkgo.skip-file=/{name}[a-z_]*_test.go" for name in NOT_OF_GO_REDIS]
    flags += [f"-ginkgo.skip={name}" for name in ["cluster races", *expected.left_out()]]
    flags += ["-test.run=TestGinkgoSuite", f"-ginkgo.timeout={SUITE_S - 300}s"]

    def play(alone):
        with tempfile.TemporaryDirectory() as reports:
            report = pathlib.Path(reports) / "report.xml"
            command = [program, f"-ginkgo.junit-report={report}", *flags]
            text, fault = alone.run(command, folder, SUITE_S, GO_REDIS)
            if report.exists():
                yield from read_ginkgo(xml.parse(report))
            else:
                fault = f"{fault or 'no report'}\n{text[-3000:]}"
        if fault is not None:
            yield Case("as a whole", "failed", fault)

    return play


def read_ginkgo(report):
    words = {"passed": "ok", "skipped": "skipped", "pending": "skipped"}
    for case in report.iter("testcase"):
        kind, _, name = case.get("name").partition(" ")
        skipped = case.find("skipped")
        # One that the flags leave out gives no reason.
        is_left_out = skipped is not None and skipped.get("message") == "skipped"
        if kind != "[It]" or is_left_out:
            continue
        # Without its labels.
        name = re.sub(r" \[[^\]]*\]$", "", name)
        failure = case.find("failure")
        detail = "" if failure is None else f"{failure.get('message')}\n{failure.text or ''}"
        yield Case(name, words.get(case.get("status"), "failed"), detail[:2000])


def read_verbose(prefix, text):
    lines = text.splitlines()
    words = {"PASS": "ok", "FAIL": "failed", "SKIP": "skipped"}
    for number, line in enumerate(lines):
        if found := re.match(r"--- (PASS|FAIL|SKIP): (\S+)", line):
            detail = "\n".join(lines[max(0, number - 10) : number + 3])
            yield Case(f"{prefix}: {found[2]}", words[found[1]], detail)
