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

HALF = " ±"
"""What the name of a column with half of an interval over seeds ends with."""

SAMPLED_HALF = "sampled.half."
"""What the name of a column with half of an interval over windows of a sampled run begins with."""

_SPEEDUP = {
    "speedup": Column("ratio", "Speed-up over the first design of the comparison: ratio of instructions per cycle."),
    "speedup.low": Column("ratio", "Lower end of its 95% interval."),
    "speedup.high": Column("ratio", "Upper end of its 95% interval."),
    "speedup.differs": Column("flag", "Whether its 95% interval leaves 1 out: otherwise there is no difference."),
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
        """The speed-up's 95% interval: over the seeds if there are several, otherwise over windows of the
        measured region. None if the region is too short for one."""
        low, high = self.row["speedup.low"], self.row["speedup.high"]
        return None if low is None else Interval(low, high)

    @property
    def differs(self) -> bool | None:
        """Whether the speed-up is a difference: its 95% interval leaves 1 out. None without time."""
        differs = self.row["speedup.differs"]
        return None if differs is None else bool(differs)

    @property
    def seeds(self) -> int:
        """How many seeds the numbers are means over."""
        return int(self.row.get("seeds") or 1)

    def interval_of(self, column: str) -> Interval | None:
        """The 95% interval of a number: over the seeds, or with one seed over the windows or intervals of a sampled run.
        None where there is neither."""
        mean, half = self[column], _half_of(self.row, column)
        return None if half is None else Interval(mean - half, mean + half)

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
        def shown(column: str) -> str:
            half = _half_of(self.row, column)
            return f"{self.row[column]:.3f}" + ("" if not half else f" ± {half:.3f}")

        text = f"<Run {self.design} on {self.program}: {self.status}"
        if self.instructions == 0:
            return f"{text}, {self.outcome}>"
        text += f", ipc {shown('ipc')}"
        if self.speedup is not None:
            text += f", speed-up {shown('speedup')}"
        if self.seeds > 1:
            text += f", {self.seeds} seeds"
        return text + ">"


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
        return {name: self._known.get(name) or self._meaning(name) for name in names}

    def _meaning(self, name: str) -> Column:
        of = name.removesuffix(HALF)
        if of != name:
            over = "" if of.startswith("speedup") else " over the seeds"
            unit = self._known.get(of, Column("", "")).unit
            return Column(unit, f"Half of the width of the 95% interval of `{of}`{over}.")
        if name.startswith("set."):
            return Column("setting", f"The setting `{name[4:]}`, which is varied or differs from the presets.")
        return Column("", "")

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
        # Half of an interval stands beside its number.
        names = [name for name in self.columns if name.removesuffix(HALF) not in self.columns or not name.endswith(HALF)]
        shown = names if len(names) <= 12 else self._overview(names)
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
        cells = [[html.escape(_short(row.get(name), _half_of(row, name))) for name in shown] for row in self._rows]
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
        more = "" if shown == names else f"<p>{len(self.columns)} columns; <code>select</code> chooses</p>"
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _overview(self, names: Sequence[str]) -> list[str]:
        """The columns that are shown of many: what ran, what was set differently, and the numbers that decide."""
        differ = [name for name in names if name.startswith("set.") and len({str(row.get(name)) for row in self._rows}) > 1]
        return [name for name in [*_WHAT, *differ, *_NUMBERS] if name in names]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._rows)} rows and {len(self.columns)} columns>"


class Results(Table):
    """The runs of a comparison. Iterate over them, take one by number or by design, or hand the table to
    polars, pandas or DuckDB. Shown in a notebook, it says which design is best, by how much, and why.

    With several seeds a row has means, and the column `NAME ±` has half of the 95% interval of the column `NAME`;
    `by_seed` has the row of each seed."""

    def __init__(self, finished: Mapping[str, Any]) -> None:
        columns = {name: Column(of["unit"], of["meaning"]) for name, of in finished["columns"].items()}
        super().__init__(finished["runs"], columns | _SPEEDUP)
        self._specs: dict[str, str] = dict(finished["specs"])
        self._documents: list[str] = list(finished["documents"])
        self._bounds: list[Row] = list(finished["bounds"])
        self._by_seed: list[Row] = list(finished["by_seed"])
        self._bounds_by_seed: list[Row] = list(finished["bounds_by_seed"])
        self.verdict: list[str] = list(finished["verdict"])
        """What translation costs at most, which design is best, and why: a few sentences."""
        self.reasons: list[str] = list(finished["reasons"])
        """Why each design is faster or slower than the first."""
        self.notes: list[str] = list(finished["notes"])
        """Notes about programs and warnings about runs, to be read before any number is believed."""
        self.stored: int = finished["stored"]
        """How many runs were found in the store: with several seeds, one for each."""
        self.seconds: float = finished["seconds"]
        """How long this took, in seconds."""
        self._table: str = finished["table"]
        for row in [*self._rows, *self._by_seed]:
            _tell_axes(row, json.loads(self._specs[row["spec"]]), finished["axes"])

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
    def by_seed(self) -> Table:
        """The table with a row for each design and seed, of which these results have the means. Speed-ups are
        relative to the first design with the same seed."""
        return Table(self._by_seed, self._known)

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
        def cell(row: Row, bound: bool) -> dict[str, Any]:
            kept = {name: value for name, value in row.items() if not name.startswith("speedup")}
            return {"row": kept, "spec": json.loads(self._specs[row["spec"]]), "bound": bound}

        rows = [cell(row, False) for row in self._by_seed] + [cell(row, True) for row in self._bounds_by_seed]
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
        both._by_seed = [*self._by_seed, *other._by_seed]
        both._bounds_by_seed = [*self._bounds_by_seed, *other._bounds_by_seed]
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


_WHAT = ["program", "design"]
_NUMBERS = [
    "status",
    "seeds",
    "ipc",
    "speedup",
    "measures.l2_tlb_mpki",
    "measures.walk_latency_mean",
    "measures.table_bytes",
]


def _tell_axes(row: Row, spec: Any, axes: Sequence[str]) -> None:
    """Sets the columns of the settings that vary, also where they are those of the presets."""
    for key in axes:
        value = spec
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None and not isinstance(value, dict):
            row.setdefault(f"set.{key}", value)


def _half_of(row: Row, column: str) -> Any:
    """Half of the 95% interval of a number, over seeds or, with one, over what a sampled run measured."""
    over_seeds = row.get(column + HALF)
    return row.get(SAMPLED_HALF + column) if over_seeds is None else over_seeds


def _short(value: object, half: object = None) -> str:
    if value is None:
        return ""
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    # A base has no interval around its speed-up of 1.
    return f"{shown} ± {half:.2g}" if isinstance(half, float) and half > 0 else shown


def _no_column(name: str, known: Sequence[str] | Mapping[str, Any]) -> Error:
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return NoColumn(f"there is no column `{name}`" + (f": the nearest is `{near[0]}`" if near else ""))


class NoColumn(Error, KeyError):
    """There is no column of this name."""

    def __str__(self) -> str:
        return str(self.args[0])
