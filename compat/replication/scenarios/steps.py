"""The stream itself: everything that can be written, in steps that nobody sees halves of."""

from contents import equal
from nodes import settle, until
from transfers import ACCOUNTS, START, Transfers
from trial import scenario

LOOKS = 300


@scenario()
def every_type(trial):
    """Random commands of all types, in transactions and scripts: the same contents."""
    primary, replica = trial.pair()
    with trial.writers(primary, clients=3) as writers:
        writers.wait_for(100_000 if trial.is_long else 12_000).end()
    trial.note(f"{equal(primary, replica)} keys after {writers.count} commands")


@scenario()
def whole_databases(trial):
    """The same with FLUSHALL, FLUSHDB and SWAPDB among them."""
    primary, replica = trial.pair()
    with trial.writers(primary, clients=3, wild=True) as writers:
        writers.wait_for(100_000 if trial.is_long else 12_000).end()
    equal(primary, replica)


@scenario()
def halves_are_not_seen(trial):
    """Who reads a replica sees transactions and scripts as one step: a sum never differs."""
    primary, replica = trial.pair()
    transfers = Transfers(primary)
    try:
        settle_once(primary, replica)
        with replica.client() as client:
            names = [f"a{account}" for account in range(ACCOUNTS)]
            seen = set()
            for _ in range(LOOKS):
                amounts = client.call("MGET", *names)
                assert sum(map(int, amounts)) == ACCOUNTS * START, amounts
                seen.add(tuple(amounts))
    finally:
        transfers.end()
    assert len(seen) > 1, "nothing has moved"
    equal(primary, replica)


def settle_once(primary, replica):
    """Until the replica has what was there before the transfers began."""
    until(lambda: replica.call("EXISTS", f"a{ACCOUNTS - 1}") == 1, "the accounts arrive")


@scenario()
def published(trial):
    """What is published at the primary is heard at the replica, in order."""
    primary, replica = trial.pair()
    with replica.client() as listener, primary.client() as client:
        listener.call("SUBSCRIBE", "news")
        listener.call("PSUBSCRIBE", "n*")
        for number in range(50):
            client.call("PUBLISH", "news", number)
        client.call("EVAL", "return redis.call('PUBLISH', 'news', 'script')", 0)
        heard = [listener.read() for _ in range(102)]
    wanted = [str(number).encode() for number in range(50)] + [b"script"]
    assert [one[2] for one in heard if one[0] == b"message"] == wanted
    assert [one[3] for one in heard if one[0] == b"pmessage"] == wanted


@scenario()
def libraries(trial):
    """FUNCTION LOAD, DELETE, FLUSH and RESTORE reach replicas, in the stream and in a copy."""
    code = "#!lua name=l{0}\nredis.register_function('f{0}', function() return {0} end)"
    primary, replica = trial.pair()
    primary.want(b"l1", "FUNCTION", "LOAD", code.format(1))
    primary.want(b"l2", "FUNCTION", "LOAD", code.format(2))
    settle(primary, replica)
    equal(primary, replica)
    payload = primary.call("FUNCTION", "DUMP")
    primary.want(b"OK", "FUNCTION", "DELETE", "l1")
    equal(primary, replica)
    primary.want(b"OK", "FUNCTION", "FLUSH")
    equal(primary, replica)
    primary.want(b"OK", "FUNCTION", "RESTORE", payload)
    equal(primary, replica)
    late = trial.node(1)
    late.follow(primary.address)
    equal(primary, late)
