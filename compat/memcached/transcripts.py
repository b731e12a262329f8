#!/usr/bin/env python3
"""Plays transcripts of Memcached's protocols against a server, or records what memcached answers.

    transcripts.py play [--server 'COMMAND with {port}' | --address HOST:PORT] FILE...
    transcripts.py record FILE...

Without --server memcached itself is started: the transcripts are what it answers. In a file

    # text                  a story
    > set a 0 0 1           lines that are sent, each with CR LF (>- without), as one piece
    > x
    < STORED                lines that come back
    >b set key=a value=x    binary requests: see `wire.py` for their names
    <b set status=0x0 cas={c1}
    = closed                the server has hung up
    --                      what follows goes over a new connection

`{x*300}` is 300 times x, `{c1}` a number of cas: what it is is known once it has come back, and
equal names are equal numbers. `{?}` is any word, `{~3}` a number of 2 to 4. Backslashes as in
Python. All data are lost at the begin of a file.
"""

import argparse
import pathlib
import re
import sys

import servers
import wire

CAS_OF_VALUE = re.compile(rb"^(VALUE (\S+) \d+ \d+ )(\d+)$")
CAS_OF_FLAG = re.compile(rb"(?<= c)(\d+)(?= |$)")
CAS_OF_DEBUG = re.compile(rb"(?<= cas=)(\d+)(?= |$)")


class Names:
    """Names of the numbers of cas of one server: they tell the states of one key apart, and two
    keys may have the same."""

    def __init__(self):
        self.numbers = {}
        self.named = {}
        self.key = ""

    def name(self, number, key=None):
        at = (key or self.key, int(number))
        if at not in self.named:
            self.named[at] = f"c{len(self.named) + 1}"
            self.numbers[self.named[at]] = int(number)
        return f"{{{self.named[at]}}}"

    def filled(self, text):
        """With the numbers instead of the names."""
        return re.sub(r"\{(c\d+)\}", lambda found: str(self.numbers[found[1]]), text)

    def in_line(self, line):
        """A line of text that came back, with names instead of numbers."""
        def named(found):
            return self.name(found[1]).encode()

        if found := CAS_OF_VALUE.match(line):
            line = found[1] + self.name(found[3], found[2].decode("latin-1")).encode()
        if line[:3] in (b"HD ", b"VA ", b"NS ", b"EX ", b"NF "):
            line = CAS_OF_FLAG.sub(lambda f: f[0] if f[0] == b"0" else named(f), line)
        if line.startswith(b"ME "):
            line = CAS_OF_DEBUG.sub(named, line)
        return wire.in_words(line)


def unquoted(text):
    """A line of a file as bytes."""
    text = re.sub(r"\{(.)\*(\d+)\}", lambda found: found[1] * int(found[2]), text)
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def request_of(line, names):
    """The bytes of a line that is sent."""
    if line.startswith(">b "):
        name, *words = names.filled(line[3:]).split(" ")
        return packet_of(name, dict(word.split("=", 1) for word in words))
    if line.startswith(">-"):
        return unquoted(names.filled(line[3:]))
    return unquoted(names.filled(line[2:])) + b"\r\n"


def key_of(line):
    """The key that a line is about, if any."""
    if found := re.search(r" key=(\S*)", line):
        return found[1]
    words = line.split(" ")
    return words[2] if len(words) > 2 and not line.startswith(">b") else ""


def packet_of(name, words):
    texts = {key: unquoted(words.pop(key, "")) for key in ("key", "value")}
    raw = words.pop("extras", None)
    opaque = bytes.fromhex(words.pop("opaque", "00000000"))
    numbers = {key: int(value, 0) for key, value in words.items()}
    header = ("cas", "magic", "key_bytes", "extras_bytes", "body_bytes")
    header = {key: numbers.pop(key) for key in header if key in numbers}
    extras = wire.extras_of(name, **numbers) if raw is None else bytes.fromhex(raw)
    return wire.packet(name, extras, opaque=opaque, **texts, **header)


def groups_of(lines):
    """(line number, lines that are sent, lines that come back), and what stands between."""
    group = (0, [], [])
    for number, line in enumerate(lines, 1):
        sends, expects = line.startswith(">"), line.startswith(("<", "="))
        if not expects and not (sends and not group[2]) and (group[1] or group[2]):
            yield group
            group = (number, [], [])
        if sends:
            group = (group[0] if group[1] else number, [*group[1], line], group[2])
        elif expects:
            group[2].append(line)
        else:
            yield (number, [line], None)
    if group[1]:
        yield group


class Player:
    """One file on one server."""

    def __init__(self, address):
        self.address = address
        self.names = Names()
        self.connection = None
        fresh = wire.Connection(address)
        fresh.text(b"flush_all\r\n")
        fresh.close()

    def renew(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def answers(self, sent):
        """What comes back, as lines of a file. All that is sent is about one key, or `get`s."""
        self.names.key = next(filter(None, map(key_of, sent)), "")
        self.connection = self.connection or wire.Connection(self.address)
        request = b"".join(request_of(line, self.names) for line in sent)
        if sent[0].startswith(">b"):
            replies = self.connection.binary(request)
            lines = ["<b " + wire.reply_in_words(reply, self.names.name) for reply in replies]
        else:
            received = self.connection.text(request)
            lines = ["< " + self.names.in_line(line) for line in received.split(b"\r\n")[:-1]]
        if self.connection.is_closed:
            lines.append("= closed")
        return lines


def matches(expected, got):
    """Whether a line is as it is told, with its wild words."""
    if "{" not in expected:
        return expected == got
    pattern = re.escape(expected).replace(re.escape("{?}"), r"[^ ]+")
    pattern = re.sub(r"\\\{\\?~(\d+)\\\}", lambda f: near(int(f[1])), pattern)
    return re.fullmatch(pattern, got) is not None


def near(number):
    return "(" + "|".join(str(number + step) for step in (-1, 0, 1)) + ")"


def play(path, address, record=False):
    """The number of groups that are answered otherwise; with `record` the file becomes right."""
    player, wrong, written = Player(address), 0, []
    for number, sent, expected in groups_of(path.read_text().splitlines()):
        if expected is None:
            written += sent
            if sent == ["--"]:
                player.renew()
            continue
        got = player.answers(sent)
        fits = len(got) == len(expected) and all(map(matches, expected, got))
        written += sent + (expected if fits else got)
        if fits or record:
            continue
        wrong += 1
        told = "\n    ".join(["expected", *expected, "got", *got])
        print(f"{path}:{number}: {' | '.join(sent)[:200]}\n    {told}")
    player.renew()
    if record:
        path.write_text("\n".join(written) + "\n")
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Transcripts of Memcached's protocols.")
    parser.add_argument("act", choices=("play", "record"))
    parser.add_argument("--server", default=servers.MEMCACHED, help="command line with {port}")
    parser.add_argument("--address", help="HOST:PORT of a server that runs")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    files = options.files or sorted(pathlib.Path(__file__).parent.glob("transcripts/*.txt"))
    if options.address:
        host, port = options.address.rsplit(":", 1)
        return run(files, (host, int(port)), options.act == "record")
    with servers.running(options.server) as address:
        return run(files, address, options.act == "record")


def run(files, address, record):
    wrong = sum(play(path, address, record) for path in files)
    print(f"{len(files)} transcripts, {wrong} groups answered otherwise")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
