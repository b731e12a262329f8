"""The scenarios, by what they are about. A new module is imported here; it declares its own."""

from . import (  # noqa: F401
    access, chains, clients, copies, expiry, guarantees, large, links, processes, roles, rubbish,
    sentinel, steps, tools,
)
