import unittest

from harness.scenarios import Budget, Scenario
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
