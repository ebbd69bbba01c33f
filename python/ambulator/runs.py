"""Runs and comparisons of designs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ambulator import _ambulator
from ambulator._ambulator import Accesses
from ambulator._groups import Value, option_of
from ambulator._progress import Progress, progress_of
from ambulator.errors import Interrupted, ProgramError, SpecError
from ambulator.machine import Machine, machine_of
from ambulator.results import Results, Run
from ambulator.table import PageTable, name_of, request_of


class Array(Protocol):
    """An array of whole numbers: numpy's, or anything else with the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


Program = str | os.PathLike[str] | Accesses | Array
"""A program's or workload's name, a trace's path, accesses, or an array of the addresses of loads."""
Design = str | os.PathLike[str] | type[PageTable]
"""A design preset, several joined with `+`, a TOML file, or a page table in Python."""

DESIGNS = ("radix", "thp", "ideal", "perfect-tlb")


def compare(
    program: Program | Sequence[Program],
    designs: Iterable[Design] = DESIGNS,
    *,
    machine: Machine | str | os.PathLike[str] | None = None,
    footprint: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str | None = None,
    seed: int | None = None,
    cores: int | None = None,
    functional: bool = False,
    oracle: bool = True,
    settings: Mapping[str, Value] | None = None,
    program_settings: Mapping[str, Value] | None = None,
    bounds: bool = True,
    threads: int = 0,
    progress: bool | Progress | None = None,
) -> Results:
    """Runs designs on the same program and returns one row for each. Speed-ups are relative to the first.

    `program` is a program's or a workload's name, a trace's path, an array of addresses, `Accesses`, or several of them:
    a mix, one on each core. `footprint`, `instructions` and `warmup` take texts such as ``"8GiB"`` and ``"20M"``.
    `settings` override the machine's. `bounds` also runs a perfect TLB for each paging policy among the designs, by
    which the verdict says what translation costs at most. `threads` are the simulator's; 0 is one for each core.

    A design that fails is a row with its reason, and the others go on; `Results.check` raises it. Ctrl-C raises
    `Interrupted`, which has the results so far.
    """
    if isinstance(designs, (str, os.PathLike, type)):
        designs = [designs]
    asked: dict[str, Value] = {}
    for key, value in [
        ("run.instructions", instructions),
        ("run.warmup", warmup),
        ("run.seed", seed),
        ("machine.cores", cores),
    ]:
        if value is not None:
            asked[key] = value
    if functional:
        asked["run.mode"] = "functional"
    if not oracle:
        asked["run.oracle"] = False
    for key in asked.keys() & (settings or {}).keys():
        raise SpecError(f"`settings` and an argument both set `{key}`: give one of them")
    programs = [_program(one) for one in _several(program)]
    machine = machine_of(machine)
    overriding = dict(settings or {}) | asked
    if len(programs) > 1 and "machine.cores" not in overriding | machine.changes:
        # A mix has one core for each program.
        overriding["machine.cores"] = len(programs)
    requests = [_design(design, machine, overriding) for design in designs]
    finished = _ambulator.compare(
        programs,
        requests,
        {
            "footprint": None if footprint is None else str(footprint),
            "program_set": [option_of(key, value) for key, value in (program_settings or {}).items()],
            "bounds": bounds,
            "threads": threads,
            "command": ["python"],
        },
        progress_of(progress),
    )
    finished["documents"] = [finished["document"]]
    results = Results(finished)
    if finished["interrupt"] is not None:
        interrupt = finished["interrupt"]
        if isinstance(interrupt, KeyboardInterrupt):
            done = sum(run.status == "done" for run in results)
            message = f"{done} of {len(results)} runs had finished: see `results` of this exception"
            raise Interrupted(message, results) from None
        raise interrupt
    return results


def run(
    program: Program | Sequence[Program],
    design: Design = "radix",
    *,
    machine: Machine | str | os.PathLike[str] | None = None,
    footprint: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str | None = None,
    seed: int | None = None,
    cores: int | None = None,
    functional: bool = False,
    oracle: bool = True,
    settings: Mapping[str, Value] | None = None,
    program_settings: Mapping[str, Value] | None = None,
    progress: bool | Progress | None = None,
) -> Run:
    """Runs one design on a program. The arguments are those of `compare`. Raises `RunError` if the run fails."""
    results = compare(
        program,
        [design],
        machine=machine,
        footprint=footprint,
        instructions=instructions,
        warmup=warmup,
        seed=seed,
        cores=cores,
        functional=functional,
        oracle=oracle,
        settings=settings,
        program_settings=program_settings,
        bounds=False,
        threads=1,
        progress=progress,
    )
    return results[0].check()


def _several(program: Program | Sequence[Program]) -> Sequence[Any]:
    if isinstance(program, (list, tuple)):
        if not program:
            raise ProgramError("no program: give a program, a trace or an array of addresses")
        # A list of addresses is an array, if not a fast one.
        if isinstance(program[0], int):
            import array

            return [array.array("Q", program)]
        return program
    return [program]


def _program(program: Any) -> str | Accesses:
    if isinstance(program, (str, os.PathLike)):
        return os.fspath(program)
    if isinstance(program, Accesses):
        return program
    try:
        memoryview(program)
    except TypeError:
        raise ProgramError(
            f"{program!r} is no program: give a name (`ambulator.programs()`), a trace's path, `Accesses`, or an array of "
            "addresses"
        ) from None
    return Accesses(program)


def _design(design: Design, machine: Machine, settings: Mapping[str, Value]) -> dict[str, Any]:
    if isinstance(design, (str, os.PathLike)):
        name = os.fspath(design)
        return {"name": name, "machine": machine._request(name, settings), "page_table": None}
    table = request_of(design)
    return {"name": name_of(design), "machine": machine._request(design.preset, settings), "page_table": table}
