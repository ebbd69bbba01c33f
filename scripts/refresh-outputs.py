#!/usr/bin/env python3
"""Runs the commands of the documents again, and fills in their outputs and the numbers that prose quotes from them.

Outputs. A `console` block right after `<!-- run -->` is run. Each line that begins with `$ ` is a command; its output
follows. Commands run at the root of the repository, with cargo's `release` folder (or `$AMBULATOR_BIN`) on the path, and
the folder `out` exists. An output line of `...` stands for lines that are left out; the number of lines before it stays.
An output that differs only in the run's own time stays as it is.

Numbers. In prose, a number that an output or a table states follows a comment that names the cell:

    a walk takes <!-- number: row "cycles a walk" column "thp" -->22.2 cycles

It is the nearest output or Markdown table above that has the row and the column. A row is named by its first cell, or by
its first two as "A | B"; a column by its header, or by its number, counted from 1 after the rows' names. Without a column,
the row is the line of an output that begins with the name. The comment may wrap, but a line must not begin with it. It may
go on, in this order, with

    program "NAME"  the number after this name in the cell
    but "ROW"       with row "*": the largest magnitude in the column, without that row
    table N         the N-th table above that has the cell, not the nearest
    page "PATH"     the last table of another page that has the cell
    part N          the cell's N-th number
    over "COLUMN"   divided by the number in another column
    as FORM         whole, ceil    rounded, rounded up
                    word           rounded, in words up to twelve
                    gain, loss     percent above or below 1
                    percent        percent

`--check` runs no command. It fails if prose and table differ, or if a comment names no cell. `.ci/run` calls it.
"""

import argparse
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / (os.environ.get("CARGO_TARGET_DIR") or "target")
BLOCK = re.compile(r"(<!-- run -->\n```console\n)(.*?)(^```)", flags=re.S | re.M)
# What the simulator says of itself after a run.
OWN_TIME = re.compile(r"(?<=translations\. ).*")
WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()
CLAUSES = [
    r'<!-- number: row "(?P<row>[^"]+)"',
    r'(?: column (?:"(?P<name>[^"]+)"|(?P<at>\d+)))?',
    r'(?: program "(?P<program>[^"]+)")?',
    r'(?: but "(?P<but>[^"]+)")?',
    r"(?: table (?P<table>\d+))?",
    r'(?: page "(?P<page>[^"]+)")?',
    r"(?: part (?P<part>\d+))?",
    r'(?: over "(?P<over>[^"]+)")?',
    r"(?: as (?P<form>whole|ceil|word|gain|loss|percent))? -->",
    rf"(?P<text>[+-]?\d+(?:\.\d+)*|(?:{'|'.join(WORDS)})\b)",
]
NUMBER = re.compile("".join(CLAUSES).replace(" ", r"\s+"))


def run(command):
    path = f"{os.environ.get('AMBULATOR_BIN', TARGET / 'release')}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={"AMBULATOR_STORE": "none", **os.environ, "PATH": path, "COLUMNS": "110"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    # Some commands are there to show how they fail, so the exit status does not count.
    return done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []


def refresh(block):
    out = []
    lines = block[2].rstrip("\n").split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")] + [len(lines)]
    for start, end in zip(starts, starts[1:]):
        before = lines[start + 1:end]
        output = run(lines[start][2:])
        if before and before[-1] == "...":
            output = output[: len(before) - 1] + ["..."]
        output = [line.rstrip() for line in output]
        if [OWN_TIME.sub("", line) for line in output] == [OWN_TIME.sub("", line) for line in before]:
            output = before
        out += [lines[start], *output]
    return block[1] + "\n".join(out) + "\n" + block[3]


def tables(text):
    """The tables of a text, from the last to the first. A table is a list of rows of cells; its first row is the header."""
    found, rows = [], []
    for line in [*text.split("\n"), ""]:
        if line.startswith("│"):
            rows.append(re.split(r"\s{2,}", line.strip("│ ")))
        elif line.startswith("|") and not line.startswith("|--"):
            rows.append([cell.strip(" `") for cell in line.strip("|").split("|")])
        elif rows and line[:1] not in "╞|":
            found.append(rows)
            rows = []
    return reversed(found)


def numbers(cell):
    return re.findall(r"[+-]?\d+(?:\.\d+)?", cell)


def unit(cell):
    return re.sub(r"[\d.+-]", "", cell)


