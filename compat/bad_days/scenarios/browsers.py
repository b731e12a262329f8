"""What may happen to a server that speaks HTTP: slow, many, huge and hostile clients of it. The
watcher speaks RESP meanwhile and notices nothing."""

import base64
import contextlib
import http.client
import json
import os
import random
import resource
import struct
import threading

from client import abort, connect, encode
from server import MB, until
from trial import Stopwatch, scenario

from .unauthenticated import PASSWORD, locked, stat

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
# The server ends a head that takes longer, and answers this many connections at a time.
HEAD_S, MOST_CONNECTIONS = 15, 1_024
POST = {"X-Pantala": "1", "Content-Type": "application/json"}


class Browser:
    """A client of HTTP that keeps its cookie."""

    def __init__(self, trial):
        self.address, self.cookie = trial.server.address, None

    def ask(self, method, path, body=None, headers=None):
        """The status and the body of an answer."""
        headers = dict(headers or {})
        if self.cookie:
            headers["Cookie"] = self.cookie
        with contextlib.closing(http.client.HTTPConnection(*self.address, timeout=60)) as link:
            link.request(method, path, body, headers)
            answer = link.getresponse()
            told = answer.getheader("Set-Cookie")
            if told:
                self.cookie = told.partition(";")[0]
            return answer.status, answer.read()

    def post(self, path, value, headers=None):
        return self.ask("POST", path, json.dumps(value), {**POST, **(headers or {})})

    def run(self, *words):
        """The reply to a command, or the status of a refusal."""
        status, body = self.post("/api/run", {"run": list(words)})
        return json.loads(body)["reply"] if status == 200 else status

    def log_in(self, user, password):
        return self.post("/api/login", {"user": user, "password": password})[0]


