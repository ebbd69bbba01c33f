"""Figures: Vega-Lite specifications, which notebooks show by themselves and papers take as SVG or PDF."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ambulator import _ambulator
from ambulator.errors import Error

if TYPE_CHECKING:
    from ambulator.results import Results


class Chart:
    """A figure. A notebook shows it; `spec` is its Vega-Lite specification, with its data."""

    def __init__(self, chart: dict[str, Any]) -> None:
        self.id: str = chart["id"]
        """Its name in files."""
        self.kind: str = chart["kind"]
        """What it shows: figures of one kind differ in their program."""
        self.title: str = chart["title"]
        self.caption: str = chart["caption"]
        """How to read it."""
        self.program: str | None = chart["program"]
        """The program, of a figure that has one alone."""
        self.spec: dict[str, Any] = chart["spec"]
        """The Vega-Lite specification."""
        self.heads: list[str] = [f"{name} ({unit})" if unit else name for name, unit in chart["table"]["columns"]]
        """The heads of its table."""
        self.rows: list[list[Any]] = chart["table"]["rows"]
        """Its numbers as a table."""

    def to_dict(self) -> dict[str, Any]:
        """The Vega-Lite specification; `altair.Chart.from_dict` takes it."""
        return self.spec

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure: `.json`, and with `vl-convert-python` `.svg`, `.pdf` and `.png`."""
        path = Path(path)
        kind = path.suffix.lower()
        if kind == ".json":
            path.write_text(json.dumps(self.spec, indent=1))
        elif kind in (".svg", ".pdf", ".png"):
            made = self._drawn(kind[1:])
            path.write_bytes(made.encode() if isinstance(made, str) else made)
        else:
            raise Error(f"{path}: figures are written as .json, .svg, .pdf or .png")

    def _drawn(self, kind: str) -> Any:
        try:
            import vl_convert
        except ImportError:
            raise Error("SVG, PDF and PNG need `pip install vl-convert-python`") from None
        return getattr(vl_convert, f"vegalite_to_{kind}")(json.dumps(self.spec))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        major = str(self.spec.get("$schema", "v6")).rsplit("/v", 1)[-1].split(".")[0]
        bundle: dict[str, Any] = {f"application/vnd.vegalite.v{major}+json": self.spec, "text/plain": repr(self)}
        try:
            # For pages and editors that cannot draw the specification.
            bundle["image/svg+xml"] = self._drawn("svg")
        except Error:
            pass
        return bundle

    def __repr__(self) -> str:
        return f"<Chart {self.id}: {self.title}>"


class Plots:
    """The figures that results have data for."""

    def __init__(self, results: Results) -> None:
        self._charts = [Chart(chart) for chart in json.loads(_ambulator.charts(results._cells()))]

    def all(self) -> list[Chart]:
        """Every figure."""
        return self._charts

    def kinds(self) -> list[str]:
        """What there are figures of."""
        return list(dict.fromkeys(chart.kind for chart in self._charts))

    def of(self, kind: str, program: str | None = None) -> Chart:
        """The figure of a kind, and of a program if each has one."""
        found = [chart for chart in self._charts if chart.kind == kind]
        if program is not None:
            found = [chart for chart in found if chart.program in (None, program)]
        if not found:
            raise Error(f"there is no figure of `{kind}`; these results have figures of: {', '.join(self.kinds())}")
        return found[0]

    def speedup(self) -> Chart:
        """Speed-ups over the first design with 95% intervals, by program."""
        return self.of("speed-up")

    def cycles(self, program: str | None = None) -> Chart:
        """Where the cycles go."""
        return self.of("cycles", program)

    def walk_loads(self, program: str | None = None) -> Chart:
        """What serves the loads of page walks: caches, or DRAM."""
        return self.of("walks-served", program)

    def walk_latency(self, program: str | None = None) -> Chart:
        """The distribution of walk latencies."""
        return self.of("walk-latency", program)

    def __repr__(self) -> str:
        return f"<Plots of {', '.join(self.kinds())}>"
