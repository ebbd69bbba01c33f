#!/usr/bin/env python3
"""Checks the Markdown files: relative links lead to files that exist, anchors to headings, and quoted code equals the code.

A quote is a code block that follows `<!-- code: PATH:PART -->`. PART names what the block must equal:

    NAME        the lines between `// ANCHOR: NAME` and `// ANCHOR_END: NAME`
    "TEXT"      the one item whose first line begins with TEXT, up to its closing brace
    nothing     the whole file, with `<!-- code: PATH -->`

`check-links.py --write` updates all quotes. `.ci/run` runs the check.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
INCLUDE = re.compile(r"\{\{#include\s+([^}:\s]+)(?::([\w-]+))?\s*\}\}")
QUOTE = re.compile(r'<!-- code: ([^:\s]+)(?::([\w-]+|"[^"]+"))? -->\n```(rust|toml)\n(.*?)```', flags=re.S)
# `scripts/doc.sh` generates these.
GENERATED = {f"docs/src/reference-{what}.md" for what in ("designs", "settings", "programs", "counters", "terms")}


def headings(text):
    """The anchors that a page has: headings as mdBook and GitHub name them."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for title in re.findall(r"^#+\s+(.*)$", text, flags=re.M):
        yield re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def quoted(file, part):
    """The lines that a quote names, or `None`."""
    source = ROOT / file
    text = source.read_text(encoding="utf-8") if source.exists() else ""
    if not part:
        return text or None
    if part.startswith('"'):
        # The item's documentation and attributes belong to it.
        above = r"(?:^ *(?:///|#\[)[^\n]*\n)*"
        item = rf"({above}^( *){re.escape(part[1:-1])}[^\n]*\n.*?^\2}}\n)"
        items = re.findall(item, text, flags=re.S | re.M)
        return textwrap.dedent(items[0][0]) if len(items) == 1 else None
    found = re.search(rf"^ *// ANCHOR: {part}\n(.*?)^ *// ANCHOR_END: {part}\n", text, flags=re.S | re.M)
    return textwrap.dedent(found.group(1)) if found else None


def write(path):
    """Updates a page's quotes."""

    def fresh(quote):
        file, part, language, code = quote.groups()
        where = f"{file}:{part}" if part else file
        return f"<!-- code: {where} -->\n```{language}\n{quoted(file, part) or code}```"

    text = path.read_text(encoding="utf-8")
    updated = QUOTE.sub(fresh, text)
    if updated != text:
        path.write_text(updated, encoding="utf-8")


def check(path):
    text = path.read_text(encoding="utf-8")
    for file, part, _, code in QUOTE.findall(text):
        there = quoted(file, part)
        if there is None:
            yield f"quotes {file} {part}, which does not exist or is not unique"
        elif there != code:
            yield f"quotes an old {file} {part}; scripts/check-links.py --write updates it"
    if text.count("<!-- code: ") != len(QUOTE.findall(text)):
        yield "has a quote without a Rust or TOML block right after it"
    for file, anchor in INCLUDE.findall(text):
        target = (path.parent / file).resolve()
        if not target.exists():
            yield f"includes {file}, which does not exist"
        elif anchor and f"ANCHOR: {anchor}" not in target.read_text(encoding="utf-8"):
            yield f"includes {file}:{anchor}, which has no such anchor"
    # Brackets in code are not links.
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
    print("\n".join(wrong) if wrong else f"the links and quotes of {len(files)} files are correct")
    sys.exit(bool(wrong) or not files)


if __name__ == "__main__":
    main()
