"""The machine and the operator have a bad day: descriptors, ports, flags, signals, addresses."""

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path

from client import Client, Closed, connect, encode
from ports import free_port
from server import DEADLINE_S, until
from trial import Skip, Stopwatch, scenario

PING = encode("PING")


def run_to_end(server, *flags, binary_flags=None):
    """Runs the server with bad settings: it must end by itself. Its code and what it says."""
    command = server.command() if binary_flags is None else [server.binary, *binary_flags]
    done = subprocess.run([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, timeout=DEADLINE_S, text=True, errors="replace")
    return done.returncode, done.stdout


@scenario("--maxclients", "2000000000", watched=False)
def few_descriptors(trial):
    """The system has fewer descriptors than `maxclients` asks for: that is said, and it is what
    there is room for."""
    limits = Path(f"/proc/{trial.server.pid}/limits").read_text().splitlines()
    limit = int(next(line for line in limits if line.startswith("Max open files")).split()[3])
    with trial.client() as client:
        _, most = client.call("CONFIG", "GET", "maxclients")
        assert limit - 1000 < int(most) < limit, f"{most} clients with {limit} descriptors"
        assert f"maxclients:{int(most)}\r\n".encode() in client.call("INFO", "clients")
    assert f"maxclients has been reduced to {int(most)}" in trial.server.log_text()


@scenario(watched=False, started=False)
def out_of_descriptors(trial):
    """Descriptors run out: who is in is served, nobody spins, and it recovers."""
    server = trial.server.start()
    # While it runs: at the start it would let fewer clients in.
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (100, 100))
    with trial.client() as old:
        crowd = [connect(server.address) for _ in range(200)]
        until(lambda: server.fd_count() >= 95, "descriptors run out")
        old.want(b"OK", "SET", "k", "v")
        before, clock = server.cpu_s(), Stopwatch()
        while clock.seconds() < 1:
            old.want(b"v", "GET", "k")
            pause(0.01)
        used = server.cpu_s() - before
        passed = clock.seconds()
        assert used < 0.3 * passed, f"{used:.2f} s of CPU in {passed:.1f} s: it spins"
        trial.note(f"{used * 1000:.0f} ms of CPU in {passed:.1f} s without descriptors")
        for sock in crowd:
            sock.close()
        until(lambda: is_served(server), "it recovers")
        old.want(b"v", "GET", "k")
    trial.look_after(48)


def is_served(server):
    try:
        with Client(server.address, 5) as client:
            return client.call("PING") == b"PONG"
    except (OSError, Closed):
        return False


def pause(seconds):
    """Lets time pass, where passing time is what is tested."""
    threading.Event().wait(seconds)


@scenario(watched=False, started=False)
def nobody_is_reset_at_a_start(trial):
    """Polled without a pause while a server is killed and the next one starts at its port: who is
    let in is answered."""
    server, refused = trial.server, 0
    for _ in range(12):
        server.spawn()
        try:
            while server.is_alive():
                try:
                    sock = socket.create_connection(server.address, DEADLINE_S)
                except ConnectionRefusedError:
                    refused += 1
                    continue
                with contextlib.closing(sock):
                    sock.sendall(PING)
                    assert sock.recv(100) == b"+PONG\r\n"
                break
            assert server.is_alive(), "it ended at once"
        finally:
            server.kill()
    trial.note(f"refused {refused} times")


