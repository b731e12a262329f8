"""Servers that are killed, or whose files fail, at a counted call: `counted_calls.c`, preloaded."""

from preloaded import Preloaded

KILLS = ("before", "after", "half")
FAULTS = ("full", "broken")


class CountedCalls(Preloaded):
    """For servers that are started while it is there."""

    SOURCE = "counted_calls.c"

    def __init__(self):
        super().__init__()
        self.begin = self.directory / "begin"

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
