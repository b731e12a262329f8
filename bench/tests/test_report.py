import unittest
import xml.etree.ElementTree as ElementTree

from harness import plot, report
from harness.scenarios import SCENARIOS
from tests.samples import ENVIRONMENT, run, three_rounds


def scenarios(*names):
    return [scenario for scenario in SCENARIOS if scenario.name in names]


def records():
    found = [ENVIRONMENT]
    found += three_rounds(
        "get", "cpu_us", pantala=(1.0, 1.1, 1.2), valkey=(2.0, 2.0, 2.1), redis=(3.0, 3.0, 3.0)
    )
    found += three_rounds("get", "p99_ms", pantala=(9.0,), valkey=(2.0,))
    for size, bytes_per_key in (("1000", 40.0), ("2000", 60.0)):
        for server, factor in (("pantala", 1), ("valkey", 1.5)):
            figures = {"bytes_per_key": bytes_per_key * factor}
            found.append(run("memory-8", server, 0, size, **figures))
    return found


class Markdown(unittest.TestCase):
    def setUp(self):
        self.text = report.markdown(records(), scenarios("get", "memory-8"))

    def line(self, start):
        return next(line for line in self.text.splitlines() if line.startswith(start))

    def test_figures_ranges_ratio_budget_and_verdict(self):
        line = self.line("| GET | server CPU")
        self.assertIn("| 1.10 (1.00 to 1.20) |", line)
        self.assertIn("<= 0.88 x valkey | met |", line)

    def test_a_missed_budget_stands_out(self):
        self.assertIn("| < 45 B | MISSED |", self.line("| memory, 16-byte key and 8 random"))

    def test_losses_stand_beside_wins(self):
        self.assertIn("| win |", self.line("| GET: server CPU"))
        self.assertIn("| LOSS |", self.line("| GET: p99"))

    def test_sizes_versions_and_what_is_missing(self):
        self.assertIn("| 1,000 | 40.0 | 60.0 |", self.text)
        self.assertIn("redis 7.0.1 (not 7.0.15)", self.text)
        self.assertIn("0123abc, with uncommitted changes", self.text)
        self.assertIn("not measured: memcached: no memcached", self.text)

    def test_failures_are_told(self):
        trouble = {"kind": "failure", "scenario": "get", "server": "redis", "text": "it broke"}
        text = report.markdown([*records(), trouble], scenarios("get"))
        self.assertIn("FAILED: get, redis: it broke", text)

    def test_a_run_that_was_disturbed_is_told(self):
        disturbed = run("get", "redis", 3, cpu_us=9.0) | {"marks": ["other programs on its cores"]}
        text = report.markdown([*records(), disturbed], scenarios("get"))
        self.assertIn("other programs on its cores: 1 runs, in get.", text)


class Types(unittest.TestCase):
    def setUp(self):
        found = [ENVIRONMENT]
        parts = {"GET key:__rand_int__": (2.2, 2.0, 3.0), "LPUSH l __value__": (1.0, 3.0, 2.0)}
        for part, values in parts.items():
            for server, value in zip(("pantala", "valkey", "redis"), values, strict=True):
                found.append(run("types", server, 0, part, cpu_us=value))
        idle = {"p999_idle_ms": 0.1, "p999_ms": 0.3, "p999_growth": 3.0}
        found.append(run("neighbours", "pantala", 0, "set: build", **idle))
        self.records, self.scenarios = found, scenarios("types", "neighbours")
        self.text = report.markdown(found, self.scenarios)

    def test_the_ratio_to_the_better_one_and_its_mark(self):
        self.assertIn("| `GET key:N` | 2.20 | 2.00 | 3.00 | 1.10 | 1.10 |  |", self.text)
        self.assertIn("| `LPUSH l VALUE` | 1.00 | 3.00 | 2.00 | 0.333 | 0.500 |  |", self.text)
        slower = run("types", "pantala", 0, "PING", cpu_us=1.2)
        other = run("types", "redis", 0, "PING", cpu_us=1.0)
        text = report.markdown([*self.records, slower, other], self.scenarios)
        self.assertIn("| `PING` | 1.20 | - | 1.00 | - | 1.20 | **above** |", text)

    def test_both_budgets_and_one_line_among_wins_and_losses(self):
        self.assertIn("| <= 0.8 x best | met |", self.text)
        self.assertIn("| each <= 1.1 x best | met |", self.text)
        wins = self.text.split("## Wins and losses")[1].split("## Throughput")[0]
        self.assertEqual(wins.count("commands of the data types"), 1)

    def test_neighbours(self):
        self.assertIn("| <= 2 x | MISSED |", self.text)
        line = "| set: build | p99.9 with an idle neighbour, ms | 0.100 | - | - |"
        self.assertIn(line, self.text)

    def test_one_row_of_the_plot_for_a_figure_with_two_budgets(self):
        rows = plot.plottable(self.records, self.scenarios)
        self.assertEqual([row.scenario.name for row in rows], ["types"])
        # Medians 2.5 of both others: the budget of 0.8 x the better lies at 0.8 of Valkey's bar.
        self.assertAlmostEqual(plot.budget_share(rows[0]), 0.8)
        ElementTree.fromstring(plot.svg(self.records, self.scenarios))


class Terminal(unittest.TestCase):
    def test_the_columns_are_aligned(self):
        lines = report.terminal(records(), scenarios("get", "memory-8")).splitlines()
        start = lines[1].index("figure")
        self.assertEqual(lines[3].index("server CPU"), start)
        self.assertEqual(lines[4].index("RSS per key"), start)

    def test_verdicts_are_counted(self):
        counts = report.verdicts(records(), scenarios("get", "memory-8"))
        self.assertEqual(counts, {"met": 1, "missed": 1, "not measured": 0})

    def test_without_pantala_nothing_is_met(self):
        others = [r for r in records() if r.get("server") != "pantala"]
        counts = report.verdicts(others, scenarios("get", "memory-8"))
        self.assertEqual(counts, {"met": 0, "missed": 0, "not measured": 2})
        text = report.markdown(others, scenarios("get"))
        self.assertIn("Pantala was not measured.", text)


class Numbers(unittest.TestCase):
    def test_about_three_digits(self):
        shown = [report.number(value) for value in (123456.7, 123.4, 12.34, 1.234, 0.1234)]
        self.assertEqual(shown, ["123,457", "123", "12.3", "1.23", "0.123"])


class Plot(unittest.TestCase):
    def test_the_picture_is_well_formed_and_shows_each_row(self):
        picture = plot.svg(records(), scenarios("get", "memory-8"))
        texts = [
            element.text
            for element in ElementTree.fromstring(picture).iter()
            if element.tag.endswith("text")
        ]
        for words in ("GET", "1.10 µs", "2.00 µs", "50.0 B", "Pantala's budget"):
            self.assertIn(words, texts)

    def test_no_rows_no_failure(self):
        ElementTree.fromstring(plot.svg([ENVIRONMENT], []))
