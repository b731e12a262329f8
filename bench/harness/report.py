"""The readable results: a table on the terminal, report.md with everything."""

from .scenario import BEST, FIGURES, HIGHER_IS_BETTER, UNITS, VALUE
from .verdict import MET, MISSED, NOT_MEASURED, SUBJECT, deciding_rows, runs_of, side_rows

ORDER = ("pantala", "valkey", "redis", "memcached")
LATENCY = ("requests_per_s", "p50_ms", "p99_ms", "p999_ms")
DETAILS = {
    "memory": ("absolute_bytes_per_key", "empty_rss_mb"),
    "idle": ("switches_per_s",),
    "threads": ("cpu_us_one_thread", "cpu_us"),
    "collection": ("bytes_over_payload", "rss_mb", "empty_rss_mb"),
    "saving": ("save_s", "p999_idle_ms", "max_ms", "rss_mb"),
    "loading": ("load_cpu_s", "rss_mb"),
    "journal": ("cpu_us_without",),
}
# A command that costs more than this, compared with the best of the others, stands out.
MARKED_ABOVE = 1.1
MORE_FIGURES = {
    "absolute_bytes_per_key": ("RSS per key, with the empty server's", "B"),
    "empty_rss_mb": ("RSS while empty", "MB"),
    "cpu_us_without": ("CPU per command without the append-only file", "µs"),
    "cpu_us_one_thread": ("CPU per command, one thread on both cores", "µs"),
}

HOW = """\
- *Server CPU per command*: the time that the kernel charged to all threads of the server process
  (`/proc/PID/task/*/schedstat`) between the start and the end of a run, divided by the commands
  answered. Lower is better. It contains the kernel's work for the server's system calls. It does
  not depend on how fast the load is; requests per second and latencies do, for the load has one
  core.
- Runs are interleaved: every server once, then every server again. Figures are medians of the
  rounds, in brackets the smallest and the largest. A ratio is formed within each round, then its
  median is taken.
- The server runs on its own core, the load on another, over loopback TCP. A server that is not
  being measured is stopped (SIGSTOP).
- Keys are 16 bytes (`key:000000000042`), chosen uniformly; values are random bytes, another one
  for each key. SET writes one value of random bytes when redis-benchmark sends it (the same in each
  request). Before a run all keys are there, and each server has answered as many random GETs
  as there are keys.
- Latencies are the load program's, of a closed loop; with a pipeline they are those of a batch.
  p99.9 of redis-benchmark is the first bound of its distribution that 99.9 % do not exceed.
- *RSS per key*: resident memory (`smaps_rollup`) when it has settled, less that of the empty
  server, divided by the keys; the mean over the sizes. In brackets the smallest and the largest of
  the sizes: the tables' steps.
- *Ratio to best*: each part (a command, a size) against the server that did best in it.
- *RSS per element* of a collection: the growth of the resident memory over that of the empty
  server, divided by the elements; its payload is what the client gave (of a sorted set the member
  only). All servers get the same random bytes, and as many look-ups as there are elements before
  the memory is read.
- *p99.9 with a neighbour*: one client GETs at a steady pace. A GET counts from when it was due, so
  those that a stall delayed count too. Growth is relative to the median of three runs of the same
  client while nobody else works.
- *Server CPU per delivered message*: of one publisher and many subscribers; a message that ten
  clients get counts ten times. Publishing is contained. Latencies are those from sending a batch of
  messages until the last subscriber has the last of them.
- *CPU while idle*: run time of all threads over a few seconds in which nobody is connected.
- *Two threads against one*: all cores are open to server and load in both cases, and the load has
  as many threads as there are cores; so only the growth of the CPU time per command is meaningful.
- *Saving*: all cores are open to server and load. Clients write as fast as they can; one more
  writes at a steady pace, and its latencies are told, beside the save and for some seconds before.
  Memory is the sum of Pss over the server and its children.
- Servers run without persistence, where that is not what is measured, and with default settings
  otherwise (memcached with enough memory never to evict); command lines are in raw.jsonl.
"""


def number(value):
    """Three significant digits or so, in the shortest form that is easy to read."""
    size = abs(value)
    if size >= 1_000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def shown(cell, spread=True):
    if cell is None:
        return "-"
    text = number(cell.value)
    if spread and cell.low != cell.high:
        text += f" ({number(cell.low)} to {number(cell.high)})"
    return text


def figure_name(figure):
    name, unit = MORE_FIGURES.get(figure) or (FIGURES.get(figure, figure), UNITS.get(figure, ""))
    return f"{name}, {unit}" if unit else name


