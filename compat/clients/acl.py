#!/usr/bin/env python3
"""Users and their rules on two servers: random ones, files of them, the configuration file.

    python3 compat/clients/acl.py SERVER OTHER [seed]

SERVER is started and so is OTHER, a valkey-server; what both answer to the same rules must be the
same, and ACL LIST after them. Exit code 1 when something differs.
"""

import pathlib
import random
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import server  # noqa: E402

ROUNDS = 400
WORDS = ["a", "b*", "*", "", "x[a-", "foo:*", "#", "%", "?", "|", "a|b"]
PLAIN = ["on", "off", "nopass", "resetpass", "reset", "resetkeys", "resetchannels", "allkeys",
         "allchannels", "allcommands", "nocommands", "+@all", "-@all", "~*", "&*", "alldbs",
         "resetdbs", "clearselectors", "sanitize-payload", "nonsense"]
DATABASES = ["0", "1,2", "3,1,2,1", "x", "", "1,", "15", "+2", "-1", "2147483648"]
DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
FILES = [
    b"user a on >p ~x +get\n",
    b"user a on >p ~x +get\nuser a off\n",
    b"foo a on\nuser b nope\nuser\nuser  c  on\n",
    b"# comment\n",
    b"user g on +nope -@nope nope ~a b\n",
    b"user h on (+get   ~a )   (~b)  \n\n\r\n  user default on nopass ~* +@all\n",
    b'user i on "~a"\n',
    b"user j db=1,2 %R~a &b +select|1 +cluster|slots -replicaof\n",
    b"user k #abc\n",
    b"use l on\n",
    b"user m",
    b"user \xff on >p\n",
]


