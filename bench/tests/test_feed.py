import random
import socket
import threading
import unittest

from harness import feed
from harness.feed import Marks, Refused, collect, commands, packets, repeat


def words_of(command):
    """The words of one command, and what is left over."""
    head, rest = command.split(b"\r\n", 1)
    words = []
    for _ in range(int(head[1:])):
        length, rest = rest.split(b"\r\n", 1)
        size = int(length[1:])
        assert rest[size : size + 2] == b"\r\n"
        words.append(rest[:size])
        rest = rest[size + 2 :]
    return words, rest


def all_words(item, **more):
    found = []
    for command in commands(item, **more):
        words, rest = words_of(command)
        assert rest == b""
        found.append(words)
    return found


class Commands(unittest.TestCase):
    def test_numbers_count_commands_or_elements(self):
        self.assertEqual(
            all_words(repeat("SET key:__n__ x", 2, first=7)),
            [[b"SET", b"key:000000000007", b"x"], [b"SET", b"key:000000000008", b"x"]],
        )
        found = all_words(collect("SADD s", "m:__n__", 4, batch=2))
        self.assertEqual(found[1], [b"SADD", b"s", b"m:000000000002", b"m:000000000003"])

    def test_numbers_go_on_from_one_portion_to_the_next(self):
        found = all_words(collect("SADD s", "__n__", 10 * feed.MADE_AT_ONCE, batch=100))
        members = [int(word) for words in found for word in words[2:]]
        self.assertEqual(members, list(range(10 * feed.MADE_AT_ONCE)))

    def test_random_words_have_their_form(self):
        item = collect("HSET h", "a__hex(5)__b __bytes(16)__ __float(-1,1)__", 300, batch=3)
        for words in all_words(item):
            for place in range(2, len(words), 3):
                self.assertRegex(words[place], rb"^a[0-9a-f]{5}b$")
                self.assertEqual(len(words[place + 1]), 16)
                self.assertLess(abs(float(words[place + 2])), 1)

    def test_members_differ_and_every_server_gets_the_same(self):
        item = collect("SADD s", "__bytes(16)__", 1_000)
        members = [word for words in all_words(item) for word in words[2:]]
        self.assertEqual(len(set(members)), 1_000)
        self.assertEqual(list(commands(item)), list(commands(item)))
        self.assertNotEqual(list(commands(item)), list(commands(item, seed=2)))

    def test_elements_make_whole_commands(self):
        with self.assertRaises(ValueError):
            collect("SADD s", "x", 150)
        self.assertEqual(collect("SADD s", "x", 5_000).elements, 5_000)

    def test_a_scaled_feed_keeps_its_batch(self):
        scaled = collect("SADD s", "x", 5_000).scaled(10)
        self.assertEqual((scaled.elements, scaled.batch), (500, 100))
        self.assertEqual(repeat("PING", 3).scaled(10).commands, 1)

    def test_packets_hold_every_command(self):
        made = [bytes([letter]) * 10 for letter in range(50)]
        self.assertEqual(b"".join(packets(made, 35)), b"".join(made))
        self.assertEqual(len(list(packets(made, 0))), 50)
        self.assertEqual(len(list(packets(made, 35))), 13)


class Replies(unittest.TestCase):
    def test_marks_are_found_however_the_stream_is_cut(self):
        stream = (b":1\r\n" * 5 + b"$3\r\nabc\r\n" + feed.MARK) * 3
        for seed in range(50):
            chance, marks, at = random.Random(seed), Marks(), 0
            while at < len(stream):
                size = chance.randint(1, 20)
                marks.take(stream[at : at + size])
                at += size
            self.assertEqual(marks.seen, 3)

    def test_an_error_is_raised_wherever_it_stands(self):
        for stream in (b"-ERR no\r\n" + feed.MARK, b":1\r\n-ERR no\r\n"):
            with self.assertRaisesRegex(Refused, "ERR no"):
                Marks().take(stream)
        marks = Marks()
        marks.take(b":1\r\n")
        with self.assertRaises(Refused):
            marks.take(b"-ERR no\r\n")

    def test_a_minus_within_a_line_is_no_error(self):
        Marks().take(b":-1\r\n$-1\r\n$13\r\n1700000000-10\r\n")


class Sending(unittest.TestCase):
    """Against a server that answers every word `x` with :1 and every PING with the mark."""

    def send(self, item, **more):
        rounds = []
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve():
                line, _ = listener.accept()
                with line:
                    text = b""
                    while block := line.recv(1 << 16):
                        text += block
                        while (end := text.find(feed.PING)) >= 0:
                            count = text[:end].count(b"\r\nx\r\n")
                            rounds.append(count)
                            line.sendall(b":1\r\n" * count + feed.MARK)
                            text = text[end + len(feed.PING) :]

            server = threading.Thread(target=serve)
            server.start()
            feed.send(listener.getsockname()[1], item, **more)
            server.join()
        return rounds

    def test_all_commands_arrive_in_few_packets(self):
        rounds = self.send(repeat(f"SET __hex({1 << 14})__ x", 100))
        self.assertEqual(sum(rounds), 100)
        self.assertLess(len(rounds), 20)

    def test_one_by_one(self):
        self.assertEqual(self.send(repeat("SET k x", 20), one_by_one=True), [1] * 20)
