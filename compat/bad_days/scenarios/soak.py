"""A cache that has been at its limit for long: what it takes does not grow."""

import random
import time

from client import encode
from server import MB, until
from trial import is_error, scenario

from .eviction import field, used_mb, write

LIMIT_MB = 64
# What the process may take beside the limit (docs/memory.md): a part of the limit
# for what lies unused in jemalloc's pages, and for the program, its threads and their caches.
RSS_PART, RSS_MORE_MB = 1.2, 48
# So much larger the second half may find it than the first: a peak of chance.
GROWTH_MB = 16
CLIENTS, AT_ONCE = 8, 40
# What these clients have sent, what one window of each worker takes, a dozen large values each, and
# what is removed and not freed yet where other programs have the cores.
BESIDE_MB = 24
# Strings with a deadline, of few bytes and of several pages: what the process may take beside.
MIXED_LIMIT_MB, MIXED_RSS_PART, MIXED_RSS_MORE_MB = 256, 1.15, 30
MIXED_BYTES, MIXED_AT_ONCE = (20, 20_000), 64
# The numbers in names of keys: some times what there is room for.
NAMES = 400_000


def command(chance, number):
    """A write of some type, or one of what else happens to keys in a cache."""
    kind, name = chance.randrange(12), f"{number % 7}:{number}"
    match kind:
        case 0 | 1:
            return encode("GET", name)
        case 2:
            return encode("EXPIRE", name, chance.randrange(1, 20))
        case 3:
            return encode("UNLINK", name)
        case 4:
            return encode("APPEND", f"a{name}", "a" * chance.choice([1, 100, 3_000]))
        case 5:
            return encode("XADD", f"x{name}", "MAXLEN", "50", "*", "field", "x" * 80)
        case 6:
            return encode("COPY", name, f"c{name}", "REPLACE")
        case _:
            return write(chance, name)


def turn(clients, chance):
    for client in clients:
        numbers = (int(NAMES * chance.random() ** 3) for _ in range(AT_ONCE))
        client.write(b"".join(command(chance, number) for number in numbers))
    replies = [client.read() for client in clients for _ in range(AT_ONCE)]
    wrong = [r for r in replies if is_error(r) and not is_error(r, "WRONGTYPE")]
    assert not wrong, wrong[0]


@scenario("--maxmemory", f"{LIMIT_MB}mb", "--maxmemory-policy", "allkeys-lru", slack_mb=None)
def soak_at_the_limit(trial):
    """Keys of all types come, change and go at the limit: the process stays as large as it was."""
    chance, clients = random.Random(5), [trial.client() for _ in range(CLIENTS)]
    with trial.client() as client:
        while not field(client, "stats", "evicted_keys"):
            turn(clients, chance)
        began, halves_mb = time.monotonic(), [0.0, 0.0]
        while (passed := time.monotonic() - began) < trial.soak_s:
            turn(clients, chance)
            half = int(passed > trial.soak_s / 2)
            halves_mb[half] = max(halves_mb[half], trial.server.rss() / MB)
            used = used_mb(client)
            assert used < LIMIT_MB + BESIDE_MB, f"{used:.1f} MB are used"
        for one in clients:
            one.close()
        first_mb, second_mb = halves_mb
        trial.note(f"at most {first_mb:.0f} MB, then {second_mb:.0f} MB with a limit of "
                   f"{LIMIT_MB} MB, {field(client, 'stats', 'evicted_keys')} evicted")
        allowed_mb = LIMIT_MB * RSS_PART + RSS_MORE_MB
        assert second_mb < allowed_mb, f"{second_mb:.0f} MB, {allowed_mb:.0f} MB are allowed"
        assert second_mb < first_mb + GROWTH_MB, f"{first_mb:.0f} MB, then {second_mb:.0f} MB"
        until(lambda: used_mb(client) <= LIMIT_MB, "what is used falls below the limit")


@scenario("--maxmemory", f"{MIXED_LIMIT_MB}mb", slack_mb=None)
def soak_of_mixed_sizes(trial):
    """Values of 20 bytes to 20 KB with deadlines, at the limit of a *volatile* policy: the process
    takes little beside it, from the beginning."""
    chance, clients = random.Random(7), [trial.client() for _ in range(CLIENTS)]
    bytes_of_values = random.Random(8).randbytes(MIXED_BYTES[1])

    def write_some():
        for client in clients:
            client.write(b"".join(
                encode("SET", f"k:{chance.randrange(NAMES)}",
                       bytes_of_values[:chance.randint(*MIXED_BYTES)],
                       "EX", chance.randrange(60, 3_600)) for _ in range(MIXED_AT_ONCE)))
        replies = [client.read() for client in clients for _ in range(MIXED_AT_ONCE)]
        assert all(reply == b"OK" for reply in replies), replies

    allowed_mb = MIXED_LIMIT_MB * MIXED_RSS_PART + MIXED_RSS_MORE_MB
    with trial.client() as client:
        for policy in ("volatile-lru", "volatile-ttl"):
            client.want(b"OK", "FLUSHALL")
            client.want(b"OK", "CONFIG", "SET", "maxmemory-policy", policy)
            evicted = field(client, "stats", "evicted_keys")
            while field(client, "stats", "evicted_keys") == evicted:
                write_some()
            began, most_mb = time.monotonic(), 0.0
            while time.monotonic() - began < trial.soak_s / 2:
                write_some()
                most_mb = max(most_mb, trial.server.rss() / MB)
            trial.note(f"{policy}: at most {most_mb:.0f} MB")
            assert most_mb < allowed_mb, f"{most_mb:.0f} MB, {allowed_mb:.0f} MB are allowed"
    for one in clients:
        one.close()
