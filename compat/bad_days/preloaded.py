"""A library in C that is preloaded into servers, compiled into a directory of its own."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from trial import Skip


class Preloaded:
    """For servers that are started while it is there; SOURCE names the file beside this one."""

    SOURCE = None

    def __init__(self):
        if not shutil.which("cc"):
            raise Skip("there is no cc")
        self.directory = Path(tempfile.mkdtemp(prefix="preloaded-"))
        self.library = self.directory / "preloaded.so"
        source = Path(__file__).with_name(self.SOURCE)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"],
                       check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)
