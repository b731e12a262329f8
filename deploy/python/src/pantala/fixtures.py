"""Fixtures for pytest; the package's entry point makes them known."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from ._server import Server


def pytest_addoption(parser: pytest.Parser) -> None:
    """More flags for the server."""
    about = "flags for the server of pantala_server"
    parser.addoption("--pantala-flags", default=None, help=about)
    parser.addini("pantala_flags", about, default="")


@pytest.fixture(scope="session")
def pantala_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A running server, one for the session. What tests put into it stays until the end: call
    `flush()`, or use `pantala_client`."""
    flags = pytestconfig.getoption("--pantala-flags") or pytestconfig.getini("pantala_flags")
    with Server(*shlex.split(flags)) as server:
        yield server


@pytest.fixture
def pantala_client(pantala_server: Server) -> Iterator[Any]:
    """A client of redis-py to `pantala_server`, which is empty when the test begins."""
    redis = pytest.importorskip("redis")
    pantala_server.flush()
    client = redis.Redis(host=pantala_server.host, port=pantala_server.port)
    yield client
    client.close()
