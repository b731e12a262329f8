#!/usr/bin/env python3
"""Random sessions of Memcached's protocols, to memcached and to a server: who answers otherwise?

    differ.py --server 'COMMAND with {port}' [--seconds N] [--seed S] [--only text,meta,binary]

A case, S, S+1, ..., is some hundred requests over a few connections, one after the other, about a
handful of keys; some steps are a pipeline of many in one piece. Numbers of cas are named by their
first appearance, so it shows when the one keeps a number that the other renews. Times may differ by
two seconds. A case that differs is told with all that was sent, and can be had again by its seed.
It counts only if it differs on fresh servers, too: memcached has been seen to answer nonsense after
a thousand cases, for hundreds more. All data are lost.
"""

import argparse
import random
import re
import sys
import time

import servers
import transcripts
import wire

STEPS = 150
# One step in so many is a pipeline: many requests of every kind in one piece.
PIPELINES = 6
KEYS = ("a", "b", "c", "longer-key-of-some-bytes", "n", "n2")
NUMBERS = ("0", "1", "9", "10", "99", "18446744073709551615", "5 ", "x", "")
SECONDS = re.compile(r"(?<= [tl])\d+(?= |$)")
# There it is a hotness, which outlives the value.
FETCHED = re.compile(r" h[01](?= |$)")
STANDS_ALONE = re.compile(r">b (incr|decr)|> (incr|decr|ma) |> get .* kkk")
MASKED_OF_DEBUG = re.compile(r" (exp|la|fetch|cls|size)=\S+")


