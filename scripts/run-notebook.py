#!/usr/bin/env python3
"""Executes the notebooks of examples/notebooks and writes their outputs into them.

With --small, on few instructions; then nothing is written, but every cell must run and show what it shows when committed.
"""

import argparse
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "examples/notebooks"


def shown(cell: nbformat.NotebookNode) -> list[str]:
    """What a cell shows: kinds of output, without what depends on times."""
    outputs = [output for output in cell.get("outputs", []) if output.output_type != "stream"]
    return [sorted(output.get("data", {}))[0] for output in outputs]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--small", action="store_true")
    small = arguments.parse_args().small
    os.environ["AMBULATOR_NOTEBOOK"] = "small" if small else "full"
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        committed = [shown(cell) for cell in notebook.cells]
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
        if small:
            differ = [number for number, cell in enumerate(notebook.cells) if shown(cell) != committed[number]]
            if differ:
                print(f"{path.name}: cells {differ} show something else than what is committed: run scripts/run-notebook.py")
                return 1
            continue
        for cell in notebook.cells:
            cell.get("metadata", {}).pop("execution", None)
        notebook.metadata.pop("language_info", None)
        nbformat.write(notebook, path)
        print(f"{path.name}: executed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
