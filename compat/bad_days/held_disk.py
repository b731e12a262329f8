"""A disk whose syncs wait or fail as long as a scenario wants it: `held_disk.c`, preloaded."""

from preloaded import Preloaded
from server import until


class HeldDisk(Preloaded):
    """For servers that are started while it is there."""

    SOURCE = "held_disk.c"

    def under(self, server):
        """This server's syncs are those of this disk; to be said before its start."""
        server.variables |= {"LD_PRELOAD": str(self.library), "HELD_DISK": str(self.directory)}
        return server

    def hold(self):
        """From now on syncs wait."""
        (self.directory / "waits").unlink(missing_ok=True)
        (self.directory / "hold").touch()

    def wait_for_sync(self):
        """Until a sync waits."""
        until((self.directory / "waits").exists, "a sync waits")

    def let_go(self):
        """Syncs wait no more."""
        (self.directory / "hold").unlink(missing_ok=True)

    def fail(self, fails):
        """Whether syncs fail from now on."""
        if fails:
            (self.directory / "fail").touch()
        else:
            (self.directory / "fail").unlink(missing_ok=True)
