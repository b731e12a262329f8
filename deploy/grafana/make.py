#!/usr/bin/env python3
"""Writes pantala.json, the Grafana dashboard; --check says whether it is current.

One line here is one panel, so that it can be read and changed.
"""

import json
import sys
from pathlib import Path

FILE = Path(__file__).with_name("pantala.json")
ME = '{instance=~"$instance"}'
SPAN = "[$__rate_interval]"


def rate(name, labels=ME):
    return f"rate({name}{labels}{SPAN})"


def total(expression, by="instance"):
    return f"sum by ({by}) ({expression})"


def quantile(of):
    buckets = total(rate("pantala_command_duration_seconds_bucket"), "le")
    return f"histogram_quantile({of}, {buckets})"


HITS, MISSES = rate("pantala_key_hits_total"), rate("pantala_key_misses_total")

# Title of each row; of each panel in it the title, its unit, and (legend, expression) of each line.
ROWS = [
    ("Overview", [
        ("Commands", "ops", [
            ("{{command}}", f"topk(10, {total(rate('pantala_commands_total'), 'command')})")]),
        ("Time of a command", "s", [
            (f"p{100 * q:g}", quantile(q)) for q in (0.5, 0.99, 0.999)]),
        ("Memory", "bytes", [
            ("used", f"pantala_memory_used_bytes{ME}"),
            ("resident", f"pantala_memory_rss_bytes{ME}"),
            ("limit", f"pantala_memory_max_bytes{ME} > 0")]),
        ("Reads that find their key", "percentunit", [
            ("{{instance}}", f"{HITS} / ({HITS} + {MISSES})")]),
    ]),
    ("Keys", [
        ("Keys", "short", [("db {{db}}", f"pantala_keys{ME}"),
                           ("db {{db}} with a deadline", f"pantala_keys_with_deadline{ME}")]),
        ("Expired and evicted", "ops", [("expired", rate("pantala_expired_keys_total")),
                                        ("evicted", rate("pantala_evicted_keys_total"))]),
        ("Changes that no snapshot has", "short", [
            ("{{instance}}", f"pantala_changes_since_snapshot{ME}")]),
    ]),
    ("Commands", [
        ("Time in commands, of a core", "percentunit", [
            ("{{command}}",
             f"topk(10, {total(rate('pantala_command_seconds_total'), 'command')})")]),
        ("Errors", "ops", [("{{code}}", total(rate("pantala_errors_total"), "code"))]),
        ("Denied by ACL", "ops", [
            ("{{reason}}", total(rate("pantala_acl_denied_total"), "reason"))]),
    ]),
    ("Clients and network", [
        ("Connections", "short", [("open", f"pantala_clients{ME}"),
                                  ("blocked", f"pantala_clients_blocked{ME}")]),
        ("Accepted, refused, closed by limits", "ops", [
            ("accepted", rate("pantala_connections_accepted_total")),
            ("refused", rate("pantala_connections_refused_total")),
            ("limit: {{limit}}", rate("pantala_connections_closed_total"))]),
        ("Network", "Bps", [("in", rate("pantala_received_bytes_total")),
                            ("out", rate("pantala_sent_bytes_total"))]),
        ("Buffers of connections", "bytes", [
            ("{{instance}}", f"pantala_client_buffer_bytes{ME}")]),
    ]),
    ("Threads", [
        ("Load of the workers", "percentunit", [
            ("worker {{worker}}", rate("pantala_worker_busy_seconds_total"))]),
        ("Connections of the workers", "short", [
            ("worker {{worker}}", f"pantala_worker_connections{ME}")]),
        ("Commands that waited for a partition", "ops", [
            ("worker {{worker}}", rate("pantala_worker_parks_total"))]),
        ("Slow lane", "short", [("waiting", f"pantala_lane_waiting{ME}"),
                                ("jobs a second", rate("pantala_lane_jobs_total"))]),
        ("CPU", "percentunit", [("{{mode}}", rate("pantala_cpu_seconds_total"))]),
    ]),
    ("Files", [
        ("Age of the last snapshot", "s", [
            ("{{instance}}", f"time() - pantala_snapshot_last_time_seconds{ME}")]),
        ("Duration of the last snapshot", "s", [
            ("{{instance}}", f"pantala_snapshot_last_duration_seconds{ME} >= 0")]),
        ("Append-only file", "bytes", [("size", f"pantala_aof_size_bytes{ME}"),
                                       ("after its rewrite", f"pantala_aof_base_size_bytes{ME}")]),
    ]),
]
WIDE, HIGH = 24, 8


def panel(number, at, title, unit, lines):
    source = {"type": "prometheus", "uid": "${source}"}
    targets = [{"datasource": source, "expr": expression, "legendFormat": legend,
                "refId": chr(ord("A") + index)}
               for index, (legend, expression) in enumerate(lines)]
    return {"id": number, "type": "timeseries", "title": title, "datasource": source,
            "gridPos": at, "targets": targets,
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"},
                        "tooltip": {"mode": "multi", "sort": "desc"}}}


def panels():
    made, y = [], 0
    for title, row in ROWS:
        made.append({"id": len(made) + 1, "type": "row", "title": title, "collapsed": False,
                     "panels": [], "gridPos": {"x": 0, "y": y, "w": WIDE, "h": 1}})
        y += 1
        width = WIDE // len(row)
        for number, each in enumerate(row):
            at = {"x": number * width, "y": y, "w": width, "h": HIGH}
            made.append(panel(len(made) + 1, at, *each))
        y += HIGH
    return made


def dashboard():
    source = {"name": "source", "label": "Prometheus", "type": "datasource",
              "query": "prometheus"}
    instance = {"name": "instance", "label": "Server", "type": "query", "refresh": 2,
                "includeAll": True, "multi": True, "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
                "datasource": {"type": "prometheus", "uid": "${source}"},
                "query": "label_values(pantala_build_info, instance)"}
    return {"uid": "pantala", "title": "Pantala", "tags": ["pantala"], "schemaVersion": 39,
            "version": 1, "editable": True, "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [source, instance]}, "panels": panels()}


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        if not FILE.exists() or FILE.read_text() != text:
            sys.exit(f"{FILE.name} is not current: run {Path(__file__).name}")
    else:
        FILE.write_text(text)


if __name__ == "__main__":
    main()
