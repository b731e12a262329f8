#!/usr/bin/env python3
"""A preprocessor of mdbook: links out of the book (`../bench/README.md`) lead to the repository."""

import json
import posixpath
import re
import sys

LINK = re.compile(r"(\]\()((?:\.\./)+[^)\s]*)(\))")


def rewrite(items, repository):
    """Changes the chapters among these items and below them."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is None:
            continue
        folder = posixpath.dirname(chapter["path"] or "")

        def outside(found, folder=folder):
            path = posixpath.normpath(posixpath.join("docs", folder, found[2]))
            if path.startswith("docs/"):
                return found[0]
            return f"{found[1]}{repository}/blob/main/{path}{found[3]}"

        chapter["content"] = LINK.sub(outside, chapter["content"])
        rewrite(chapter["sub_items"], repository)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"]
    rewrite(book.get("items") or book["sections"], repository)
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
