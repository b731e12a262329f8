"""Redis 7.0.15's own suite in Tcl, where it starts the servers itself: what it asks of files, of
restarts and of the log; and units of all kinds once more over TLS. `as_redis.py` stands in the
place of its programs."""

import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import tempfile

import bring
import redis_tcl
from network import Case

HERE = pathlib.Path(__file__).resolve().parent
TAGS = "-slow -needs:repl -large-memory"
FLAGS = ["--durable", "--timeout", "300", "--ignore-encoding", "--tags", TAGS]
# Copies are made by threads of the server: its processor time is no child's.
FLAGS_OF_REPLICATION = [*FLAGS[:-1], "-large-memory", "--no-latency"]
UNIT_S = 900

# What is about files and the process. All else is played by `redis_tcl`, with one server.
UNITS = [
    "integration/aof",
    "integration/aof-multi-part",
    "integration/rdb",
    "integration/corrupt-dump",
    "integration/corrupt-dump-fuzzer",
    "integration/convert-zipmap-hash-on-load",
    "integration/convert-ziplist-hash-on-load",
    "integration/convert-ziplist-zset-on-load",
    "integration/logging",
    "integration/dismiss-mem",
    "integration/redis-benchmark",
    "unit/acl",
    "unit/acl-v2",
    "unit/aofrw",
    "unit/auth",
    "unit/client-eviction",
    "unit/dump",
    "unit/expire",
    "unit/maxmemory",
    "unit/limits",
    "unit/obuf-limits",
    "unit/other",
    "unit/shutdown",
]

# Once more with TLS between: those about connections, about what comes unasked, and about much.
UNITS_OVER_TLS = [
    "unit/tls",
    "unit/acl",
    "unit/acl-v2",
    "unit/auth",
    "unit/client-eviction",
    "unit/info",
    "unit/introspection",
    "unit/introspection-2",
    "unit/limits",
    "unit/multi",
    "unit/networking",
    "unit/obuf-limits",
    "unit/other",
    "unit/protocol",
    "unit/pubsub",
    "unit/querybuf",
    "unit/shutdown",
    "unit/tracking",
    "unit/type/list",
    "integration/redis-benchmark",
    "integration/redis-cli",
]

# A primary and its replicas, all of them ours.
UNITS_OF_REPLICATION = [
    "integration/block-repl",
    "integration/failover",
    "integration/psync2",
    "integration/psync2-master-restart",
    "integration/psync2-pingoff",
    "integration/psync2-reg",
    "integration/replication",
    "integration/replication-buffer",
    "integration/replication-2",
    "integration/replication-3",
    "integration/replication-4",
    "integration/replication-psync",
    "integration/shutdown",
    "unit/wait",
]


def suite(expected):
    folder = bring.debian_source("redis", redis_tcl.VERSION, redis_tcl.SUM)
    return players(folder, expected, UNITS, FLAGS)


def of_replication(expected):
    folder = bring.debian_source("redis", redis_tcl.VERSION, redis_tcl.SUM)
    return players(folder, expected, UNITS_OF_REPLICATION, FLAGS_OF_REPLICATION)


def over_tls(expected):
    folder = bring.debian_source("redis", redis_tcl.VERSION, redis_tcl.SUM)
    if not (folder / "tests" / "tls" / "redis.crt").exists():
        make_certificates(folder)
    return players(folder, expected, UNITS_OVER_TLS, [*FLAGS, "--tls"])


def make_certificates(folder):
    """By the suite's own script. Parameters that are safe primes take it a minute, and nobody uses
    them."""
    (folder / "tests" / "tls").mkdir(exist_ok=True)
    bring.call(
        ["openssl", "dhparam", "-dsaparam", "-out", "tests/tls/redis.dh", "2048"], cwd=folder
    )
    bring.call(["bash", "utils/gen-test-certs.sh"], cwd=folder)


def players(folder, expected, units, flags):
    def play(alone):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            play_one = functools.partial(play_unit, alone, folder, expected, flags)
            for cases in pool.map(play_one, units):
                yield from cases

    return play


