"""Instructions per command, counted by valgrind's callgrind: exact, where time is noisy.

The program runs N commands of a kind in process; it is counted for two N, and the difference,
divided by the difference of the Ns, is what one command costs: start-up and end cancel out.
"""

import json
import re
import subprocess
import tempfile
from pathlib import Path

COUNTS = (20_000, 120_000)
TOLERANCE_PERCENT = 5.0
LIMIT_S = 1_800
OUT_TOTAL = re.compile(r"^(?:summary|totals):\s*(\d+)", re.M)
PRINTED_TOTAL = re.compile(r"Collected\s*:\s*([\d,]+)|I\s+refs\s*:\s*([\d,]+)")


class Uncounted(Exception):
    """No instruction count could be had; the text says why."""


def parse_total(out_text, printed):
    """Instructions in all: from callgrind's file, else from what valgrind printed.

    A file may have several parts, each with its total; `summary:` and `totals:` of a part are the
    same number, so the larger sum of the two counts.
    """
    sums = {"summary": 0, "totals": 0}
    for found in OUT_TOTAL.finditer(out_text):
        sums[found.group(0).split(":")[0]] += int(found.group(1))
    if total := max(sums.values()):
        return total
    if found := PRINTED_TOTAL.search(printed):
        return int((found.group(1) or found.group(2)).replace(",", ""))
    raise Uncounted("valgrind told no instruction count")


def count(program, command, commands):
    """Instructions that `program command commands` executes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder) / "callgrind.out"
        line = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        try:
            ran = subprocess.run(
                [*line, str(program), command, str(commands)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                check=False,
            )
        except FileNotFoundError:
            raise Uncounted("valgrind is missing: apt-get install valgrind") from None
        except subprocess.TimeoutExpired:
            raise Uncounted(f"{command} {commands} took more than {LIMIT_S} s") from None
        if ran.returncode != 0:
            said = ran.stderr[-300:]
            raise Uncounted(f"{command} {commands} ended with {ran.returncode}: {said}")
        return parse_total(out.read_text(errors="replace") if out.exists() else "", ran.stderr)


def per_command(program, command, counts=COUNTS):
    """Instructions that one command costs."""
    few, many = (count(program, command, commands) for commands in counts)
    return (many - few) / (counts[1] - counts[0])


def compare(committed, measured, tolerance_percent=TOLERANCE_PERCENT):
    """(lines to print, whether all is well) of two dicts command -> instructions."""
    lines, well = [], True
    for command, now in measured.items():
        before = committed.get(command)
        if not before:
            lines.append(f"{command}: {now:.1f} instructions; no figure is committed")
            well = False
            continue
        change = 100 * (now - before) / before
        verdict = "ok"
        if change > tolerance_percent:
            verdict, well = f"MORE than +{tolerance_percent:g} %", False
        elif change < -tolerance_percent:
            verdict = "better; --update keeps it so"
        lines.append(
            f"{command}: {now:.1f} instructions, committed {before:.1f}, {change:+.2f} %: {verdict}"
        )
    return lines, well


def load(path):
    """The committed figures; empty when there are none yet."""
    return json.loads(path.read_text())["instructions"] if path.is_file() else {}


def save(path, measured, about):
    figures = {command: round(count, 1) for command, count in measured.items()}
    path.write_text(json.dumps({"instructions": figures, "about": about}, indent=2) + "\n")
