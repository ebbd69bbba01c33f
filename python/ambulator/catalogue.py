"""What there is to choose from, and what it means."""

from __future__ import annotations

from typing import NamedTuple

from ambulator import _ambulator


class Preset(NamedTuple):
    """A preset of a machine, a design or a workload."""

    name: str
    about: str
    """One line."""
    paper: str
    """The paper, and the table or section that it follows; empty if none."""


class Program(NamedTuple):
    """A program that Ambulator generates."""

    name: str
    about: str
    """One line."""
    stands_for: str
    """The programs that it stands for."""
    footprint: int
    """Bytes of data by default."""


class Counter(NamedTuple):
    """A counter or a measure of results."""

    name: str
    unit: str
    meaning: str


def machines() -> list[Preset]:
    """The machine presets."""
    return [Preset(*of) for of in _ambulator.presets("machine")]


def designs() -> list[Preset]:
    """The design presets. `+` joins those that do not contradict each other: ``"thp+l2tlb-128k"``."""
    return [Preset(*of) for of in _ambulator.presets("design")]


def workloads() -> list[Preset]:
    """Programs with the settings of the papers."""
    return [Preset(*of) for of in _ambulator.presets("workload")]


def programs() -> list[Program]:
    """The programs."""
    return [Program(*of) for of in _ambulator.programs()]


def counters() -> list[Counter]:
    """The counters and measures of results. The first call takes a second or two."""
    return [Counter(*of) for of in _ambulator.counters()]


def explain(name: str = "") -> str:
    """What a name means: a setting, a design, a program, a counter, a column, a row of a table, a figure, a unit, a
    term of a paper. Without a name, all settings.

    >>> explain("mmu.l2_tlb.entries").splitlines()[0]
    'mmu.l2_tlb.entries'
    """
    return _ambulator.explain(name)