class Case:
    """What is sent, in the words of transcripts; numbers of cas by name."""

    def __init__(self, seed, kinds):
        self.random = random.Random(seed)
        self.kinds = kinds
        self.known = {}
        self.at = KEYS[0]

    def group(self, kind):
        """The lines of some requests about one key; a `get` may ask for others, too.

        What counts stands alone: memcached fills a number that is shorter than before with blanks
        only if nobody is being sent the old one. So does a `get` with a key that is too long: it
        takes back what was answered before it.
        """
        self.at = self.random.choice(KEYS)
        requests = [self.request(kind) for _ in range(self.random.choice((1, 1, 3)))]
        alone = [lines for lines in requests if STANDS_ALONE.match(lines[0])]
        return alone[0] if alone else [line for lines in requests for line in lines]

    def pipeline(self, kind):
        """The lines of many requests about one key, text and meta commands mixed, many of them
        quiet. Nothing is counted, for the reason above."""
        self.at = self.random.choice(KEYS)
        kinds = [kind] if kind == "binary" else [one for one in self.kinds if one != "binary"]
        many = self.random.randrange(4, 30)
        requests = [self.request(self.random.choice(kinds)) for _ in range(many)]
        requests = [lines for lines in requests if not STANDS_ALONE.match(lines[0])]
        return [line for lines in requests for line in lines]

    def cas(self):
        """Most often one that has come back, late ones first."""
        known = self.known.get(self.at)
        if not known or self.random.random() < 0.1:
            return self.random.choice(("0", "18446744073709551615"))
        return f"{{{known[-1 - min(int(self.random.expovariate(0.7)), len(known) - 1)]}}}"

    def value(self):
        if self.random.random() < 0.5:
            return self.random.choice(NUMBERS)
        return self.random.choice("xyz") * self.random.choice((1, 3, 10, 40, 300))

    def time(self):
        return self.random.choice(("0", "0", "100", "1000", "2592000", "-1"))

    def later(self):
        """Meta commands tell the time that is left to what has no time left, too."""
        return self.random.choice(("0", "100", "1000", "2592000"))

    def number(self):
        return self.random.choice(("0", "1", "2", "7", "100", "18446744073709551615"))

    def request(self, kind):
        """The lines of one request."""
        return getattr(self, kind)()

    def text(self):
        verb = self.random.choice(
            ("get", "gets", "gat", "gats", "set", "set", "add", "replace", "append", "prepend",
             "cas", "incr", "decr", "touch", "delete", "odd")
        )  # fmt: skip
        quiet = " noreply" if self.random.random() < 0.1 else ""
        others = self.random.choices(KEYS, k=self.random.choice((0, 0, 1, 3)))
        keys = " ".join((self.at, *others))
        if verb == "odd":
            return [self.odd()]
        if verb in ("get", "gets"):
            return [f"> {verb} {keys}"]
        if verb in ("gat", "gats"):
            return [f"> {verb} {self.time()} {keys}"]
        if verb in ("incr", "decr"):
            return [f"> {verb} {self.at} {self.number()}{quiet}"]
        if verb == "touch":
            return [f"> touch {self.at} {self.time()}{quiet}"]
        if verb == "delete":
            return [f"> delete {self.at}{quiet}"]
        value, flags = self.value(), self.random.choice((0, 5, 4294967295))
        cas = f" {self.cas()}" if verb == "cas" else ""
        line = f"> {verb} {self.at} {flags} {self.time()} {len(value)}{cas}{quiet}"
        return [line, f"> {value}"]

    def odd(self):
        """A line that is not right, or seldom is sent."""
        # No time of a second: when that is over depends on when it began.
        key, word = self.at, self.random.choice(("", "x", "-1", "1000", "noreply"))
        return "> " + self.random.choice(
            (f"get {key} {'k' * 251}", f"set {key} 0 {word}", f"incr {key} {word}", "get", "mn",
             f"touch {key} {word}", f"delete {key} {word}", f"set {key} x 0 1", f"mg {word} {word}",
             f"verbosity {word}", f"mg {key} Q", f"md {key} {word}", f"ma {key} D{word}", "",
             f"gat {word} {key}", f"bogus {key}", f"flush_all {word}x", f"me {word} y z")
        )  # fmt: skip

    def flags(self, choices):
        chosen = self.random.sample(choices, self.random.randrange(min(6, len(choices) + 1)))
        return "".join(f" {flag}" for flag in chosen)

    def meta(self):
        verb = self.random.choice(("mg", "mg", "ms", "ms", "md", "ma", "ma", "me"))
        key, time_s = self.at, self.later()
        common = ["k", "O12ab", "q", "c"]
        if verb == "me":
            return [f"> me {key}"]
        if verb == "mg":
            lives = self.random.choice((f"T{time_s}", f"N{time_s}"))
            more = ["v", "s", "f", "t", "h", "u", lives, self.random.choice(("R200", "R2000"))]
            return [f"> mg {key}{self.flags(common + more)}"]
        if verb == "md":
            more = ["I", f"T{time_s}", f"C{self.cas()}"]
            return [f"> md {key}{self.flags(common[:3] + more)}"]
        if verb == "ma":
            mode = self.random.choice("ID+-") * self.random.choice((1, 1, 1, 2))
            more = ["v", "t", f"N{self.later()}", f"J{self.number()}", f"D{self.number()}",
                    f"C{self.cas()}", f"M{mode}"]  # fmt: skip
            if self.random.random() < 0.2:
                # Of a number that becomes longer memcached forgets the time.
                more = ["v", "t", f"T{time_s} D0"]
            return [f"> ma {key}{self.flags(common + more)}"]
        value = self.value()
        more = [f"F{self.random.choice((0, 7))}", f"T{time_s}", f"C{self.cas()}", "I",
                f"M{self.random.choice('EAPRSX')}"]  # fmt: skip
        return [f"> ms {key} {len(value)}{self.flags(common + more)}", f"> {value}"]

    def binary(self):
        verb = self.random.choice(
            ("get", "getq", "getk", "getkq", "set", "setq", "add", "addq", "replace", "replaceq",
             "append", "appendq", "prepend", "prependq", "delete", "deleteq", "incr", "incrq",
             "decr", "decrq", "touch", "gat", "gatq", "gatk", "gatkq", "noop", "0x30")
        )  # fmt: skip
        words = [f">b {verb}"]
        if verb not in ("noop", "0x30"):
            words.append(f"key={self.at}")
        base = verb.removesuffix("q")
        if base in ("set", "add", "replace", "append", "prepend"):
            words.append(f"value={self.value().replace(' ', '_')}")
        if base in ("set", "add", "replace"):
            words.append(f"flags={self.random.choice((0, 5, 4294967295))}")
        if base in ("set", "add", "replace", "touch", "gat", "gatk"):
            words.append(f"exptime={self.random.choice((0, 0, 100, 1000))}")
        if base in ("incr", "decr"):
            words.append(f"delta={self.number()} initial={self.number()}")
            words.append(f"exptime={self.random.choice((0, 100, 4294967295))}")
        if base not in ("noop", "0x30", "touch") and self.random.random() < 0.3:
            words.append(f"cas={self.cas()}")
        if self.random.random() < 0.2:
            words.append("opaque=01020304")
        return [" ".join(words)]


