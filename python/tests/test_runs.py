"""Runs, comparisons, sweeps, arrays."""

import io
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL

import ambulator
from ambulator._progress import Line, progress_of

TIMES = ("host.seconds", "host.setup_seconds")


def timeless(row: dict) -> dict:
    return {name: value for name, value in row.items() if name not in (*TIMES, "cell")}


def test_a_comparison_says_what_is_best(compared: ambulator.Results) -> None:
    assert [run.design for run in compared] == ["radix", "thp", "perfect-tlb"]
    assert all(run.status == "done" and run.instructions >= 100_000 for run in compared)
    assert compared["radix"].speedup == 1.0
    assert compared["perfect-tlb"].speedup > 1.0
    low, high = compared["perfect-tlb"].interval
    assert low <= compared["perfect-tlb"].speedup <= high
    assert compared["radix"]["mmu.walks"] > compared["thp"]["mmu.walks"] > 0 == compared["perfect-tlb"]["mmu.walks"]
    assert compared.verdict[0].startswith("Translation costs gups at most")
    assert "page walks" in str(compared) and "radix" in compared._repr_html_()
    assert compared["radix"].spec["mmu"]["perfect"] is False
    assert len(compared.bounds) == 1, "a bound of thp; perfect-tlb is that of radix"
    with pytest.raises(KeyError, match="no run of `lvm`; there are: radix, thp, perfect-tlb"):
        _ = compared["lvm"]
    with pytest.raises(KeyError, match="no column `mmu.walk`"):
        _ = compared["radix"]["mmu.walk"]


