"""Runs, comparisons and sweeps of designs."""

from __future__ import annotations

import array
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from ambulator import _ambulator
from ambulator._ambulator import Accesses
from ambulator._groups import Value, option_of
from ambulator._progress import Progress, progress_of
from ambulator.errors import DesignError, Interrupted, ProgramError, SpecError
from ambulator.machine import Machine, machine_of
from ambulator.results import Results, Run
from ambulator.table import PageTable, name_of, request_of


class Array(Protocol):
    """An array of whole numbers: numpy's, or anything else with the buffer protocol."""

    def __len__(self) -> int: ...
    def tobytes(self) -> bytes: ...


Path_: TypeAlias = str | os.PathLike[str]
Program: TypeAlias = Path_ | Accesses | Array
"""A program's or workload's name, a trace's path, accesses, or an array of the addresses of loads."""
Design: TypeAlias = Path_ | type[PageTable]
"""A design preset, several joined with `+`, a TOML file, or a page table in Python."""
Store: TypeAlias = bool | Path_ | None
"""Where results are kept and found: a folder, True for that of the command (`out/results`), False for none.
By default the folder that the environment variable AMBULATOR_STORE names, if it names one."""

DESIGNS = ("radix", "thp", "ideal", "perfect-tlb")
MOST_SEEDS = 1000
WARMUP = 2_000_000
"""Instructions of warm-up by default; of arrays, a quarter if that is less."""


def compare(
    program: Program | Sequence[Program],
    designs: Iterable[Design] = DESIGNS,
    *,
    machine: Machine | Path_ | None = None,
    footprint: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str | None = None,
    seed: int | None = None,
    cores: int | None = None,
    functional: bool = False,
    oracle: bool = True,
    settings: Mapping[str, Value] | None = None,
    program_settings: Mapping[str, Value] | None = None,
    seeds: int = 1,
    bounds: bool = True,
    threads: int = 0,
    store: Store = None,
    fresh: bool = False,
    checkpoint: Path_ | None = None,
    progress: bool | Progress | None = None,
) -> Results:
    """Runs designs on the same program and returns one row for each. Speed-ups are relative to the first.

    `program` is a program's or a workload's name, a trace's path, an array of addresses, `Accesses`, or
    several of them: a mix, one on each core. `footprint`, `instructions` and `warmup` take texts such as
    ``"8GiB"`` and ``"20M"``. `settings` override the machine's. `bounds` also runs a perfect TLB for each
    paging policy among the designs, by which the verdict says what translation costs at most. `threads` are
    the simulator's; 0 is one for each core.

    With several `seeds`, from `seed` on, each number is the mean over them, with half of its 95% interval in the
    column `NAME ±`; speed-ups, the verdict and the figures are judged by these intervals.

    With a `store`, results are kept, and found again by this and by the command; `fresh` computes them anew. An
    array is known by its contents, a design in Python by its code.

    With a folder for `checkpoint`, each run starts from the checkpoint of its machine after the warm-up, or makes
    it; the column `host.checkpoint` says which. A page table in Python keeps the fields of its objects there.

    A design that fails is a row with its reason, and the others go on; `Results.check` raises it. Ctrl-C
    raises `Interrupted`, which has the results so far.
    """
    asked = _asked(instructions, warmup, seed, cores, functional, oracle)
    programs = [_program(one) for one in _several(program)]
    machine = machine_of(machine)
    overriding = _joined(settings, asked) | _defaults(programs, machine, dict(settings or {}) | asked)
    cells = [_cell(design, machine, overriding, 0, 0) for design in _designs(designs)]
    mix = {"programs": programs, "footprint": _text(footprint), "program_set": _options(program_settings)}
    return _run([mix], cells, _request(bounds, True, threads, seeds, store, fresh, checkpoint), progress)


def run(
    program: Program | Sequence[Program],
    design: Design = "radix",
    *,
    machine: Machine | Path_ | None = None,
    footprint: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str | None = None,
    seed: int | None = None,
    cores: int | None = None,
    functional: bool = False,
    oracle: bool = True,
    settings: Mapping[str, Value] | None = None,
    program_settings: Mapping[str, Value] | None = None,
    seeds: int = 1,
    store: Store = None,
    fresh: bool = False,
    checkpoint: Path_ | None = None,
    progress: bool | Progress | None = None,
) -> Run:
    """Runs one design on a program. The arguments are those of `compare`. Raises `RunError` if the run fails.
    With several `seeds`, its numbers are means: ``run.interval_of("ipc")``."""
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
        seeds=seeds,
        bounds=False,
        threads=1 if seeds == 1 else 0,
        store=store,
        fresh=fresh,
        checkpoint=checkpoint,
        progress=progress,
    )
    return results[0].check()


