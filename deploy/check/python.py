"""The Python package."""

import os
import sys

from trial import DEPLOY, DIST, check, folder, run, want

# What a user would have beside it.
BESIDE = ["pytest==9.2.0", "redis==8.1.0"]


@check()
def wheel(server):
    """The wheel is installed in a fresh environment, and its own tests pass there."""
    for old in DIST.glob("*.whl"):
        old.unlink()
    # pip and the build must not find the environment of this process.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run("deploy/build", "wheel", env={**clean, "PANTALA": str(server)})
    [built] = DIST.glob("pantala-*.whl")
    want("manylinux_2_" in built.name and "-py3-none-" in built.name, built.name)
    with folder() as place:
        run(sys.executable, "-m", "venv", f"{place}/venv", env=clean)
        pip = [f"{place}/venv/bin/pip", "--quiet", "--disable-pip-version-check"]
        run(*pip, "install", built, *BESIDE, env=clean)
        tests = DEPLOY / "python" / "tests"
        run(f"{place}/venv/bin/pytest", "-q", "-p", "no:cacheprovider", tests, cwd=place,
            env={**clean, "PATH": f"{place}/venv/bin:{clean['PATH']}"})
        run(*pip, "uninstall", "--yes", "pantala", env=clean)
    leftovers = ("build", "pantala.egg-info")
    left = [path for path in DEPLOY.glob("python/**/*") if path.name in leftovers]
    want(not left, f"the build has left {left}")
    return f"{built.name}, {built.stat().st_size:,} bytes"
