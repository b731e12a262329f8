"""plot.svg: every deciding figure relative to Valkey (1.0), lower is better; budgets are ticks.

Written by hand, for the bench needs no library. Colours are told apart by people who see few; each
bar carries its absolute value, so nothing depends on colour alone.
"""

from html import escape

from .report import ORDER, number
from .scenario import BEST, FIGURES, UNITS
from .verdict import SUBJECT, deciding_rows

COLOURS = {"pantala": "#0072b2", "valkey": "#999999", "redis": "#d55e00", "memcached": "#e6b800"}
BASE = "valkey"
LABEL_PX, CHART_PX, VALUE_PX = 330, 520, 150
BAR_PX, GAP_PX, TOP_PX, BOTTOM_PX = 15, 16, 76, 40
WIDTH_PX = LABEL_PX + CHART_PX + VALUE_PX
FONT = "font-family='Helvetica, Arial, sans-serif'"
HALO = "paint-order='stroke' stroke='#ffffff' stroke-width='3'"  # lines behind do not cross letters
# Where the reader prefers dark pages: rules of style have more weight than attributes.
DARK = """<style>@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #e6edf3; stroke: #0d1117 }
line[stroke='#e2e2e2'] { stroke: #30363d } line[stroke='#000'] { stroke: #ffffff }
}</style>"""


def text(x, y, words, size=13, anchor="start", colour="#222", weight="normal"):
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}'"
        f" fill='{colour}' font-weight='{weight}' {FONT} {HALO}>{escape(words)}</text>"
    )


def line(x1, y1, x2, y2, colour, width=1.0, dash=""):
    dash = f" stroke-dasharray='{dash}'" if dash else ""
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
        f" stroke='{colour}' stroke-width='{width}'{dash}/>"
    )


def bar(x, y, width, colour):
    width = max(width, 0.5)
    size = f"width='{width:.1f}' height='{BAR_PX - 3}'"
    return f"<rect x='{x:.1f}' y='{y:.1f}' {size} fill='{colour}'/>"


def plottable(records, scenarios):
    """The rows that have a figure of Valkey to relate to."""
    rows = {}
    for row in deciding_rows(records, scenarios):
        if BASE in row.cells and row.cells[BASE].value > 0:
            rows.setdefault((row.scenario.name, row.figure), row)
    return list(rows.values())


def scale_end(rows):
    """The right end of the axis; longer bars are cut, with their value beside them."""
    shares = [cell.value / row.cells[BASE].value for row in rows for cell in row.cells.values()]
    return min(max([1.2, *shares]) * 1.05, 3.0)


def budget_share(row):
    """Where the budget lies, relative to Valkey; None without a budget."""
    if row.budget is None:
        return None
    base = row.cells[BASE].value
    if row.budget.against == BEST:
        best = min(cell.value for name, cell in row.cells.items() if name != SUBJECT)
        return row.budget.limit * best / base
    return row.budget.limit if row.budget.against else row.budget.limit / base


def svg(records, scenarios):
    """The picture's text."""
    rows = plottable(records, scenarios)
    end = scale_end(rows)
    place = lambda share: LABEL_PX + CHART_PX * min(share, end) / end
    body, y = [], TOP_PX
    for row in rows:
        group, y_after = row_group(row, y, place, end)
        body += group
        y = y_after + GAP_PX
    height = y + BOTTOM_PX
    head = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH_PX}' height='{height}'"
        f" viewBox='0 0 {WIDTH_PX} {height}'>",
        DARK,
        f"<rect class='ground' width='{WIDTH_PX}' height='{height}' fill='#ffffff'/>",
        *title(records, rows),
        *axis(place, end, height),
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def title(records, rows):
    environment = records[0]
    words = f"Relative to {BASE} (lower is better): {environment['topic']}, {environment['date']}"
    if environment["quick"]:
        words += " - smoke run, figures mean nothing"
    parts = [text(16, 26, words, size=16, weight="bold")]
    x = 16
    for name in (name for name in ORDER if any(name in row.cells for row in rows)):
        label = f"{name} {environment['versions'].get(name, '')}".strip()
        parts += [bar(x, 40, 12, COLOURS[name]), text(x + 17, 51, label)]
        x += 34 + 7.2 * len(label)
    parts += [line(x + 4, 38, x + 4, 54, "#000", 2.5), text(x + 12, 51, "Pantala's budget")]
    return parts


def axis(place, end, height):
    parts, share = [], 0.0
    bottom = height - BOTTOM_PX
    while share <= end + 1e-9:
        strong = abs(share - 1) < 1e-9
        colour = "#777" if strong else "#e2e2e2"
        parts.append(line(place(share), TOP_PX - 10, place(share), bottom, colour))
        parts.append(text(place(share), bottom + 18, f"{share:g}", 12, "middle", "#555"))
        share = round(share + (0.5 if end > 2 else 0.2), 6)
    return parts


def row_group(row, y, place, end):
    """The bars of one row; (their SVG, the y below them)."""
    base = row.cells[BASE].value
    unit = UNITS.get(row.figure, "")
    names = [name for name in ORDER if name in row.cells]
    label_y = y + BAR_PX * len(names) / 2 + 1
    parts = [text(LABEL_PX - 12, label_y, row.scenario.title, anchor="end")]
    if len(row.scenario.budgets) > 1 or row.figure not in ("cpu_us", "bytes_per_key"):
        parts.append(text(LABEL_PX - 12, label_y + 14, FIGURES[row.figure], 11, "end", "#777"))
    top = y
    for name in names:
        cell = row.cells[name]
        share = cell.value / base
        parts.append(bar(LABEL_PX, y, place(share) - LABEL_PX, COLOURS[name]))
        parts.append(spread(cell, base, y, place))
        value = f"{number(cell.value)} {unit}" + (" (cut)" if share > end else "")
        right = max(place(share), place(cell.high / base)) + 6
        parts.append(text(right, y + BAR_PX - 5, value, 11, colour="#333"))
        y += BAR_PX
    if (share := budget_share(row)) is not None and share <= end:
        parts.append(line(place(share), top - 4, place(share), y + 1, "#000", 2.5))
    return parts, y


def spread(cell, base, y, place):
    """A whisker from the smallest to the largest value."""
    middle = y + (BAR_PX - 3) / 2
    return line(place(cell.low / base), middle, place(cell.high / base), middle, "#000", 1.0)
