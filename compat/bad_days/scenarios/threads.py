"""Many threads and long commands: nobody's answers are lost, reordered or late."""

import select
import threading
import time

from client import Client, ErrorReply, encode
from server import MB, until
from subject import CoreWaits
from trial import Skip, fill, is_error, scenario


class Pipeliner(threading.Thread):
    """Sends pipelines of INCR on a key of its own: each answer must be the next number. `ahead`:
    the next pipeline is on its way before the answers to the last are read, so it never pauses."""

    def __init__(self, address, key, depth, stop, ahead=False):
        super().__init__()
        self.ahead = ahead
        self.client, self.key, self.depth, self.stop = Client(address), key, depth, stop
        self.count, self.fault = 0, None

    def request(self):
        return encode("INCR", self.key) * self.depth

    def replies(self):
        return b"".join(b":%d\r\n" % (self.count + 1 + step) for step in range(self.depth))

    def run(self):
        raw, got = self.request(), b""
        try:
            if self.ahead:
                self.client.write(raw)
            while not self.stop.is_set():
                self.client.write(raw)
                wanted = self.replies()
                while len(got) < len(wanted):
                    piece = self.client.sock.recv(1 << 16)
                    assert piece, "the server hung up"
                    got += piece
                assert got.startswith(wanted), f"{got[:80]!r} instead of {wanted[:80]!r}"
                got = got[len(wanted):]
                self.count += self.depth
        except Exception as why:
            self.fault = f"{self.key}: {type(why).__name__} {why}"
        finally:
            self.client.close()


def change(client, threads):
    reply = client.call("CONFIG", "SET", "threads", threads)
    if is_error(reply, "unknown command") or is_error(reply, "unknown subcommand"):
        raise Skip("CONFIG SET is missing")
    assert reply == b"OK", f"CONFIG SET threads {threads}: {reply!r}"


def worker_count(server):
    return sum("worker" in name for name in server.switches())


@scenario(slack_mb=160)
def workers_up_and_down(trial):
    """CONFIG SET threads from 1 to 8 and back while 50 clients run pipelines."""
    rounds = 40 if trial.is_long else 8
    with trial.client() as client:
        change(client, 2)
        stop = threading.Event()
        crowd = [Pipeliner(trial.server.address, f"n:{number}", 1 + number % 20, stop)
                 for number in range(50)]
        for one in crowd:
            one.start()
        try:
            for number in range(rounds):
                for wanted in (1, 8, 3, 1, 5, 2):
                    change(client, wanted)
                    moved_past(crowd)
        finally:
            stop.set()
            for one in crowd:
                one.join()
        faults = [one.fault for one in crowd if one.fault]
        assert not faults, f"{len(faults)} of 50 clients, first {faults[0]}"
        for one in crowd:
            client.want(b"%d" % one.count, "GET", one.key)
        change(client, 1)
        until(lambda: worker_count(trial.server) == 1, "one worker is left")
        change(client, trial.threads)
        trial.note(f"{sum(one.count for one in crowd)} commands, {rounds * 6} changes")


def moved_past(crowd):
    """Everybody has had answers since."""
    before = [one.count for one in crowd]
    until(lambda: all(one.fault or one.count > was for one, was in zip(crowd, before)),
          "all clients go on")


@scenario(slack_mb=96)
def worker_retires_under_one(trial):
    """Busy clients never pause: their workers still retire."""
    with trial.client() as client:
        for number in range(20 if trial.is_long else 5):
            retire_under(trial, client, number)
        change(client, trial.threads)


def retire_under(trial, client, number):
    change(client, 4)
    stop = threading.Event()
    keys = [f"n:{number}:{place}" for place in range(6)]
    crowd = [Pipeliner(trial.server.address, key, 1, stop, ahead=True) for key in keys]
    for one in crowd:
        one.start()
    try:
        moved_past(crowd)
        change(client, 1)
        until(lambda: worker_count(trial.server) == 1, "one worker is left")
        moved_past(crowd)
    finally:
        stop.set()
        for one in crowd:
            one.join()
    assert not any(one.fault for one in crowd), next(one.fault for one in crowd if one.fault)