# What Valkey 9.1.2 says otherwise: what a user may not do, in the singular and with its name.
REFUSALS = [
    (re.compile(r'assert_equal "This user (has no permissions[^"]*")'), r'assert_match "*\1'),
    (re.compile(r"\*NOPERM\*keys\*"), "*NOPERM*key*"),
]
NO_CHANNEL = (re.compile(r"\*NOPERM\*channels\*"), "*NOPERM*channel*")

FREEZE = """proc freeze {client seconds {meanwhile {}}} {
    set pid [getInfoProperty [$client info server] process_id]
    exec kill -SIGSTOP $pid
    uplevel 1 $meanwhile
    after [expr {int($seconds * 1000)}]
    exec kill -SIGCONT $pid
}
"""
SLEEP = (re.compile(r"(?!\$rd\b)(\$\w+|\br) debug sleep (\S+)"), r"freeze \1 \2")
BLOCKED = (
    re.compile(r"set info_clients .*\n.*connected_clients:3\*.*\n.*blocked_clients:2\*.*"),
    "wait_for_condition 50 100 {"
    "[string match *connected_clients:3*blocked_clients:2* [$master info clients]]"
    "} else {fail {they do not wait}}",
)

# What a log says of damage is in the log's own words, and which process writes a file, too.
PATCHES = {
    "unit/acl.tcl": [
        REFUSALS[0],
        NO_CHANNEL,
        (re.compile(r"\*Redis instance is not"), "*This instance is not"),
    ],
    "unit/acl-v2.tcl": REFUSALS,
    "integration/corrupt-dump.tcl": [
        (re.compile(r'^ *verify_log_message 0 "\*.*integrity check failed\*" 0\n', re.M), ""),
    ],
    # In a transaction it has no number: it is stopped, and its link is cut from the other end.
    "integration/replication-psync.tcl": [
        (
            re.compile(r"\$slave multi\s[^}]*\$slave debug sleep \$delay\s+\$slave exec"),
            "freeze $slave $delay {$master client kill type replica}",
        ),
    ],
    "integration/replication.tcl": [
        SLEEP,
        (re.compile(r"\$loglines 1 1\b"), "$loglines 100 10"),
        # The link is still the one of before, for a moment.
        (
            re.compile(r'100 100 \{(\s+\[s -1 master_link_status\] eq "up")'),
            r'600 100 {\1 && ![catch {$replica get mykey} kept] && $kept eq ""',
        ),
    ],
    # used_memory has the table's growth, too: one buffer for all is less than two.
    "integration/replication-buffer.tcl": [
        (re.compile(r"\$extra_mem < 2\*\$repl_buf_mem"), "$repl_buf_mem < 2*1024*1024"),
    ],
    # SHUTDOWN goes to another thread before it waits.
    "integration/shutdown.tcl": [BLOCKED],
    "support/util.tcl": [
        # DEBUG SLEEP in a transaction holds up nobody else: the process is stopped instead.
        (re.compile(r"\A"), FREEZE),
        (re.compile(r"proc get_child_pid \{idx\} \{\n"), r"\g<0>    return [srv $idx pid]\n"),
    ],
}


def patch(tests):
    for name, changes in PATCHES.items():
        text = (tests / name).read_text()
        for pattern, put in changes:
            text, count = pattern.subn(put, text)
            if not count:
                raise RuntimeError(f"{name} is not what is patched here: {pattern.pattern}")
        (tests / name).write_text(text)


def play_unit(alone, folder, expected, flags, unit):
    with tempfile.TemporaryDirectory() as copy:
        redis_tcl.fill(folder, copy)
        patch(pathlib.Path(copy) / "tests")
        for program in ("redis-server", "redis-check-aof", "redis-check-rdb"):
            os.symlink(HERE / "as_redis.py", f"{copy}/src/{program}")
        faults = pathlib.Path(copy) / "faults"
        command = ["tclsh", "tests/test_helper.tcl", *flags, "--single", unit]
        for case in expected.left_out():
            command += ["--skiptest", case.removeprefix(f"{unit}: ")]
        environment = {"SERVER": alone.own(), "FAULTS": str(faults)}
        text, fault = alone.run(command, copy, UNIT_S, environment, is_served=False)
        panics = faults.read_text() if faults.exists() else None
    cases = list(redis_tcl.read(unit, redis_tcl.COLOUR.sub("", text)))
    if fault or panics:
        cases.append(Case(f"{unit}: as a whole", "failed", fault or panics))
    return cases