def alike(one, other):
    """Whether two lines differ in nothing but what may: numbers of cas have names by now."""
    if one == other:
        return True
    if one.startswith("< ME "):
        one, other = (MASKED_OF_DEBUG.sub("", line) for line in (one, other))
    one, other = (FETCHED.sub("", line) for line in (one, other))
    times = [list(map(int, SECONDS.findall(line))) for line in (one, other)]
    rest = [SECONDS.sub("", line) for line in (one, other)]
    return rest[0] == rest[1] and all(abs(a - b) <= 2 for a, b in zip(*times))


def play(seed, kinds, addresses):
    """Whether both answer one case alike; what was sent is told if not."""
    case = Case(seed, kinds)
    players = [transcripts.Player(address) for address in addresses]
    connections = [{kind: None for kind in kinds} for _ in players]
    told = []
    for _ in range(STEPS):
        kind = case.random.choice(kinds)
        piped = case.random.randrange(PIPELINES) == 0
        sent = (case.pipeline if piped else case.group)(kind)
        if not sent:
            continue
        told += sent
        answers = []
        for player, own in zip(players, connections):
            player.connection = own[kind] = own[kind] or wire.Connection(player.address)
            answers.append(player.answers(sent))
            if own[kind].is_closed:
                own[kind] = None
        case.known = {}
        for (key, _), name in players[0].names.named.items():
            case.known.setdefault(key, []).append(name)
        if len(answers[0]) != len(answers[1]) or not all(map(alike, *answers)):
            print(f"case {seed} differs, after", *told[-40:], sep="\n    ")
            print("memcached", *answers[0], "the server", *answers[1], sep="\n    ")
            return False
    for own in connections:
        for connection in filter(None, own.values()):
            connection.close()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="command line with {port} and {dir}")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="text,meta,binary")
    options = parser.parse_args()
    kinds, differing, seed = options.only.split(","), 0, options.seed
    end = time.monotonic() + options.seconds
    while seed == options.seed or time.monotonic() < end:
        seed, differs = play_until_one_differs(seed, end, kinds, options.server)
        differing += differs
    print(f"{seed - options.seed} cases from {options.seed}, {differing} differ")
    return int(differing > 0)


def play_until_one_differs(seed, end, kinds, server):
    """The next seed, and whether the last case differs, again on fresh servers."""
    with servers.running(servers.MEMCACHED) as one, servers.running(server) as other:
        while play(seed, kinds, (one, other)):
            seed += 1
            if time.monotonic() >= end:
                return seed, False
    with servers.running(servers.MEMCACHED) as one, servers.running(server) as other:
        differs = not play(seed, kinds, (one, other))
    if not differs:
        print(f"case {seed} does not differ on fresh servers: not counted")
    return seed + 1, differs


if __name__ == "__main__":
    sys.exit(main())
