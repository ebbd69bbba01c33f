"""Machines: a preset, and settings that override it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ambulator import _ambulator
from ambulator._groups import Group, Value, option_of, unknown
from ambulator.errors import SpecError
from ambulator.settings import Spec


class Machine(Spec):
    """A machine: a preset's name or a TOML file's path, and settings.

    Settings are attributes, with completion and documentation. A wrong key or value raises at once:

    >>> machine = Machine("utopia-table1")
    >>> machine.mmu.l2_tlb.entries = 3072
    >>> machine.mmu.l2_tlb.entires = 3072
    Traceback (most recent call last):
    ambulator.errors.UnknownSetting: there is no setting `mmu.l2_tlb.entires`: the nearest setting is `mmu.l2_tlb.entries`

    So does a value that does not go with the others; `set` sets several at once:

    >>> machine.mmu.l2_tlb.entries = 2048
    Traceback (most recent call last):
    ambulator.errors.SpecError: `mmu.l2_tlb.entries`: 2048 entries do not divide into sets of 12 ways; 2040 or 2052 would
    >>> _ = machine.set({"mmu.l2_tlb.entries": 2048, "mmu.l2_tlb.ways": 16})
    """

    def __init__(
        self,
        preset: str | os.PathLike[str] | None = None,
        settings: Mapping[str, Value] | None = None,
        *,
        files: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        """`preset` is a machine preset (`ambulator.machines()`), a TOML file, or several joined with `+`;
        `settings` are those that differ, by dotted key; `files` are spec files, as the command's `--spec`
        reads."""
        super().__init__(self)
        object.__setattr__(self, "_preset", None if preset is None else os.fspath(preset))
        object.__setattr__(self, "_files", [Path(file) for file in files])
        object.__setattr__(self, "_options", {})
        object.__setattr__(self, "_cached", None)
        self.set(settings or {})

    @property
    def name(self) -> str:
        """The name of the preset, or the file's stem."""
        return str(self._loaded()["machine"])

    @property
    def changes(self) -> dict[str, Value]:
        """The settings that were set here, by dotted key."""
        return dict(self._options)

    def set(self, settings: Mapping[str, Value] | None = None, /, **keywords: Value) -> Machine:
        """Sets settings by dotted key, and returns this machine. In keywords, `__` stands for a dot:
        ``machine.set(mmu__l2_tlb__entries=3072)``."""
        all_of_them = dict(settings or {}) | {key.replace("__", "."): value for key, value in keywords.items()}
        for key, value in all_of_them.items():
            _ambulator.check_option(option_of(key, value))
        before = dict(self._options)
        self._options.update(all_of_them)
        object.__setattr__(self, "_cached", None)
        try:
            self._loaded()
        except SpecError:
            object.__setattr__(self, "_options", before)
            raise
        return self

    def get(self, key: str) -> Any:
        """The value of a setting by dotted key; a dict for a group."""
        found: Any = self._loaded()["spec"]
        parts = key.split(".")
        for at, part in enumerate(parts):
            if not isinstance(found, dict) or part not in found:
                raise unknown(".".join(parts[:at]), ".".join(parts[at:]))
            found = found[part]
        return found

    def copy(self) -> Machine:
        """A machine of its own with the same settings."""
        return Machine(self._preset, self._options, files=self._files)

    def toml(self, design: str | None = None) -> str:
        """The whole spec as TOML with units and meanings; a file of it is a `files` of a machine."""
        return _ambulator.show_spec(self._request(design))

    def __repr__(self) -> str:
        changes = f", {self._options!r}" if self._options else ""
        return f"Machine({self.name!r}{changes})"

    def _request(self, design: str | None, more: Mapping[str, Value] | None = None) -> dict[str, Any]:
        options = self._options | dict(more or {})
        return {
            "machine": self._preset,
            "design": design,
            "files": self._files,
            "options": [option_of(key, value) for key, value in options.items()],
        }

    def _loaded(self) -> dict[str, Any]:
        if self._cached is None:
            object.__setattr__(self, "_cached", _ambulator.spec_of(self._request(None)))
        return self._cached  # type: ignore[no-any-return]

    def _value(self, key: str) -> Any:
        return self.get(key)

    def _values(self, key: str) -> dict[str, Any]:
        return dict(self.get(key)) if key else dict(self._loaded()["spec"])

    def _set(self, key: str, value: Value) -> None:
        self.set({key: value})


def machine_of(machine: Machine | str | os.PathLike[str] | None) -> Machine:
    """A machine, from itself or from its preset's name."""
    if machine is None or isinstance(machine, (str, os.PathLike)):
        return Machine(machine)
    if isinstance(machine, Machine):
        return machine
    raise SpecError(f"a machine is a `Machine` or the name of a preset, not {machine!r}")


__all__ = ["Group", "Machine", "machine_of"]
