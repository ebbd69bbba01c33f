"""The package as a whole."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import ambulator

MODULES = [of.name for of in pkgutil.iter_modules(ambulator.__path__) if of.name not in ("_ambulator",)]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(f"ambulator.{name}" if name else "ambulator")
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_everything_public_is_documented() -> None:
    for name in ambulator.__all__:
        if name != "__version__":
            assert (getattr(ambulator, name).__doc__ or "").strip(), name


def test_nothing_heavy_is_imported() -> None:
    heavy = "import sys, ambulator; print([name for name in ('numpy', 'nanoarrow', 'pandas', 'polars') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", heavy], text=True).strip() == "[]"
