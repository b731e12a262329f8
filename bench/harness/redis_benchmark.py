"""redis-benchmark 7.0: its command line, and its text output as figures.

It prints a distribution in which every line halves the distance to 100 %, so p99.9 is read off as
the first bound that at least 99.9 % of the latencies do not exceed: exact in the count, rounded up
to the tool's bucket. p50 and p99 are its summary's. With a pipeline a latency is that of a batch.
"""

import re

from .scenario import VALUE

PROGRAM = "redis-benchmark"
ERROR = re.compile(r"^(?:\s*)(Error .*|.*Could not connect.*|Server closed.*)$", re.M)
COMPLETED = re.compile(r"(\d+) requests completed in ([\d.]+) seconds")
THROUGHPUT = re.compile(r"throughput summary: ([\d.]+|inf) requests per second")
SUMMARY = re.compile(r"avg\s+min\s+p50\s+p95\s+p99\s+max\s+((?:[\d.]+\s*){6})")
BOUND = re.compile(r"^([\d.]+)% <= ([\d.]+) milliseconds \(cumulative count (\d+)\)", re.M)


class Unreadable(Exception):
    """The output does not tell what it should."""


def command_line(
    port,
    command,
    *,
    clients,
    pipeline,
    requests,
    keys,
    threads=0,
    keeps_connections=True,
    options=(),
):
    """Arguments, and whether the last word of the command comes from stdin."""
    words = command.split()
    from_stdin = words[-1] == VALUE
    if VALUE in (words[:-1] if from_stdin else words):
        raise ValueError(f"{VALUE} can only be the last word: {command}")
    line = [PROGRAM, "-h", "127.0.0.1", "-p", str(port), "-c", str(clients), "-n", str(requests)]
    line += ["-r", str(keys), "-P", str(pipeline)]
    line += ["--threads", str(threads)] if threads else []
    line += [*options] if keeps_connections else [*options, "-k", "0"]
    line += ["-x"] if from_stdin else []
    return line + words[: -1 if from_stdin else None], from_stdin


def parse(output):
    """requests, requests_per_s, p50_ms, p99_ms, p999_ms, max_ms out of what was printed."""
    text = output.replace("\r", "\n")
    if error := ERROR.search(text):
        raise Unreadable(error.group(1).strip())
    completed, throughput = COMPLETED.search(text), THROUGHPUT.search(text)
    summary = SUMMARY.search(text)
    if not (completed and throughput and summary):
        raise Unreadable(f"no summary in {len(output)} bytes of redis-benchmark's output")
    _avg, _min, p50, _p95, p99, largest = map(float, summary.group(1).split())
    return {
        "requests": int(completed.group(1)),
        "requests_per_s": float(throughput.group(1)),
        "p50_ms": p50,
        "p99_ms": p99,
        "p999_ms": percentile(text, 99.9),
        "max_ms": largest,
    }


def percentile(text, percent):
    """The first bound of the distribution that reaches `percent`; None if there is none."""
    start = text.find("Latency by percentile distribution:")
    end = text.find("Cumulative distribution of latencies:")
    if start < 0:
        return None
    part = text[start : end if end > start else len(text)]
    bounds = [(int(count), float(ms)) for _, ms, count in BOUND.findall(part)]
    total = max((count for count, _ in bounds), default=0)
    reaching = [ms for count, ms in bounds if count >= total * percent / 100]
    return min(reaching, default=None)