@scenario(watched=False, started=False)
def crash_report(trial):
    """A signal of a crash ends the process at once, and by that signal, with a report in the log
    in Valkey's words; SIGALRM has it told what the threads do, and ends nothing."""
    server = trial.server
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        server.start()
        with trial.client() as client:
            client.want(b"OK", "CLIENT", "SETNAME", "somebody")
            server.process.send_signal(signal.SIGALRM)
            until(lambda: "Received SIGALRM" in server.log_text(), "SIGALRM is heard")
            client.want(b"PONG", "PING")
            server.process.send_signal(number)
            code = server.process.wait(DEADLINE_S)
        assert code == -number, f"{number} ended it with {code}"
        report = server.log_text().rpartition("=== PANTALA BUG REPORT START")[2]
        for words in (f"crashed by signal: {number:d}, si_code: 0",
                      f"Killed by PID: {os.getpid()}", "STACK TRACE", "REGISTERS",
                      "INFO OUTPUT", f"process_id:{server.pid}", "CLIENT LIST OUTPUT",
                      "name=somebody", "=== PANTALA BUG REPORT END"):
            assert words in report, f"{words} is missing: {report[:2000]}"
    server.start()
    with contextlib.suppress(Closed), trial.client() as client:
        client.call("DEBUG", "SEGFAULT")
    code = server.process.wait(DEADLINE_S)
    assert code == -signal.SIGSEGV, f"DEBUG SEGFAULT ended it with {code}"
    report = server.log_text().rpartition("=== PANTALA BUG REPORT START")[2]
    assert f"crashed by signal: {signal.SIGSEGV:d}" in report, report[:2000]


@scenario(watched=False, started=False)
def oom_score(trial):
    """The kernel's score of the process is what `oom-score-adj` says of its role, also confined by
    Landlock; it is put back, and what the kernel refuses is refused."""
    was = int(Path("/proc/self/oom_score_adj").read_text())
    # The kernel lets nobody lower it who has not the right.
    drop = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", "--"]
    for flags, more in ([], 0), (["--landlock", "yes"], 3):
        server = trial.new_server("--oom-score-adj-values", "10 20 30", *flags)
        before, plain = was + more, server.command()
        server.command = lambda before=before, plain=plain: [
            "choom", "-n", str(before), "--", *(drop if os.geteuid() == 0 else []), *plain]
        try:
            server.start()
        except AssertionError:
            if "the kernel has no Landlock" not in server.log_text():
                raise
            server.stop()
            continue
        with server.client() as client:
            oom_score_of(server, client, before)
        assert "Unable to write oom_score_adj: Permission denied" in server.log_text()
        server.stop()
    server = trial.new_server("--oom-score-adj", "absolute", "--replicaof", "127.0.0.1 1",
                              "--oom-score-adj-values", f"{was} {was + 7} 900")
    server.start()
    score = int(Path(f"/proc/{server.pid}/oom_score_adj").read_text())
    assert score == was + 7, f"{score} from the start"
    server.stop()


@scenario(watched=False, started=False)
def process_title(trial):
    """`ps` shows what the template says, without the arguments; no password is left in /proc; the
    server has its arguments and variables all the same."""
    server = trial.new_server("--requirepass", "hidden-one", "--proc-title-template",
                              "{title} {port} {config-file}")
    server.variables = {"PANTALA_masterauth": "hidden-two"}
    server.start()
    with server.client() as client:
        client.want(b"OK", "AUTH", "hidden-one")

        def shown():
            return (Path("/proc") / str(server.pid) / "cmdline").read_bytes().rstrip(b"\0")

        def want(text):
            got = shown()
            assert got.decode() == text, got

        program = os.path.abspath(server.binary)
        # It may answer a moment before.
        until(lambda: shown().decode() == f"{program} {server.port} -", "the title is shown")
        assert b"hidden" not in (Path("/proc") / str(server.pid) / "environ").read_bytes()
        client.want([b"masterauth", b"hidden-two"], "CONFIG", "GET", "masterauth")
        client.want(b"OK", "CONFIG", "SET", "proc-title-template", "{{it} {listen-addr}")
        want(f"{{it}} 127.0.0.1:{server.port}")
        for wrong in ("", "{", "{nothing}", "{title}"):
            refused = client.call("CONFIG", "SET", "proc-title-template", wrong)
            assert "template format is invalid or contains unknown variables" in refused, refused
        other = free_port()
        client.want(b"OK", "CONFIG", "SET", "port", other)
        want(f"{{it}} 127.0.0.1:{other}")
        client.want(b"OK", "CONFIG", "SET", "proc-title-template", "x" * 100_000)
        assert set(shown()) == set(b"x"), shown()[:100]
    server.stop()
    server = trial.new_server("--set-proc-title", "no")
    server.start()
    with server.client() as client:
        client.want(b"OK", "CONFIG", "SET", "proc-title-template", "other")
        shown = (Path("/proc") / str(server.pid) / "cmdline").read_bytes()
        assert shown == "\0".join([*server.command(), ""]).encode(), shown
    server.stop()


