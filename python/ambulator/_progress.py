"""Progress of runs: a line on a terminal, a line that is replaced in a notebook, or bars of tqdm."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeAlias

Report: TypeAlias = tuple[str, str, int, int | None]
"""A run: its design, its phase, its instructions, and their total if it is known."""
Progress: TypeAlias = Callable[[Sequence[Report]], None]
"""What is told of the progress of all runs, several times a second."""


def progress_of(asked: bool | Progress | None) -> Progress | None:
    """What shows progress: `asked`, or by default whatever can be seen."""
    if asked is False:
        return None
    if callable(asked):
        return asked
    notebook = "ipykernel" in sys.modules
    if asked is None and not notebook and not sys.stderr.isatty():
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return Line(sys.stderr, time.monotonic)
    return Bars(tqdm)


def share(runs: Sequence[Report]) -> float:
    """The share of all runs that is done."""
    done = [1.0 if phase == "done" else of and at / of * (phase == "run") or 0.0 for _, phase, at, of in runs]
    return sum(done) / max(len(done), 1)


class Line:
    """One line, replaced as runs go on."""

    def __init__(self, out: TextIO, now: Callable[[], float]) -> None:
        self._out, self._now = out, now
        self._began = now()
        self._width = 0

    def __call__(self, runs: Sequence[Report]) -> None:
        done = share(runs)
        took = self._now() - self._began
        finished = sum(phase == "done" for _, phase, _, _ in runs)
        text = f"{finished} of {len(runs)} runs, {done:.0%}"
        if 0.02 < done < 1:
            text += f", about {took / done - took:.0f} s left"
        end = "\n" if finished == len(runs) else ""
        self._out.write("\r" + text.ljust(self._width) + end)
        self._out.flush()
        self._width = len(text)


class Bars:
    """A bar of tqdm over all runs."""

    def __init__(self, tqdm: Any) -> None:
        self._bar = tqdm(total=100, unit="%", bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}")

    def __call__(self, runs: Sequence[Report]) -> None:
        finished = sum(phase == "done" for _, phase, _, _ in runs)
        self._bar.set_description(f"{finished} of {len(runs)} runs")
        self._bar.n = round(share(runs) * 100)
        self._bar.refresh()
        if finished == len(runs):
            self._bar.close()
