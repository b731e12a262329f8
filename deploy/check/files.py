"""The unit, the configuration file, the manual page, completions, the stripped binary."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from trial import DEPLOY, DIST, ROOT, Skip, check, folder, needs, run, until, want

# Of 100, where 0 is best; `systemd-analyze security` tells what is left.
EXPOSED_AT_MOST = 15
# Of the binary without its symbols. It is to fall, not to rise.
# 13 MB without the cluster: its thread over etcd has brought 0.6 MB, of which a part should go.
BYTES_AT_MOST = 13_600_000


@check()
def unit(server):
    """systemd takes the unit, and it leaves the server little to do harm with."""
    needs("systemd-analyze")
    with folder() as place:
        file = Path(place) / "pantala.service"
        text = (DEPLOY / "systemd" / "pantala.service").read_text()
        # It is looked whether that is there.
        file.write_text(text.replace("/usr/bin/pantala", str(server))
                        .replace("Documentation=man:pantala(1)\n", ""))
        said = [line for line in run("systemd-analyze", "verify", "--man=no", file).splitlines()
                if "pantala" in line]
        want(not said, "\n".join(said))
        found = run("systemd-analyze", "security", "--offline=true",
                    f"--threshold={EXPOSED_AT_MOST}", file)
    level = re.search(r"Overall exposure level for .*: ([\d.]+)", found)
    return f"exposure {level.group(1)} of 10" if level else ""


@check()
def configuration(server):
    """A server runs with the file that packages install."""
    with folder() as place:
        command = [server, DEPLOY / "pantala.conf", "--dir", place, "--port", "0",
                   "--unixsocket", f"{place}/socket"]
        with open(f"{place}/log", "w") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(lambda: run(server, "ping", f"{place}/socket", wants=None).strip() == "+PONG",
                  "the server serves")
        finally:
            process.terminate()
            process.wait()
        said = Path(f"{place}/log").read_text()
    want("WARN" not in said.replace("somaxconn", ""), said)


@check()
def manual(_server):
    """The manual page is formatted without a warning."""
    needs("man")
    said = run("man", "--warnings=w", "--encoding=UTF-8", "--local-file", "-Tutf8", "-Z",
               DEPLOY / "man" / "pantala.1", env={"MANWIDTH": "80", "PATH": "/usr/bin:/bin"})
    said = [line for line in said.splitlines() if re.match(r"(an\.tmac|troff|man|grotty|<)", line)]
    want(not said, "\n".join(said))


@check()
def completions(_server):
    """bash, zsh and fish complete settings and their values, where they are installed."""
    notes = []
    of_bash = [
        (["--io_engine", "=", "e"], "epoll"),
        (["--io_engine", "ur"], "uring"),
        (["--maxmemory-pol"], "--maxmemory-policy="),
        (["--force"], "--force_epoll"),
        (["chec"], "check"),
        (["--dir", "=", "/et"], "/etc"),
    ]
    with folder() as empty:
        for words, expected in of_bash:
            given = " ".join(f"'{word}'" for word in words)
            script = (f"compopt() {{ :; }}; source {DEPLOY}/completions/pantala.bash; "
                      f"COMP_WORDS=(pantala {given}); COMP_CWORD={len(words)}; _pantala; "
                      'echo "${COMPREPLY[@]}"')
            found = run("bash", "-c", script, cwd=empty).strip()
            want(found == expected, f"bash: {words}: {found!r}, not {expected!r}")
        if shutil.which("zsh"):
            run("zsh", "-n", DEPLOY / "completions" / "_pantala")
        else:
            notes.append("zsh is not installed")
        if shutil.which("fish"):
            file = DEPLOY / "completions" / "pantala.fish"
            for line, expected in (("--io_engine=e", "--io_engine=epoll"), ("chec", "check"),
                                   ("--maxmemory-pol", "--maxmemory-policy")):
                found = run("fish", "--no-config", "-c",
                            f"source {file}; complete -C 'pantala {line}'", cwd=empty)
                want(found.startswith(expected), f"fish: {line}: {found!r}, not {expected!r}")
        else:
            notes.append("fish is not installed")
    return ", ".join(notes)


@check()
def third_party(_server):
    """The libraries in the binary are named, with their licences."""
    text = run("python3", DEPLOY / "third_party.py")
    for name in ("tikv-jemalloc-sys", "lua-src", "ring", "rustls", "tokio", "mlua"):
        want(re.search(rf"^  {name} \S+ \(", text, re.M), f"{name} is not named")
    for phrase in ("Jason Evans", "Lua.org, PUC-Rio", "Permission is hereby granted"):
        want(phrase in text, f"nothing says: {phrase}")
    for line in text.splitlines():
        want(str(Path.home()) not in line and str(ROOT) not in line, line)


@check()
def stripped(server):
    """The release build is given away without its symbols, and its debug information fits it."""
    needs("objcopy", "readelf")
    if "release" not in server.parts:
        raise Skip("this is no release build")
    run("deploy/build", env={**os.environ, "PANTALA": str(server)})
    size = (DIST / "pantala").stat().st_size
    number = {_build_number(DIST / name) for name in ("pantala", "pantala.debug")}
    want(len(number) == 1, "the debug information is another build's")
    sections = run("readelf", "--wide", "--section-headers", DIST / "pantala")
    want(".gnu_debuglink" in sections and ".debug_info" not in sections, sections)
    want(size < BYTES_AT_MOST, f"{size:,} bytes are more than {BYTES_AT_MOST:,}: see Cargo.toml, "
         "what is small rather than fast, and `cargo tree` for what is new")
    return f"{size:,} bytes"


def _build_number(path):
    return re.search(r"Build ID: (\w+)", run("readelf", "--notes", path)).group(1)


@check(long=True)
def cargo_install(server):
    """`cargo install` from the sources gives a server."""
    mode = [] if "release" in server.parts else ["--debug"]
    with folder() as place:
        run("cargo", "install", "--quiet", "--locked", *mode, "--path", "crates/server",
            "--root", place)
        want(run(f"{place}/bin/pantala", "--version").startswith("pantala "), "no version")
