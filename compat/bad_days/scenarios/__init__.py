"""The scenarios, by what goes wrong. A new module is imported here; it declares its scenarios."""

from . import (  # noqa: F401
    append_only, append_only_kills, browsers, buffers, circumstances, clients, eviction,
    file_calls, holes, input, items, large_reads, limits, migrate, monitors, persistence, pubsub,
    safety, scripts, slow_disk, soak, threads, tls, unauthenticated, users, waiting, words,
)
from . import memory  # noqa: F401
