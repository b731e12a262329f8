#!/usr/bin/env python3
"""Prints whose work is in the binary, and the licences under which it is: what they ask for.

Only what is linked: dependencies of tests and of builds are left out. Where authors leave the
choice between licences it is MIT, if that is among them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice)([-_.].*)?$")
# C libraries inside of crates, with their own licences.
INNER = {"tikv-jemalloc-sys": ["jemalloc/COPYING"], "lua-src": ["lua-5.1.5/COPYRIGHT"]}
RULE = "=" * 98


def linked(metadata):
    """The packages that are linked into the server, without our own."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [one["id"] for one in packages.values() if one["name"] == "pantala-server"]
    found = set()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += [dependency["pkg"] for dependency in nodes[name]["deps"]
                    if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    ours = set(metadata["workspace_members"])
    others = [packages[name] for name in found - ours if not is_macro(packages[name])]
    # What compiles C code only brings it along.
    others += [one for one in packages.values() if one["name"] in INNER and one["id"] not in found]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package):
    """The licence texts that a package brings."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in sorted(folder.iterdir()) if TEXT.match(path.name) and path.is_file()]
    files += [folder / name for name in INNER.get(package["name"], []) if (folder / name).exists()]
    of_mit = [path for path in files if "mit" in path.name.lower()]
    is_free = " OR " in (package["license"] or "").replace("/", " OR ")
    chosen = of_mit if of_mit and is_free and package["name"] not in INNER else files
    return [path.read_text(errors="replace").strip() for path in chosen]


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked",
               "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, text=True,
                                         stdout=subprocess.PIPE).stdout)
    users, lacking = {}, []
    print("Pantala is under the Apache License, Version 2.0. In its binary is also the work of:\n")
    for package in linked(metadata):
        name = f"{package['name']} {package['version']}"
        print(f"  {name} ({package['license']})")
        found = texts(package)
        for text in found:
            users.setdefault(text, []).append(name)
        if not found:
            authors = ", ".join(package["authors"]) or package["repository"] or "its authors"
            lacking.append(f"  {name}: {package['license']}; {authors}")
    print("\nand Rust's standard library (MIT OR Apache-2.0; the Rust project's contributors).")
    if lacking:
        print("\nWithout a text of their own:\n\n" + "\n".join(lacking))
    for text, names in users.items():
        print(f"\n{RULE}\n{', '.join(names)}\n{RULE}\n\n{text}")


if __name__ == "__main__":
    sys.exit(main())
