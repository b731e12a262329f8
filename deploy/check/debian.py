"""The Debian package: built, looked over by lintian, and lived with in a fresh root."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from booted import supervise
from trial import DIST, ROOT, Skip, check, folder, needs, run, until, want

# What lintian says that is so on purpose.
ON_PURPOSE = {
    # It is not part of Debian.
    "initial-upload-closes-no-bugs",
    # Passwords will stand in the configuration file.
    "non-standard-file-perm",
}
CONFIG = "/etc/pantala/pantala.conf"


@check(long=True)
def debian(server):
    """The Debian package is installed, run, upgraded, supervised, removed and purged in a fresh
    root; with systemd-nspawn also under systemd."""
    needs("debootstrap", "chroot", "dpkg-deb")
    if os.geteuid() != 0:
        raise Skip("a fresh root needs root")
    first = build(server)
    said = look_over(first)
    with folder() as place:
        second = next_version(first, Path(place))
        fresh = Fresh(Path(place) / "root")
        try:
            live(fresh, first, second)
        finally:
            fresh.end()
    booted = "" if shutil.which("systemd-nspawn") else "; not booted: no systemd-nspawn"
    return f"{first.name}, {first.stat().st_size:,} bytes; lintian: {said}{booted}"


def build(server):
    for old in DIST.glob("pantala*_*.*deb"):
        old.unlink()
    run("deploy/build", "deb", env={**os.environ, "PANTALA": str(server)})
    [built] = DIST.glob("pantala_*.deb")
    want(list(DIST.glob("pantala-dbgsym_*.ddeb")), "no package of debug information")
    return built


def next_version(package, place):
    """The same under a later version."""
    tree, later = place / "tree", place / "later.deb"
    run("dpkg-deb", "--raw-extract", package, tree)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^(Version: .*)$", r"\1+later", control.read_text(), flags=re.M))
    run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, later)
    return later


def look_over(package):
    """What lintian says, but for what is so on purpose."""
    if not shutil.which("lintian"):
        return "not installed"
    found = run("lintian", "--allow-root", "--tag-display-limit", "0", package, wants=None)
    lines = [line for line in found.splitlines() if re.match(r"[EW]: ", line)]
    odd = [line for line in lines if line.split()[2] not in ON_PURPOSE]
    want(not odd, "\n".join(odd))
    return f"{len(lines)} warnings, all on purpose" if lines else "nothing to say"


class Fresh:
    """A root directory with nothing but Debian's base in it."""

    def __init__(self, root):
        self.root, self.server = root, None
        packages = ROOT / "target" / "debootstrap"
        packages.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", "--include=adduser,systemd-sysv",
            f"--cache-dir={packages}", release(), root, *mirror())
        run("mount", "-t", "proc", "proc", root / "proc")
        policy = root / "usr" / "sbin" / "policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def end(self):
        if self.server:
            self.server.kill()
            self.server.wait()
        run("umount", self.root / "proc", wants=None)

    def run(self, *command, **more):
        return run("chroot", self.root, *command, **more)

    def install(self, package):
        shutil.copy(package, self.root / "tmp")
        return self.run("dpkg", "--install", f"/tmp/{package.name}",
                        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                             "DEBIAN_FRONTEND": "noninteractive"})

    def start(self):
        """As the unit does, but for what only systemd can do."""
        socket = "/var/lib/pantala/socket"
        self.server = subprocess.Popen(
            ["chroot", "--userspec=pantala:pantala", str(self.root), "/usr/bin/pantala", CONFIG,
             "--port", "0", "--unixsocket", socket], stdin=subprocess.DEVNULL)
        until(lambda: "+PONG" in self.run("pantala", "ping", socket, wants=None), "it serves")

    def stop(self):
        self.server.terminate()
        want(self.server.wait() == 0, "it did not end well")
        self.server = None

    def has(self, path):
        return (self.root / path.lstrip("/")).exists()


def live(fresh, first, second):
    """Installed, started, upgraded, supervised, removed, purged."""
    fresh.install(first)
    modes = fresh.run("stat", "--format", "%a %U:%G %n", "/etc/pantala", CONFIG, "/var/lib/pantala",
                      "/usr/bin/pantala").splitlines()
    want(modes == ["750 root:pantala /etc/pantala", f"640 root:pantala {CONFIG}",
                   "700 pantala:pantala /var/lib/pantala", "755 root:root /usr/bin/pantala"],
         "\n".join(modes))
    unit = "/etc/systemd/system/multi-user.target.wants/pantala.service"
    want((fresh.root / unit.lstrip("/")).is_symlink(), "the unit is not enabled")
    fresh.start()
    fresh.stop()
    own = fresh.root / CONFIG.lstrip("/")
    own.write_text(own.read_text() + "\nmaxmemory 64mb\n")
    kept = fresh.root / "var/lib/pantala/kept"
    kept.write_text("data")
    fresh.install(second)
    want("maxmemory 64mb" in own.read_text(), "the upgrade has replaced the configuration file")
    want(kept.exists(), "the upgrade has removed data")
    if shutil.which("systemd-nspawn"):
        # The container brings its own: with this one it would see the processes of the machine.
        run("umount", fresh.root / "proc")
        supervise(fresh.root)
        run("mount", "-t", "proc", "proc", fresh.root / "proc")
    fresh.run("dpkg", "--remove", "pantala")
    want(own.exists() and kept.exists(), "removing takes the configuration file or data along")
    want(not fresh.has("/usr/bin/pantala"), "removing leaves the binary")
    fresh.run("dpkg", "--purge", "pantala")
    for path in ("/etc/pantala", "/var/lib/pantala", "/usr/share/doc/pantala", unit):
        want(not fresh.has(path), f"purging leaves {path}")


def release():
    found = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M)
    if not found:
        raise Skip("this is not Debian")
    return found.group(1)


def mirror():
    """Where this machine's own packages come from, and how they are checked."""
    found = re.search(r"^\s*URIs:\s*(\S+)|^\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)", sources(), re.M)
    return [next(part for part in found.groups() if part)] if found else []


def sources():
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    return "\n".join(path.read_text() for path in files if path.is_file())
