"""The scenarios, by what they are about. A new module is imported here; it declares its own."""

from . import (  # noqa: F401
    access, beside, chains, clients, copies, expiry, followers, guarantees, hostile, kinds, large,
    links, moving, parts, processes, roles, rubbish, sealed, sentinel, steps, tools,
)
