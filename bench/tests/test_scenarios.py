import unittest

from harness import redis_benchmark
from harness.measure import KINDS
from harness.scenarios import ALL, CORE, FIGURES, SCENARIOS, UNITS, Budget


class Table(unittest.TestCase):
    def test_names_are_unique_and_plain(self):
        names = [scenario.name for scenario in SCENARIOS]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(name.replace("-", "").isalnum() for name in names))

    def test_every_row_can_be_measured_and_shown(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                self.assertIn(scenario.kind, KINDS)
                self.assertLessEqual(set(scenario.servers), set(ALL))
                for figure in (scenario.figure, *(b.figure for b in scenario.budgets)):
                    self.assertIn(figure, FIGURES)
                    self.assertIn(figure, UNITS)

    def test_memcached_is_never_asked_by_redis_benchmark(self):
        for scenario in SCENARIOS:
            if "memcached" in scenario.servers and scenario.kind in ("commands", "family"):
                self.assertEqual(scenario.load, "pantala-load", scenario.name)

    def test_every_command_makes_a_command_line(self):
        shape = {"clients": 1, "pipeline": 1, "requests": 1, "keys": 1}
        for scenario in SCENARIOS:
            steps = [step.command for step in (*scenario.prepare, *scenario.steps)]
            for command in filter(None, [scenario.command, *steps]):
                with self.subTest(command):
                    redis_benchmark.command_line(1, command, **shape)

    def test_quick_is_smaller(self):
        for scenario in SCENARIOS:
            quick = scenario.for_quick()
            with self.subTest(scenario.name):
                self.assertEqual(quick.name, scenario.name)
                self.assertLessEqual(quick.keys, scenario.keys)
                self.assertNotEqual(quick, scenario)

    def test_the_budgets_are_the_papers(self):
        found = {s.name: [(b.figure, b.limit, b.against) for b in s.budgets] for s in CORE}
        self.assertEqual(found["get"], [("cpu_us", 0.88, "valkey")])
        self.assertEqual(found["set"], [("cpu_us", 0.90, "valkey")])
        self.assertEqual(found["get-p30"], [("cpu_us", 0.50, "valkey")])
        self.assertEqual(found["set-p30"], [("cpu_us", 0.55, "valkey")])
        self.assertEqual(found["get-10m"], [("cpu_us", 0.50, "valkey")])
        self.assertEqual(found["two-threads"], [("growth", 1.10, None)])
        limits = [found[f"memory-{n}"][0][1] for n in (8, 100, 1024)]
        self.assertEqual(limits, [45, 142, 1095])

    def test_a_budget_reads_well(self):
        self.assertEqual(Budget("cpu_us", 0.5, "valkey").text(), "<= 0.5 x valkey")
        self.assertEqual(Budget("bytes_per_key", 45, strictly=True).text(), "< 45 B")
