import unittest

from harness.scenario import BEST, Budget, Scenario
from harness.verdict import MET, MISSED, NOT_MEASURED, deciding_rows, ratio, summarize
from tests.samples import run, three_rounds


def scenario(*budgets, **more):
    return Scenario("s", "S", "commands", "cpu_us", budgets=budgets, **more)


def only_row(records, of):
    (row,) = deciding_rows(records, [of])
    return row


class Figures(unittest.TestCase):
    def test_the_median_and_the_range_of_the_rounds(self):
        row = only_row(three_rounds("s", "cpu_us", pantala=(3.0, 1.0, 2.0)), scenario())
        cell = row.cells["pantala"]
        self.assertEqual((cell.value, cell.low, cell.high), (2.0, 1.0, 3.0))

    def test_several_sizes_make_a_mean(self):
        records = [run("s", "redis", 0, part=str(n), cpu_us=n) for n in (1, 2, 6)]
        cell = only_row(records, scenario(across="mean")).cells["redis"]
        self.assertEqual((cell.value, cell.low, cell.high), (3.0, 1, 6))

    def test_nothing_has_no_figure(self):
        self.assertIsNone(summarize({}, "median"))
        self.assertEqual(deciding_rows([], [scenario()]), [])


class Ratios(unittest.TestCase):
    def test_rounds_are_paired(self):
        # The machine was slow in the second round: the ratio does not see it.
        records = three_rounds("s", "cpu_us", pantala=(1.0, 10.0, 1.2), valkey=(2.0, 20.0, 2.0))
        self.assertAlmostEqual(ratio(records, "pantala", "valkey", "cpu_us").value, 0.5)

    def test_a_round_that_one_of_them_misses_does_not_count(self):
        records = three_rounds("s", "cpu_us", pantala=(1.0, 9.0), valkey=(2.0,))
        found = ratio(records, "pantala", "valkey", "cpu_us")
        self.assertEqual((found.value, found.low, found.high), (0.5, 0.5, 0.5))

    def test_a_family_is_the_median_of_its_commands(self):
        records = []
        for part, mine in (("A", 1.0), ("B", 5.0), ("C", 3.0)):
            records += [run("s", "pantala", 0, part, cpu_us=mine)]
            records += [run("s", "valkey", 0, part, cpu_us=10.0)]
        records += [run("s", "valkey", 0, "D", cpu_us=10.0)]
        self.assertAlmostEqual(ratio(records, "pantala", "valkey", "cpu_us").value, 0.3)


class Budgets(unittest.TestCase):
    def verdict(self, budget, **by_server):
        return only_row(three_rounds("s", "cpu_us", **by_server), scenario(budget)).verdict

    def test_relative(self):
        budget = Budget("cpu_us", 0.5, "valkey")
        self.assertEqual(self.verdict(budget, pantala=(1.0,), valkey=(2.0,)), MET)
        self.assertEqual(self.verdict(budget, pantala=(1.1,), valkey=(2.0,)), MISSED)

    def test_absolute_and_strict(self):
        self.assertEqual(self.verdict(Budget("cpu_us", 45), pantala=(45.0,)), MET)
        self.assertEqual(self.verdict(Budget("cpu_us", 45, strictly=True), pantala=(45.0,)), MISSED)

    def test_what_was_not_measured_is_not_met(self):
        relative, absolute = Budget("cpu_us", 0.5, "valkey"), Budget("cpu_us", 45)
        self.assertEqual(self.verdict(relative, pantala=(1.0,)), NOT_MEASURED)
        self.assertEqual(self.verdict(relative, valkey=(1.0,)), NOT_MEASURED)
        self.assertEqual(self.verdict(absolute, valkey=(1.0,)), NOT_MEASURED)


class AgainstTheBest(unittest.TestCase):
    """Three commands; Valkey does better in A, Redis in B, and only Valkey knows C."""

    def records(self, a=1.0, b=1.0, c=1.0):
        figures = {
            "pantala": {"A": a, "B": b, "C": c},
            "valkey": {"A": 2.0, "B": 4.0, "C": 1.0},
            "redis": {"A": 4.0, "B": 1.0},
        }
        return [
            run("s", server, turn, part, cpu_us=value)
            for server, parts in figures.items()
            for part, value in parts.items()
            for turn in range(3)
            if value is not None
        ]

    def rows(self, records):
        budgets = (Budget("cpu_us", 0.8, BEST), Budget("cpu_us", 1.1, BEST, across="worst"))
        return deciding_rows(records, [scenario(*budgets)])

    def test_each_part_has_its_own_best(self):
        median, worst = self.rows(self.records(a=1.0, b=0.7, c=1.2))
        # The ratios are 0.5, 0.7 and 1.2.
        self.assertAlmostEqual(median.ratios[BEST].value, 0.7)
        self.assertAlmostEqual(worst.ratios[BEST].value, 1.2)
        self.assertEqual((median.verdict, worst.verdict), (MET, MISSED))
        self.assertEqual(worst.cells["pantala"].value, 1.0)

    def test_one_slow_round_does_not_choose_the_best(self):
        records = three_rounds("s", "cpu_us", pantala=(2.0,) * 3, redis=(4.0,) * 3)
        records += three_rounds("s", "cpu_us", valkey=(1.0, 5.0, 5.0))
        found = ratio(records, "pantala", ["valkey", "redis"], "cpu_us")
        self.assertEqual((found.value, found.high), (0.5, 0.5))

    def test_a_part_that_pantala_lacks_is_not_met_but_others_may_be_missed(self):
        median, worst = self.rows(self.records(c=None))
        self.assertEqual((median.verdict, worst.verdict), (NOT_MEASURED, NOT_MEASURED))
        _, worst = self.rows(self.records(b=1.2, c=None))
        self.assertEqual(worst.verdict, MISSED)

    def test_without_others_there_is_no_best(self):
        records = [r for r in self.records() if r["server"] == "pantala"]
        self.assertEqual([row.verdict for row in self.rows(records)], [NOT_MEASURED] * 2)

    def test_the_worst_part_of_an_absolute_figure(self):
        records = [run("s", "pantala", 0, part, cpu_us=float(part)) for part in "123"]
        of = scenario(Budget("cpu_us", 2.0), across="worst")
        row = only_row(records, of)
        self.assertEqual((row.cells["pantala"].value, row.verdict), (3.0, MISSED))
        median = only_row(records, scenario(Budget("cpu_us", 2.0)))
        self.assertEqual((median.cells["pantala"].value, median.verdict), (2.0, MET))
