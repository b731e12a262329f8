"""The book as mdbook builds it: nothing is said to be wrong, and links lead to what is there."""

import html
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

# All that a browser follows or loads.
LINK = re.compile(r'(?:href|src)="([^"]+)"')
NAME = re.compile(r'\sid="([^"]+)"')
# Pages beside those of SUMMARY.md: the whole book in one, and what mdbook itself needs.
BESIDE = ("print.html", "404.html", "toc.html")


def mdbook(root):
    """The program, if it is here: see CONTRIBUTING.md."""
    own = root / "target" / "tools" / "bin" / "mdbook"
    return str(own) if own.exists() else shutil.which("mdbook")


def check(program, root):
    """What is wrong with the book of this repository."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([program, "build", root / "docs", "--dest-dir", folder],
                             capture_output=True, text=True)
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if "INFO" not in line]
        if ran.returncode or said:
            return said or [f"mdbook ended with {ran.returncode}"]
        return links(Path(folder))


def links(folder):
    """The links that lead nowhere."""
    pages = {page.resolve(): page.read_text() for page in folder.rglob("*.html")}
    names = {page: set(NAME.findall(text)) for page, text in pages.items()}
    wrong = []
    for page, text in pages.items():
        if page.name in BESIDE:
            continue
        for link in map(html.unescape, LINK.findall(text)):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / urllib.parse.unquote(parts.path)).resolve()
            target = target if parts.path else page
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists() or anchor and anchor not in names.get(target, {anchor}):
                wrong.append(f"{page.name}: {link} leads nowhere")
    return wrong
