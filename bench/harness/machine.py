"""On what the figures were measured: machine, versions, commit. No host name, no absolute path."""

import datetime
import os
import platform
import subprocess
import sys

from . import servers


def first_value(text, name):
    for line in text.splitlines():
        label, colon, value = line.partition(":")
        if colon and label.strip() == name:
            return value.strip()
    return "unknown"


def read(path):
    try:
        with open(path, encoding="utf8") as file:
            return file.read()
    except OSError:
        return ""


def git(repository, *words):
    ran = subprocess.run(
        ["git", *words], cwd=repository, capture_output=True, text=True, check=False
    )
    return ran.stdout.strip() if ran.returncode == 0 else "unknown"


def environment(repository, settings, kinds, missing):
    """The first record of raw.jsonl."""
    memory_kb = first_value(read("/proc/meminfo"), "MemTotal").split()[0]
    governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    return {
        "kind": "environment",
        "date": datetime.date.today().isoformat(),
        "topic": settings.topic,
        "quick": settings.quick,
        "rounds": settings.rounds,
        "commit": git(repository, "rev-parse", "HEAD"),
        "uncommitted_changes": bool(git(repository, "status", "--porcelain", "-uno")),
        "command_line": settings.command_line,
        "server_cores": settings.server_cores,
        "load_cores": settings.load_cores,
        "cpu": first_value(read("/proc/cpuinfo"), "model name"),
        "cores": os.cpu_count(),
        "governor": governor or "unknown",
        "memory_mb": int(memory_kb) // 1024 if memory_kb.isdigit() else 0,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": ".".join(map(str, sys.version_info[:3])),
        "load_at_start": [round(load, 2) for load in os.getloadavg()],
        "versions": {kind.name: kind.version for kind in kinds},
        "expected_versions": servers.EXPECTED,
        "tools": {"redis-benchmark": servers.version_of("redis-benchmark")},
        "missing": missing,
    }
