"""Subscribers that do not read, die by the thousand, come like a storm or are moved: messages reach
the others, and publishers do not wait."""

import selectors
import socket
import threading

from client import Client, Closed, encode
from server import DEADLINE_S, MB, until
from trial import scenario

from .buffers import peak_mb, stat
from .threads import change


@scenario("--client-output-buffer-limit", "pubsub 4mb 0 0", slack_mb=None)
def subscriber_that_does_not_read(trial):
    """One that does not read is dropped at the limit; the others get every message."""
    with trial.client() as reader, trial.client() as publisher:
        reader.want([b"subscribe", b"news", 1], "SUBSCRIBE", "news")
        slow = [trial.client() for _ in range(5)]
        for client in slow:
            client.want([b"subscribe", b"news", 1], "SUBSCRIBE", "news")
        for number in range(600):
            message = b"%d " % number + b"x" * 50_000
            count = publisher.call("PUBLISH", "news", message)
            assert 1 <= count <= 6, f"{count} got message {number}"
            assert reader.read() == [b"message", b"news", message], f"message {number}"
        until(lambda: publisher.call("PUBSUB", "NUMSUB", "news")[1] == 1, "the slow are dropped")
        until(lambda: stat(publisher, "client_output_buffer_limit_disconnections") == 5,
              "five connections were closed for their output")
        for client in slow:
            assert len(client.rest()) < 12 * MB
            client.close()


@scenario("--client-output-buffer-limit", "pubsub 0 64kb 1", slack_mb=None)
def subscriber_over_the_soft_limit(trial):
    """One that is above the soft limit for longer than allowed is dropped, though nothing more is
    published."""
    with trial.client() as slow, trial.client() as publisher:
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        slow.want([b"subscribe", b"news", 1], "SUBSCRIBE", "news")
        # On a very busy machine these alone may take longer than is allowed.
        for _ in range(200):
            if publisher.call("PUBLISH", "news", "x" * 100_000) == 0:
                break
        until(lambda: publisher.call("PUBSUB", "NUMSUB", "news")[1] == 0, "the slow one is dropped")
        assert stat(publisher, "client_output_buffer_limit_disconnections") == 1


@scenario(slack_mb=160)
def flood_of_messages(trial):
    """Publishers that never pause fill no queue: they are answered as fast as messages go out."""
    with trial.client() as other:
        readers = [Reader(trial.server.address) for _ in range(40)]
        publishers = [trial.client() for _ in range(4)]
        flood = encode("PUBLISH", "news", "x" * 1_000) * 2_000
        writers = [threading.Thread(target=one.write, args=(flood,)) for one in publishers]
        for one in [*readers, *writers]:
            one.start()
        for publisher in publishers:
            for _ in range(2_000):
                count = publisher.read()
                assert count == 40, f"{count} instead of 40"
        for one in writers:
            one.join()
        other.want(40, "PUBLISH", "news", "end")
        for reader in readers:
            reader.join()
            assert reader.count == 8_000, f"{reader.count} messages: {reader.fault}"
        assert trial.rss_grown() < 400 * MB, f"{trial.rss_grown() >> 20} MB"


class Reader(threading.Thread):
    """Counts the bytes of messages until one says end."""

    HEAD = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n"
    MESSAGE = HEAD + b"$1000\r\n" + b"x" * 1_000 + b"\r\n"
    END = HEAD + b"$3\r\nend\r\n"

    def __init__(self, address):
        super().__init__()
        self.client, self.count, self.fault = Client(address), 0, None
        self.client.want([b"subscribe", b"news", 1], "SUBSCRIBE", "news")

    def run(self):
        got, tail = 0, b""
        try:
            while not tail.endswith(self.END):
                piece = self.client.sock.recv(1 << 18)
                if not piece:
                    raise Closed("too early")
                got, tail = got + len(piece), (tail + piece)[-len(self.END):]
            self.count, rest = divmod(got - len(self.END), len(self.MESSAGE))
            assert rest == 0, "half a message"
        except Exception as why:
            self.fault = f"{type(why).__name__} {why}"
        finally:
            self.client.close()


@scenario(slack_mb=96)
def subscribers_killed_at_once(trial):
    """A thousand subscribers vanish in one moment: nothing of them is left."""
    with trial.client() as publisher:
        crowd = [trial.client() for _ in range(1_000)]
        for number, client in enumerate(crowd):
            client.write(encode("SUBSCRIBE", f"c:{number % 50}", "all")
                         + encode("PSUBSCRIBE", f"p:{number}:*", "a*")
                         + encode("SSUBSCRIBE", "s"))
            for _ in range(5):
                client.read()
        publisher.want(2_000, "PUBLISH", "all", "x")
        publisher.want(1_000, "SPUBLISH", "s", "x")
        killed = publisher.call("CLIENT", "KILL", "TYPE", "pubsub")
        assert killed == 1_000, f"{killed} were killed"
        until(lambda: publisher.call("PUBLISH", "all", "x") == 0, "nobody listens")
        publisher.want(0, "PUBSUB", "NUMPAT")
        publisher.want([], "PUBSUB", "CHANNELS")
        publisher.want([], "PUBSUB", "SHARDCHANNELS")
        for client in crowd:
            client.abort()


