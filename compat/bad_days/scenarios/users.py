"""Users that change while their clients work: nobody keeps what was taken, and nobody else pays."""

import random
import threading

from client import encode
from server import until
from trial import is_error, scenario

ROUNDS = 60
OPERATORS = 4


class Operator:
    """Changes its own user again and again, and asks that user's clients at once what they may."""

    def __init__(self, trial, number):
        self.trial, self.rng, self.user = trial, random.Random(number), f"user{number}"
        self.admin = trial.client()
        self.crowd = []
        self.begin()

    def begin(self):
        rules = "reset on nopass +@all ~* &*".split()
        self.admin.want(b"OK", "ACL", "SETUSER", self.user, *rules)
        self.crowd = [self.login() for _ in range(3)]

    def login(self):
        client = self.trial.client()
        client.want(b"OK", "AUTH", self.user, "x")
        return client

    def change(self, *rules):
        self.admin.want(b"OK", "ACL", "SETUSER", self.user, *rules)

    def run(self):
        steps = [self.command, self.queued, self.waiting, self.script, self.channel, self.deleted]
        for _ in range(ROUNDS):
            self.rng.choice(steps)()
        for client in [*self.crowd, self.admin]:
            client.close()

    def command(self):
        self.change("-get")
        for client in self.crowd:
            for call in (["GET", "k"], ["EVAL", "return redis.call('get', 'k')", 0]):
                assert is_error(client.call(*call)), call
        self.change("+get")
        for client in self.crowd:
            client.want(b"v", "GET", "k")

    def queued(self):
        for client in self.crowd:
            client.call("MULTI")
            client.call("GET", "k")
        self.change("-get")
        for client in self.crowd:
            assert is_error(client.call("EXEC")[0], "NOPERM")
        self.change("+get")

    def waiting(self):
        client, key = self.crowd[0], f"queue:{self.user}"
        client.write(encode("BLPOP", key, 0))
        waits = b" flags=b "
        until(lambda: waits in self.admin.call("CLIENT", "LIST", "USER", self.user), "it waits")
        self.change("resetkeys", "~other")
        self.admin.want(1, "RPUSH", key, "secret")
        assert is_error(client.read(), "NOPERM")
        self.admin.want(1, "DEL", key)
        self.change("~*")

    def script(self):
        """One that never ends by itself is refused what its user has lost meanwhile."""
        client, key = self.crowd[0], f"count:{self.user}"
        loop = "repeat told = redis.pcall('incr', KEYS[1]) until type(told) == 'table'"
        client.write(encode("EVAL", f"local told {loop} return told.err", 1, key))
        waits = b" cmd=eval "
        until(lambda: waits in self.admin.call("CLIENT", "LIST", "USER", self.user), "it runs")
        self.change("-incr")
        assert b"ACL failure" in client.read()
        self.change("+incr")
        self.admin.call("DEL", key)

    def channel(self):
        """What is published after the change is answered does not come, whatever came before."""
        client, channel = self.crowd.pop(), f"channel:{self.user}"
        client.call("HELLO", 3)
        client.call("SUBSCRIBE", channel)
        for number in range(20):
            self.admin.call("PUBLISH", channel, f"early{number}")
        client.write(encode("LRANGE", "long", 0, -1) * 3)
        self.change("resetchannels")
        self.admin.call("PUBLISH", channel, "late")
        told = client.rest()
        assert b"late" not in told, told[-100:]
        client.close()
        self.change("allchannels")
        self.crowd.append(self.login())

    def deleted(self):
        self.admin.want(1, "ACL", "DELUSER", self.user)
        for client in self.crowd:
            try:
                client.write(encode("GET", "k"))
            except ConnectionError:
                pass
            assert client.rest() == b"", "it is gone"
            client.close()
        self.begin()


@scenario("--save", "")
def users_that_change(trial):
    """Operators take rights away, give them back and delete users, while workers come and go and
    connections move between them."""
    with trial.client() as client:
        client.want(b"OK", "SET", "k", "v")
        for _ in range(10):
            client.call("RPUSH", "long", *["x" * 100] * 500)
    faults, is_over = [], threading.Event()

    def operate(number):
        try:
            Operator(trial, number).run()
        except Exception as why:
            faults.append(why)

    def move():
        with trial.client() as client:
            number = 0
            while not is_over.wait(0.1):
                number += 1
                client.want(b"OK", "CONFIG", "SET", "threads", 1 + number % 3)

    mover = threading.Thread(target=move)
    operators = [threading.Thread(target=operate, args=(number,)) for number in range(OPERATORS)]
    for thread in [mover, *operators]:
        thread.start()
    for thread in operators:
        thread.join()
    is_over.set()
    mover.join()
    if faults:
        raise faults[0]
    with trial.client() as client:
        client.want(b"OK", "CONFIG", "SET", "threads", trial.threads)
        client.want(2, "DEL", "k", "long")
