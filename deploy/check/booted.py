"""A root directory whose systemd runs: in a container of systemd-nspawn, without a network."""

import subprocess
from pathlib import Path

from trial import Failure, run, until, want

# Seconds that the server may be silent, in the check: many, for the machine may be busy.
WATCHDOG_S = 15


class Booted:
    """From its start to the end of the block."""

    def __init__(self, root):
        self.root = root

    def __enter__(self):
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--register=no", "--keep-unit", "--quiet", "--private-network",
             "--console=pipe", "--boot", f"--directory={self.root}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(self._is_up, "systemd has started what there is")
        except Failure:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_why):
        if self._leader():
            self.run("systemctl", "poweroff", wants=None)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _is_up(self):
        # Degraded: other services may have failed, which is not the package's fault.
        return self._leader() and self.run("systemctl", "is-system-running", wants=None).strip() \
            in ("running", "degraded")

    def _leader(self):
        """Its first process; at the very begin systemd-nspawn has other children."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return children[0] if children else None

    def run(self, *command, **more):
        return run("nsenter", "--target", self._leader(), "--all", *command, **more)

    def service(self, name):
        """What systemd knows of the service."""
        return self.run("systemctl", "show", "pantala", "--property", name, "--value").strip()


def supervise(root):
    """Started at boot, reloaded, restarted when it hangs, stopped with a snapshot."""
    override = root / "etc/systemd/system/pantala.service.d/watchdog.conf"
    override.parent.mkdir(parents=True)
    override.write_text(f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    with Booted(root) as booted:
        want(booted.service("ActiveState") == "active", booted.run("journalctl", "-u", "pantala"))
        want(booted.service("StatusText") == "Ready to accept connections", "it told no status")
        want(booted.run("pantala", "ping") == "+PONG\n", "it does not answer")
        first = booted.service("MainPID")
        status = booted.run("cat", f"/proc/{first}/status")
        for line in ("CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
            want(line in status, f"not {line}:\n{status}")
        booted.run("systemctl", "reload", "pantala")
        want(booted.service("MainPID") == first, "a reload has restarted it")
        booted.run("sh", "-c", f"kill -STOP {first}")
        until(lambda: booted.service("NRestarts") == "1"
              and booted.service("ActiveState") == "active", "what hangs is started again")
        booted.run("systemctl", "stop", "pantala")
        want(booted.service("Result") == "success", booted.run("journalctl", "-u", "pantala"))
    want((root / "var/lib/pantala/dump.rdb").exists(), "it ended without a snapshot")
    override.unlink()
    override.parent.rmdir()
