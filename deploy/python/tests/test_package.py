"""The package as its users have it: run by pytest in a fresh environment with the wheel."""

import os
import subprocess
import time

import pytest

import pantala

pytest_plugins = ["pytester"]
# A limit only for what will never be.
PATIENCE_S = 60


def test_the_fixture_gives_a_running_server(pantala_server):
    assert pantala_server.port > 0
    assert pantala_server.url == f"redis://127.0.0.1:{pantala_server.port}/0"
    # It serves a moment before its log says so.
    end = time.monotonic() + PATIENCE_S
    while "ready to accept connections" not in pantala_server.log.lower():
        assert time.monotonic() < end, pantala_server.log


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_client_finds_it_empty(pantala_client, attempt):
    assert pantala_client.dbsize() == 0
    pantala_client.set("attempt", attempt)
    assert pantala_client.get("attempt") == str(attempt).encode()


def test_flags_of_pytest_reach_the_server(pytester):
    pytester.makeini('[pytest]\npantala_flags = --maxmemory 64mb --availability-zone "a b"\n')
    pytester.makepyfile("""
        def test_inner(pantala_client):
            assert pantala_client.config_get("maxmemory") == {"maxmemory": "67108864"}
            zone = pantala_client.config_get("availability-zone")
            assert zone == {"availability-zone": "a b"}
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_server_ends_and_begins_again_empty():
    server = pantala.Server()
    with server:
        first = server._process.pid
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()
    assert not os.path.exists(f"/proc/{first}")
    with server:
        server.flush()


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(RuntimeError, match="did you mean 'maxmemory'"):
        pantala.Server("--maxmemry", "1gb").start()


def test_a_server_with_a_password_starts():
    with pantala.Server("--requirepass", "secret") as server:
        with pytest.raises(RuntimeError, match="NOAUTH"):
            server.flush()


def test_the_script_is_the_server():
    done = subprocess.run(["pantala-server", "--version"], capture_output=True, text=True,
                          check=True)
    assert done.stdout.startswith("pantala ")
    done = subprocess.run(["python", "-m", "pantala", "--help"], capture_output=True, text=True,
                          check=True)
    assert "--maxmemory" in done.stdout
