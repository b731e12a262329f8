"""Brings the suites into target/suites, at the versions written here; what is there stays."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / "target" / "suites"


def call(command, **rest):
    """Runs a command; what it printed, if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **rest)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def once(name, build):
    """A folder that `build` fills; a half-filled one is never taken for whole."""
    folder = FOLDER / name
    if not (folder / ".whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build(folder)
        (folder / ".whole").touch()
    return folder


def unpack(archive, sha256, folder):
    """Unpacks an archive without its top folder."""
    if (got := hashlib.sha256(archive.read_bytes()).hexdigest()) != sha256:
        raise RuntimeError(f"{archive.name} has the sum {got}, not {sha256}")
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            _, slash, member.name = member.name.partition("/")
            if slash:
                packed.extract(member, folder, filter="data")
    archive.unlink()


def codename():
    """What the release of Debian is called that this machine has."""
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["VERSION_CODENAME"]


def debian_source(package, version, sha256, release=None):
    """The upstream's archive of a source package of Debian, by apt as this machine has it; of
    another release than this machine's if one is named."""

    def build(folder):
        parts = folder / "parts"
        parts.mkdir()
        (folder / "lists" / "partial").mkdir(parents=True)
        listed = pathlib.Path("/etc/apt/sources.list.d").glob("*.sources")
        found = [entry for entry in listed if "Types: deb\n" in entry.read_text()]
        for entry in found:
            text = entry.read_text().replace("Types: deb\n", "Types: deb-src\n")
            text = text.replace(codename(), release) if release else text
            (parts / entry.name).write_text(text)
        options = [
            *("-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}"),
            *("-o", f"Dir::State::lists={folder / 'lists'}"),
        ]
        call(["apt-get", "update", *options])
        call(["apt-get", "source", "--download-only", "--tar-only", *options, package], cwd=folder)
        shutil.rmtree(parts)
        shutil.rmtree(folder / "lists")
        unpack(next(folder.glob(f"{package}_{version}.orig.tar.*")), sha256, folder)

    return once(f"{package}-{version}", build)


def sdist(package, version, sha256):
    """A source package of PyPI, unpacked."""

    def build(folder):
        call(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--no-binary", package, "--dest", folder, f"{package}=={version}"),
            ]
        )
        unpack(next(folder.glob("*.tar.gz")), sha256, folder)

    return once(f"{package}-{version}", build)


def python():
    """A Python with what the suites import."""
    needs = HERE / "requirements.txt"

    def build(folder):
        call([sys.executable, "-m", "venv", folder])
        pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        call([*pip, "install", "--quiet", "--requirement", needs])

    sum_of_needs = hashlib.sha256(needs.read_bytes()).hexdigest()[:12]
    return once(f"python-{sum_of_needs}", build) / "bin" / "python"


def go_module(path, version):
    """A module of Go with its tests, where it can be written; Go checks its sum itself."""

    def build(folder):
        download = ["go", "mod", "download", "-json", f"{path}@{version}"]
        found = json.loads(call(download, cwd=folder))
        # Without the modes: what lies in Go's cache is not to be written.
        shutil.copytree(found["Dir"], folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
        call(["chmod", "-R", "u+w", folder])

    return once(f"{path.replace('/', '-')}-{version}", build)


def go_test(folder, package):
    """The tests of a package as one program."""
    program = folder / "programs" / (package.strip("./").replace("/", "_") or "all")
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        call(["go", "test", "-c", "-o", program, package], cwd=folder)
    return program
