import unittest

from harness import datatypes, feed, redis_benchmark
from harness.kinds import KINDS
from harness.scenario import ALL, BEST, FIGURES, UNITS, Budget
from harness.scenarios import CORE, SCENARIOS


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
        self.assertEqual(Budget("cpu_us", 1.1, BEST, across="worst").text(), "each <= 1.1 x best")


class DataTypes(unittest.TestCase):
    def steps(self):
        return [step for scenario in datatypes.TYPES for step in scenario.steps]

    def test_the_issues_commands_are_there(self):
        named = {step.command.split()[0] for step in self.steps()}
        expected = """PING SET GET INCR LPUSH RPUSH LPOP RPOP SADD HSET SPOP ZADD ZPOPMIN LRANGE
            MSET LINDEX HGET HGETALL HINCRBY SISMEMBER SINTER ZRANGE ZRANK ZRANGEBYSCORE XADD
            XREADGROUP PFADD PFCOUNT PFMERGE GETBIT SETBIT BITCOUNT BITOP GEOSEARCH"""
        self.assertLessEqual(set(expected.split()), named)

    def test_the_budgets_are_the_issues(self):
        found = {
            s.name: [(b.figure, b.limit, b.against, b.across) for b in s.budgets]
            for s in datatypes.ALL
        }
        self.assertEqual(
            found["types"], [("cpu_us", 0.8, BEST, ""), ("cpu_us", 1.1, BEST, "worst")]
        )
        below = ("bytes_per_element", 1.0, BEST, "")
        self.assertEqual(found["memory-set"], [below, ("bytes_over_payload", 24, None, "")])
        self.assertEqual(found["memory-zset"], [below, ("bytes_over_payload", 50, None, "")])
        self.assertEqual(found["neighbours"], [("p999_growth", 2.0, None, "")])

    def test_labels_name_one_step_each(self):
        labels = [step.label for step in self.steps()]
        self.assertEqual(len(labels), len(set(labels)))

    def test_pops_are_fed_enough_at_any_scale(self):
        pops = [step for step in self.steps() if "POP" in step.command.split()[0]]
        self.assertEqual(len(pops), 4)
        for step in pops:
            for scale in (1, datatypes.QUICK["scale"]):
                with self.subTest(step.label, scale=scale):
                    (fed,) = step.before
                    self.assertEqual(fed.command.split()[1], step.command.split()[1])
                    least = step.requests // scale + datatypes.TYPES[0].pipeline
                    self.assertGreaterEqual(fed.scaled(scale).elements, least)

    def test_a_group_has_enough_to_read(self):
        reads = [step for step in self.steps() if step.command.startswith("XREADGROUP")]
        for step in reads:
            words = step.command.split()
            count = int(words[words.index("COUNT") + 1])
            with self.subTest(step.label):
                self.assertLessEqual(step.requests * count, datatypes.LOG.elements)

    def test_every_feed_can_be_made(self):
        items = [item for step in self.steps() for item in (*step.needs, *step.before)]
        for scenario in datatypes.ALL:
            items += scenario.feeds
            items += [item for neighbour in scenario.neighbours for item in neighbour.feeds]
        for item in items:
            with self.subTest(item.text()):
                self.assertTrue(next(iter(feed.commands(item.scaled(100)))).startswith(b"*"))

    def test_the_memory_rows_count_what_they_feed(self):
        for scenario in datatypes.COLLECTIONS:
            (item,) = scenario.feeds
            keys = item.commands if "__n__" in item.command else item.elements
            with self.subTest(scenario.name):
                self.assertEqual(scenario.elements, keys)

    def test_some_steps_can_be_chosen(self):
        chosen = datatypes.TYPES[0].with_steps(lambda name: name.startswith("LRANGE"))
        self.assertEqual(len(chosen.steps), 4)