@scenario(slack_mb=96)
def comings_while_workers_change(trial):
    """Clients connect and leave while workers come and go: each is answered."""
    with trial.client() as client:
        change(client, 2)
        stop, faults, served = threading.Event(), [], [0]

        def come_and_go():
            try:
                while not stop.is_set():
                    with trial.client() as visitor:
                        visitor.want(b"PONG", "PING")
                        visitor.want(b"x", "ECHO", "x")
                    served[0] += 1
            except Exception as why:
                faults.append(f"{type(why).__name__} {why}")

        crowd = [threading.Thread(target=come_and_go) for _ in range(4)]
        for one in crowd:
            one.start()
        for number in range(200 if trial.is_long else 60):
            change(client, (1, 4, 2, 6)[number % 4])
            was = served[0]
            until(lambda: served[0] > was + 5 or faults, "visitors are served")
        stop.set()
        for one in crowd:
            one.join()
        assert not faults, faults[0]
        change(client, trial.threads)
        until(lambda: worker_count(trial.server) == trial.threads, "the first workers are left")


class Weigher(Pipeliner):
    """Keeps its worker busy: behind each INCR come commands that take long for their bytes."""

    HEAVY = 50

    def request(self):
        return (encode("INCR", self.key) + encode("BITCOUNT", "long") * self.HEAVY) * self.depth

    def replies(self):
        return b"".join(b":%d\r\n" % (self.count + 1 + step) + b":0\r\n" * self.HEAVY
                        for step in range(self.depth))


def own_lines(client):
    """The section `pantala` of INFO."""
    lines = client.call("INFO", "pantala").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def connections_of(client, worker):
    line = own_lines(client).get(f"worker_{worker}", "connections=0")
    return int(line.split(",")[0].removeprefix("connections="))


class TrackingWeigher(Weigher):
    """One that tracks what it reads as well."""

    def run(self):
        with Client(self.client.sock.getpeername()) as ear:
            number = ear.call("CLIENT", "ID")
            self.client.want(b"OK", "CLIENT", "TRACKING", "ON", "REDIRECT", number)
            super().run()


