#!/usr/bin/env python3
"""Puts the rows of a reproduction into the table of docs/src/reproduce.md, where they replace those of the same figures:

    ambulator reproduce me-hpt --json me-hpt.json
    scripts/reproduce-rows.py me-hpt.json
    scripts/refresh-outputs.py --numbers docs/src/reproduce.md

Rows that are far from the published number get a footnote with the reason that the figure's file gives
(`[[deviations]]`); without arguments only these are written anew. `--check` writes nothing: it fails where a
footnote is old, or where such a row has no reason.
"""
import argparse
import json
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, PAPERS = ROOT / "docs/src/reproduce.md", ROOT / "presets/papers"
# Columns of the table.
FIGURE, NUMBER, PUBLISHED, OURS, DIFFERENCE = 0, 1, 3, 4, 5
# Percent of a published number from which on a difference needs a reason.
FAR = 10


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
        if unmarked := metric.get("unmarked"):
            programs += f", without * {' to '.join(map(short, unmarked))}"
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


def is_far(published, ours, difference):
    """Whether a row with these cells needs a reason. The difference itself is rounded to percents."""
    if difference.endswith("%"):
        return abs(100 * (float(ours) / float(published) - 1)) > FAR
    return difference == "outside" or difference.startswith("+") or (difference == "not run" and published != "-")


def is_meant(pattern, name):
    """Whether a number's name is one that `pattern` means: one star stands for anything."""
    before, star, after = pattern.partition("*")
    if not star:
        return pattern == name
    return len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after)


def with_reasons(table):
    """The rows of the table with their footnotes, these footnotes, and the far rows that have no reason."""
    figures, labels, rows, without = {}, {}, [], []
    for line in table:
        cells = line.strip("| ").split(" | ")
        figure, number = cells[FIGURE], cells[NUMBER]
        difference = cells[DIFFERENCE].split(" [^")[0]
        if figure not in figures:
            with open(PAPERS / f"{figure}.toml", "rb") as file:
                figures[figure] = tomllib.load(file)
        if is_far(cells[PUBLISHED], cells[OURS], difference):
            deviations = figures[figure].get("deviations", [])
            about = [of for of in deviations if any(is_meant(pattern, number) for pattern in of["of"])]
            if about:
                reason = f"*{about[0]['cause'].capitalize()}.* {about[0]['why']}"
                of_figure = figure.replace("/", "-")
                count = sum(label.startswith(f"{of_figure}.") for label in labels.values())
                label = labels.setdefault(reason, f"{of_figure}.{count + 1}")
                difference += f" [^{label}]"
            else:
                without.append(f"{figure} | {number}")
        cells[DIFFERENCE] = difference
        rows.append("| " + " | ".join(cells) + " |")
    return rows, [f"[^{label}]: {reason}" for reason, label in labels.items()], without


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=pathlib.Path, help="what `ambulator reproduce --json` wrote")
    parser.add_argument("--check", action="store_true", help="only say what is not as it should be")
    arguments = parser.parse_args()
    figures = [figure for path in arguments.results for figure in json.loads(path.read_text())]
    names = {figure["figure"] for figure in figures}
    for name in names:
        if not (PAPERS / f"{name}.toml").is_file():
            sys.exit(f"{name}: no figure of {PAPERS}; reproduce it by its name, such as `utopia/fig2`, not from a file")
    for figure in figures:
        interrupted = [cell for cell in figure["missing"] if "interrupted" in cell]
        if interrupted:
            sys.exit(f"{figure['figure']}: its run ended early ({interrupted[0]}); run it again: finished cells are kept")
    before = PAGE.read_text()
    lines = [line for line in before.splitlines() if not line.startswith("[^")]
    start = next(i for i, line in enumerate(lines) if line.startswith("| figure | number |")) + 2
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    kept = [line for line in lines[start:end] if line.split(" | ")[0].lstrip("| ") not in names]
    # A stable sort: figures in the order of their names, metrics as they come.
    table = sorted(kept + [row for figure in figures for row in rows(figure)], key=lambda row: row.split(" | ")[0])
    table, notes, without = with_reasons(table)
    rest = lines[end:]
    while rest and not rest[0]:
        rest.pop(0)
    after = "\n".join(lines[:start] + table + ["", *notes, ""] + rest) + "\n"
    problems = [f"{row}: more than {FAR}% from the published number, and its file gives no reason" for row in without]
    if arguments.check:
        if after != before:
            problems.append(f"{PAGE}: reasons are not those of {PAPERS}: run scripts/reproduce-rows.py")
        sys.exit("\n".join(problems) or None)
    PAGE.write_text(after)
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")


if __name__ == "__main__":
    main()
