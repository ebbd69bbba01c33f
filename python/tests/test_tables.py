"""Results as tables of other libraries, and as figures."""

import json
from pathlib import Path

import duckdb
import pandas
import polars
import pytest

import ambulator
from ambulator._arrow import stream


def test_polars_takes_the_table(compared: ambulator.Results) -> None:
    frame = polars.DataFrame(compared)
    assert frame.shape == (3, len(compared.columns))
    assert frame["design"].to_list() == ["radix", "thp", "perfect-tlb"]
    assert frame["cycles"].dtype == polars.Int64 and frame["ipc"].dtype == polars.Float64
    for name in frame.columns:
        expected = [row.get(name) for row in compared.rows]
        assert frame[name].to_list() == expected, name


def test_duckdb_and_pandas_take_it(compared: ambulator.Results) -> None:
    taken = compared.select("design", "ipc", "mmu.*")
    assert duckdb.sql("select design from taken order by ipc desc limit 1").fetchall() == [("perfect-tlb",)]
    assert taken.to_polars().equals(polars.DataFrame(taken)) and taken.to_polars().height == 3
    frame = taken.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame["design"]) == ["radix", "thp", "perfect-tlb"]
    assert polars.DataFrame(taken).columns == list(taken.columns)


def test_columns_have_units_and_meanings(compared: ambulator.Results) -> None:
    assert len(compared.columns) > 150
    for name, column in compared.columns.items():
        assert column.unit and column.meaning, name
    with pytest.raises(ambulator.Error, match="no column `mmu.walkz`: the nearest is `mmu.walks`"):
        compared.select("mmu.walkz")


def test_buffers_are_arrows() -> None:
    columns = {
        "whole": [1, None, -3],
        "large": [2**64 - 1, 0, None],
        "real": [0.5, 1, None],
        "flag": [True, None, False],
        "text": ["a", None, "äöü"],
        "lists": [[1, 2], None, []],
        "texts": [["x"], ["y", "zz"], []],
        "empty": [None, None, None],
        "none": [[], [], []],
    }

    class Table:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return stream(columns, 3).__arrow_c_stream__(requested_schema)

    frame = polars.DataFrame(Table())
    assert frame.to_dict(as_series=False) == columns
    assert frame["large"].dtype == polars.UInt64 and frame["flag"].dtype == polars.Boolean


def test_figures_are_vega_lite(compared: ambulator.Results, tmp_path: Path) -> None:
    chart = compared.plot.speedup()
    assert "vega-lite" in chart.spec["$schema"] and chart.to_dict() is chart.spec
    shown = json.dumps(chart.spec)
    assert all(design in shown for design in ("thp", "perfect-tlb"))
    bundle = chart._repr_mimebundle_()
    assert any(kind.startswith("application/vnd.vegalite.v") for kind in bundle)
    path = tmp_path / "speedup.json"
    chart.save(path)
    assert json.loads(path.read_text()) == chart.spec
    assert {"speed-up", "cycles", "walks-served", "walk-latency"} <= set(compared.plot.kinds())
    assert compared.plot.cycles().spec and compared.plot.walk_loads().spec and compared.plot.walk_latency().spec
    with pytest.raises(ambulator.Error, match="figures are written as"):
        chart.save(tmp_path / "speedup.bmp")
    with pytest.raises(ambulator.Error, match="no figure of `pie`"):
        compared.plot.of("pie")


def test_the_report_and_the_document_are_files(compared: ambulator.Results, tmp_path: Path) -> None:
    compared.report(tmp_path / "report.html")
    assert "Best:" in (tmp_path / "report.html").read_text()
    compared.save(tmp_path / "results.json")
    document = json.loads((tmp_path / "results.json").read_text())
    assert [run["design"] for run in document["runs"]] == ["radix", "thp", "perfect-tlb"]
    assert document["runs"][0]["cycles"] == compared["radix"].cycles


def test_results_are_joined(compared: ambulator.Results) -> None:
    both = compared + compared
    assert len(both) == 6 and both.notes == compared.notes
    assert polars.DataFrame(both).height == 6
