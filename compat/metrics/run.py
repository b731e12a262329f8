#!/usr/bin/env python3
"""What operators watch, with Prometheus itself: metrics, alerts, and the dashboard's expressions.

    run.py --server 'COMMAND with {port} and {dir}'

Prometheus and promtool are those of the distribution. Exit code 1 when anything fails.
"""

import argparse
import http.client
import json
import pathlib
import subprocess
import sys
import urllib.parse

HERE = pathlib.Path(__file__).parent
# Behind our own folder: others have a `run`, too.
sys.path.insert(1, str(HERE.parent))

from client import Client  # noqa: E402
from server import Server, until  # noqa: E402

REPOSITORY = HERE.parents[1]
DEPLOY = REPOSITORY / "deploy"
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: pantala
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
  - job_name: other_names
    params: {{names: [dragonfly, redis_exporter]}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
PROMETHEUS = ("prometheus --config.file={dir}/prometheus.yml --storage.tsdb.path={dir}/data "
              "--web.listen-address=127.0.0.1:{port}")
# What a dashboard for redis_exporter, and one for Dragonfly, look at first.
OTHERS = (
    "redis_up", "redis_instance_info", "redis_memory_used_bytes", "redis_memory_max_bytes",
    "redis_connected_clients", "redis_commands_total", "redis_commands_duration_seconds_total",
    "redis_keyspace_hits_total", "redis_db_keys", "redis_net_input_bytes_total",
    "redis_expired_keys_total", "redis_evicted_keys_total", "redis_uptime_in_seconds",
    "dragonfly_memory_used_bytes", "dragonfly_memory_max_bytes", "dragonfly_connected_clients",
    "dragonfly_commands_total", "dragonfly_db_keys", "dragonfly_keyspace_hits_total",
    "dragonfly_net_input_bytes_total", "dragonfly_used_memory_rss_bytes",
)


def fetch(port, path, **headers):
    """Status, content type and text of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), text


def answers(path):
    """Whether a server has this page."""
    def has_page(address):
        try:
            return fetch(address[1], path)[0] == 200
        except ConnectionError:
            return False

    return has_page


def some_work(port):
    """Commands of several families, hits and misses, an error, files of both kinds."""
    with Client(("127.0.0.1", port)) as client:
        for number in range(200):
            client.call("SET", f"key:{number}", "v" * 100)
            client.call("GET", f"key:{number * 2}")
            client.call("HSET", "hash", number, number)
        client.call("SET", "soon", "v", "EX", 1000)
        client.call("CONFIG", "SET", "appendonly", "yes")
        client.call("LPUSH", "hash", "x")
        client.call("KEYS", "key:1*")
        client.call("SAVE")
        client.call("PING")


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, truth, why=""):
        if truth:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {name}: {why}")


def lint(checks, server):
    """Ours keep Prometheus' rules for names; the others' are at least understood."""
    for names, most in (("pantala", 0), ("dragonfly,redis_exporter", 3)):
        status, kind, text = fetch(server.port, f"/metrics?names={names}")
        checks.check(names, status == 200 and kind.startswith("text/plain"), (status, kind))
        ran = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                             text=True, check=False)
        checks.check(f"promtool, {names}", ran.returncode in (0, most), ran.stdout + ran.stderr)
    accept = "application/openmetrics-text; version=1.0.0"
    _, kind, text = fetch(server.port, "/metrics", Accept=accept)
    checks.check("OpenMetrics", kind.startswith("application/openmetrics-text")
                 and text.endswith("# EOF\n"), (kind, text[-80:]))
    checks.check("unknown names", fetch(server.port, "/metrics?names=other")[0] == 400)


def rules(checks):
    folder = DEPLOY / "prometheus"
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        ran = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True,
                             check=False)
        checks.check(" ".join(words), ran.returncode == 0, ran.stdout + ran.stderr)


def dashboard_lines():
    """Each expression of the dashboard, as Grafana would send it."""
    made = [sys.executable, DEPLOY / "grafana" / "make.py", "--check"]
    assert subprocess.run(made, check=False).returncode == 0, "the dashboard is not current"
    board = json.loads((DEPLOY / "grafana" / "pantala.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            line = target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
            yield panel["title"], line


def api(prometheus, path, **words):
    status, _, text = fetch(prometheus.port, f"/api/v1/{path}?{urllib.parse.urlencode(words)}")
    assert status == 200, text
    return json.loads(text)["data"]


def has_data(prometheus, line):
    return bool(api(prometheus, "query", query=line)["result"])


def scraped(checks, server, prometheus):
    """A real Prometheus reads all of it, and finds what dashboards and alerts ask for."""
    def up():
        some_work(server.port)
        targets = api(prometheus, "targets")["activeTargets"]
        return len(targets) == 2 and all(target["health"] == "up" for target in targets)

    until(up, "both targets are up")
    # Nothing to expect where nothing was denied, closed or appended.
    quiet = {"Denied by ACL", "Accepted, refused, closed by limits"}
    # A rate needs two samples with work between them.
    until(lambda: some_work(server.port) or has_data(
        prometheus, "rate(pantala_key_hits_total[30s]) > 0"), "there are rates")
    for title, line in dashboard_lines():
        missing = not has_data(prometheus, line) and title not in quiet
        checks.check(title, not missing or "memory_max" in line, f"no data: {line}")
    for name in OTHERS:
        checks.check(name, has_data(prometheus, name), "no data")
    groups = api(prometheus, "rules")["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        checks.check(rule["name"], rule["health"] != "err", rule.get("lastError"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    command = parser.parse_args().server
    checks = Checks()

    rules(checks)
    with Server(command, is_served=answers("/healthz")) as server:
        some_work(server.port)
        lint(checks, server)
        prometheus = Server(PROMETHEUS, is_served=answers("/-/ready"))
        config = CONFIG.format(port=server.port, rules=DEPLOY / "prometheus" / "alerts.yml")
        (prometheus.directory / "prometheus.yml").write_text(config)
        with prometheus:
            scraped(checks, server, prometheus)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed != 0)


if __name__ == "__main__":
    main()
