"""The cases that are expected to fail, and why.

    = later: no persistence yet          the cause, a colon, the reason; holds for what follows
    unit/other: EXPIRES after AOF reload
    ~ unit/replybufsize: buffers         fails at times
    - unit/functions: function kill      is not played: those behind it would wait for its end
    # a comment
"""

import dataclasses

# later: of a part of the server that is to come. differs: docs/differences.md has it.
# reference: valkey-server fails it as well. suite: it asks for what is not there in this run.
CAUSES = ("later", "differs", "reference", "suite")

# What replaced.py says of a whole unit.
NO_CASES = {"as a whole", "outside of a test"}


@dataclasses.dataclass
class Listed:
    cause: str
    wavers: bool
    is_played: bool


class Expected:
    def __init__(self, path):
        self.path, self.listed, cause = path, {}, None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("= "):
                cause, colon, reason = line[2:].partition(": ")
                if cause not in CAUSES or not reason:
                    raise ValueError(f"{path}:{number}: not a cause and a reason")
                continue
            mark = line[0] if line.startswith(("~ ", "- ")) else ""
            name = line[2:] if mark else line
            if cause is None or name in self.listed:
                raise ValueError(f"{path}:{number}: no reason above, or twice")
            self.listed[name] = Listed(cause, mark == "~", mark != "-")
        self.met = set()

    def take(self, name):
        """What is said of a case, or None."""
        self.met.add(name)
        return self.listed.get(name)

    def names_of(self, unit, causes):
        """The cases of a unit that are listed with one of these causes, without the unit."""
        found = (name for name, case in self.listed.items() if case.cause in causes)
        parted = (name.partition(": ") for name in found)
        return {name for at, _, name in parted if at == unit} - NO_CASES

    def left_out(self):
        return [name for name, case in self.listed.items() if not case.is_played]

    def left(self):
        """What should have been played and was not."""
        return [n for n, case in self.listed.items() if case.is_played and n not in self.met]

    def keep_to(self, units):
        """Forgets what stands there of other units."""
        inside = tuple(f"{unit}: " for unit in units)
        self.listed = {name: at for name, at in self.listed.items() if name.startswith(inside)}