def test_equal_runs_give_equal_rows() -> None:
    one, other = (ambulator.run("gups", "thp", seed=7, **SMALL).row for _ in range(2))
    assert timeless(one) == timeless(other)
    assert timeless(one) != timeless(ambulator.run("gups", "thp", seed=8, **SMALL).row)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"program": "gpus"}, ambulator.ProgramError, "did you mean `gups`?"),
        ({"program": "missing.amb"}, ambulator.ProgramError, "missing.amb"),
        ({"program": 3.5}, ambulator.ProgramError, "3.5 is no program"),
        ({"program": []}, ambulator.ProgramError, "no program"),
        ({"designs": ["radx"]}, ambulator.SpecError, "did you mean `radix`?"),
        ({"designs": []}, ambulator.SpecError, "name at least one design"),
        ({"designs": ["thp", "thp"]}, ambulator.SpecError, "`thp` is named twice"),
        ({"machine": "lvm-table"}, ambulator.SpecError, "did you mean `lvm-table1`?"),
        ({"instructions": "20X"}, ambulator.SpecError, "`X` is not a suffix of counts"),
        ({"footprint": "1GB!"}, ambulator.ProgramError, "`footprint`"),
        ({"footprint": "1TiB"}, ambulator.SpecError, "does not fit"),
        ({"settings": {"run.seed": 1}, "seed": 2}, ambulator.SpecError, "both set `run.seed`"),
        ({"settings": {"lvm.gap_permille": 1500}}, ambulator.SpecError, "has no effect"),
        ({"program_settings": {"layuot": "x"}}, ambulator.ProgramError, "there is no setting"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(arguments: dict, error: type, sentence: str) -> None:
    given = {"program": "gups", "designs": ["radix"], **SMALL, **arguments}
    with pytest.raises(error) as raised:
        ambulator.compare(**given)
    assert sentence in str(raised.value)


def test_a_design_that_fails_is_a_row_and_the_others_go_on() -> None:
    # Memory for the data, and none for page tables.
    tight = {"memory.bytes": "64MiB", "kernel.swap_bytes": 0}
    results = ambulator.compare("gups", ["radix", "perfect-tlb"], settings=tight, **(SMALL | {"footprint": "62MiB"}))
    failed = [run for run in results if run.status != "done"]
    if failed:
        assert failed[0].outcome
        with pytest.raises(ambulator.RunError, match=failed[0].design):
            results.check()


def test_a_store_keeps_results_for_the_next_time(tmp_path: Path) -> None:
    store = tmp_path / "results"
    first = ambulator.compare("gups", ["radix", "thp"], store=store, **SMALL)
    again = ambulator.compare("gups", ["thp", "radix"], store=store, **SMALL)
    assert (first.stored, again.stored) == (0, 2)
    assert again["radix"].row["cell"] == first["radix"].row["cell"]
    assert again["radix"]["mmu.walks"] == first["radix"]["mmu.walks"]
    fresh = ambulator.compare("gups", ["radix"], store=store, fresh=True, **SMALL)
    assert fresh.stored == 0
    (tmp_path / "file").write_text("")
    with pytest.raises(ambulator.RunError, match="file"):
        ambulator.compare("gups", ["radix"], store=tmp_path / "file", **SMALL)


def test_a_sweep_is_a_row_for_each_combination(tmp_path: Path) -> None:
    def swept() -> ambulator.Results:
        return ambulator.sweep(
            ["gups", "pointer-chase"],
            ["radix", "thp"],
            machines="utopia-table1",
            vary={"mmu.l2_tlb.entries": [768, 1536, 1537]},
            store=tmp_path / "results",
            **SMALL,
        )

    results = swept()
    assert len(results) == 2 * 3 * 2
    of = {(run.program, run.design, run.row.get("set.mmu.l2_tlb.entries")): run for run in results}
    small, large = of["gups", "radix", 768], of["gups", "radix", None]
    assert small["mmu.walks"] > large["mmu.walks"] > 0, "fewer entries, more walks; 1536 is the preset's"
    failed = of["gups", "thp", 1537]
    assert failed.status == "failed" and "do not divide into sets" in failed.outcome
    assert small.speedup == 1.0 and of["gups", "thp", 768].speedup != 1.0
    assert swept().stored >= 8


STUDY = """
title = "Entries of the L2 TLB"
machine = "utopia-table1"
designs = ["radix", "thp"]
programs = ["gups"]
footprint = "16MiB"
instructions = "100K"
warmup = "0"

[vary]
"mmu.l2_tlb.entries" = [768, 3072]
"""


def test_a_study_and_a_sweep_share_their_cells(tmp_path: Path) -> None:
    (tmp_path / "entries.toml").write_text(STUDY)
    store = tmp_path / "results"
    of_study = ambulator.study(tmp_path / "entries.toml", store=store, progress=False)
    assert len(of_study) == 4 and of_study.stored == 0
    assert (store / "studies").exists()
    swept = ambulator.sweep(
        "gups", ["radix", "thp"], machines="utopia-table1", vary={"mmu.l2_tlb.entries": [768, 3072]}, store=store, **SMALL
    )
    assert swept.stored == 4
    assert {row["cell"]: timeless(row) for row in swept.rows} == {row["cell"]: timeless(row) for row in of_study.rows}
    (tmp_path / "wrong.toml").write_text(STUDY.replace("radix", "radx"))
    with pytest.raises(ambulator.Error, match="radx"):
        ambulator.study(tmp_path / "wrong.toml", progress=False).check()
    with pytest.raises(ambulator.SpecError, match="nowhere.toml"):
        ambulator.study(tmp_path / "nowhere.toml", progress=False)


def test_seeds_are_cells_of_a_sweep() -> None:
    results = ambulator.sweep("gups", ["radix"], seeds=3, **SMALL)
    assert sorted(row["seed"] for row in results.rows) == [1, 2, 3]
    for wrong in [{"seeds": 0}, {"vary": {"mmu.l2_tlb.entries": 5}}, {"vary": {"mmu.l2_tlb.entires": [5]}}]:
        with pytest.raises(ambulator.SpecError):
            ambulator.sweep("gups", ["radix"], **SMALL, **wrong)


def test_an_array_of_addresses_is_a_program() -> None:
    rng = np.random.default_rng(1)
    random = rng.integers(1 << 32, (1 << 32) + (64 << 20), 50_000, dtype=np.uint64)
    sequential = np.arange(1 << 32, (1 << 32) + 50_000 * 8, 8)
    one, other = ambulator.run(random, progress=False), ambulator.run(sequential, progress=False)
    assert one.status == other.status == "done"
    assert one["measures.l2_tlb_mpki"] > 50 > 1 > other["measures.l2_tlb_mpki"]
    # 50,000 accesses with 3 instructions before each, of which a quarter are the warm-up.
    assert 125_000 < one.instructions <= 150_000
    assert one["measures.page_faults"] == 0
    first = ambulator.run(ambulator.Accesses(random, touched=False), progress=False)
    assert first["measures.page_faults_all"] > 10_000


def test_arrays_have_stores_gaps_sizes_and_dependences() -> None:
    count = 20_000
    address = np.random.default_rng(2).integers(1 << 32, (1 << 32) + (64 << 20), count)
    chain = np.ones(count, dtype=np.uint16)
    chain[0] = 0
    free = ambulator.Accesses(address, gap=np.zeros(count, dtype=np.uint32))
    chased = ambulator.Accesses(address, gap=np.zeros(count, dtype=np.uint32), dependence=chain)
    assert (len(free), free.instructions, chased.footprint) == (count, count, free.footprint)
    slow, fast = ambulator.run(chased, progress=False), ambulator.run(free, progress=False)
    assert slow.cycles > 3 * fast.cycles, "a chain of loads serialises"
    store = np.arange(count) % 4 == 0
    stored = ambulator.run(ambulator.Accesses(address, store=store), warmup=0, progress=False)
    assert (stored["core.stores"], stored["core.loads"]) == (count // 4, count - count // 4)
    two = ambulator.compare([free, chased], ["radix"], progress=False)
    assert two[0]["cores.program"] == ["array", "array"]


def test_an_array_and_its_trace_are_the_same_program(tmp_path: Path) -> None:
    address = np.random.default_rng(3).integers(1 << 32, (1 << 32) + (64 << 20), 40_000)
    accesses = ambulator.Accesses(address, store=np.arange(40_000) % 3 == 0, name="mine")
    path = tmp_path / "mine.amb"
    accesses.save(path)
    given = {"warmup": 1000, "progress": False}
    of_array, of_trace = ambulator.run(accesses, **given).row, ambulator.run(path, **given).row
    same = [name for name in of_array if not name.startswith(("host.", "identity.")) and name not in ("cell", "footprint", "build")]
    assert {name: of_array[name] for name in same} == {name: of_trace[name] for name in same}
    with pytest.raises(ambulator.ProgramError, match="nowhere"):
        accesses.save(tmp_path / "nowhere" / "x.amb")


GOOD = np.full(4, 1 << 32)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"address": []}, "`address` is empty"),
        ({"address": np.array([1 << 32, -1])}, "`address[1]` is -1; it must be an address"),
        ({"address": np.array([1 << 32, 1 << 60])}, "`address[1]` is 0x1000000000000000"),
        ({"address": np.array([1 << 32, 2**64 - 1], dtype=np.uint64)}, "`address[1]` is 0xffffffffffffffff"),
        ({"address": np.array([1 << 32, 0])}, "`address[1]` is 0x0"),
        ({"address": np.array([1.5])}, "without whole numbers"),
        ({"address": np.array(["a"])}, "without whole numbers"),
        ({"address": GOOD, "store": np.zeros(3, dtype=bool)}, "`store` has 3 elements, and `address` has 4"),
        ({"address": GOOD, "store": np.array([0, 0, 2, 0])}, "`store[2]` is 2"),
        ({"address": GOOD, "gap": np.array([0, -5, 0, 0])}, "`gap[1]` is -5"),
        ({"address": GOOD, "size": np.array([8, 8, 65, 8])}, "`size[2]` is 65"),
        ({"address": GOOD, "default_size": 0}, "`default_size` is 0"),
        ({"address": GOOD, "dependence": np.array([0, 1, 3, 0])}, "`dependence[2]` is 3: there is no access that far"),
        ({"address": GOOD, "dependence": np.array([0, 1, 0, 0]), "store": np.array([1, 0, 0, 0])}, "access 0 is a store"),
        ({"address": GOOD, "granularity": 5000}, "`granularity` is 5000"),
    ],
)
def test_a_wrong_element_is_named(arguments: dict, sentence: str) -> None:
    with pytest.raises(ambulator.ProgramError) as raised:
        ambulator.Accesses(**arguments)
    assert sentence in str(raised.value)