class WaitingWeigher(Weigher):
    """One that waits for a key behind each pipeline, and is given it when it has sent the next."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.giver = Client(self.client.sock.getpeername())
        self.list = f"list:{self.key}"

    def request(self):
        return super().request() + encode("BLPOP", self.list, 0)

    def replies(self):
        self.giver.write(encode("RPUSH", self.list, "x"))
        name = self.list.encode()
        popped = b"*2\r\n$%d\r\n%b\r\n$1\r\nx\r\n" % (len(name), name)
        return super().replies() + popped


def crowd_of(trial, client, count, kinds=(Weigher,)):
    """Busy clients that one worker serves, and how to end them."""
    change(client, 1)
    client.want(30_000, "SETRANGE", "long", 29_999, "\0")
    stop = threading.Event()
    crowd = [kinds[number % len(kinds)](trial.server.address, f"n:{number}", 2, stop, ahead=True)
             for number in range(count)]
    for one in crowd:
        one.start()
    moved_past(crowd)
    change(client, 2)
    return crowd, stop


def end_crowd(client, crowd, stop):
    stop.set()
    for one in crowd:
        one.join()
    faults = [one.fault for one in crowd if one.fault]
    assert not faults, f"{len(faults)} clients, first {faults[0]}"
    for one in crowd:
        # A pipeline was under way at the end.
        until(lambda one=one: int(client.call("GET", one.key)) >= one.count, "all was run")


@scenario(slack_mb=96)
def a_crowded_worker(trial):
    """Busy clients that one worker has got spread when another is there, and lose nothing; what
    each is in the midst of goes with it."""
    with trial.client() as client, trial.client() as other:
        crowd, stop = crowd_of(trial, client, 8)
        try:
            until(lambda: connections_of(client, 1) >= 2 or any(one.fault for one in crowd),
                  "busy clients move to the second worker")
            moved_past(crowd)
            other.want(b"PONG", "PING")
        finally:
            end_crowd(client, crowd, stop)
        trial.note(f"{own_lines(client)['moved_connections']} moves")
        change(client, trial.threads)


@scenario(slack_mb=96)
def a_crowded_worker_of_all_kinds(trial):
    """Busy clients that track and wait for keys spread as others do."""
    with trial.client() as client:
        crowd, stop = crowd_of(trial, client, 8, (TrackingWeigher, WaitingWeigher))
        try:
            until(lambda: int(own_lines(client)["moved_connections"]) >= 3
                  or any(one.fault for one in crowd), "busy clients move")
            moved_past(crowd)
        finally:
            end_crowd(client, crowd, stop)
        change(client, trial.threads)


@scenario(slack_mb=96)
def one_busy_client(trial):
    """One client that alone is the load of its worker goes nowhere, however long it lasts."""
    with trial.client() as client:
        crowd, stop = crowd_of(trial, client, 1)
        try:
            for _ in range(20 if trial.is_long else 5):
                was = int(own_lines(client)["keyspace_changes"])
                until(lambda was=was: int(own_lines(client)["keyspace_changes"]) > was + 200
                      or crowd[0].fault, "it goes on")
            # The one that asks here, and the one that watches, may leave it alone, once.
            moves = int(own_lines(client)["moved_connections"])
            assert moves <= 2, f"{moves} moves"
        finally:
            end_crowd(client, crowd, stop)
        change(client, trial.threads)


KEYS = 500_000


@scenario(slack_mb=None)
def slow_lane(trial):
    """KEYS * and FLUSHALL over 500,000 keys do not delay the others."""
    with trial.client() as client, trial.client() as other:
        if is_error(client.call("KEYS", "nothing"), "unknown command"):
            raise Skip("KEYS is missing")
        fill(client, KEYS)
        client.want(KEYS, "DBSIZE")
        keys = longest_meanwhile(trial, client, other, encode("KEYS", "*"))
        header = b"*%d\r\n" % KEYS
        client.count_bytes(len(header) + KEYS * len("$11\r\nkey:0000000\r\n"))
        client.want(b"last", "ECHO", "last")
        flush = longest_meanwhile(trial, client, other, encode("FLUSHALL"))
        assert client.read() == b"OK"
        client.want(0, "DBSIZE")
        trial.note(f"longest GET during KEYS {keys * 1000:.1f} ms, FLUSHALL {flush * 1000:.1f} ms")


def longest_meanwhile(trial, client, other, raw):
    """The longest GET of `other` until the answer to `raw` begins to arrive, less what the machine
    took."""
    core_waits = CoreWaits(trial.server.pid)
    client.write(raw)
    longest, rounds = 0.0, 0
    while rounds < 20 or not select.select([client.sock], [], [], 0)[0]:
        core_waits.look()
        began = time.monotonic()
        got = other.call("GET", "key:0000001")
        assert not isinstance(got, ErrorReply), got
        waited = time.monotonic() - began
        if waited > 1:
            waited -= core_waits.since()
        assert waited < 1, f"others waited for {waited:.1f} s"
        longest = max(longest, waited)
        rounds += 1
    return longest


@scenario(slack_mb=96)
def one_hot_key(trial):
    """30 clients change the same key at once: every change is counted."""
    def work(client, count):
        client.write(encode("INCR", "n") * count)

    clients = [trial.client() for _ in range(30)]
    for client in clients:
        work(client, 3_000)
    for client in clients:
        last = 0
        for _ in range(3_000):
            number = client.read()
            assert number > last, f"{number} after {last}"
            last = number
    clients[0].want(b"90000", "GET", "n")
    assert trial.rss_grown() < 200 * MB
    for client in clients:
        client.close()


class Restless(threading.Thread):
    """A client that goes on by itself; `count` grows with each round, `fault` tells what went
    wrong."""

    def __init__(self, trial, number, stop):
        super().__init__()
        self.trial, self.number, self.stop = trial, number, stop
        self.clients, self.count, self.fault = [], 0, None

    def client(self):
        self.clients.append(self.trial.client())
        return self.clients[-1]

    def run(self):
        try:
            self.begin()
            while not self.stop.is_set():
                self.round()
                self.count += 1
        except Exception as why:
            self.fault = f"{type(self).__name__}: {type(why).__name__} {why}"
        finally:
            for client in self.clients:
                client.close()


class Listening(Restless):
    """Each message comes once, in order, to a channel and to a pattern."""

    def begin(self):
        self.ear, self.mouth = self.client(), self.client()
        self.channel = b"c:%d" % self.number
        self.ear.want([b"subscribe", self.channel, 1], "SUBSCRIBE", self.channel)
        self.ear.want([b"psubscribe", self.channel + b"*", 2], "PSUBSCRIBE", self.channel + b"*")

    def round(self):
        message = b"%d" % self.count
        # Two are counted, but for the moment of a move.
        self.mouth.call("PUBLISH", self.channel, message)
        got = [self.ear.read(), self.ear.read()]
        assert got == [[b"message", self.channel, message],
                       [b"pmessage", self.channel + b"*", self.channel, message]], got


class Tracking(Restless):
    """Each key that was read and is changed is told, to the client that was named for it."""

    def begin(self):
        self.reader, self.ear, self.writer = self.client(), self.client(), self.client()
        number = self.ear.call("CLIENT", "ID")
        self.ear.call("SUBSCRIBE", "__redis__:invalidate")
        self.reader.want(b"OK", "CLIENT", "TRACKING", "ON", "REDIRECT", number)

    def round(self):
        key = b"t:%d:%d" % (self.number, self.count % 7)
        self.reader.call("GET", key)
        self.writer.want(b"OK", "SET", key, self.count)
        got = self.ear.read()
        assert got == [b"message", b"__redis__:invalidate", [key]], got


class Blocking(Restless):
    """Who waits is given what comes, in order."""

    def begin(self):
        self.waiting, self.giving = self.client(), self.client()

    def round(self):
        key = b"q:%d" % self.number
        self.waiting.write(encode("BLPOP", key, 0))
        if self.count % 3 == 0:
            # Mostly it has begun to wait by then.
            self.giving.want(b"PONG", "PING")
        self.giving.call("RPUSH", key, self.count)
        got = self.waiting.read()
        assert got == [key, b"%d" % self.count], got


class Watching(Restless):
    """Two count together with WATCH: no step is lost, and none counts twice."""

    def begin(self):
        self.pair = [self.client(), self.client()]

    def round(self):
        key, wanted = b"w:%d" % self.number, b"%d" % (self.count + 1)
        first, second = self.pair
        for one in self.pair:
            one.want(b"OK", "WATCH", key)
            value = one.call("GET", key)
            assert (value or b"0") == b"%d" % self.count, (value, self.count)
        for one in self.pair:
            one.want(b"OK", "MULTI")
            one.want(b"QUEUED", "SET", key, wanted)
        first.want([b"OK"], "EXEC")
        second.want(None, "EXEC")


class Monitoring(Restless):
    """Who uses MONITOR sees each command once, and those of one client in order."""

    def begin(self):
        self.eye, self.hand = self.client(), self.client()
        self.eye.want(b"OK", "MONITOR")

    def round(self):
        mark = b"m:%d:" % self.number
        for part in b"ab":
            self.hand.call("ECHO", mark + b"%d:%c" % (self.count, part))
        for part in b"ab":
            line = self.eye.read()
            while mark not in line:
                line = self.eye.read()
            wanted = b'"ECHO" "%s%d:%c"' % (mark, self.count, part)
            assert line.endswith(wanted), (line, wanted)


class Listed(Restless):
    """CLIENT LIST has everybody once at any time, and INFO counts them."""

    def begin(self):
        self.asker, self.others = self.client(), [self.client() for _ in range(10)]
        self.ids = {self.asker.call("CLIENT", "ID")}
        self.ids |= {other.call("CLIENT", "ID") for other in self.others}

    def round(self):
        lines = self.asker.call("CLIENT", "LIST").decode().splitlines()
        ids = [int(line.split()[0].removeprefix("id=")) for line in lines]
        assert len(ids) == len(set(ids)), "a client is listed twice"
        missing = self.ids - set(ids)
        assert not missing, f"{len(missing)} of {len(self.ids)} clients are missing"
        text = self.asker.call("INFO", "clients").decode()
        count = int(text.split("connected_clients:")[1].split()[0])
        assert count >= self.trial.steady, f"{count} clients, not {self.trial.steady}"
        victim = self.others.pop()
        self.clients.remove(victim)
        number = victim.call("CLIENT", "ID")
        self.asker.want(1, "CLIENT", "KILL", "ID", number)
        assert victim.rest() == b""
        victim.close()
        self.ids.remove(number)
        self.others.append(self.client())
        self.ids.add(self.others[-1].call("CLIENT", "ID"))


@scenario(slack_mb=160)
def restless_connections(trial):
    """Workers come and go under clients that subscribe, track, wait for keys, watch, use MONITOR
    and are listed: each gets everything it is owed, once and in order."""
    kinds = (Listening, Tracking, Blocking, Watching, Monitoring)
    with trial.client() as client:
        change(client, 2)
        stop = threading.Event()
        crowd = [kind(trial, number, stop) for kind in kinds for number in range(3)]
        for one in crowd:
            one.start()
        moved_past(crowd)
        trial.steady = 1 + sum(len(one.clients) for one in crowd)
        listed = Listed(trial, 0, threading.Event())
        listed.start()
        crowd.append(listed)
        try:
            for number in range(100 if trial.is_long else 15):
                for wanted in (1, 4, 2):
                    change(client, wanted)
                    moved_past(crowd)
        finally:
            # The others are there to the end of its last round.
            listed.stop.set()
            listed.join()
            stop.set()
            for one in crowd:
                one.join()
        faults = [one.fault for one in crowd if one.fault]
        assert not faults, f"{len(faults)} clients, first {faults[0]}"
        trial.note(", ".join(f"{one.count} {type(one).__name__}" for one in crowd[::3]))
        change(client, trial.threads)
        until(lambda: worker_count(trial.server) == trial.threads, "the first workers are left")


def waits(client, number):
    """Whether the client with this number waits for a key."""
    lines = client.call("CLIENT", "LIST", "ID", number).decode()
    return "b" in lines.split(" flags=")[1].split()[0] if lines else False


@scenario(slack_mb=96)
def waiting_clients_keep_their_places(trial):
    """Who waits for a key is served in the order of coming, also after workers have come and
    gone."""
    with trial.client() as client:
        for _ in range(20 if trial.is_long else 5):
            change(client, 4)
            waiting = [trial.client() for _ in range(12)]
            for one in waiting:
                number = one.call("CLIENT", "ID")
                one.write(encode("BLPOP", "q", 0))
                until(lambda number=number: waits(client, number), "it waits")
            for wanted in (1, 4, 2):
                change(client, wanted)
                until(lambda wanted=wanted: worker_count(trial.server) == wanted
                      and len(client.call("CLIENT", "LIST", "FLAGS", "b").splitlines()) == 12,
                      "all wait again")
            client.call("RPUSH", "q", *range(12))
            got = [one.read() for one in waiting]
            assert got == [[b"q", b"%d" % nth] for nth in range(12)], got
            for one in waiting:
                one.close()
        change(client, trial.threads)
