"""Servers that are killed, or whose files fail, at a counted call: `counted_calls.c`, preloaded."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from trial import Skip

KILLS = ("before", "after", "half")
FAULTS = ("full", "broken")


class CountedCalls:
    """For servers that are started while it is there."""

    def __init__(self):
        if not shutil.which("cc"):
            raise Skip("there is no cc")
        self.directory = Path(tempfile.mkdtemp(prefix="counted-calls-"))
        self.library = self.directory / "counted_calls.so"
        self.begin = self.directory / "begin"
        source = Path(__file__).with_name("counted_calls.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"],
                       check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)

    def end(self, server, at, how, part):
        """The next start of this server ends at its call number `at` that changes a file whose path
        has `part` in it, counted from `count` on."""
        self.begin.unlink(missing_ok=True)
        server.variables = {"LD_PRELOAD": str(self.library), "COUNTED_AT": str(at),
                            "COUNTED_HOW": how, "COUNTED_PART": part,
                            "COUNTED_BEGIN": str(self.begin)}

    def count(self):
        """From now on calls are counted."""
        self.begin.touch()
