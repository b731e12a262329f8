"""Links of the pages: what they name exists, heading included, and SUMMARY.md names every page."""

import re

# Reports of the bench derive from raw data, and what is brought from elsewhere is not ours.
PAGES = ("*.md", "docs/**/*.md", "deploy/*/*.md", "deploy/*/*/*.md", "bench/*.md", "compat/*.md",
         "console/*.md")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def summary(root):
    """What is wrong with SUMMARY.md."""
    docs = root / "docs"
    named = [target for target in LINK.findall((docs / "SUMMARY.md").read_text())]
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"SUMMARY.md"}
    wrong = [f"{name} is not in docs/SUMMARY.md" for name in sorted(there - set(named))]
    wrong += [f"docs/SUMMARY.md names {name}, which is not there" for name in set(named) - there]
    wrong += [f"docs/SUMMARY.md names {name} twice" for name in named if named.count(name) > 1]
    return wrong


def check(root):
    """Links that lead nowhere."""
    pages = [page for pattern in PAGES for page in root.glob(pattern)]
    return [line for page in sorted(pages) for line in check_page(root, page)]


def check_page(root, page):
    text = FENCE.sub("", page.read_text())
    wrong = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        place = (page.parent / path) if path else page
        if not place.exists():
            wrong.append(f"{page.relative_to(root)}: {target} is not there")
        elif heading and heading not in headings(place.read_text()):
            wrong.append(f"{page.relative_to(root)}: {target}: no such heading")
    return wrong


def headings(text):
    """The headings as links name them."""
    found = set()
    for title in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[^\w\s-]", "", title.replace("`", "").lower())
        name = plain.strip().replace(" ", "-")
        again = name
        count = 0
        while again in found:
            count += 1
            again = f"{name}-{count}"
        found.add(again)
    return found
