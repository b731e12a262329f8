#!/usr/bin/env python3
"""`pantala doctor` and a server of others at work.

    python3 compat/clients/doctor.py PANTALA HOST:PORT

PANTALA is the program; the server is a valkey-server or redis-server with DEBUG. What is asked of
it is watched by MONITOR: only what reads. Exit code 1 when something is not told as it is.
"""

import json
import re
import subprocess
import sys

import redis

READS = {
    "INFO", "CONFIG GET", "COMMAND", "COMMAND LIST", "MODULE LIST", "CLIENT LIST",
    "CLIENT NO-TOUCH", "SELECT", "SCAN", "TYPE", "STRLEN", "MEMORY USAGE",
}


def examine(program, address, *words):
    """Exit status and the report."""
    ran = subprocess.run([program, "doctor", f"redis://{address}", "--json", *words],
                         capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode in (0, 1), ran
    return ran.returncode, json.loads(ran.stdout)


def found(report, severity, about, word):
    for finding in report["findings"]:
        text = " ".join([finding["says"], *finding["items"], finding["advice"]])
        if (finding["severity"], finding["about"]) == (severity, about) and word in text:
            return True
    return False


def fill(client):
    client.flushall()
    client.execute_command("DEBUG", "POPULATE", 3000, "key", 100)
    client.rpush("list", *range(100))
    client.execute_command("SELECT", 3)
    client.execute_command("DEBUG", "POPULATE", 1000, "other", 100)
    client.execute_command("SELECT", 0)


def only_reads(client, act):
    """What others do meanwhile is none but reading."""
    with client.monitor() as monitor:
        answer = act()
        client.echo("the end")
        for line in monitor.listen():
            command = line["command"]
            if command == "ECHO the end":
                return answer
            if command.startswith("CLIENT SETINFO LIB-"):  # redis-py itself
                continue
            words = command.split()
            name = words[0].upper()
            full = " ".join(words[:2]).upper()
            assert name in READS or full in READS, command
    raise AssertionError("MONITOR has ended")


def main(program, address):
    host, port = address.rsplit(":", 1)
    client = redis.Redis(host, int(port), protocol=2, decode_responses=True)
    name = "Valkey" if "valkey_version" in client.info("server") else "Redis"
    fill(client)
    status, report = only_reads(client, lambda: examine(program, address))
    assert status == 0, report
    assert report["server"]["name"] == name and report["server"]["keys"] == 4001, report
    # Of head, key and value, in classes of 112 and 128, and 12 bytes of the table.
    each = report["estimate"]["bytes"] / 4001
    assert 110 < each < 150, each
    assert found(report, "note", "data", f"the snapshots of {name}"), report
    assert report["estimate"]["sampled"] >= 200, report

    client.config_set("maxmemory", "100mb")
    client.config_set("maxmemory-policy", "allkeys-lfu")
    client.config_set("min-replicas-to-write", 1)
    _, report = examine(program, address)
    assert found(report, "note", "memory", "allkeys-lfu"), report
    assert found(report, "note", "settings", "maxmemory 104857600"), report
    # Which settings are refused changes as parts land; then they are carried over.
    assert any(found(report, severity, "settings", "min-replicas-to-write 1")
               for severity in ("stops", "note")), report
    client.config_set("min-replicas-to-write", 0)

    user = ["+@all", "-config", "-client|list", "-scan"]
    client.execute_command("ACL", "SETUSER", "looker", "on", ">pass", "~*", *user)
    address_of = address.replace(host, f"looker:pass@{host}")
    status, report = examine(program, address_of)
    assert status == 0 and found(report, "differs", "settings", "CONFIG GET is refused"), report
    assert report["estimate"] is None, report

    ran = subprocess.run([program, "doctor", f"redis://looker:wrong@{address}"],
                         capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 2 and "WRONGPASS" in ran.stderr, ran
    text = subprocess.run([program, "doctor", f"redis://{address}"], capture_output=True,
                          text=True, timeout=120, check=False).stdout
    assert re.match(rf"{name} [0-9.]+ at {re.escape(address)}: 4,001 keys", text), text
    client.flushall()


if __name__ == "__main__":
    main(*sys.argv[1:])
