import json
import tempfile
import unittest
from pathlib import Path

from harness import callgrind

PRINTED = "==1== Events    : Ir\n==1== Collected : 125981\n==1==\n==1== I   refs:      125,981\n"


class Totals(unittest.TestCase):
    def test_summary_and_totals_are_the_same_number_not_two(self):
        text = "x\nsummary: 125981\n\ntotals: 125981\n"
        self.assertEqual(callgrind.parse_total(text, ""), 125981)

    def test_parts_are_added(self):
        text = "part: 1\ntotals: 100\npart: 2\nsummary: 50\ntotals: 50\n"
        self.assertEqual(callgrind.parse_total(text, ""), 150)

    def test_several_events_the_first_is_instructions(self):
        self.assertEqual(callgrind.parse_total("events: Ir Dr\nsummary: 10 20\n", ""), 10)

    def test_what_valgrind_printed_will_do(self):
        self.assertEqual(callgrind.parse_total("", PRINTED), 125981)
        self.assertEqual(callgrind.parse_total("", "==1== I refs: 1,234\n"), 1234)

    def test_nothing_is_a_fault(self):
        with self.assertRaises(callgrind.Uncounted):
            callgrind.parse_total("", "Segmentation fault")


class Comparison(unittest.TestCase):
    def check(self, before, now):
        lines, well = callgrind.compare({"get": before} if before else {}, {"get": now})
        return lines[0], well

    def test_up_to_five_percent_more_is_fine(self):
        self.assertTrue(self.check(1000, 1050)[1])
        line, well = self.check(1000, 1051)
        self.assertFalse(well)
        self.assertIn("MORE", line)

    def test_fewer_is_fine_and_told(self):
        line, well = self.check(1000, 900)
        self.assertTrue(well)
        self.assertIn("--update", line)

    def test_without_a_committed_figure_it_fails(self):
        self.assertFalse(self.check(None, 900)[1])

    def test_saved_figures_are_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "instructions.json"
            self.assertEqual(callgrind.load(path), {})
            callgrind.save(path, {"get": 12.34}, {"rustc": "1"})
            self.assertEqual(callgrind.load(path), {"get": 12.3})
            self.assertEqual(json.loads(path.read_text())["about"], {"rustc": "1"})
