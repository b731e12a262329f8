"""The scenarios, by what goes wrong. A new module is imported here; it declares its scenarios."""

from . import buffers, circumstances, clients, input, limits, pubsub, threads  # noqa: F401
