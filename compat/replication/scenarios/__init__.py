"""The scenarios, by what they are about. A new module is imported here; it declares its own."""

from . import (  # noqa: F401
    access, chains, copies, expiry, guarantees, links, processes, roles, rubbish, steps,
)
