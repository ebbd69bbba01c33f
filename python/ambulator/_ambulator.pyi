"""The compiled half of the package `ambulator`; use that package instead."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from ambulator.runs import Array

__all__ = [
    "VERSION",
    "Accesses",
    "Frames",
    "Memory",
    "Port",
    "charts",
    "check_option",
    "conformance",
    "counters",
    "explain",
    "page_tables",
    "preset_text",
    "presets",
    "programs",
    "report",
    "run_cells",
    "run_study",
    "settings_tree",
    "show_spec",
    "spec_of",
]

VERSION: Final[str]

@final
class Accesses:
    """A program as arrays, checked and copied once: one access for each element.

    `address` are virtual addresses. `store` says which are stores (1) rather than loads (0). `gap` are the
    instructions between an access and the one before, `default_gap` without it. `dependence` are distances
    back, in accesses, to the load that the address was computed from: 0 for none, 1 for the access before.
    `size` are bytes, 1 to 64. `pc` are addresses of instructions, which prefetchers see. The address space is
    mapped in regions of `granularity` bytes around what is accessed, as for traces without mappings. With
    `touched`, each page has been touched before the first access, as in a program that has run for a while;
    without, its first access is a page fault.
    """

    def __new__(
        cls,
        address: Array | Sequence[int],
        *,
        store: Array | Sequence[int] | None = None,
        gap: Array | Sequence[int] | None = None,
        dependence: Array | Sequence[int] | None = None,
        size: Array | Sequence[int] | None = None,
        pc: Array | Sequence[int] | None = None,
        name: str = "array",
        default_gap: int = 3,
        default_size: int = 8,
        touched: bool = True,
        granularity: int = 2097152,
    ) -> Accesses: ...
    @property
    def name(self) -> str:
        """The name in results."""
    @property
    def footprint(self) -> int:
        """Bytes of the 4 KiB pages that the accesses touch."""
    @property
    def instructions(self) -> int:
        """Instructions: the accesses and the gaps before them."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace of the accesses in Ambulator's format (`.amb`), for the command and for other
        programs."""
    def __len__(self) -> int: ...

@final
class Port:
    """The path of a walk to memory: what it reads takes the time that the machine needs for it."""

    def read(self, address: int, size: int = 8) -> int:
        """The word at a physical address. The walk goes on when it has arrived."""
    def read_all(self, addresses: Sequence[int]) -> list[int]:
        """The words at several physical addresses, which are read at once. The walk goes on when all have
        arrived."""
    @property
    def now(self) -> int:
        """The cycle at which everything read so far has arrived."""

@final
class Memory:
    """The bytes of physical memory, for `map` and `unmap`."""

    def __new__(cls) -> Memory: ...
    def read(self, address: int) -> int:
        """The word at a physical address, a multiple of 8."""
    def write(self, address: int, word: int) -> None:
        """Writes a word at a physical address, a multiple of 8."""
    def charge(self, cycles: int) -> None:
        """Charges cycles of the operating system to the run, for work such as moving entries."""

@final
class Frames:
    """The frames of physical memory, for `map` and `unmap`."""

    def __new__(cls) -> Frames: ...
    def allocate(self, count: int = 1) -> int:
        """The address of contiguous zeroed frames of 4 KiB. Raises `NoMemory` if there are none."""
    def release(self, address: int) -> None:
        """Frees what `allocate` returned."""

def charts(cells: str) -> str:
    """The figures that cells have data for, as a JSON list: each with its Vega-Lite specification."""

def check_option(option: str) -> None:
    """Checks a `key=value` text by itself."""

def conformance(
    table: dict[str, Any] | None, *, name: str | None = None, operations: int = 1500, seed: int = 1
) -> tuple[int, int, int, int]:
    """Runs the conformance suite on a page table in Python, or on one of Ambulator's by name."""

def counters() -> list[tuple[str, str, str]]:
    """Name, unit and meaning of each counter and measure. The first call takes a second or two."""

def explain(name: str = "") -> str:
    """What a setting, a group of settings, a design, a program or a counter means; all settings without a
    name."""

def page_tables() -> list[str]:
    """The names of all page tables."""

def preset_text(kind: str, name: str) -> str | None:
    """The TOML text of a preset."""

def presets(kind: str) -> list[tuple[str, str, str]]:
    """Name, description and paper of each preset of a kind: machine, design or workload."""

def programs() -> list[tuple[str, str, str, int]]:
    """Name, description, what it stands for, and default footprint of each program."""

def report(cells: str) -> str:
    """The report of cells, as one HTML page."""

def run_cells(
    mixes: Sequence[dict[str, Any]],
    cells: Sequence[dict[str, Any]],
    request: dict[str, Any],
    report: Callable[[Sequence[tuple[str, str, int, int | None]]], None] | None,
) -> dict[str, Any]:
    """Runs cells. Returns a dict: see `summary.rs`; its `interrupt` is the exception that ended it early."""

def run_study(
    path: os.PathLike[str],
    quick: bool,
    request: dict[str, Any],
    report: Callable[[Sequence[tuple[str, str, int, int | None]]], None] | None,
) -> dict[str, Any]:
    """Runs a study: the file that the command's `sweep` reads. Returns the dict of `run_cells`, with `title`
    and `axes`."""

def settings_tree(programs: bool = False) -> dict[str, Any]:
    """The tree of settings as nested dicts."""

def show_spec(request: dict[str, Any]) -> str:
    """The whole spec of a machine as annotated TOML."""

def spec_of(request: dict[str, Any]) -> dict[str, Any]:
    """The whole spec of a machine as nested dicts, with its `machine` and `design` names."""
