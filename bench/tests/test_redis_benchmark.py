import unittest

from harness import redis_benchmark
from harness.scenario import KEY, VALUE
from tests.samples import BENCHMARK

SHAPE = {"clients": 50, "pipeline": 30, "requests": 1000, "keys": 77}


class CommandLine(unittest.TestCase):
    def test_a_get(self):
        line, from_stdin = redis_benchmark.command_line(7000, f"GET {KEY}", **SHAPE)
        expected = "redis-benchmark -h 127.0.0.1 -p 7000 -c 50 -n 1000 -r 77 -P 30 GET " + KEY
        self.assertEqual(" ".join(line), expected)
        self.assertFalse(from_stdin)

    def test_a_value_comes_from_stdin(self):
        line, from_stdin = redis_benchmark.command_line(7000, f"SET {KEY} {VALUE}", **SHAPE)
        self.assertEqual(line[-3:], ["-x", "SET", KEY])
        self.assertTrue(from_stdin)

    def test_a_value_in_the_middle_is_refused(self):
        with self.assertRaises(ValueError):
            redis_benchmark.command_line(7000, f"SETNX {VALUE} x", **SHAPE)

    def test_threads(self):
        line, _ = redis_benchmark.command_line(7000, "PING", threads=2, **SHAPE)
        self.assertIn("--threads 2", " ".join(line))


class Output(unittest.TestCase):
    def test_every_figure_is_found(self):
        self.assertEqual(
            redis_benchmark.parse(BENCHMARK),
            {
                "requests": 20010,
                "requests_per_s": 800400.0,
                "p50_ms": 1.623,
                "p99_ms": 2.255,
                "p999_ms": 2.343,
                "max_ms": 3.501,
            },
        )

    def test_a_percentile_needs_enough_counts(self):
        # 99.99 % of 20000 are 19998, which the bound with 19999 reaches.
        self.assertEqual(redis_benchmark.percentile(BENCHMARK, 99.99), 2.343)
        self.assertEqual(redis_benchmark.percentile(BENCHMARK, 99.999), 3.501)
        self.assertIsNone(redis_benchmark.percentile("nothing", 99.9))

    def test_the_cumulative_part_is_not_mistaken_for_percentiles(self):
        self.assertEqual(redis_benchmark.percentile(BENCHMARK, 0.01), 0.511)

    def test_what_took_no_time_has_a_summary_too(self):
        quick = BENCHMARK.replace("800400.00 requests", "inf requests")
        self.assertEqual(redis_benchmark.parse(quick)["requests_per_s"], float("inf"))

    def test_an_error_or_no_summary_is_no_result(self):
        with self.assertRaisesRegex(redis_benchmark.Unreadable, "unknown command"):
            redis_benchmark.parse("Error from server: ERR unknown command 'GETT'\n")
        with self.assertRaisesRegex(redis_benchmark.Unreadable, "no summary"):
            redis_benchmark.parse("GET: rps=0.0\r")
