#!/usr/bin/env python3
"""Puts the rows of a reproduction into the table of docs/src/reproduce.md, where they replace those of the same figures:

    ambulator reproduce me-hpt --json me-hpt.json
    scripts/reproduce-rows.py me-hpt.json
    scripts/refresh-outputs.py --numbers docs/src/reproduce.md
"""
import json
import pathlib
import sys


def short(value):
    """A number as the program prints it: three digits."""
    if value == 0:
        return "0"
    if abs(value) < 0.01:
        return f"{value:.1e}"
    if abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def difference(published, ours):
    if not ours:
        return "not run"
    if not published:
        return "-"
    if len(published) == 2:
        return "within" if all(published[0] <= value <= published[1] for value in ours) else "outside"
    return f"{100 * (ours[0] / published[0] - 1):+.0f}%" if published[0] else f"+{short(ours[0])}"


def rows(figure):
    for metric in figure["metrics"]:
        # A program that the paper would not have chosen has an asterisk; its value keeps its number first.
        marked = metric.get("marked", [])
        programs = ", ".join(
            f"{name} {short(value)}{'*' if name in marked else ''}" for name, value in metric["by_program"]
        )
        published, ours = metric["published"] or [], metric["ours"]
        cells = [
            figure["figure"],
            metric["name"],
            metric["unit"],
            " to ".join(map(short, published)) or "-",
            " to ".join(map(short, ours)) or "-",
            difference(published, ours),
            programs,
        ]
        yield "| " + " | ".join(cells) + " |"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    page = pathlib.Path(__file__).parent.parent / "docs/src/reproduce.md"
    figures = [figure for path in sys.argv[1:] for figure in json.loads(pathlib.Path(path).read_text())]
    names = {figure["figure"] for figure in figures}
    papers = page.parents[2] / "presets/papers"
    for name in names:
        if not (papers / f"{name}.toml").is_file():
            sys.exit(f"{name}: no figure of {papers}; run it by the name that `ambulator reproduce --list` prints, not from a file")
    lines = page.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| figure | number |")) + 2
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    kept = [line for line in lines[start:end] if line.split(" | ")[0].lstrip("| ") not in names]
    # A stable sort: figures in the order of their names, metrics as they come.
    table = sorted(kept + [row for figure in figures for row in rows(figure)], key=lambda row: row.split(" | ")[0])
    page.write_text("\n".join(lines[:start] + table + lines[end:]) + "\n")


if __name__ == "__main__":
    main()