def test_other_python_runs_meanwhile() -> None:
    ran, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            ran[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = ran[0]
        ambulator.run("gups", **(SMALL | {"instructions": "1M"}))
        assert ran[0] > before + 1000, "the simulation holds the GIL"
    finally:
        stop.set()
        thread.join()


def test_progress_is_told_and_its_exception_passes() -> None:
    told: list = []
    ambulator.compare("gups", ["radix", "thp"], **(SMALL | {"progress": told.append}))
    assert told and {name for name, *_ in told[-1]} >= {"radix", "thp"}
    assert all(phase == "done" for _, phase, _, _ in told[-1])

    def broken(runs: object) -> None:
        raise LookupError("not mine")

    with pytest.raises(LookupError, match="not mine"):
        ambulator.compare("gups", ["radix"], **(SMALL | {"progress": broken, "instructions": "1M"}))


def test_the_line_of_progress_tells_what_is_left() -> None:
    out, time = io.StringIO(), iter([0.0, 10.0, 20.0])
    line = Line(out, lambda: next(time))
    line([("radix", "run", 50, 100), ("thp", "set-up", 3, None)])
    line([("radix", "done", 100, 100), ("thp", "done", 100, 100)])
    first, last = out.getvalue().split("\r")[1:]
    assert first == "0 of 2 runs, 25%, about 30 s left"
    assert last.startswith("2 of 2 runs, 100%") and last.endswith("\n")
    assert progress_of(False) is None