class Server(server.Server):
    """A server with one connection."""

    def __init__(self, binary, directory, *options):
        own = ["--port", "{port}", "--bind", "127.0.0.1", "--dir", "{dir}"]
        super().__init__([binary, *options, *own], directory, is_served=server.listens)
        self.start()

    def start(self):
        super().start()
        self.socket = socket.create_connection(self.address, server.DEADLINE_S)
        self.replies = self.socket.makefile("rb")
        return self

    def stop(self):
        self.socket.close()
        super().stop()

    def ask(self, *words):
        """The reply to a command."""
        words = [word if isinstance(word, bytes) else word.encode() for word in words]
        sent = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(b"*%d\r\n%s" % (len(words), sent))
        return self.reply()

    def reply(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if not line:
            raise SystemExit(f"{self} has closed the connection")
        return line


class Pair:
    """The two servers, and what they have answered differently."""

    def __init__(self, ours, other):
        self.servers = (ours, other)
        self.wrong = 0

    def ask(self, *words):
        """The reply of both; without the directory, which files' errors name."""
        ours, other = (self.without_place(server, server.ask(*words)) for server in self.servers)
        if ours != other:
            self.wrong += 1
            print(f"{words}\n    here:      {ours}\n    reference: {other}")
        return ours

    @staticmethod
    def without_place(server, reply):
        if isinstance(reply, bytes):
            return reply.replace(str(server.directory).encode(), b"DIR")
        return reply


def random_rule(rng, commands, categories, may_nest=True):
    """One rule, mostly right."""
    sign, word, command = rng.choice("+-"), rng.choice(WORDS), rng.choice(commands)
    case = rng.choice([str, str, str.upper, str.title])
    kind = rng.randrange(16 if may_nest else 14)
    if kind < 3:
        return sign + case(command)
    if kind == 3:
        return f"+{command}|" + rng.choice(["1", "Abc", "", "x|y"])
    if kind < 6:
        return f"{sign}@{case(rng.choice(categories))}"
    if kind < 8:
        return case(rng.choice(PLAIN))
    if kind == 8:
        return "~" + word
    if kind == 9:
        # What is `*` for reading and for writing is shown as all keys, there without being it.
        access = rng.choice(["R", "W", "", "RR", "r"]) if word != "*" else "R"
        return f"%{access}~{word}"
    if kind == 10:
        return "&" + word
    if kind == 11:
        return "db=" + rng.choice(DATABASES)
    if kind == 12:
        return rng.choice("><") + rng.choice(["p", "q", ""])
    if kind == 13:
        return rng.choice("#!") + rng.choice([DIGEST, "x"])
    rules = [random_rule(rng, commands, categories, False) for _ in range(rng.randrange(4))]
    return rng.choice(["({})", "( {} )", "({}"]).format(" ".join(rules))


def random_rules(pair, seed):
    """The same random rules for both."""
    rng = random.Random(seed)
    ours, other = ({name.decode() for name in server.ask("COMMAND", "LIST")}
                   for server in pair.servers)
    commands = sorted(ours & other)
    categories = [name.decode() for name in pair.ask("ACL", "CAT")] + ["all", "nonsense"]
    users = ["anna", "bert", "zoë", ""]
    for number in range(ROUNDS):
        user = rng.choice(users)
        rules = [random_rule(rng, commands, categories) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.3:
            rules = " ".join(rules).split(" ")
        pair.ask("ACL", "SETUSER", user, *rules)
        pair.ask("ACL", "LIST")
        pair.ask("ACL", "GETUSER", user)
        for command in rng.sample(commands, 3):
            args = [rng.choice(["a", "b", "1", "foo:1"]) for _ in range(3)]
            if command in ("get", "set", "config|get", "publish", "del"):
                pair.ask("ACL", "DRYRUN", user, *command.split("|"), *args[:2])
        if number % 50 == 49:
            pair.ask("ACL", "DELUSER", *users)


def files(binaries, place):
    """ACL LOAD and SAVE of the same files."""
    servers = []
    for number, binary in enumerate(binaries):
        directory = place / f"files{number}"
        directory.mkdir()
        (directory / "users.acl").write_text("user default on nopass ~* &* +@all\n")
        servers.append(Server(binary, directory, "--aclfile", str(directory / "users.acl")))
    pair = Pair(*servers)

    def write(text):
        for server in servers:
            (server.directory / "users.acl").write_bytes(text)

    for text in FILES:
        write(text)
        pair.ask("ACL", "LOAD")
        pair.ask("ACL", "LIST")
    pair.ask("ACL", "SETUSER", "zoe", "on", ">p", "~a*", "+@read", "(%R~b +get)")
    pair.ask("ACL", "SAVE")
    saved = [(server.directory / "users.acl").read_bytes() for server in servers]
    if saved[0] != saved[1]:
        pair.wrong += 1
        print(f"saved: {saved}")
    for server in servers:
        server.stop()
        server.start()
    pair.ask("ACL", "LIST")
    for server in servers:
        (server.directory / "users.acl").unlink()
    pair.ask("ACL", "LOAD")
    pair.ask("ACL", "LIST")
    for server in servers:
        server.stop()
    return pair.wrong


def configuration(binaries, place):
    """Users in the configuration file, and in the one that CONFIG REWRITE writes."""
    servers = []
    for number, binary in enumerate(binaries):
        directory = place / f"conf{number}"
        directory.mkdir()
        conf = directory / "x.conf"
        conf.write_text("# kept\nuser anna on \">p w\" ~a* '+@read' (+get ~b)\n"
                        "user default on >secret ~* &* +@all\n")
        servers.append(Server(binary, directory, str(conf)))
    pair = Pair(*servers)
    pair.ask("ACL", "LIST")
    pair.ask("AUTH", "wrong")
    pair.ask("AUTH", "secret")
    pair.ask("ACL", "LIST")
    pair.ask("ACL", "SETUSER", "bert", "on", "nopass", "+get", "%R~x", "db=1,3")
    pair.ask("ACL", "SETUSER", "anna", "-@read", "clearselectors")
    pair.ask("CONFIG", "REWRITE")
    for server in servers:
        server.stop()
        server.start()
    pair.ask("AUTH", "secret")
    pair.ask("ACL", "LIST")
    text = (servers[0].directory / "x.conf").read_text()
    if not text.startswith("# kept\nuser anna on #") or text.count("user ") != 3:
        pair.wrong += 1
        print(f"rewritten: {text}")
    for server in servers:
        server.stop()
    return pair.wrong


def main():
    binaries = [str(pathlib.Path(binary).resolve()) for binary in sys.argv[1:3]]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        servers = []
        for number, binary in enumerate(binaries):
            directory = place / f"rules{number}"
            directory.mkdir()
            servers.append(Server(binary, directory))
        pair = Pair(*servers)
        random_rules(pair, seed)
        for server in servers:
            server.stop()
        wrong = pair.wrong + files(binaries, place) + configuration(binaries, place)
    print(f"{wrong} answers differ")
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
