"""The scenarios, by what goes wrong. A new module is imported here; it declares its scenarios."""

from . import circumstances, clients, input, limits, threads  # noqa: F401
