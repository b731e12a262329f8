#!/usr/bin/env python3
"""Telemetry that is exported by OTLP, before a collector of our own.

    otlp.py --server 'COMMAND with {port} and {dir}'

Metrics and spans arrive whole, in the form that OTLP's JSON encoding has; a collector that refuses,
or is not there, costs clients nothing, and what it missed is counted. Exit code 1 when anything
fails.
"""

import argparse
import json
import pathlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(1, str(pathlib.Path(__file__).parents[1]))

from client import Client  # noqa: E402
from run import Checks, answers, fetch  # noqa: E402
from server import Server, until  # noqa: E402

SETTINGS = ("--otlp_interval=1 --otlp_sample=1 --otlp_headers=x-key=sesame,x-other=2 "
            "--otlp_attributes=service.name=sessions,zone=b")


class Collector:
    """Keeps what is sent to it, by path; answers with a status that can be changed."""

    def __init__(self):
        self.status = 200
        self.bodies = {"/v1/metrics": [], "/v1/traces": []}
        self.headers = None
        self.refused = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if outer.status == 200:
                    outer.bodies[self.path].append(body)
                    outer.headers = self.headers
                else:
                    outer.refused += 1
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def metrics(self):
        """The newest export: kind and points by name."""
        [resource] = self.bodies["/v1/metrics"][-1]["resourceMetrics"]
        [scope] = resource["scopeMetrics"]
        kinds = ("sum", "gauge", "histogram")
        return {metric["name"]: next((kind, metric[kind]) for kind in kinds if kind in metric)
                for metric in scope["metrics"]}

    def spans(self):
        for body in self.bodies["/v1/traces"]:
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    yield from scope["spans"]


def attributes(thing):
    values = ((each["key"], each["value"]) for each in thing["attributes"])
    return {key: value.get("stringValue", value.get("intValue")) for key, value in values}


def exported(checks, server, collector):
    with Client(("127.0.0.1", server.port)) as client:
        client.call("CLIENT", "SETNAME", "tester")
        for number in range(50):
            client.call("SET", f"key:{number}", "secret value")
            client.call("GET", f"key:{number * 2}")
        client.call("AUTH", "default", "secret password")
        client.call("MULTI")
        client.call("INCR", "counter")
        client.call("EXEC")
        client.call("CONFIG", "SET", "commandlog-execution-slower-than", "0")
        client.call("LPUSH", "list", "secret element")
        client.call("CONFIG", "SET", "commandlog-execution-slower-than", "-1")
    texts = {"SET key:49 ?", "GET key:98", "EXEC", "LPUSH list ?"}

    def told():
        return texts - {attributes(span)["db.query.text"] for span in collector.spans()}

    until(lambda: not told(), f"spans of {texts}")
    spans = list(collector.spans())
    checks.check("spans have numbers of their own", all(
        len(span["traceId"]) == 32 and len(span["spanId"]) == 16 for span in spans)
        and len({span["spanId"] for span in spans}) == len(spans), spans[:3])
    checks.check("spans end after they begin", all(
        0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans))
    [span] = [span for span in spans if attributes(span)["db.query.text"] == "SET key:49 ?"]
    about = attributes(span)
    checks.check("a span says what and who", span["name"] == "SET" and span["kind"] == 2
                 and about["network.peer.address"] == "127.0.0.1"
                 and about["pantala.client.name"] == "tester", span)
    checks.check("nothing secret is told", "secret" not in json.dumps(collector.bodies))
    names = {attributes(body["resourceSpans"][0]["resource"])["service.name"]
             for body in collector.bodies["/v1/traces"]}
    checks.check("the resource is the operator's", names == {"sessions"}, names)
    checks.check("headers are sent", collector.headers["x-key"] == "sesame"
                 and collector.headers["x-other"] == "2", collector.headers)


def metrics(checks, server, collector):
    """What /metrics has arrives, and is the same."""
    count = len(collector.bodies["/v1/metrics"])
    until(lambda: len(collector.bodies["/v1/metrics"]) > count + 1, "two more exports")
    told = collector.metrics()
    _, _, text = fetch(server.port, "/metrics")
    kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    as_here = {"sum": "counter"}
    checks.check("the same metrics of the same kinds", kinds == {
        name: as_here.get(kind, kind) for name, (kind, _) in told.items()},
        set(kinds) ^ set(told))
    points = {attributes(point)["command"]: int(point["asInt"])
              for point in told["pantala_commands_total"][1]["dataPoints"]}
    checks.check("counts are right", points.get("set") == 50, points)
    sums = told["pantala_commands_total"][1]
    checks.check("counters are sums since the start",
                 sums["isMonotonic"] and sums["aggregationTemporality"] == 2)
    for point in told["pantala_command_duration_seconds"][1]["dataPoints"]:
        buckets = [int(count) for count in point["bucketCounts"]]
        checks.check("histograms are whole", sum(buckets) == int(point["count"])
                     and len(buckets) == len(point["explicitBounds"]) + 1, point)


def in_trouble(checks, server, collector):
    collector.status = 503
    before = collector.refused

    def work():
        with Client(("127.0.0.1", server.port)) as client:
            client.call("GET", "key:1")

    until(lambda: work() or collector.refused > before + 3, "it is refused")

    def dropped():
        _, _, text = fetch(server.port, "/metrics")
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        return (int(figures["pantala_otlp_spans_dropped_total"]) > 0
                and int(figures['pantala_otlp_exports_total{outcome="failed"}']) > 0)

    until(dropped, "it is counted")
    collector.status = 200
    count = len(collector.bodies["/v1/metrics"])
    until(lambda: len(collector.bodies["/v1/metrics"]) > count, "it goes on")
    collector.server.shutdown()
    collector.server.server_close()
    work()
    checks.check("clients are served without a collector", answers("/healthz")(server.address))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    command = parser.parse_args().server
    checks, collector = Checks(), Collector()

    line = f"{command} --otlp_endpoint={collector.endpoint}/ {SETTINGS}"
    with Server(line, is_served=answers("/healthz")) as server:
        exported(checks, server, collector)
        metrics(checks, server, collector)
        in_trouble(checks, server, collector)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed != 0)


if __name__ == "__main__":
    main()