def sweep(
    programs: Program | Iterable[Program],
    designs: Iterable[Design] = DESIGNS,
    *,
    vary: Mapping[str, Iterable[Value]] | None = None,
    machines: Machine | Path_ | Iterable[Machine | Path_] | None = None,
    seeds: int = 1,
    footprint: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str | None = None,
    seed: int | None = None,
    cores: int | None = None,
    functional: bool = False,
    oracle: bool = True,
    settings: Mapping[str, Value] | None = None,
    program_settings: Mapping[str, Value] | None = None,
    threads: int = 0,
    store: Store = None,
    fresh: bool = False,
    checkpoint: Path_ | None = None,
    progress: bool | Progress | None = None,
) -> Results:
    """Runs every design on every program and machine, with every combination of the settings that `vary`:
    ``vary={"mmu.l2_tlb.entries": [768, 1536, 3072]}`` gives three rows for each design.

    Each combination is a comparison of its own, with speed-ups relative to its first design; the settings that
    vary are the columns `set.KEY`. With several `seeds`, each row has the means over them. Cells that share a
    program are run from one decoding. A combination that cannot be is a row that has failed, with its reason. A
    mix of programs is a tuple. Other arguments are those of `compare`.
    """
    asked = _asked(instructions, warmup, seed, cores, functional, oracle)
    for name, given in (("settings", settings), ("vary", vary)):
        _check_settings(name, given)
    keys = list(vary or {})
    for key in keys:
        if key in (settings or {}) or key in asked:
            raise SpecError(f"`{key}` is set and varied: give one of them")
    if seeds > 1 and "run.seed" in keys:
        raise SpecError("`seeds` and `vary` both set `run.seed`: give one of them")
    values = [_listed(key, value) for key, value in (vary or {}).items()]
    for key, listed in zip(keys, values, strict=True):
        for value in listed:
            _ambulator.check_option(option_of(key, value))
    one = machines is None or isinstance(machines, (str, os.PathLike, Machine))
    several: list[Any] = [machines] if one else list(cast("Iterable[Any]", machines))
    mixes, cells = [], []
    group = 0
    for program in _swept(programs):
        of_mix = [_program(one) for one in _several(program)]
        mix = {"programs": of_mix, "footprint": _text(footprint), "program_set": _options(program_settings)}
        mixes.append(mix)
        for machine in map(machine_of, several):
            joined = _joined(settings, asked)
            joined |= _defaults(of_mix, machine, joined)
            for combination in itertools.product(*values):
                varied = dict(zip(keys, combination, strict=True))
                for design in _designs(designs):
                    cells.append(_cell(design, machine, joined | varied, len(mixes) - 1, group))
                group += 1
    if not mixes:
        raise ProgramError("nothing to run: name at least one program")
    return _run(mixes, cells, _request(False, False, threads, seeds, store, fresh, checkpoint), progress, keys)


def study(
    path: Path_,
    *,
    quick: bool = False,
    threads: int = 0,
    store: Store = None,
    fresh: bool = False,
    checkpoint: Path_ | None = None,
    progress: bool | Progress | None = None,
) -> Results:
    """Runs a study: the file that `ambulator sweep` reads. `quick` takes its small sizes. The rows are those
    of `sweep`."""
    request = _request(False, False, threads, 1, store, fresh, checkpoint)
    return _results(_ambulator.run_study(Path(path), quick, request, progress_of(progress)))


def _run(
    mixes: list[dict[str, Any]],
    cells: list[dict[str, Any]],
    request: dict[str, Any],
    progress: bool | Progress | None,
    varied: Sequence[str] = (),
) -> Results:
    finished = _ambulator.run_cells(mixes, cells, request, progress_of(progress))
    finished["axes"] = varied
    if request["store"] is not None:
        tables = {cell["name"]: cell["page_table"] for cell in cells if cell["page_table"]}
        unknown = {name: table["unknown"] for name, table in tables.items() if table["code"] is None}
        finished["notes"] += [f"runs of `{name}` are not kept in the store: {why}" for name, why in unknown.items()]
    return _results(finished)


def _request(
    bounds: bool, strict: bool, threads: int, seeds: int, store: Store, fresh: bool, checkpoint: Path_ | None
) -> dict[str, Any]:
    if not isinstance(seeds, int) or not 1 <= seeds <= MOST_SEEDS:
        raise SpecError(f"`seeds` is {seeds!r}: give a whole number from 1 to {MOST_SEEDS}")
    if not isinstance(threads, int) or threads < 0:
        raise SpecError(f"`threads` is {threads!r}: give a whole number, 0 for one thread for each core")
    return {
        "bounds": bounds,
        "strict": strict,
        "threads": threads,
        "seeds": seeds,
        "store": _folder(store),
        "fresh": fresh,
        "checkpoint": None if checkpoint is None else Path(checkpoint),
        "command": ["python"],
    }


