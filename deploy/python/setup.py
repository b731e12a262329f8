"""What pyproject.toml cannot say: the version is that of the workspace, the binary comes from
target/dist (`deploy/build wheel`), and the wheel is for one machine and any Python."""

import platform
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DIST = ROOT / "target" / "dist"


def version():
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'\[workspace\.package\]\s+version = "([^"]+)"', text).group(1)


class WithBinary(build_py):
    """Puts the binary among the package's files."""

    def run(self):
        super().run()
        package = Path(self.build_lib) / "pantala"
        (package / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(DIST / "pantala", package / "bin" / "pantala")
        (package / "bin" / "pantala").chmod(0o755)
        shutil.copy(DIST / "THIRD-PARTY.txt", package / "THIRD-PARTY.txt")


class ForThisMachine(bdist_wheel):
    """The tag tells the oldest glibc that has every symbol which the binary asks for."""

    def get_tag(self):
        asked = re.findall(rb"GLIBC_2\.(\d+)\0", (DIST / "pantala").read_bytes())
        minor = max(int(number) for number in asked)
        return "py3", "none", f"manylinux_2_{minor}_{platform.machine()}"


class WithCode(Distribution):
    """Not for every machine."""

    def has_ext_modules(self):
        return True


setup(version=version(), distclass=WithCode,
      cmdclass={"build_py": WithBinary, "bdist_wheel": ForThisMachine})
