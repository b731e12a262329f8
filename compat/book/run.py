#!/usr/bin/env python3
"""The pages for people: every one has its place, every link leads somewhere, every example works.

    python3 compat/book/run.py --server target/release/pantala [--only docs/quick-start.md]

Examples are fenced blocks marked `console`: a line that begins with `$ ` is typed, the lines after
it are what must come (standard output). `...` within a line stands for anything, on a line of its
own for any lines. A command that ends with another status than 0 is wrong, unless it has `2>&1` to
show its error. The blocks of one page run one after the other in one shell, in an empty folder.
Ports 6379, 6380 and 11211 stand for free ones, and redis-cli goes to the first. Where no example of
a page starts a server on 6379 there is one already.

Where there is mdbook the book is built, and the links of what it has made are looked at.

Prints `ok NAME` or `FAILED NAME` for each check, last how many, and ends with 1 if any failed.
"""

import argparse
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import built  # noqa: E402
import examples  # noqa: E402
import links  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]


def pages():
    """The pages whose examples run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def itself():
    """What this script would miss: mistakes made on purpose that it does not find."""
    page = "# A title\n```console\n$ echo a\na\n$ echo b; echo c\n...\nc\n```\n"
    wrong = []
    if examples.blocks(page) != [("echo a", ["a"]), ("echo b; echo c", ["...", "c"])]:
        wrong.append("blocks are not read")
    for expected, came, is_it in ((["a...c", "..."], ["abc"], True), (["..."], [], True),
                                  (["...", "c"], ["a", "b"], False), (["a"], ["a", "b"], False),
                                  ([], ["a"], False), (["a.c"], ["abc"], False)):
        if examples.matches(expected, came) != is_it:
            wrong.append(f"{expected} and {came}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "docs" / "SUMMARY.md").write_text("- [gone](gone.md)\n- [a](a.md)\n")
        (root / "docs" / "a.md").write_text("# A `title`\n[x](b.md) [y](a.md#a-title) [z](#b)\n")
        (root / "docs" / "c.md").write_text("")
        (root / "x.html").write_text('<a id="b" href="x.html#b"></a> <a href="#c"> <a href="y.md">')
        if len(built.links(root)) != 2:
            wrong.append(f"links of HTML: {built.links(root)}")
        if len(links.summary(root)) != 2 or len(links.check(root)) != 3:
            wrong.append(f"links: {links.summary(root)} {links.check(root)}")
    return wrong


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--server", required=True, type=pathlib.Path)
    options.add_argument("--only", metavar="PAGE", help="the examples of one page, and no links")
    options = options.parse_args()
    server = pathlib.Path(os.path.abspath(options.server))
    outcomes = []
    if not options.only:
        outcomes += [("itself", itself()), ("summary", links.summary(ROOT)),
                     ("links", links.check(ROOT))]
        mdbook = built.mdbook(ROOT)
        if mdbook:
            outcomes.append(("built", built.check(mdbook, ROOT)))
        else:
            print("no mdbook: the book is not built")
    for page in pages():
        name = str(page.relative_to(ROOT))
        blocks = examples.blocks(page.read_text())
        if blocks and options.only in (None, name):
            outcomes.append((name, examples.run(blocks, server)))
    for name, wrong in outcomes:
        print(f"{'FAILED' if wrong else 'ok'} {name}")
        for line in wrong:
            print(f"    {line}")
    failed = sum(bool(wrong) for _, wrong in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