def cells(before, marker):
    """The cells that a marker names in the text before it, each with the one to divide by."""
    if not (marker["name"] or marker["at"]):
        blocks = reversed(re.findall(r"^```console\n(.*?)^```", before, flags=re.S | re.M))
        lines = [line.strip("│ ") for block in blocks for line in block.split("\n")]
        row = marker["row"]
        return [(line[len(row):], None) for line in lines if line.startswith(row)][:1]
    skip = int(marker["table"] or 1) - 1
    for header, *rows in tables(before):
        at = int(marker["at"]) if marker["at"] else header.index(marker["name"]) if marker["name"] in header else 0
        named = [row for row in rows if len(row) > at and marker["row"] in ("*", row[0], " | ".join(row[:2]))]
        chosen = [row for row in named if row[0] != marker["but"]]
        if 0 < at < len(header) and chosen and (not marker["over"] or marker["over"] in header):
            if skip > 0:
                skip -= 1
                continue
            over = header.index(marker["over"]) if marker["over"] else None
            return [(row[at], row[over] if over else None) for row in chosen]
    return []


def stated(before, marker):
    """What the prose must say, or `None` if the cell does not exist."""
    part = int(marker["part"] or 1) - 1
    values = []
    for cell, over in cells(before, marker):
        if marker["program"]:
            cell = (re.findall(rf"(?:^|, ){re.escape(marker['program'])} ([^,]+)", cell) or [""])[0]
        if len(numbers(cell)) <= part or over is not None and len(numbers(over)) <= part:
            return None
        text = numbers(cell)[part]
        if over is not None:
            if unit(cell) != unit(over):
                return None
            text = f"{float(text) / float(numbers(over)[part]):.3f}"
        values.append(text)
    if not values:
        return None
    text = max(values, key=lambda text: abs(float(text))) if len(values) > 1 else values[0]
    value = abs(float(text)) if len(values) > 1 else float(text)
    percent = max(0, len(text.partition(".")[2]) - 2)
    match marker["form"]:
        case "whole":
            return f"{value:.0f}"
        case "ceil":
            return str(math.ceil(value))
        case "word":
            return WORDS[round(value)] if round(value) < len(WORDS) else f"{value:.0f}"
        case "gain":
            return f"{100 * (value - 1):.{percent}f}"
        case "loss":
            return f"{100 * (1 - value):.{percent}f}"
        case "percent":
            return f"{100 * value:.0f}"
    return text


def fill(text):
    """The text with its numbers filled in from the tables above them, and what is wrong with it."""
    wrong = []

    def number(marker):
        words = {name: value and " ".join(value.split()) for name, value in marker.groupdict().items()}
        page = ROOT / words["page"] if words["page"] else None
        before = text[: marker.start()] if not page else page.read_text(encoding="utf-8") if page.exists() else ""
        right = stated(before, words)
        if right is None:
            wrong.append(f"no output or table above has the cell of `{' '.join(marker[0].split())}`")
        elif right != marker["text"]:
            wrong.append(f"`{' '.join(marker[0].split())}` is {right} in the table; scripts/refresh-outputs.py fills it in")
            return marker[0][: -len(marker["text"])] + right
        return marker[0]

    filled = NUMBER.sub(number, text)
    for line in re.findall(r"^\s*<!--\s*number.*", text, flags=re.M):
        wrong.append(f"a line that begins with a comment would end the paragraph: `{line[:100]}`")
    whole = {found.start() for found in NUMBER.finditer(text)}
    for found in re.finditer(r"<!--\s*number.*", text):
        if found.start() not in whole:
            wrong.append(f"cannot read `{found[0][:100]}`")
    return filled, wrong


def pages():
    # In the order of the book: later pages use files that earlier ones make.
    contents = (ROOT / "docs/src/SUMMARY.md").read_text()
    places = {path.relative_to(ROOT): contents.find(f"({path.relative_to(ROOT / 'docs/src')})")
              for path in (ROOT / "docs/src").rglob("*.md")}
    book = sorted(places, key=lambda page: (places[page], page))
    return ["README.md", "CONTRIBUTING.md", *(str(page) for page in book if not page.name.startswith("reference-"))]


def check(names):
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    wrong = [f"{name}: {what}" for name, text in texts.items() for what in fill(text)[1]]
    count = sum(len(NUMBER.findall(text)) for text in texts.values())
    print("\n".join(wrong) if wrong else f"{count} numbers in prose are those of the tables above them")
    sys.exit(bool(wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--check", action="store_true", help="change nothing; say which numbers are not those of their tables")
    only.add_argument("--numbers", action="store_true", help="fill in numbers, and run no command")
    parser.add_argument("files", nargs="*", metavar="FILE", help="by default README.md, CONTRIBUTING.md and the book")
    options = parser.parse_args()
    names = options.files or pages()
    if options.check:
        check(names)
    (ROOT / "out").mkdir(exist_ok=True)
    # Finished runs of an older build must not stand for this one's.
    shutil.rmtree(ROOT / "out/quick", ignore_errors=True)
    for name in names:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        fresh = fill(text if options.numbers else BLOCK.sub(refresh, text))[0]
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            print(f"{name}: updated")


if __name__ == "__main__":
    main()