def oom_score_of(server, client, before):
    """Its score follows settings and role."""
    score = Path(f"/proc/{server.pid}/oom_score_adj")

    def want(number):
        got = int(score.read_text())
        assert got == number, f"{got}, not {number}"

    want(before)
    client.want(b"OK", "CONFIG", "SET", "oom-score-adj", "relative")
    client.want([b"oom-score-adj", b"yes"], "CONFIG", "GET", "oom-score-adj")
    want(before + 10)
    client.want(b"OK", "REPLICAOF", "127.0.0.1", "1")
    want(before + 20)
    client.want(b"OK", "CONFIG", "SET", "oom-score-adj-values", "10 25 30")
    want(before + 25)
    client.want(b"OK", "REPLICAOF", "NO", "ONE")
    want(before + 10)
    client.want(b"OK", "CONFIG", "SET", "oom-score-adj-values", f"{before + 4} 25 30",
                "oom-score-adj", "absolute")
    want(before + 4)
    refused = client.call("CONFIG", "SET", "oom-score-adj-values", f"{before - 5} 0 0")
    assert "Failed to set current oom_score_adj" in str(refused), refused
    client.want([b"oom-score-adj-values", f"{before + 4} 25 30".encode()],
                "CONFIG", "GET", "oom-score-adj-values")
    want(before + 4)
    client.want(b"OK", "CONFIG", "SET", "oom-score-adj", "no")
    want(before)
    client.want(b"OK", "CONFIG", "SET", "oom-score-adj-values", "40 50 60")
    want(before)


@scenario()
def port_taken(trial):
    """A second server on the same port says so and ends with 1."""
    other = trial.new_server(port=trial.server.port)
    code, text = run_to_end(other)
    other.stop()
    assert code == 1, f"exit code {code}"
    assert str(trial.server.port) in text and "in use" in text.lower(), text
    assert "panicked" not in text, text


@scenario(watched=False, started=False)
def bad_flags(trial):
    """Each wrong flag ends it with 1 and a text that names what is wrong."""
    server = trial.server
    for flags, words in (
            (["--prot", "1"], ["prot", "'port'"]),
            (["--maxmemori=1gb"], ["maxmemori", "'maxmemory'"]),
            (["--io-engin", "epoll"], ["io_engine"]),
            (["--port", "abc"], ["port", "abc"]),
            (["--port", "70000"], ["port", "70000"]),
            (["--port", "-1"], ["port", "-1"]),
            (["--maxmemory", "12qb"], ["maxmemory", "12qb"]),
            (["--threads", "many"], ["threads", "many"]),
            (["--io_engine", "kqueue"], ["io_engine", "kqueue"]),
            (["--bind", "999.1.1.1"], ["999.1.1.1"]),
            (["--bind", "192.0.2.1"], ["192.0.2.1"]),
            (["--dir", "/nonexistent/place"], ["/nonexistent/place"]),
            (["--dir", "/proc/version"], ["/proc/version"]),
            (["--logfile", "/nonexistent/place/log"], ["/nonexistent/place/log"]),
            (["--unixsocket", "/nonexistent/place/sock"], ["/nonexistent/place/sock"]),
            (["--unixsocket", "/tmp/" + "x" * 200], ["xxxx"]),
            (["/nonexistent/file.conf"], ["/nonexistent/file.conf"]),
    ):
        code, text = run_to_end(server, *flags)
        assert code == 1, f"{flags}: exit code {code}, {text[-300:]}"
        assert "panicked" not in text, f"{flags}: {text}"
        missing = [word for word in words if word not in text]
        assert not missing, f"{flags}: {missing} not in {text!r}"


@scenario(watched=False, started=False)
def output_closed(trial):
    """`--help` into a pipe that nobody reads is no panic."""
    for flag in ("--help", "--helpfull", "--version"):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([trial.binary, flag], stdout=write_end, stderr=subprocess.PIPE,
                              timeout=DEADLINE_S)
        os.close(write_end)
        assert b"panicked" not in done.stderr, f"{flag}: {done.stderr.decode()[:200]}"