def table(head, rows, markdown=True):
    """Lines of a table; for the terminal the columns are padded."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in cells]
        return [lines[0], "|" + "---|" * len(head), *lines[1:]]
    padded = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return [padded[0], "  ".join("-" * width for width in widths), *padded[1:]]


def columns_of(records):
    measured = {record["server"] for record in records if record["kind"] == "run"}
    return [SUBJECT, *(name for name in ORDER if name in measured and name != SUBJECT)]


def deciding_table(records, scenarios, markdown, spread):
    servers = columns_of(records)
    head = ["work", "figure", *servers, "ratio to valkey", "ratio to best", "budget", "verdict"]
    rows = []
    for row in deciding_rows(records, scenarios):
        verdict = {MISSED: "MISSED"}.get(row.verdict, row.verdict) or "-"
        rows.append(
            [
                row.scenario.title,
                figure_name(row.figure),
                *(shown(row.cells.get(name), spread) for name in servers),
                shown(row.ratios.get("valkey"), spread),
                shown(row.ratios.get(BEST), spread),
                row.budget.text() if row.budget else "-",
                verdict,
            ]
        )
    return table(head, rows, markdown)


def side_table(records, scenarios, figures):
    servers = columns_of(records)
    rows = [
        [row.scenario.title, figure_name(row.figure)]
        + [shown(row.cells.get(name)) for name in servers]
        for row in side_rows(records, scenarios, figures)
    ]
    return table(["work", "figure", *servers], rows)


def wins_and_losses(records, scenarios):
    """For each figure of Pantala whether it is better than the best of the others."""
    rows = []
    for row in [
        *deciding_rows(records, scenarios),
        *side_rows(records, scenarios, LATENCY),
    ]:
        mine = row.cells.get(SUBJECT)
        if row.budget and row.budget.across and len(row.scenario.budgets) > 1:
            continue  # the same figure as another row's
        others = {name: cell for name, cell in row.cells.items() if name != SUBJECT}
        if mine is None or not others:
            continue
        higher = row.figure in HIGHER_IS_BETTER
        best = (max if higher else min)(others, key=lambda name: others[name].value)
        base = others[best].value
        wins = mine.value > base if higher else mine.value < base
        word = "win" if wins else "even" if mine.value == base else "LOSS"
        share = number(mine.value / base) if base else "-"
        name = f"{row.scenario.title}: {figure_name(row.figure)}"
        rows.append([name, word, shown(mine, False), f"{best} {shown(others[best], False)}", share])
    return rows


def size_table(records, scenario, servers):
    """RSS per key at each of the sizes."""
    runs = runs_of(records, scenario)
    parts = sorted({run["part"] for run in runs}, key=int)
    rows = []
    for part in parts:
        at = {run["server"]: run["figures"]["bytes_per_key"] for run in runs if run["part"] == part}
        cells = [number(at[name]) if name in at else "-" for name in servers]
        rows.append([scenario.title, f"{int(part):,}", *cells])
    return rows


def part_table(records, scenario, servers):
    """CPU per command of each command, and the ratios; what costs too much is marked."""
    rows = []
    runs = runs_of(records, scenario)
    for part in dict.fromkeys(run["part"] for run in runs):
        of_part = [run for run in runs if run["part"] == part]
        found = {row.figure: row for row in side_rows(of_part, [scenario], ["cpu_us"])}
        if row := found.get("cpu_us"):
            cells = [shown(row.cells.get(name)) for name in servers]
            command = part.replace("__rand_int__", "N").replace(VALUE, "VALUE")
            best = row.ratios.get(BEST)
            mark = "**above**" if best and best.value > MARKED_ABOVE else ""
            ratios = [shown(row.ratios.get("valkey")), shown(best), mark]
            rows.append([f"`{command}`", *cells, *ratios])
    return rows


def neighbour_table(records, scenario, servers):
    """p99.9 with the neighbour idle and at work, and the growth, of each neighbour."""
    rows = []
    runs = runs_of(records, scenario)
    for part in dict.fromkeys(run["part"] for run in runs):
        of_part = [run for run in runs if run["part"] == part]
        for row in side_rows(of_part, [scenario], ["p999_idle_ms", "p999_ms", "p999_growth"]):
            cells = [shown(row.cells.get(name)) for name in servers]
            rows.append([part, figure_name(row.figure), *cells])
    return rows


def noise(records):
    """Lines about how undisturbed the runs were."""
    runs = [record for record in records if record["kind"] == "run"]
    loaded = [run for run in runs if "foreign_percent" in run]
    marked = [run for run in runs if run.get("marks")]
    lines = [f"- {len(runs)} runs, {len(marked)} of them marked."]
    if loaded:
        foreign = max(run["foreign_percent"] for run in loaded)
        waited = max(run["server_wait_percent"] for run in loaded)
        lines.append(f"- Largest share of the cores' time that other programs took: {foreign:g} %.")
        lines.append(f"- Largest share of a run that a server waited for its core: {waited:g} %.")
    for reason in sorted({mark for run in marked for mark in run["marks"]}):
        of_reason = [run for run in marked if reason in run["marks"]]
        where = sorted({run["scenario"] for run in of_reason})
        lines.append(f"- {reason}: {len(of_reason)} runs, in {', '.join(where)}.")
    return lines


def troubles(records):
    lines = []
    for kind, word in (("failure", "FAILED"), ("note", "note")):
        for record in records:
            if record["kind"] == kind:
                where = f"{record['scenario']}, {record['server']}"
                lines.append(f"- {word}: {where}: {record['text']}")
    return lines


def machine_lines(environment):
    e = environment
    versions = []
    for name, version in e["versions"].items():
        expected = e["expected_versions"].get(name, version)
        versions.append(f"{name} {version}" + (f" (not {expected})" if version != expected else ""))
    versions += [f"{name} {version}" for name, version in e["tools"].items()]
    changed = ", with uncommitted changes" if e["uncommitted_changes"] else ""
    lines = [
        f"- {e['cpu']}, {e['cores']} cores, {e['memory_mb']:,} MB, {e['kernel']},"
        f" frequency governor {e['governor']}",
        f"- server on core {listed(e['server_cores'])}, load on core {listed(e['load_cores'])};"
        f" load averages before the start {', '.join(map(str, e['load_at_start']))}",
        f"- {', '.join(versions)}",
        f"- commit {e['commit']}{changed}",
        f"- `{e['command_line']}`, {e['rounds']} rounds",
    ]
    return lines + [f"- not measured: {name}: {why}" for name, why in e["missing"].items()]


def listed(cores):
    return ", ".join(map(str, cores))


def warning(environment):
    if not environment["quick"]:
        return []
    return ["**A smoke run with tiny counts: the bench works; the figures mean nothing.**", ""]


def terminal(records, scenarios):
    """The table for the terminal, with medians only, and what a reader must know."""
    environment = records[0]
    lines = ["", *warning(environment)]
    lines += deciding_table(records, scenarios, markdown=False, spread=False)
    lines += ["", *noise(records), *troubles(records)]
    lines += [f"- not measured: {name}: {why}" for name, why in environment["missing"].items()]
    return "\n".join(lines)


def markdown(records, scenarios):
    """The whole of report.md."""
    environment = records[0]
    servers = columns_of(records)
    measured = [scenario for scenario in scenarios if runs_of(records, scenario)]
    lines = [f"# Bench: {environment['topic']}, {environment['date']}", ""]
    lines += warning(environment)
    lines += ["Budgets: the architecture paper's and the issues'. ![plot](plot.svg)", ""]
    lines += deciding_table(records, scenarios, markdown=True, spread=True)
    lines += ["", "## Wins and losses against the best of the others", ""]
    rows = wins_and_losses(records, scenarios)
    head = ["figure", "", "pantala", "best other", "ratio"]
    lines += table(head, rows) if rows else ["Pantala was not measured."]
    lines += ["", "## Throughput and latency", ""]
    lines += side_table(records, measured, LATENCY)
    further = [
        line for scenario in measured for line in side_figures(records, scenario, servers)
    ]
    if further:
        lines += ["", "## Further figures", "", *table(["work", "figure", *servers], further)]
    sizes = [s for s in measured if s.kind == "memory"]
    if sizes:
        rows = [row for scenario in sizes for row in size_table(records, scenario, servers)]
        lines += ["", "## RSS per key at each size, B", ""]
        lines += table(["work", "keys", *servers], rows)
    for scenario in measured:
        if scenario.kind in ("family", "types"):
            lines += ["", f"## {scenario.title}: server CPU per command, µs", ""]
            head = ["command", *servers, "ratio to valkey", "ratio to best", ""]
            lines += table(head, part_table(records, scenario, servers))
        if scenario.kind == "neighbours":
            lines += ["", f"## {scenario.title}", ""]
            head = ["neighbour", "figure", *servers]
            lines += table(head, neighbour_table(records, scenario, servers))
    lines += ["", "## What is measured, and how", "", HOW]
    lines += ["## Machine and versions", "", *machine_lines(environment)]
    lines += ["", "## Noise", "", *noise(records)]
    if found := troubles(records):
        lines += ["", "## Troubles", "", *found]
    return "\n".join(lines) + "\n"


def side_figures(records, scenario, servers):
    return [
        [row.scenario.title, figure_name(row.figure)]
        + [shown(row.cells.get(name)) for name in servers]
        for row in side_rows(records, [scenario], DETAILS.get(scenario.kind, ()))
    ]


def verdicts(records, scenarios):
    """The counts of met, missed and not measured budgets."""
    found = [row.verdict for row in deciding_rows(records, scenarios) if row.budget]
    return {verdict: found.count(verdict) for verdict in (MET, MISSED, NOT_MEASURED)}
