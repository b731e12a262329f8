"""From records to figures: medians, ratios paired by round, budgets met or missed.

1. A server's figure: per part (a size, a command of a family; most scenarios have one part) the
   median over the rounds; over several parts the scenario's `across`. Its range is that of the
   rounds, or with several parts that of the parts.
2. A ratio of two servers: per part, the median over the rounds in which both were measured of the
   quotient within the round; over several parts the median. So a slow minute hits both sides.
3. A scenario without a figure for Pantala is "not measured", never met.
"""

from dataclasses import dataclass
from statistics import fmean, median

SUBJECT = "pantala"
MET, MISSED, NOT_MEASURED = "met", "missed", "not measured"


@dataclass(frozen=True)
class Cell:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One figure of one scenario, for all servers, with the budget if there is one."""

    scenario: object
    figure: str
    cells: dict  # server -> Cell
    ratios: dict  # another server -> Cell of Pantala / it
    budget: object = None
    verdict: str = ""


def runs_of(records, scenario):
    return [r for r in records if r["kind"] == "run" and r["scenario"] == scenario.name]


def by_part(runs, server, figure):
    """part -> {round: value} of the runs that have the figure."""
    parts = {}
    for run in runs:
        value = run["figures"].get(figure)
        if run["server"] == server and value is not None:
            parts.setdefault(run["part"], {})[run["round"]] = value
    return parts


def summarize(parts, across):
    """The cell of part -> list of values; None when there is nothing."""
    if not parts:
        return None
    if len(parts) == 1:
        (values,) = parts.values()
        return Cell(median(values), min(values), max(values))
    middles = [median(values) for values in parts.values()]
    return Cell(fmean(middles) if across == "mean" else median(middles), min(middles), max(middles))


def cell(runs, server, figure, across):
    parts = by_part(runs, server, figure)
    return summarize({part: list(turns.values()) for part, turns in parts.items()}, across)


def ratio(runs, server, other, figure):
    """server / other, paired by part and round."""
    mine, theirs = by_part(runs, server, figure), by_part(runs, other, figure)
    quotients = {}
    for part, turns in mine.items():
        pairs = [(value, theirs.get(part, {}).get(turn)) for turn, value in turns.items()]
        values = [value / base for value, base in pairs if base]
        if values:
            quotients[part] = values
    return summarize(quotients, "median")


def row(runs, scenario, figure, budget=None):
    cells = {name: cell(runs, name, figure, scenario.across) for name in scenario.servers}
    cells = {name: found for name, found in cells.items() if found}
    others = [name for name in cells if name != SUBJECT]
    ratios = {name: ratio(runs, SUBJECT, name, figure) for name in others}
    ratios = {name: found for name, found in ratios.items() if found}
    return Row(scenario, figure, cells, ratios, budget, judge(budget, cells, ratios))


def judge(budget, cells, ratios):
    if budget is None:
        return ""
    found = ratios.get(budget.against) if budget.against else cells.get(SUBJECT)
    if found is None:
        return NOT_MEASURED
    return MET if budget.is_met(found.value) else MISSED


def deciding_rows(records, scenarios):
    """One row per budget, or one without for a scenario that has none; only measured scenarios."""
    rows = []
    for scenario in scenarios:
        runs = runs_of(records, scenario)
        if runs:
            for budget in scenario.budgets or (None,):
                figure = budget.figure if budget else scenario.figure
                rows.append(row(runs, scenario, figure, budget))
    return rows


def side_rows(records, scenarios, figures):
    """Rows of further figures, for those scenarios that have them."""
    found = []
    for scenario in scenarios:
        runs = runs_of(records, scenario)
        for figure in figures:
            if any(run["figures"].get(figure) is not None for run in runs):
                found.append(row(runs, scenario, figure))
    return found
