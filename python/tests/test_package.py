"""The package as a whole."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ambulator

MODULES = [of.name for of in pkgutil.iter_modules(ambulator.__path__) if of.name not in ("_ambulator",)]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(f"ambulator.{name}" if name else "ambulator")
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_the_code_of_the_book_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "docs/src/python.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)
    first = [line for line in blocks[0].splitlines() if line.strip()]
    assert len(first) <= 15, "fifteen lines are enough"
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert (tmp_path / "speedup.json").exists() and (tmp_path / "table.amb").exists()


def test_everything_public_is_documented() -> None:
    for name in ambulator.__all__:
        if name != "__version__":
            assert (getattr(ambulator, name).__doc__ or "").strip(), name


def test_nothing_heavy_is_imported() -> None:
    heavy = "import sys, ambulator; print([name for name in ('numpy', 'nanoarrow', 'pandas', 'polars') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", heavy], text=True).strip() == "[]"
