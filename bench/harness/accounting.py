"""What the kernel knows about a process: CPU time, memory, context switches; and about the cores.

CPU time of a server is the sum over its threads of /proc/PID/task/*/schedstat, in nanoseconds. A
thread that ended between two readings takes its time with it; /proc/PID/stat keeps such time, in
clock ticks, so both are read, and a run where they disagree is marked (measure.py).
"""

import os
import time
from dataclasses import dataclass

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Counters of a process at one moment, or the difference of two moments."""

    run_ns: int  # threads on a core
    wait_ns: int  # threads ready, but waiting for a core
    ticks_ns: int  # utime + stime of the process, in whole ticks
    switches: int  # context switches, of both sorts

    def __sub__(self, before):
        return Usage(
            self.run_ns - before.run_ns,
            self.wait_ns - before.wait_ns,
            self.ticks_ns - before.ticks_ns,
            self.switches - before.switches,
        )


def parse_schedstat(text):
    """(ns on a core, ns waiting for one) of a thread."""
    run, wait = text.split()[:2]
    return int(run), int(wait)


def parse_stat_ticks(text):
    """utime + stime of /proc/PID/stat in ticks; the name in brackets may hold anything."""
    fields = text.rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def parse_switches(text):
    """The sum of the two context switch counters of a status file."""
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches:" in line)


def parse_rss_kb(text):
    """Resident kB out of smaps_rollup (`Rss:`) or status (`VmRSS:`)."""
    for line in text.splitlines():
        if line.startswith(("Rss:", "VmRSS:")):
            return int(line.split()[1])
    raise ValueError("no resident size")


def read(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def usage(pid):
    """The counters of a process now."""
    run_ns = wait_ns = switches = 0
    has_schedstat = True
    for thread in os.listdir(f"/proc/{pid}/task"):
        base = f"/proc/{pid}/task/{thread}"
        try:
            switches += parse_switches(read(f"{base}/status"))
            run, wait = parse_schedstat(read(f"{base}/schedstat"))
            run_ns, wait_ns = run_ns + run, wait_ns + wait
        except (FileNotFoundError, ProcessLookupError):
            # The thread has ended, or the kernel keeps no schedstat.
            has_schedstat = has_schedstat and os.path.exists("/proc/self/schedstat")
    ticks_ns = parse_stat_ticks(read(f"/proc/{pid}/stat")) * TICK_NS
    return Usage(run_ns if has_schedstat else ticks_ns, wait_ns, ticks_ns, switches)


def rss_kb(pid):
    """Resident memory of a process in kB, exact where the kernel offers it."""
    try:
        return parse_rss_kb(read(f"/proc/{pid}/smaps_rollup"))
    except (FileNotFoundError, PermissionError):
        return parse_rss_kb(read(f"/proc/{pid}/status"))


def parse_busy_ticks(text, cores):
    """Ticks that the given cores spent on anything but idling, out of /proc/stat."""
    names = {f"cpu{core}" for core in cores}
    total = 0
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] in names:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[1:9])
            total += user + nice + system + irq + softirq + steal
    return total


def busy_ns(cores):
    """Time that the given cores were busy since boot (with stolen time), in ns."""
    return parse_busy_ticks(read("/proc/stat"), cores) * TICK_NS


def settled_rss_kb(sample, limit_s, window_s=3.0, every_s=0.25, clock=time, tolerance=0.001):
    """Samples the RSS until it moved by less than `tolerance` within a window.

    Returns (kB, whether it settled); gives up after `limit_s`. `sample` returns kB, `clock` has
    monotonic() and sleep(), so that tests need not wait.
    """
    start = clock.monotonic()
    window = []
    while True:
        now = clock.monotonic()
        window = [(at, kb) for at, kb in window if at > now - window_s - every_s / 2]
        window.append((now, sample()))
        sizes = [kb for _, kb in window]
        full = now - window[0][0] >= window_s - every_s / 2
        if full and max(sizes) - min(sizes) <= max(64, tolerance * max(sizes)):
            return sizes[-1], True
        if now - start >= limit_s:
            return sizes[-1], False
        clock.sleep(every_s)
