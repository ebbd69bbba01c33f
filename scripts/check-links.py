#!/usr/bin/env python3
"""Checks that relative links in Markdown files lead to files that exist, anchors to headings, and that quoted code is the code.

A quote is a Rust block behind `<!-- code: PATH:ANCHOR -->`, and must equal the lines between `// ANCHOR: ANCHOR` and `// ANCHOR_END:
ANCHOR` in that file. `check-links.py --write` brings quotes up to date. `.ci/run` runs it.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
INCLUDE = re.compile(r"\{\{#include\s+([^}:\s]+)(?::([\w-]+))?\s*\}\}")
QUOTE = re.compile(r"<!-- code: ([^:\s]+):([\w-]+) -->\n```rust\n(.*?)```", flags=re.S)
# `scripts/doc.sh` makes these.
GENERATED = {f"docs/src/reference-{what}.md" for what in ("settings", "programs", "counters")}


def headings(text):
    """The anchors that a page has: headings as mdBook and GitHub name them."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for title in re.findall(r"^#+\s+(.*)$", text, flags=re.M):
        yield re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def quoted(file, anchor):
    """The lines between two anchors, or `None`."""
    source = ROOT / file
    text = source.read_text(encoding="utf-8") if source.exists() else ""
    found = re.search(rf"^ *// ANCHOR: {anchor}\n(.*?)^ *// ANCHOR_END: {anchor}\n", text, flags=re.S | re.M)
    return textwrap.dedent(found.group(1)) if found else None


def write(path):
    """Brings a page's quotes up to date."""
    text = path.read_text(encoding="utf-8")
    fresh = QUOTE.sub(lambda m: f"<!-- code: {m[1]}:{m[2]} -->\n```rust\n{quoted(m[1], m[2]) or m[3]}```", text)
    if fresh != text:
        path.write_text(fresh, encoding="utf-8")


def check(path):
    text = path.read_text(encoding="utf-8")
    for file, anchor, code in QUOTE.findall(text):
        there = quoted(file, anchor)
        if there is None:
            yield f"quotes {file}:{anchor}, which does not exist"
        elif there != code:
            yield f"quotes {file}:{anchor} as it is no more; scripts/check-links.py --write mends that"
    for file, anchor in INCLUDE.findall(text):
        target = (path.parent / file).resolve()
        if not target.exists():
            yield f"includes {file}, which does not exist"
        elif anchor and f"ANCHOR: {anchor}" not in target.read_text(encoding="utf-8"):
            yield f"includes {file}:{anchor}, which has no such anchor"
    # Code is no text: its brackets are not links.
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for link in (a or b for a, b in LINK.findall(prose)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if target.is_relative_to(ROOT) and str(target.relative_to(ROOT)) in GENERATED:
            continue
        if not target.exists():
            yield f"links to {link}, which does not exist"
        elif anchor and target.suffix == ".md" and anchor not in headings(target.read_text(encoding="utf-8")):
            yield f"links to {link}, which has no such heading"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")
    files = [name for name in listed if name and (ROOT / name).exists()]
    if "--write" in sys.argv[1:]:
        for name in files:
            write(ROOT / name)
    wrong = [f"{name}: {what}" for name in files for what in check(ROOT / name)]
    print("\n".join(wrong) if wrong else f"links and quotes of {len(files)} files are right")
    sys.exit(bool(wrong) or not files)


if __name__ == "__main__":
    main()
