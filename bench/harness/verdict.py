"""From records to figures: medians, ratios paired by round, budgets met or missed.

1. A server's figure: per part (a size, a command of a family; most scenarios have one part) the
   median over the rounds; over several parts the scenario's `across`. Its range is that of the
   rounds, or with several parts that of the parts.
2. A ratio of two servers: per part, the median over the rounds in which both were measured of the
   quotient within the round; over several parts the median. So a slow minute hits both sides.
3. The ratio to BEST holds each part against the server whose median is lowest in it.
4. A budget for the worst part takes the largest value of a figure or ratio over the parts.
5. A scenario without a figure for Pantala is "not measured", never met. Nor is a budget met while
   a part is measured of others and not of Pantala; but it can be missed.
"""

from dataclasses import dataclass
from statistics import fmean, median

from .scenario import BEST

SUBJECT = "pantala"
ACROSS = {"median": median, "mean": fmean, "worst": max}
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
    ratios: dict  # another server, or BEST -> Cell of Pantala / it
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
    return Cell(ACROSS[across](middles), min(middles), max(middles))


def cell(runs, server, figure, across):
    parts = by_part(runs, server, figure)
    return summarize({part: list(turns.values()) for part, turns in parts.items()}, across)


def best_of(runs, names, figure):
    """part -> {round: value} of the server that has the lowest median in the part."""
    best = {}
    for parts in (by_part(runs, name, figure) for name in names):
        for part, turns in parts.items():
            if part not in best or median(turns.values()) < median(best[part].values()):
                best[part] = turns
    return best


def quotients(mine, theirs):
    """part -> list of mine / theirs, paired by part and round."""
    found = {}
    for part, turns in mine.items():
        pairs = [(value, theirs.get(part, {}).get(turn)) for turn, value in turns.items()]
        values = [value / base for value, base in pairs if base]
        if values:
            found[part] = values
    return found


def ratio(runs, server, other, figure, across="median"):
    """server / other, paired by part and round; `other` may be a list, of which the best counts."""
    names = [other] if isinstance(other, str) else other
    mine, theirs = by_part(runs, server, figure), best_of(runs, names, figure)
    return summarize(quotients(mine, theirs), across)


def row(runs, scenario, figure, budget=None):
    across = budget.across if budget else ""
    of_figure = scenario.across if not budget or budget.against else across or scenario.across
    cells = {name: cell(runs, name, figure, of_figure) for name in scenario.servers}
    cells = {name: found for name, found in cells.items() if found}
    others = [name for name in cells if name != SUBJECT]
    ratios = {
        name: ratio(runs, SUBJECT, against, figure, across or "median")
        for name, against in [*((name, name) for name in others), (BEST, others)]
    }
    ratios = {name: found for name, found in ratios.items() if found}
    verdict = judge(budget, cells, ratios, is_complete(runs, figure))
    return Row(scenario, figure, cells, ratios, budget, verdict)


def is_complete(runs, figure):
    """Whether Pantala was measured in every part in which another server was."""
    of = lambda mine: {
        run["part"]
        for run in runs
        if run["figures"].get(figure) is not None and (run["server"] == SUBJECT) == mine
    }
    return of(False) <= of(True)


def judge(budget, cells, ratios, complete=True):
    if budget is None:
        return ""
    found = ratios.get(budget.against) if budget.against else cells.get(SUBJECT)
    if found is None:
        return NOT_MEASURED
    if not budget.is_met(found.value):
        return MISSED
    return MET if complete else NOT_MEASURED


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