@scenario(watched=False, slack_mb=None)
def kill_and_restart(trial):
    """kill -9 while clients are connected, and at once again on the same port."""
    server = trial.server
    for _ in range(3):
        clients = [trial.client() for _ in range(20)]
        for client in clients:
            client.want(b"OK", "SET", "k", "v")
        server.kill()
        server.start()
        for client in clients:
            client.close()


@scenario(watched=False, started=False)
def terminate(trial):
    """SIGTERM and SIGINT end it with 0, whatever its clients do: it waits for none of them."""
    for which in (signal.SIGTERM, signal.SIGINT):
        server = trial.new_server().start()
        clients = [server.client() for _ in range(50)]
        for client in clients[:25]:
            client.write(PING * 10_000)
        clients[30].want(b"OK", "SET", "k", b"v" * 20_000_000)
        clients[31].write(encode("GET", "k") * 20)
        clock = Stopwatch()
        server.process.send_signal(which)
        code = server.process.wait(DEADLINE_S)
        seconds = clock.seconds()
        server.stop()
        assert code == 0, f"{which.name}: exit code {code}"
        trial.note(f"{which.name} {seconds * 1000:.0f} ms")
        for client in clients:
            client.close()


@scenario(watched=False, started=False)
def unix_socket(trial):
    """A Unix socket: its permissions, a stale file, a file that is no socket, a living server."""
    path = Path(trial.server.directory) / "sock"
    trial.server.flags = ["--unixsocket", str(path), "--unixsocketperm", "700"]
    server = trial.server.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700, oct(path.stat().st_mode)
    with Client(str(path)) as client:
        client.want(b"OK", "SET", "k", b"v" * 1_000_000)
        client.want(b"v" * 1_000_000, "GET", "k")
    second = trial.new_server("--unixsocket", str(path))
    code, text = run_to_end(second)
    assert code == 1 and str(path) in text and "in use" in text.lower(), f"{code}: {text}"
    with Client(str(path)) as client:
        client.want(b"PONG", "PING")
    server.kill()
    assert path.exists(), "a killed server leaves its file"
    server.start()
    with Client(str(path)) as client:
        client.want(b"PONG", "PING")
    plain = Path(second.directory) / "plain"
    plain.write_text("precious")
    second.flags = ["--unixsocket", str(plain)]
    code, text = run_to_end(second)
    assert code == 1 and str(plain) in text, f"{code}: {text}"
    assert plain.read_text() == "precious"
    second.stop()
    trial.look_after(48)


@scenario(watched=False, started=False)
def unix_socket_only(trial):
    """Port 0: only the Unix socket, which an orderly end removes. After kill -9 the kernel keeps it
    for a moment: who starts at once waits."""
    path = Path(trial.server.directory) / "sock"
    server = trial.new_server("--unixsocket", str(path))
    server.port, server.unix = 0, str(path)
    try:
        server.start()
        for _ in range(5):
            crowd = [connect(str(path)) for _ in range(300)]
            server.kill()
            server.start()
            for sock in crowd:
                sock.close()
        server.process.terminate()
        assert server.process.wait(DEADLINE_S) == 0, server.log_text()[-500:]
    finally:
        server.stop()
    assert not path.exists(), "the file is left behind"


def has_ipv6():
    try:
        return free_port("::1", socket.AF_INET6) > 0
    except OSError:
        return False


@scenario(watched=False, started=False)
def addresses(trial):
    """IPv6, several addresses, one that may fail, and all of them."""
    if not has_ipv6():
        raise Skip("this machine has no ::1")
    for bind, reached, not_reached in (
            ("127.0.0.1 ::1", ["127.0.0.1", "::1"], ["127.0.0.2"]),
            ("127.0.0.1 127.0.0.3", ["127.0.0.1", "127.0.0.3"], ["127.0.0.2", "::1"]),
            ("127.0.0.1 -192.0.2.1", ["127.0.0.1"], []),
            ("* -::*", ["127.0.0.1", "127.0.0.2", "::1"], []),
    ):
        server = trial.new_server(bind=bind).start()
        for host in reached:
            with Client((host, server.port)) as client:
                client.want(b"PONG", "PING")
        for host in not_reached:
            try:
                connect((host, server.port), 5).close()
            except OSError:
                continue
            raise AssertionError(f"{host} is reached with --bind '{bind}'")
        server.stop()


