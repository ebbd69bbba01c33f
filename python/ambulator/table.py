"""Page tables in Python: for teaching and first ideas. Slow, and checked like all others."""

from __future__ import annotations

import pickle
import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from ambulator import _ambulator
from ambulator._ambulator import Frames, Memory, Port
from ambulator._identity import Unknown, identity_of
from ambulator.errors import DesignError, RunError


class Page(NamedTuple):
    """A virtual page."""

    start: int
    """Its lowest address."""
    size: int
    """Its bytes: 4096, or another of the table's `sizes`."""

    @property
    def number(self) -> int:
        """The address in units of 4 KiB."""
        return self.start >> 12


class PageTable(ABC):
    """A page table of your own. Each process gets an object of the class.

    Translations are bytes: an entry is a word of 8 bytes in frames of simulated memory, which `map` writes
    and `walk` reads. Fields of the object are the registers of the hardware and what the operating system
    remembers: where a table begins, how many slots it has. Ambulator does the rest: it sets accessed and
    dirty bits in the entry that `walk` found, answers the kernel's look-ups by the same walk without time,
    and frees all frames at a process's exit. A checkpoint has the fields of each object, pickled.
    """

    name: ClassVar[str] = ""
    """The name in results; by default the class's, in lower case with `-` between words."""
    sizes: ClassVar[tuple[int, ...]] = (4096,)
    """Page sizes that it maps, in bytes; 4096 must be among them."""
    max_loads: ClassVar[int] = 64
    """The most words that a walk reads. The conformance suite holds it to that, and a walk that reads four
    times as many ends the run."""
    preset: ClassVar[str | None] = None
    """The design preset whose other settings it takes, such as `thp`; its page table is this one."""

    frames: ClassVar[Frames] = Frames()
    """Allocates frames of 4 KiB: in `__init__`, `map` and `unmap`."""
    memory: ClassVar[Memory] = Memory()
    """Reads and writes words of memory: in `__init__`, `map` and `unmap`."""

    @abstractmethod
    def map(self, page: Page, entry: int) -> None:
        """Maps a page that is not mapped: writes `entry`, a word that is never 0, where `walk` finds it. If
        frames are needed and there are none, `NoMemory` passes on, and the table is as it was."""

    @abstractmethod
    def unmap(self, page: Page) -> None:
        """Unmaps a page that is mapped."""

    @abstractmethod
    def walk(self, va: int, port: Port) -> int | None:
        """The physical address of the entry for the virtual address `va`; None if its page is not mapped.
        Reads memory through the port alone: `port.read(address)` waits for the word,
        `port.read_all(addresses)` reads several at once."""


class Conformance(NamedTuple):
    """What the conformance suite did to a page table that passed it."""

    mapped: int
    """Pages mapped."""
    unmapped: int
    """Pages unmapped."""
    walks: int
    """Walks compared with the reference model."""
    loads: int
    """Loads of all walks."""


def name_of(table: type[PageTable]) -> str:
    """The name of a class's design in results.

    >>> class LinearProbing(PageTable): pass
    >>> name_of(LinearProbing)
    'linear-probing'
    """
    own = table.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", table.__name__)
    return own.lower().replace("_", "-").strip("-")


def fields_of(table: PageTable) -> bytes:
    """The fields of an object, for a checkpoint."""
    try:
        reduced = table.__reduce_ex__(2)
        _, _, fields, *parts = reduced if isinstance(reduced, tuple) else ()
        if any(part is not None for part in parts):
            raise DesignError("it is a list or a dict itself: keep that in a field")
        return pickle.dumps(fields, protocol=5)
    except (AttributeError, TypeError, ValueError, pickle.PicklingError, RecursionError) as error:
        raise DesignError(f"its fields cannot be pickled ({error}): use numbers, texts, lists, dicts, dataclasses") from error


def set_fields(table: PageTable, pickled: bytes) -> None:
    """Gives an object the fields of another one, and no others."""
    state = pickle.loads(pickled)
    if hasattr(table, "__setstate__"):
        table.__setstate__(state)
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    if hasattr(table, "__dict__"):
        table.__dict__.clear()
        table.__dict__.update(fields or {})
    for name, value in (slots or {}).items():
        setattr(table, name, value)


def request_of(table: type[PageTable]) -> dict[str, Any]:
    """What the compiled half asks of a class."""
    if not (isinstance(table, type) and issubclass(table, PageTable)):
        raise DesignError(
            f"{table!r} is no design: give the name of a preset, a TOML file, or a class that derives from `ambulator.PageTable`"
        )
    missing = sorted(getattr(table, "__abstractmethods__", ()))
    if missing:
        raise DesignError(f"`{table.__name__}` lacks {', '.join(f'`{name}`' for name in missing)}")
    code, unknown = None, None
    try:
        code = identity_of(table)
    except Unknown as error:
        unknown = str(error)
    about = (table.__doc__ or "a page table in Python").strip().splitlines()[0].rstrip(".")
    return {
        "name": name_of(table),
        "about": about,
        "class": table,
        "sizes": list(table.sizes),
        "max_loads": table.max_loads,
        "code": code,
        "unknown": unknown,
    }


def conformance(table: type[PageTable] | str, *, operations: int = 1500, seed: int = 1) -> Conformance:
    """Runs the conformance suite: random maps, unmaps, forks, exits and memory that runs out, compared with a
    reference model. Raises `RunError` with the operation and the difference, if there is one."""
    if isinstance(table, str):
        return Conformance(*_ambulator.conformance(None, name=table, operations=operations, seed=seed))
    return Conformance(*_ambulator.conformance(request_of(table), operations=operations, seed=seed))


__all__ = ["Conformance", "Page", "PageTable", "RunError", "conformance", "name_of", "request_of"]
