"""Clients of a replica see what the stream does; clients of a server see its role change."""

import contextlib
import threading

from client import Closed
from nodes import settle, until
from trial import is_error, scenario


@scenario()
def reads_that_wait(trial):
    """XREAD BLOCK at a replica is woken by what the primary adds."""
    primary, replica = trial.pair()
    with replica.client() as client, replica.client() as other:
        client.write(b"XREAD BLOCK 0 STREAMS s 0\r\n")
        until(lambda: other.call("INFO", "clients").find(b"blocked_clients:1") > 0, "it waits")
        primary.want(b"5-1", "XADD", "s", "5-1", "a", "b")
        assert client.read() == [[b"s", [[b"5-1", [b"a", b"b"]]]]]


@scenario()
def watched_keys(trial):
    """WATCH at a replica notices what the stream has changed, FLUSHALL and SWAPDB too."""
    primary, replica = trial.pair()
    changes = (("SET", "k", 2), ("DEL", "k"), ("FLUSHALL",), ("SWAPDB", 0, 1))
    for change in changes:
        primary.want(b"OK", "SET", "k", 1)
        settle(primary, replica)
        with replica.client() as client:
            client.want(b"OK", "WATCH", "k")
            primary.call(*change)
            settle(primary, replica)
            client.want(b"OK", "MULTI")
            client.want(b"QUEUED", "GET", "k")
            client.want(None, "EXEC")


@scenario()
def tracked_keys(trial):
    """CLIENT TRACKING at a replica tells of keys that the stream changes."""
    primary, replica = trial.pair()
    primary.want(b"OK", "SET", "k", 1)
    settle(primary, replica)
    with replica.client() as listener, replica.client() as client:
        number = listener.call("CLIENT", "ID")
        listener.call("SUBSCRIBE", "__redis__:invalidate")
        client.want(b"OK", "CLIENT", "TRACKING", "ON", "REDIRECT", number)
        client.want(b"1", "GET", "k")
        primary.want(b"OK", "SET", "k", 2)
        assert listener.read() == [b"message", b"__redis__:invalidate", [b"k"]]


@scenario()
def events_at_the_replica(trial):
    """A replica tells of keys what the stream does to them; what has expired is deleted there."""
    primary, replica = trial.pair(replica={"notify-keyspace-events": "KEA"})
    trial.need(primary, "DEBUG", "SET-ACTIVE-EXPIRE", 0)
    with replica.client() as listener, primary.client() as client:
        listener.call("PSUBSCRIBE", "__keyevent@0__:*")
        client.want(b"OK", "SET", "k", "v")
        client.want(1, "LPUSH", "l", "x")
        client.want(b"OK", "DEBUG", "SET-ACTIVE-EXPIRE", 0)
        client.want(b"OK", "SET", "soon", "v", "PX", 10)
        until(lambda: client.call("EXISTS", "soon") == 0, "it expires")
        heard = [listener.read()[2:] for _ in range(5)]
    names = [(channel.decode().split(":")[1], key.decode()) for channel, key in heard]
    assert names == [("set", "k"), ("lpush", "l"), ("set", "soon"), ("expire", "soon"),
                     ("del", "soon")], names


@scenario()
def demoted_under_waiting(trial):
    """A primary that becomes a replica answers those who wait for keys, or for replicas."""
    one, other = trial.node(0), trial.node(1)
    answers = []

    def wait(*command):
        with contextlib.suppress(Closed), one.client() as client:
            client.call("SET", "k", "v")
            answers.append(client.call(*command))

    commands = (("BLPOP", "l", 0), ("BZPOPMIN", "z", 0), ("WAIT", 5, 0),
                ("BLMOVE", "a", "b", "LEFT", "RIGHT", 0))
    threads = [threading.Thread(target=wait, args=command) for command in commands]
    for thread in threads:
        thread.start()
    until(lambda: one.info("clients")["blocked_clients"] == "4", "all of them wait")
    one.follow(other.address)
    for thread in threads:
        thread.join()
    assert len(answers) == len(commands), answers
    for answer in answers:
        assert is_error(answer, "UNBLOCKED"), answers


@scenario()
def transaction_across_roles(trial):
    """What was queued before the role changed is refused after it, whole."""
    one, other = trial.node(0), trial.node(1)
    with one.client() as client:
        client.want(b"OK", "SET", "k", "v")
        client.want(b"OK", "MULTI")
        client.want(b"QUEUED", "SET", "k", "w")
        one.follow(other.address)
        answer = client.call("EXEC")
        assert is_error(answer, "EXECABORT") or is_error(answer, "READONLY"), answer