@scenario(watched=False)
def idle_sleeps(trial):
    """An idle server uses no CPU and does not wake up, with and without clients."""
    for count in (0, 100):
        clients = [trial.client() for _ in range(count)]
        for client in clients:
            client.want(b"PONG", "PING")
        seen = []
        # The allocator's thread gives back what the work before has left: that takes a while.
        try:
            until(lambda: sleeps(trial.server, seen), "it sleeps")
        except AssertionError:
            raise AssertionError(f"with {count} clients it never rests: {seen[-1]}") from None
        trial.note(f"{count} clients: rests after {2 * len(seen) - 2} s")
        for client in clients:
            client.close()


def sleeps(server, seen):
    """Watches for 2 s; whether nothing woke up."""
    cpu, switches = server.cpu_s(), server.switches()
    pause(2)
    used_ms = (server.cpu_s() - cpu) * 1000
    woken = {name: many - switches.get(name, 0) for name, many in server.switches().items()
             if many != switches.get(name, 0)}
    seen.append(f"in 2 s {used_ms:.3f} ms of CPU, woken {woken}")
    return not woken and used_ms < 1


class ServiceManager:
    """What systemd is to a service: a socket that hears how it is."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(DEADLINE_S)
        self.variables = {"NOTIFY_SOCKET": str(path)}

    def hears(self, *wanted):
        """Waits for these lines in this order, each in a message of its own; others may come
        between."""
        for line in wanted:
            while line not in self.socket.recv(4096).decode().splitlines():
                pass

    def hears_nothing(self):
        """Whether nothing waits to be read."""
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(4096)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(DEADLINE_S)


@scenario(watched=False, started=False)
def supervised_by_systemd(trial):
    """It tells systemd when it loads, serves, reads files anew, saves and ends; and that its
    workers live, also while a command takes long."""
    server = trial.new_server("--supervised", "systemd", "--landlock", "no")
    manager = ServiceManager(Path(server.directory) / "notify")
    server.variables = {**manager.variables, "WATCHDOG_USEC": "200000"}
    server.start()
    manager.hears("READY=1", "WATCHDOG=1", "WATCHDOG=1")
    with server.client() as client:
        assert b"\r\nprocess_supervised:systemd\r\n" in client.call("INFO", "server")
        client.want(b"OK", "SET", "k", "v")
        # Inside a transaction it holds up nobody else.
        client.want(b"OK", "MULTI")
        client.want(b"QUEUED", "DEBUG", "SLEEP", "0.5")
        client.write(encode("EXEC"))
        manager.hears("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
        client.read()
        server.process.send_signal(signal.SIGHUP)
        manager.hears("RELOADING=1", "READY=1")
        client.want(b"OK", "CONFIG", "SET", "save", "3600 1")
    server.process.send_signal(signal.SIGTERM)
    manager.hears("STATUS=Saving before the end", "STOPPING=1")
    assert server.process.wait(DEADLINE_S) == 0
    server.start()
    manager.hears("STATUS=Loading data", "READY=1")
    server.stop()
    manager.hears("STOPPING=1")


@scenario(watched=False, started=False)
def supervised_by_nobody(trial):
    """By default the manager's variables mean nothing, and a manager that is not there is only
    warned of."""
    server = trial.server
    manager = ServiceManager(Path(server.directory) / "notify")
    server.variables = dict(manager.variables)
    server.start()
    with server.client() as client:
        assert b"\r\nprocess_supervised:no\r\n" in client.call("INFO", "server")
    assert manager.hears_nothing()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(DEADLINE_S) == 0
    server.flags, server.variables = ["--supervised", "systemd"], {"NOTIFY_SOCKET": "/nonexistent"}
    server.start()
    assert "systemd cannot be told anything" in server.log_text()
