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
