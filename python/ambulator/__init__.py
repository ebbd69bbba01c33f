"""Ambulator: a laboratory for virtual-memory address translation.

>>> import ambulator
>>> machine = ambulator.Machine("utopia-table1")
>>> machine.mmu.l2_tlb.entries = 3072
>>> results = ambulator.compare("gups", ["radix", "thp"], machine=machine, footprint="64MiB", instructions="200K")
>>> results["thp"].status
'done'
"""

from __future__ import annotations

from ambulator._ambulator import VERSION as __version__
from ambulator._ambulator import Accesses, Port
from ambulator.catalogue import (
    Counter,
    Preset,
    counters,
    designs,
    explain,
    machines,
    programs,
    workloads,
)
from ambulator.errors import (
    DesignError,
    Error,
    InternalError,
    Interrupted,
    NoMemory,
    ProgramError,
    RunError,
    SpecError,
    UnknownSetting,
)
from ambulator.machine import Machine
from ambulator.plot import Chart
from ambulator.results import Column, Results, Run, Table
from ambulator.runs import compare, run, study, sweep
from ambulator.table import Conformance, Page, PageTable, conformance

__all__ = [
    "Accesses",
    "Chart",
    "Column",
    "Conformance",
    "Counter",
    "DesignError",
    "Error",
    "InternalError",
    "Interrupted",
    "Machine",
    "NoMemory",
    "Page",
    "PageTable",
    "Port",
    "Preset",
    "ProgramError",
    "Results",
    "Run",
    "RunError",
    "SpecError",
    "Table",
    "UnknownSetting",
    "__version__",
    "compare",
    "conformance",
    "counters",
    "designs",
    "explain",
    "machines",
    "programs",
    "run",
    "study",
    "sweep",
    "workloads",
]
