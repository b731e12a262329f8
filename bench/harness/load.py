"""pantala-load, the Rust tool in bench/load: fills every server, and loads memcached as well."""

import json

PROGRAM = "pantala-load"


def fill_line(port, protocol, *, keys, value_bytes, first=0, ttl_s=0):
    line = [PROGRAM, "fill", "--port", str(port), "--protocol", protocol, "--keys", str(keys)]
    line += ["--value-bytes", str(value_bytes), "--first", str(first)]
    return line + ["--ttl-s", str(ttl_s), "--json"]


def run_line(
    port,
    protocol,
    *,
    keys,
    value_bytes,
    clients,
    pipeline,
    requests,
    get_percent=100,
    multi_get=False,
):
    line = [PROGRAM, "run", "--port", str(port), "--protocol", protocol, "--keys", str(keys)]
    line += ["--value-bytes", str(value_bytes), "--connections", str(clients)]
    line += ["--pipeline", str(pipeline), "--requests", str(requests)]
    line += ["--multi-get"] if multi_get else []
    return line + ["--get-percent", str(get_percent), "--json"]


def parse(output):
    """The one line of JSON that it prints."""
    return json.loads(output.strip().splitlines()[-1])
