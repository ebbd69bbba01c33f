"""The package as a whole."""

import doctest
import importlib
import pkgutil
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ambulator

MODULES = [of.name for of in pkgutil.iter_modules(ambulator.__path__) if of.name not in ("_ambulator",)]


EXAMPLES = {"ambulator", "ambulator._groups", "ambulator.catalogue", "ambulator.errors", "ambulator.machine", "ambulator.table"}


def test_examples_in_docstrings_are_true() -> None:
    modules = [importlib.import_module(name) for name in ("ambulator", *(f"ambulator.{name}" for name in MODULES))]
    assert all(module.__doc__ for module in modules)
    tested = {module.__name__: doctest.testmod(module) for module in modules}
    assert {name for name, of in tested.items() if of.failed} == set()
    assert {name for name, of in tested.items() if of.attempted} == EXAMPLES


def test_the_code_of_the_book_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "docs/src/python.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)
    assert len(blocks) >= 8
    first = [line for line in blocks[0].splitlines() if line.strip()]
    assert len(first) <= 15, "fifteen lines are enough"
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert (tmp_path / "speedup.json").exists() and (tmp_path / "table.amb").exists()


def test_everything_public_is_documented() -> None:
    documented = 0
    for name in ambulator.__all__:
        if name == "__version__":
            continue
        public = getattr(ambulator, name)
        assert (public.__doc__ or "").strip(), name
        own = vars(public).items() if isinstance(public, type) else ()
        for member, of in own:
            if not member.startswith("_") and (callable(of) or isinstance(of, (property, classmethod, staticmethod))):
                assert (of.__doc__ or "").strip(), f"{name}.{member}"
                documented += 1
    assert documented > 40


def test_help_renders() -> None:
    text = pydoc.render_doc(ambulator.compare, renderer=pydoc.plaintext)
    assert "compare(program: 'Program | Sequence[Program]'" in text and "Speed-ups are relative to the first." in text
    group = type(ambulator.Machine().mmu.l2_tlb)
    assert "entries" in (text := pydoc.render_doc(group, renderer=pydoc.plaintext)) and "Unit: entries." in text
    accesses = pydoc.render_doc(ambulator.Accesses, renderer=pydoc.plaintext)
    assert "save(" in accesses and "one access for each element" in accesses


def test_nothing_heavy_is_imported() -> None:
    heavy = "import sys, ambulator; print([name for name in ('numpy', 'nanoarrow', 'pandas', 'polars') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", heavy], text=True).strip() == "[]"
