"""Results: one row for each run, which data frames take as they are."""

from __future__ import annotations

import fnmatch
import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from ambulator import _ambulator
from ambulator.errors import Error, RunError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ambulator.plot import Plots


class Column(NamedTuple):
    """What a column holds."""

    unit: str
    meaning: str


class Interval(NamedTuple):
    """A 95% interval."""

    low: float
    high: float


Row: TypeAlias = dict[str, Any]
"""One run: numbers, texts, flags, None and lists of them, by column."""

_SPEEDUP = {
    "speedup": Column("ratio", "Speed-up over the first design of the comparison: ratio of instructions per cycle."),
    "speedup.low": Column("ratio", "Lower end of its 95% interval."),
    "speedup.high": Column("ratio", "Upper end of its 95% interval."),
    "speedup.weighted": Column("ratio", "Mean over the cores of the ratio of their instructions per cycle."),
}


class Run:
    """One design on one program. ``run["mmu.walks"]`` is a column of its row."""

    def __init__(self, row: Row, spec: str, columns: Mapping[str, Column]) -> None:
        self.row = row
        """Every column by name."""
        self._spec = spec
        self._columns = columns

    @property
    def design(self) -> str:
        """The design's name."""
        return str(self.row["design"])

    @property
    def program(self) -> str:
        """The program's name."""
        return str(self.row["program"])

    @property
    def status(self) -> str:
        """How it ended: `done`, `outcome` (the modelled machine could not go on), `failed` or `interrupted`."""
        return str(self.row["status"])

    @property
    def outcome(self) -> str | None:
        """A sentence for any status but `done`."""
        outcome = self.row["outcome"]
        return None if outcome is None else str(outcome)

    @property
    def ipc(self) -> float:
        """Instructions per cycle; 0 in functional mode."""
        return float(self.row["ipc"])

    @property
    def cycles(self) -> int:
        """Core cycles of the measured region."""
        return int(self.row["cycles"])

    @property
    def instructions(self) -> int:
        """Instructions of the measured region."""
        return int(self.row["instructions"])

    @property
    def speedup(self) -> float | None:
        """Speed-up over the first design of the comparison; None without time."""
        speedup = self.row["speedup"]
        return None if speedup is None else float(speedup)

    @property
    def interval(self) -> Interval | None:
        """The speed-up's 95% interval; None if the region is too short for one."""
        low, high = self.row["speedup.low"], self.row["speedup.high"]
        return None if low is None else Interval(low, high)

    @property
    def spec(self) -> dict[str, Any]:
        """The whole spec after presets and settings."""
        return dict(json.loads(self._spec))

    def check(self) -> Run:
        """This run, if it is done; otherwise raises `RunError` with its sentence."""
        if self.status != "done":
            raise RunError(f"{self.design} on {self.program}: {self.outcome}")
        return self

    def __getitem__(self, column: str) -> Any:
        if column in self.row:
            return self.row[column]
        raise _no_column(column, self.row)

    def __repr__(self) -> str:
        speedup = "" if self.speedup is None else f", speed-up {self.speedup:.3f}"
        return f"<Run {self.design} on {self.program}: {self.status}, ipc {self.ipc:.3f}{speedup}>"


class Table:
    """Rows that data frames take as they are: it has Arrow's PyCapsule interface.

    ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and ``duckdb.sql("from table")`` use its buffers.
    """

    def __init__(self, rows: Sequence[Row], columns: Mapping[str, Column]) -> None:
        self._rows = list(rows)
        self._known = dict(columns)

    @property
    def rows(self) -> list[Row]:
        """The rows as dicts."""
        return self._rows

    @property
    def columns(self) -> dict[str, Column]:
        """Unit and meaning of each column, in their order."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        return {name: self._known.get(name, _meaning(name)) for name in names}

    def select(self, *patterns: str) -> Table:
        """The table of the columns of these names or patterns: ``results.select("design", "ipc", "mmu.*")``."""
        names: dict[str, None] = {}
        known = list(self.columns)
        for pattern in patterns:
            found = [pattern] if pattern in known else fnmatch.filter(known, pattern)
            if not found:
                raise _no_column(pattern, known)
            names.update(dict.fromkeys(found))
        return Table([{name: row.get(name) for name in names} for row in self._rows], self._known)

    def to_polars(self) -> polars.DataFrame:
        """A data frame of polars, without copies."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of pandas; without copies if pyarrow is installed."""
        import pandas

        try:
            return pandas.DataFrame.from_arrow(self)
        except (ImportError, AttributeError):
            return pandas.DataFrame(self._rows, columns=list(self.columns))

    def to_arrow(self) -> pyarrow.Table:
        """A table of pyarrow, without copies."""
        import pyarrow

        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        from ambulator import _arrow

        values = {name: [row.get(name) for row in self._rows] for name in self.columns}
        return _arrow.stream(values, len(self._rows)).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        names = list(self.columns)
        shown = names if len(names) <= 12 else [name for name in _OVERVIEW if name in names]
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
        cells = [[html.escape(_short(row.get(name))) for name in shown] for row in self._rows]
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
        more = "" if shown == names else f"<p>{len(names)} columns; <code>select</code> chooses</p>"
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._rows)} rows and {len(self.columns)} columns>"