def _results(finished: dict[str, Any]) -> Results:
    results = Results(finished)
    interrupt = finished["interrupt"]
    if isinstance(interrupt, KeyboardInterrupt):
        done, cells = finished["done"], finished["cells"]
        message = f"{done} of {cells} runs had finished: see `results` of this exception"
        raise Interrupted(message, results) from None
    if interrupt is not None:
        raise interrupt
    return results


def _asked(
    instructions: int | str | None,
    warmup: int | str | None,
    seed: int | None,
    cores: int | None,
    functional: bool,
    oracle: bool,
) -> dict[str, Value]:
    given = {
        "run.instructions": instructions,
        "run.warmup": warmup,
        "run.seed": seed,
        "machine.cores": cores,
        "run.mode": "functional" if functional else None,
        "run.oracle": None if oracle else False,
    }
    return {key: value for key, value in given.items() if value is not None}


def _joined(settings: Mapping[str, Value] | None, asked: Mapping[str, Value]) -> dict[str, Value]:
    _check_settings("settings", settings)
    for key in asked.keys() & (settings or {}).keys():
        raise SpecError(f"`settings` and an argument both set `{key}`: give one of them")
    return dict(settings or {}) | dict(asked)


def _defaults(programs: Sequence[str | Accesses], machine: Machine, given: Mapping[str, Value]) -> dict[str, Value]:
    """What depends on the programs, unless it is given: cores for a mix, a warm-up that arrays are long
    enough for."""
    known = dict(given) | machine.changes
    defaults: dict[str, Value] = {}
    if len(programs) > 1 and "machine.cores" not in known:
        defaults["machine.cores"] = len(programs)
    lengths = [program.instructions for program in programs if isinstance(program, Accesses)]
    if lengths and "run.warmup" not in known and min(lengths) // 4 < WARMUP:
        defaults["run.warmup"] = min(lengths) // 4
    return defaults


def _designs(designs: Iterable[Design]) -> list[Design]:
    if isinstance(designs, (str, os.PathLike, type)):
        return [designs]
    if not isinstance(designs, Iterable):
        raise DesignError(f"{designs!r} is no list of designs: give names, such as `[\"radix\", \"thp\"]`")
    return list(designs)


def _swept(programs: Program | Iterable[Program]) -> Iterator[Any]:
    if isinstance(programs, list) and not (programs and isinstance(programs[0], int)):
        yield from programs
    else:
        yield programs


def _several(program: Program | Sequence[Program]) -> Sequence[Any]:
    if isinstance(program, (list, tuple)):
        if not program:
            raise ProgramError("no program: give a program, a trace or an array of addresses")
        # A list of addresses is an array, if not a fast one.
        if isinstance(program[0], int):
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


def _cell(design: Design, machine: Machine, settings: Mapping[str, Value], mix: int, group: int) -> dict[str, Any]:
    cell: dict[str, Any] = {"mix": mix, "group": group, "page_table": None}
    if isinstance(design, (str, os.PathLike)):
        name = os.fspath(design)
        if "," in name and not Path(name).exists():
            several = ", ".join(f'"{part.strip()}"' for part in name.split(","))
            raise SpecError(f"`{name}` is not one design: give a list, `[{several}]`")
        return cell | {"name": name, "machine": machine._request(name, settings)}
    table = request_of(design)
    return cell | {"name": name_of(design), "machine": machine._request(design.preset, settings), "page_table": table}


def _listed(key: str, values: object) -> list[Value]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise SpecError(f"`vary` takes a list of values for `{key}`, not {values!r}")
    listed = list(values)
    if not listed:
        raise SpecError(f"`vary` has no values for `{key}`: give at least one")
    return listed


def _check_settings(name: str, settings: object) -> None:
    if settings is not None and not isinstance(settings, Mapping):
        raise SpecError(f"`{name}` is {settings!r}: give a dict of values by key, such as `{{\"run.seed\": 2}}`")


def _options(settings: Mapping[str, Value] | None) -> list[str]:
    _check_settings("program_settings", settings)
    return [option_of(key, value) for key, value in (settings or {}).items()]


def _text(value: int | str | None) -> str | None:
    return None if value is None else str(value)


def _folder(store: Store) -> Path | None:
    if store is None:
        named = os.environ.get("AMBULATOR_STORE", "")
        return Path(named) if named not in ("", "none") else None
    if isinstance(store, bool):
        return Path("out/results") if store else None
    if not isinstance(store, (str, os.PathLike)):
        raise SpecError(f"`store` is {store!r}: give a folder, True for `out/results`, or False for none")
    return Path(store)