@scenario(slack_mb=160)
def storm_of_subscriptions(trial):
    """Clients subscribe and unsubscribe without pause while others publish: no message comes before
    its confirmation, behind the last one, twice, or before an older one of the same publisher."""
    rounds = 400 if trial.is_long else 60
    faults, stop = [], threading.Event()

    def storm(number):
        try:
            with trial.client() as client:
                newest = {}
                for turn in range(rounds):
                    channels = [f"c:{(number + turn + step) % 40}" for step in range(20)]
                    come_and_go(client, channels, newest)
        except Exception as why:
            faults.append(f"{type(why).__name__} {why}")

    def publish(name):
        count = 0
        with trial.client() as client:
            while not stop.is_set():
                numbers = range(count, count + 40)
                client.write(b"".join(encode("PUBLISH", f"c:{number % 40}", f"{name} {number}")
                                      for number in numbers))
                for _ in numbers:
                    client.read()
                count += 40

    publishers = [threading.Thread(target=publish, args=(name,)) for name in "ab"]
    crowd = [threading.Thread(target=storm, args=(number,)) for number in range(12)]
    for one in [*publishers, *crowd]:
        one.start()
    for one in crowd:
        one.join()
    stop.set()
    for one in publishers:
        one.join()
    assert not faults, faults[0]
    with trial.client() as client:
        until(lambda: client.call("PUBSUB", "CHANNELS") == [], "nothing is left")


def come_and_go(client, channels, newest):
    """Subscribes to all of them, then unsubscribes, and looks at what comes meanwhile. `newest`:
    the last message of each publisher."""
    client.write(encode("SUBSCRIBE", *channels) + encode("UNSUBSCRIBE", *channels) + encode("PING"))
    listened, left = set(), set()
    while True:
        got = client.read()
        if got == b"PONG":
            break
        kind, channel = got[:2]
        if kind == b"subscribe":
            listened.add(channel)
        elif kind == b"unsubscribe":
            listened.remove(channel)
            left.add(channel)
        else:
            assert channel in listened, f"a message of {channel} without a subscription"
            name, number = got[2].split()
            assert int(number) > newest.get(name, -1), f"{got} behind {newest}"
            newest[name] = int(number)
    assert not listened and len(left) == len(channels)


@scenario(slack_mb=160)
def subscribers_that_are_moved(trial):
    """Workers come and go under subscribers: each gets every message once, in order."""
    with trial.client() as client, trial.client() as publisher:
        change(client, 4)
        crowd = [trial.client() for _ in range(30)]
        for number, one in enumerate(crowd):
            kind = "PSUBSCRIBE" if number % 3 == 0 else "SUBSCRIBE"
            one.want([kind.lower().encode(), b"news", 1], kind, "news")
        count, stop = [0], threading.Event()

        def publish():
            while not stop.is_set():
                got = publisher.call("PUBLISH", "news", count[0])
                assert got == 30, f"message {count[0]} reached {got}"
                count[0] += 1

        worker = threading.Thread(target=publish)
        worker.start()
        for number in range(60 if trial.is_long else 15):
            for threads in (1, 6, 2):
                change(client, threads)
                was = count[0]
                until(lambda: count[0] > was + 5 or not worker.is_alive(), "messages go on")
        stop.set()
        worker.join()
        for one in crowd:
            for number in range(count[0]):
                got = one.read()
                assert got[-1] == b"%d" % number, f"{got} instead of message {number}"
            one.close()
        change(client, trial.threads)
        trial.note(f"{count[0]} messages")


@scenario(slack_mb=160)
def thirty_thousand_names(trial):
    """Who has subscribed to very much and ends it, or is lost, holds up nobody."""
    names = [f"name:{number}" for number in range(30_000)]
    with trial.client() as other:
        for ending in ("UNSUBSCRIBE", "PUNSUBSCRIBE", "RESET", "close"):
            kind = "PSUBSCRIBE" if ending == "PUNSUBSCRIBE" else "SUBSCRIBE"
            client = trial.client()
            client.write(encode(kind, *names))
            for number, name in enumerate(names, 1):
                got = client.read()
                assert got == [kind.lower().encode(), name.encode(), number], got
            other.want(1, "PUBLISH", names[-1], "x")
            assert client.read()[-1] == b"x"
            if ending in ("UNSUBSCRIBE", "PUNSUBSCRIBE"):
                client.write(encode(ending) + encode("PING"))
                left = {client.read()[1] for _ in names}
                assert len(left) == len(names), len(left)
                assert client.read() == b"PONG"
            elif ending == "RESET":
                client.want(b"RESET", "RESET")
                client.want(None, "GET", "k")
            client.close()
            until(lambda: other.call("PUBSUB", "CHANNELS") == [], "no channel is left")
            other.want(0, "PUBSUB", "NUMPAT")


@scenario(slack_mb=160)
def long_messages_to_many(trial):
    """A message of a megabyte for 300 subscribers does not take 300 MB."""
    message = "x" * MB
    size = len(encode("message", "news", message))
    count = 4
    with trial.client() as publisher, selectors.DefaultSelector() as waiting:
        for _ in range(300):
            client = trial.client()
            client.want([b"subscribe", b"news", 1], "SUBSCRIBE", "news")
            waiting.register(client.sock, selectors.EVENT_READ, [client, count * size])
        publisher.write(encode("PUBLISH", "news", message) * count)
        room = bytearray(MB)
        while waiting.get_map():
            for key, _ in waiting.select(DEADLINE_S):
                got = key.fileobj.recv_into(room)
                assert got, "a subscriber that reads was dropped"
                key.data[1] -= got
                if key.data[1] == 0:
                    waiting.unregister(key.fileobj)
                    key.data[0].close()
        for _ in range(count):
            assert publisher.read() == 300
    peak = peak_mb(trial.server)
    trial.note(f"{peak} MB at the most")
    assert peak < 260, f"{peak} MB were resident"