class Results(Table):
    """The runs of a comparison. Iterate over them, take one by number or by design, or hand the table to
    polars, pandas or DuckDB. Shown in a notebook, it says which design is best, by how much, and why."""

    def __init__(self, finished: Mapping[str, Any]) -> None:
        columns = {name: Column(of["unit"], of["meaning"]) for name, of in finished["columns"].items()}
        rows = []
        for row, of in zip(finished["runs"], finished["speedups"], strict=True):
            speedups = {
                "speedup": of["speedup"],
                "speedup.low": of["low"],
                "speedup.high": of["high"],
                "speedup.weighted": of["weighted"],
            }
            rows.append(_after(row, "ipc", speedups))
        super().__init__(rows, columns | _SPEEDUP)
        self._specs: dict[str, str] = dict(finished["specs"])
        self._documents: list[str] = list(finished["documents"])
        self._bounds: list[Row] = list(finished["bounds"])
        self.verdict: list[str] = list(finished["verdict"])
        """What translation costs at most, which design is best, and why: a few sentences."""
        self.reasons: list[str] = list(finished["reasons"])
        """Why each design is faster or slower than the first."""
        self.notes: list[str] = list(finished["notes"])
        """Notes about programs and warnings about runs, to be read before any number is believed."""
        self.stored = sum(finished["stored"])
        """How many runs were found in the store."""
        self.seconds: float = finished["seconds"]
        """How long this took, in seconds."""
        self._table: str = finished["table"]

    @property
    def plot(self) -> Plots:
        """Figures: ``results.plot.speedup()``."""
        from ambulator.plot import Plots

        return Plots(self)

    @property
    def runs(self) -> list[Run]:
        """The runs."""
        return [Run(row, self._specs[row["spec"]], self._known) for row in self._rows]

    @property
    def bounds(self) -> list[Row]:
        """The rows of the bounds: machines with perfect TLBs, one for each paging policy of the designs."""
        return self._bounds

    def check(self) -> Results:
        """These results, if all runs are done; otherwise raises `RunError` with the sentence of the first."""
        for run in self.runs:
            run.check()
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON document that `ambulator compare --json` writes."""
        if len(self._documents) != 1:
            raise Error("results of several comparisons are several documents: save each by itself")
        Path(path).write_text(self._documents[0])

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: one HTML page with figures, which needs no network."""
        Path(path).write_text(_ambulator.report(self._cells()))

    def _cells(self) -> str:
        own = set(_SPEEDUP)

        def cell(row: Row, bound: bool) -> dict[str, Any]:
            kept = {name: value for name, value in row.items() if name not in own}
            return {"row": kept, "spec": json.loads(self._specs[row["spec"]]), "bound": bound}

        rows = [cell(row, False) for row in self._rows] + [cell(row, True) for row in self._bounds]
        return json.dumps(rows)

    @overload
    def __getitem__(self, which: int | str) -> Run: ...
    @overload
    def __getitem__(self, which: slice) -> list[Run]: ...
    def __getitem__(self, which: int | str | slice) -> Run | list[Run]:
        runs = self.runs
        if isinstance(which, str):
            for run in runs:
                if run.design == which:
                    return run
            raise KeyError(f"no run of `{which}`; there are: {', '.join(run.design for run in runs)}")
        return runs[which]

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self._rows)

    def __add__(self, other: Results) -> Results:
        """The runs of both; speed-ups stay those of each comparison."""
        both = object.__new__(Results)
        Table.__init__(both, [*self._rows, *other._rows], self._known | other._known)
        both._specs = self._specs | other._specs
        both._documents = [*self._documents, *other._documents]
        both._bounds = [*self._bounds, *other._bounds]
        both.verdict = [*self.verdict, *other.verdict]
        both.reasons = [*self.reasons, *other.reasons]
        both.notes = list(dict.fromkeys([*self.notes, *other.notes]))
        both.stored = self.stored + other.stored
        both.seconds = self.seconds + other.seconds
        both._table = f"{self._table}\n\n{other._table}"
        return both

    def __str__(self) -> str:
        parts = ["\n".join(self.verdict), self._table, "\n".join(self.reasons), "\n".join(self.notes)]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in [*self.verdict, *self.notes])
        failed = [run for run in self.runs if run.status != "done"]
        said = [(html.escape(run.design), html.escape(run.outcome or "")) for run in failed]
        failures = "".join(f"<p><b>{design}</b>: {outcome}</p>" for design, outcome in said)
        return sentences + failures + super()._repr_html_()


_OVERVIEW = [
    "program",
    "design",
    "status",
    "ipc",
    "speedup",
    "speedup.low",
    "speedup.high",
    "measures.l2_tlb_mpki",
    "measures.walk_latency_mean",
    "measures.table_bytes",
]


def _meaning(name: str) -> Column:
    if name.startswith("set."):
        return Column("setting", f"The setting `{name[4:]}`, which differs from the presets.")
    return Column("", "")


def _after(row: Row, name: str, more: Row) -> Row:
    """The row with further columns after the one of this name."""
    ordered: Row = {}
    for known, value in row.items():
        ordered[known] = value
        if known == name:
            ordered.update(more)
    return ordered


def _short(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _no_column(name: str, known: Sequence[str] | Mapping[str, Any]) -> Error:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return NoColumn(f"there is no column `{name}`" + (f": the nearest is `{near[0]}`" if near else ""))


class NoColumn(Error, KeyError):
    """There is no column of this name."""

    def __str__(self) -> str:
        return str(self.args[0])
