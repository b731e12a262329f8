"""etcd's members for tests: one or three, on free ports, with their data in folders that go with
them.

    with EtcdCluster(members=3) as cluster:
        pantala(..., cluster.endpoints)
        cluster.kill_leader()

Needs the programs etcd and etcdctl of 3.4 or later (from 3.6 on, etcdutl too).
Not here: TLS, users.
"""

import base64
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

from ports import free_port
from server import Process, until

# For one answer; a member that is stopped gives none.
ANSWER_S = 5


class EtcdMember(Process):
    """One member. Its folder holds its log and its data."""

    def __init__(self, name):
        super().__init__()
        self.name, self.port, self.peer_port = name, free_port(), free_port()
        self.peers, self.token, self.is_stalled = "", "", False

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def peer(self):
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def data(self):
        return self.directory / "data"

    def command(self):
        return ["etcd", "--name", self.name, "--data-dir", str(self.data),
                "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
                "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                "--initial-cluster", self.peers, "--initial-cluster-token", self.token]

    def ask(self, path, method="POST", **fields):
        """What it answers; an OSError if it does not, or not with success."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request(method, path, json.dumps(fields) if method == "POST" else None)
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{self.name}: {error!r}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise OSError(f"{self.name}: {answer.status} {text!r}")
        return json.loads(text)

    def is_ready(self):
        """Whether it knows a leader, and a majority answers it."""
        try:
            return self.ask("/health", "GET").get("health") in ("true", True)
        except OSError:
            return False

    def is_leader(self):
        try:
            status = self.ask("/v3/maintenance/status")
        except OSError:
            return False
        return status.get("leader", "0") == status["header"]["member_id"]

    def stall(self):
        """It stands still, with its connections, until `resume`."""
        self.process.send_signal(signal.SIGSTOP)
        self.is_stalled = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_stalled = False

    def end(self, how=signal.SIGTERM):
        if self.is_stalled and self.is_alive():
            self.resume()
        super().end(how)


class EtcdCluster:
    """Members that know each other."""

    def __init__(self, members=1):
        self.members = [EtcdMember(f"m{number}") for number in range(members)]
        self.folder = Path(tempfile.mkdtemp(prefix="pantala-etcd-"))
        self._acquaint()

    def _acquaint(self):
        peers = ",".join(f"{member.name}={member.peer}" for member in self.members)
        token = uuid.uuid4().hex
        for member in self.members:
            member.peers, member.token = peers, token

    @property
    def endpoints(self):
        return [member.endpoint for member in self.members]

    @property
    def alive(self):
        """Those that run and do not stand still."""
        return [member for member in self.members
                if member.is_alive() and not member.is_stalled]

    def start(self):
        """Starts those that do not run, and waits until all that run answer."""
        for member in self.members:
            if not member.is_alive():
                member.spawn()
        return self.wait()

    def wait(self):
        """Waits until all that run are healthy; for that, they must be a majority."""
        for member in self.alive:
            until(member._is_ready, f"{member.name} is healthy")
        return self

    def leader(self):
        """The member that leads, waited for."""
        return until(lambda: next((m for m in self.alive if m.is_leader()), None), "a leader")

    def kill_leader(self):
        """The leader is gone from one moment to the next. Returns it, to be started again."""
        leader = self.leader()
        leader.kill()
        return leader

    def stall_leader(self):
        """The leader stands still. Returns it, to be resumed."""
        leader = self.leader()
        leader.stall()
        return leader

    def ask(self, path, **fields):
        """What the first member that answers says."""
        fault = OSError("no member runs")
        for member in self.alive:
            try:
                return member.ask(path, **fields)
            except OSError as error:
                fault = error
        raise fault

    def revision(self):
        return int(self.ask("/v3/kv/range", key="AA==")["header"]["revision"])

    def put(self, key, value):
        self.ask("/v3/kv/put", key=_coded(key), value=_coded(value))

    def get(self, key):
        """The value of a key as text; None if there is none."""
        rows = self.ask("/v3/kv/range", key=_coded(key)).get("kvs", [])
        return base64.b64decode(rows[0].get("value", "")).decode() if rows else None

    def compact(self, revision=None):
        """Forgets what was before a revision, or before the present one. Returns it."""
        revision = revision or self.revision()
        self.ask("/v3/kv/compaction", revision=str(revision), physical=True)
        return revision

    def snapshot(self):
        """A copy of the store, in a file; its path."""
        path = self.folder / f"{uuid.uuid4().hex}.db"
        self._run("etcdctl", "--endpoints", self.alive[0].endpoint, "snapshot", "save", path)
        return path

    def restore(self, path):
        """Stops all members and starts them with a snapshot, as a new cluster."""
        tool = "etcdutl" if shutil.which("etcdutl") else "etcdctl"
        self._acquaint()
        for member in self.members:
            member.kill()
            shutil.rmtree(member.data, ignore_errors=True)
            self._run(tool, "snapshot", "restore", path, "--name", member.name,
                      "--initial-cluster", member.peers, "--initial-cluster-token", member.token,
                      "--initial-advertise-peer-urls", member.peer, "--data-dir", member.data)
        return self.start()

    def _run(self, *words):
        words = [str(word) for word in words]
        ran = subprocess.run(words, env={**os.environ, "ETCDCTL_API": "3"}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert ran.returncode == 0, f"{words}: {ran.stdout[-1000:]}"

    def stop(self):
        """Ends all members, and removes what they have left."""
        for member in self.members:
            member.kill()
            member.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


def _coded(text):
    return base64.b64encode(text.encode()).decode()
