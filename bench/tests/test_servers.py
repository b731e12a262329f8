import io
import unittest
from pathlib import Path

from harness import load, resp, servers
from harness.servers import Kind


class Versions(unittest.TestCase):
    def test_what_each_prints(self):
        for text, version in (
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1", "7.0.15"),
            ("Valkey server v=9.1.2 sha=00000000:0", "9.1.2"),
            ("memcached 1.6.18", "1.6.18"),
            ("pantala 0.1.0", "0.1.0"),
            ("", "unknown"),
        ):
            self.assertEqual(servers.parse_version(text), version)


class Arguments(unittest.TestCase):
    def line(self, name, threads=1):
        return " ".join(Kind(name, Path(name), "1").arguments(7000, threads))

    def test_each_server_listens_where_told_with_its_threads(self):
        ours = "--port 7000 --threads 2 --bind 127.0.0.1 --save "
        self.assertEqual(self.line("pantala", 2), ours)
        self.assertIn("--io-threads 2", self.line("valkey", 2))
        self.assertIn("--appendonly no", self.line("redis"))
        self.assertIn("-p 7000 -U 0 -t 1", self.line("memcached"))

    def test_a_missing_program_is_told(self):
        found = servers.find("pantala", Path("nowhere"))
        self.assertIn("cargo build", found)


class Replies(unittest.TestCase):
    def read(self, wire):
        return resp.read_reply(io.BytesIO(wire))

    def test_every_kind(self):
        self.assertEqual(self.read(b"+PONG\r\n"), "PONG")
        self.assertEqual(self.read(b":42\r\n"), 42)
        self.assertEqual(self.read(b"$4\r\na\r\nb\r\n"), b"a\r\nb")
        self.assertIsNone(self.read(b"$-1\r\n"))
        self.assertEqual(self.read(b"*2\r\n:1\r\n*1\r\n+x\r\n"), [1, ["x"]])

    def test_an_error_is_raised(self):
        with self.assertRaisesRegex(resp.ServerError, "ERR no"):
            self.read(b"-ERR no\r\n")

    def test_a_closed_connection_is_told(self):
        with self.assertRaises(ConnectionError):
            self.read(b"+PO")

    def test_info(self):
        text = "# Stats\r\nkeyspace_hits:590681\r\nkeyspace_misses:0\r\nnote:a:b\r\n"
        found = resp.parse_info(text)
        self.assertEqual((found["keyspace_misses"], found["note"]), ("0", "a:b"))


class Load(unittest.TestCase):
    def test_lines_and_output(self):
        line = load.run_line(
            7000, "memcached", keys=9, value_bytes=8, clients=50, pipeline=30, requests=1
        )
        self.assertEqual(line[:2], ["pantala-load", "run"])
        self.assertIn("--protocol memcached", " ".join(line))
        fill = load.fill_line(7000, "resp", keys=9, value_bytes=8, first=3)
        self.assertIn("--first 3", " ".join(fill))
        self.assertEqual(load.parse('x\n{"keys":3,"seconds":0.1}\n')["keys"], 3)