class Socket:
    """A WebSocket."""

    def __init__(self, browser, **headers):
        self.sock = connect(browser.address)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = {"Host": "127.0.0.1:%d" % browser.address[1], "Connection": "Upgrade",
                 "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
                 **headers}
        if browser.cookie:
            lines["Cookie"] = browser.cookie
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.sock.sendall(f"GET /api/socket HTTP/1.1\r\n{head}\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            assert byte, answer
            answer += byte
        self.status = int(answer.split()[1])

    def say(self, value):
        text = json.dumps(value).encode()
        if len(text) <= 125:
            length = bytes([0x80 | len(text)])
        else:
            is_longer = len(text) >= 1 << 16
            length = struct.pack(">BQ" if is_longer else ">BH", 0xFE + is_longer, len(text))
        self.sock.sendall(b"\x81" + length + b"\0\0\0\0" + text)

    def hear(self):
        """The next text; None at the end."""
        while True:
            head = self.read(2)
            if not head or head[0] & 15 == 8:
                return None
            length = head[1] & 127
            if length > 125:
                length = int.from_bytes(self.read(2 if length == 126 else 8), "big")
            body = self.read(length)
            if head[0] & 15 == 1:
                return json.loads(body)

    def read(self, length):
        data = b""
        try:
            while len(data) < length:
                piece = self.sock.recv(length - len(data))
                if not piece:
                    return b""
                data += piece
        except ConnectionError:
            return b""
        return data


def heads(count, text):
    """So many connections that have sent this."""
    socks = [connect(address, source=("127.0.4.%d" % (1 + number // 500), 0))
             for number, address in enumerate(count)]
    for sock in socks:
        sock.sendall(text)
    return socks


@scenario("--maxclients", "3000")
def slow_heads(trial):
    """Slowloris: connections that send a head by the byte, for ever. Each ends in time, and who
    asks properly is answered meanwhile."""
    socks = heads([trial.server.address] * 800, HEAD)
    browser, clock = Browser(trial), Stopwatch()
    open_socks = set(socks)
    while open_socks and clock.seconds() < 4 * HEAD_S:
        for sock in list(open_socks):
            try:
                sock.sendall(b"X")
            except OSError:
                open_socks.discard(sock)
        assert browser.ask("GET", "/healthz")[0] == 200
        threading.Event().wait(0.5)
    assert not open_socks, f"{len(open_socks)} are still open after {clock.seconds():.0f} s"
    for sock in socks:
        sock.close()


@scenario("--maxclients", "8000", slack_mb=100)
def five_thousand_browsers(trial):
    """Many more connections than are served: those too many are told so, or closed; clients of
    RESP come and go as ever; and when they have gone others are served."""
    count = min(5_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 300)
    socks = heads([trial.server.address] * count, HEAD + b"\r\n")
    with trial.client() as client:
        client.want(b"PONG", "PING")
    answers = []
    for sock in socks:
        try:
            answers.append(sock.recv(4096)[:12])
        except ConnectionError:
            answers.append(b"")
    good = answers.count(b"HTTP/1.1 200")
    busy = answers.count(b"HTTP/1.1 503") + answers.count(b"")
    assert good + busy == count and MOST_CONNECTIONS // 2 <= good, (good, busy)
    for sock in socks:
        abort(sock)
    until(lambda: Browser(trial).ask("GET", "/healthz")[0] == 200, "others are served")
    trial.note(f"{good} of {count} were answered at once")


@scenario()
def endless_heads_and_bodies(trial):
    """Heads without end are refused at their limit, and so is a body longer than is allowed; what
    was sent of a body that does not come costs no more than that."""
    for _ in range(50):
        sock = connect(trial.server.address)
        sock.sendall(HEAD)
        try:
            for _ in range(200):
                sock.sendall(b"X-Long: " + b"x" * 4000 + b"\r\n")
        except OSError:
            pass
        with contextlib.suppress(ConnectionError):
            assert sock.recv(4096).startswith((b"HTTP/1.1 431", b"")), "it is refused"
        sock.close()
    browser = Browser(trial)
    # It is refused before all of it is sent: who still writes may meet the end.
    with contextlib.suppress(ConnectionError):
        assert browser.post("/api/run", {"run": ["ECHO", "x" * 2 * MB]})[0] == 413
    head = ("POST /api/run HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Pantala: 1\r\nContent-Type: "
            "application/json\r\nContent-Length: 1000000\r\n\r\n").encode()
    socks = heads([trial.server.address] * 200, head + b"x" * 10_000)
    assert browser.run("PING") == {"status": "PONG"}
    for sock in socks:
        abort(sock)


@scenario()
def noise_after_a_first_line(trial):
    """Whatever follows a good first line, nothing of it runs as RESP and nobody else suffers."""
    chance = random.Random(7)
    inner = encode("SET", "smuggled", "1") + b"SET smuggled 2\r\n"
    with trial.client() as other:
        for number in range(600):
            noise = chance.randbytes(chance.choice((1, 10, 100, 5000)))
            first = chance.choice((b"GET / HTTP/1.1\r\n", HEAD, HEAD + b"\r\n",
                                   HEAD + b"Content-Length: 7\r\n\r\n",
                                   HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
                                   b"POST /api/run HTTP/1.0\r\n\r\n"))
            with trial.client() as client:
                with contextlib.suppress(OSError):
                    client.write(first + noise + b"\r\n\r\n" + inner)
                    client.half_close()
                with contextlib.suppress(OSError):
                    answer = bytes(client.rest())
                    assert b"+OK" not in answer, answer
            if number % 50 == 0:
                other.want(0, "EXISTS", "smuggled")
        other.want(0, "EXISTS", "smuggled")


@scenario()
def other_sites(trial):
    """A page of another site, in the browser of somebody who has logged in, reaches nothing."""
    browser = Browser(trial)
    assert browser.log_in("default", "") == 204
    port = trial.server.address[1]
    evil = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert browser.post("/api/run", {"run": ["SET", "k", "1"]}, evil)[0] == 403
    assert browser.post("/api/run", {"run": ["SET", "k", "1"]}, {"Origin": "null"})[0] == 403
    form = {"X-Pantala": "", "Content-Type": "text/plain"}
    assert browser.post("/api/run", {"run": ["SET", "k", "1"]}, form)[0] == 403
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
        assert browser.ask("GET", "/api/session", headers={"Host": host})[0] == 403
    assert Socket(browser, Origin="http://evil.example").status == 403
    assert Socket(browser, Host="evil.example").status == 403
    assert Socket(browser, Origin=f"http://127.0.0.1:{port}").status == 101
    with trial.client() as client:
        client.want(0, "EXISTS", "k")


@scenario("--maxclients", "3000")
def a_flood_of_logins(trial):
    """Wrong passwords without end: who knows the right one gets in meanwhile, and a cookie cannot
    be guessed."""
    with locked(trial, "auth_failure_delay", 300) as keeper:
        stop, codes = threading.Event(), []

        def guess():
            guesser = Browser(trial)
            while not stop.is_set():
                codes.append(guesser.log_in("default", "a guess"))

        threads = [threading.Thread(target=guess) for _ in range(60)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                browser = Browser(trial)
                assert browser.log_in("default", PASSWORD) == 204
                assert browser.run("PING") == {"status": "PONG"}
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert set(codes) <= {401, 503}, set(codes)
        name = browser.cookie.partition("=")[0]
        for value in ("", "0" * 64, browser.cookie.partition("=")[2][:-1], "a" * 5000):
            browser.cookie = f"{name}={value}"
            assert browser.run("PING") == 401, value
        keeper.want(b"PONG", "PING")


@scenario("--maxclients", "1100", descriptors=(1_200, 1_200), slack_mb=200)
def sockets_leave_descriptors(trial):
    """As many sockets as the server takes, then logins beside them: those too many are refused, who
    is in is served, and files find their descriptors."""
    with trial.client() as client:
        browser, sockets = Browser(trial), []
        assert browser.log_in("default", "") == 204
        while len(sockets) < 1_200:
            with contextlib.suppress(ConnectionError, AssertionError):
                sockets.append(Socket(browser))
                if sockets[-1].status == 101:
                    continue
            break
        good = [sock for sock in sockets if sock.status == 101]
        trial.note(f"{len(good)} sockets, {trial.server.fd_count()} descriptors")
        assert 200 < len(good) < 400, len(good)
        client.want(b"OK", "SET", "k", "v")
        before = stat(client, "rdb_saves", "persistence")
        client.call("BGSAVE")
        until(lambda: stat(client, "rdb_saves", "persistence") > before, "a snapshot is written")
        client.want(b"OK", "SET", "k", "v2")
        good[0].say({"id": 1, "run": ["GET", "k"]})
        assert good[0].hear()["reply"] == "v2"
        for sock in sockets:
            abort(sock.sock)
        until(lambda: browser.run("GET", "k") == "v2", "there is room again")


@scenario()
def sessions_of_deleted_users(trial):
    """Who is deleted, switched off or gets another password is out, with all its sockets."""
    with trial.client() as keeper:
        for number, end in enumerate((("DELUSER", "anna"), ("SETUSER", "anna", "off"),
                                      ("SETUSER", "anna", "resetpass", ">other"))):
            keeper.want(b"OK", "ACL", "SETUSER", "anna", "reset", "on", ">secret", "~*", "+@all")
            browser = Browser(trial)
            assert browser.log_in("anna", "secret") == 204
            sockets = [Socket(browser) for _ in range(20)]
            for sock in sockets:
                sock.say({"id": 1, "run": ["SET", f"k{number}", "1"]})
                assert sock.hear()["reply"] == {"status": "OK"}
            keeper.call("ACL", *end)
            for sock in sockets:
                with contextlib.suppress(OSError):
                    sock.say({"id": 2, "run": ["DEL", f"k{number}"]})
                answers = []
                while (answer := sock.hear()) is not None:
                    answers.append(answer)
                assert all("reply" not in answer for answer in answers), answers
                sock.sock.close()
            keeper.want(1, "EXISTS", f"k{number}")
            assert "NOAUTH" in browser.run("SET", "k", "1")["error"]


@scenario(slack_mb=100)
def sockets_that_read_nothing(trial):
    """Sockets that ask for much and read none of it are given up, and cost what is bounded."""
    with trial.client() as client:
        client.want(b"OK", "SET", "long", b"x" * (4 * MB))
        browser = Browser(trial)
        assert browser.log_in("default", "") == 204
        sockets = [Socket(browser) for _ in range(20)]
        for sock in sockets:
            sock.say({"figures": 250})
            sock.say({"watch": {"client": 0}})
            for number in range(20):
                sock.say({"id": number, "run": ["GET", "long"]})
        for _ in range(200):
            client.want(b"PONG", "PING")
        for sock in sockets[::2]:
            abort(sock.sock)
        clock = Stopwatch()
        for sock in sockets[1::2]:
            while sock.sock.recv(MB) and clock.seconds() < 1:
                pass
            abort(sock.sock)
        client.want(1, "DEL", "long")


@scenario(slack_mb=None)
def batches_that_nobody_reads(trial):
    """Who asks for a gigabyte by each of five sockets, and reads nothing, has made what fits into
    one message of each; most of what was asked for is not even read."""
    count, runs, keys = 5, 30, [f"k{number}" for number in range(2_000)]
    with trial.client() as client:
        for key in keys:
            client.want(b"OK", "SET", key, b"x" * 1_000)
        before = stat(client, "used_memory")
        browser = Browser(trial)
        assert browser.log_in("default", "") == 204
        sockets = [Socket(browser) for _ in range(count)]
        for sock in sockets:
            sock.sock.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                for number in range(20):
                    sock.say({"id": number, "runs": [["MGET", *keys]] * runs})
        wanted = runs * len(keys) * count
        until(lambda: stat(client, "keyspace_hits") >= wanted, "the first batches have run")
        each = (stat(client, "used_memory_peak") - before) / count / MB
        trial.note(f"{each:.0f} MB a socket at the most")
        assert each < 32, f"{each:.0f} MB were taken for a socket that reads nothing"
        for sock in sockets:
            sock.sock.settimeout(60)
            replies = sock.hear()["replies"]
            whole = [reply for reply in replies if isinstance(reply, list)]
            assert len(replies) == runs and len(whole) == 4, (len(replies), len(whole))
            abort(sock.sock)
