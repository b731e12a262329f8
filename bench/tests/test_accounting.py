import os
import unittest

from harness import accounting


class FakeClock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Parsing(unittest.TestCase):
    def test_schedstat(self):
        self.assertEqual(accounting.parse_schedstat("12386668 76687 11\n"), (12386668, 76687))

    def test_stat_with_a_name_that_holds_brackets_and_spaces(self):
        fields = "S 1 2 3 4 5 6 7 8 9 10 250 50 0 0"
        self.assertEqual(accounting.parse_stat_ticks(f"77 (a) b (c) {fields}"), 300)

    def test_switches_of_both_sorts(self):
        text = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n"
        self.assertEqual(accounting.parse_switches(text), 12)

    def test_rss_in_both_files(self):
        rollup = "55-7f ---p 0 00:00 0 [rollup]\nRss:    1740 kB\nPss: 328 kB\n"
        self.assertEqual(accounting.parse_rss_kb(rollup), 1740)
        self.assertEqual(accounting.parse_rss_kb("VmSize: 9 kB\nVmRSS:\t  42 kB\n"), 42)
        with self.assertRaises(ValueError):
            accounting.parse_rss_kb("Name: x\n")

    def test_busy_ticks_count_the_named_cores_and_not_idling(self):
        text = "cpu 9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 0 0\ncpu1 10 0 0 7 7 0 0 0 0 0\n"
        self.assertEqual(accounting.parse_busy_ticks(text, [0]), 21)
        self.assertEqual(accounting.parse_busy_ticks(text, [0, 1]), 31)


class Reading(unittest.TestCase):
    def test_own_usage_grows_with_work(self):
        before = accounting.usage(os.getpid())
        total = sum(range(3_000_000))
        used = accounting.usage(os.getpid()) - before
        self.assertGreater(total, 0)
        self.assertGreater(used.run_ns, 1_000_000)
        self.assertGreater(accounting.rss_kb(os.getpid()), 1_000)


class Settling(unittest.TestCase):
    def settle(self, sizes, limit_s=20.0):
        sizes = iter(sizes)
        last = [0]

        def sample():
            last[0] = next(sizes, last[0])
            return last[0]

        clock = FakeClock()
        kb, settled = accounting.settled_rss_kb(sample, limit_s, clock=clock)
        return kb, settled, clock.now

    def test_waits_for_a_full_window_without_movement(self):
        kb, settled, waited_s = self.settle([100_000] * 3)
        self.assertEqual((kb, settled), (100_000, True))
        self.assertAlmostEqual(waited_s, 3.0)

    def test_memory_that_still_falls_is_waited_for(self):
        falling = [100_000 - 1_000 * step for step in range(20)]
        kb, settled, waited_s = self.settle(falling)
        self.assertEqual((kb, settled), (81_000, True))
        self.assertGreater(waited_s, 7.0)

    def test_gives_up_at_the_limit(self):
        kb, settled, waited_s = self.settle(range(0, 10_000_000, 5_000), limit_s=5.0)
        self.assertFalse(settled)
        self.assertAlmostEqual(waited_s, 5.0)
