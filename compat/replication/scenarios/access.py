"""Who may do what: read-only replicas, stale data, passwords and users between servers."""

from contents import equal
from nodes import linked, settle, until
from trial import is_error, scenario

WRITES = (("SET", "k", 1), ("DEL", "k"), ("FLUSHALL",), ("INCR", "n"), ("XADD", "s", "*", "a", 1),
          ("GETEX", "k", "PERSIST"), ("SORT", "k", "STORE", "d"), ("MSET", "a", 1, "b", 2),
          ("BLPOP", "l", 1), ("FUNCTION", "FLUSH"), ("SWAPDB", 0, 1))
WRITING_SCRIPT = "return redis.call('SET', KEYS[1], 'v')"


@scenario()
def read_only(trial):
    """A replica refuses writes of clients, in scripts and transactions too, and takes no harm."""
    primary, replica = trial.pair()
    primary.want(b"OK", "SET", "k", "v")
    settle(primary, replica)
    for command in WRITES:
        answer = replica.call(*command)
        assert is_error(answer, "READONLY"), f"{command}: {answer}"
    answer = replica.call("EVAL", WRITING_SCRIPT, 1, "k")
    assert "READONLY" in answer or "read only replica" in answer, answer
    replica.want(b"v", "EVAL", "return redis.call('GET', KEYS[1])", 1, "k")
    with replica.client() as client:
        client.want(b"OK", "MULTI")
        assert is_error(client.call("SET", "k", 1), "READONLY")
        assert is_error(client.call("EXEC"), "EXECABORT")
    equal(primary, replica)


@scenario()
def writable(trial):
    """With replica-read-only no a replica takes writes, which the primary's replace."""
    primary, replica = trial.pair(replica={"replica_read_only": "no"})
    replica.want(b"OK", "SET", "own", "v")
    replica.want(b"OK", "SET", "k", "replica")
    primary.want(b"OK", "SET", "k", "primary")
    settle(primary, replica)
    replica.want(b"primary", "GET", "k")
    replica.want(b"v", "GET", "own")
    primary.want(0, "EXISTS", "own")
    replica.set("replica-read-only", "yes")
    assert is_error(replica.call("SET", "own", "w"), "READONLY")


@scenario()
def stale_data(trial):
    """replica-serve-stale-data no: without its primary a replica answers MASTERDOWN."""
    primary, replica = trial.pair(replica={"replica_serve_stale_data": "no"})
    primary.want(b"OK", "SET", "k", "v")
    settle(primary, replica)
    replica.want(b"v", "GET", "k")
    primary.kill()
    until(lambda: is_error(replica.call("GET", "k"), "MASTERDOWN"), "it sees that it is alone")
    for command in (("EVAL", "return redis.call('GET', 'k')", 1, "k"), ("DBSIZE",), ("KEYS", "*")):
        answer = replica.call(*command)
        assert "MASTERDOWN" in str(answer), f"{command}: {answer}"
    for command in (("INFO",), ("CONFIG", "GET", "port"), ("ROLE",), ("CLIENT", "ID")):
        assert not is_error(replica.call(*command), "MASTERDOWN"), command
    replica.set("replica-serve-stale-data", "yes")
    replica.want(b"v", "GET", "k")
    replica.set("replica-serve-stale-data", "no")
    replica.lead()
    replica.want(b"v", "GET", "k")


@scenario()
def passwords(trial):
    """A replica with no password or a wrong one is not let in; with the right one it is."""
    primary, replica = trial.node(0, requirepass="secret"), trial.node(1)
    primary.credentials = ("secret",)
    primary.want(b"OK", "SET", "k", "v")
    proxy = trial.proxy(primary.address)
    replica.follow(proxy.address)
    until(lambda: proxy.connections >= 2, "it tries without, twice")
    assert not replica.is_linked()
    replica.set("masterauth", "wrong")
    tried = proxy.connections
    until(lambda: proxy.connections >= tried + 2, "it tries the wrong one, twice")
    assert not replica.is_linked()
    replica.want(0, "DBSIZE")
    replica.set("masterauth", "secret")
    linked(replica)
    settle(primary, replica)
    replica.want(b"v", "GET", "k")


@scenario()
def users(trial):
    """A user that may only replicate is enough; one that may not is refused."""
    primary, replica = trial.node(0), trial.node(1)
    primary.want(b"OK", "ACL", "SETUSER", "copier", "on", ">pw", "+psync", "+replconf", "+ping",
                 "+sync")
    primary.want(b"OK", "ACL", "SETUSER", "reader", "on", ">pw", "~*", "+get", "+ping")
    primary.want(b"OK", "ACL", "SETUSER", "default", "nopass", "-psync", "-sync", "-replconf")
    primary.want(b"OK", "SET", "k", "v")
    replica.set("masteruser", "reader")
    replica.set("masterauth", "pw")
    proxy = trial.proxy(primary.address)
    replica.follow(proxy.address)
    until(lambda: proxy.connections >= 2, "it tries twice")
    assert not replica.is_linked()
    replica.set("masteruser", "copier")
    linked(replica)
    equal(primary, replica)


@scenario()
def announced(trial):
    """What a replica announces of itself is what its primary tells: ROLE, INFO."""
    primary, replica = trial.pair(replica={"replica_announce_ip": "192.0.2.7",
                                           "replica_announce_port": 7007})
    settle(primary, replica)
    until(lambda: "state=online" in primary.info()["slave0"], "it has been heard of")
    line = primary.info()["slave0"]
    assert "ip=192.0.2.7,port=7007,state=online" in line, line
    role = primary.call("ROLE")
    assert role[0] == b"master" and role[2][0][:2] == [b"192.0.2.7", b"7007"], role
    role = replica.call("ROLE")
    assert role[:4] == [b"slave", b"127.0.0.1", primary.port, b"connected"], role
