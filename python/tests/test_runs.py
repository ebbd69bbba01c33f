"""Runs, comparisons, sweeps, arrays."""

import io
import threading
from pathlib import Path

import numpy as np
import polars
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
        ({"designs": None}, ambulator.DesignError, "None is no list of designs"),
        ({"designs": "radix,thp"}, ambulator.SpecError, 'give a list, `["radix", "thp"]`'),
        ({"designs": [["radix", "thp"]]}, ambulator.DesignError, "is no design: give the name of a preset"),
        ({"settings": ["a=b"]}, ambulator.SpecError, "`settings` is ['a=b']: give a dict"),
        ({"program_settings": 3}, ambulator.SpecError, "`program_settings` is 3: give a dict"),
        ({"threads": -1}, ambulator.SpecError, "`threads` is -1"),
        ({"store": 3}, ambulator.SpecError, "`store` is 3: give a folder"),
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
    # Utopia reserves contiguous memory at boot, which a machine this fragmented has not.
    tight = {"memory.bytes": "256MiB", "memory.fragmentation.fmfi": 0.99}
    results = ambulator.compare("gups", ["radix", "utopia", "thp"], settings=tight, **SMALL)
    assert [run.status for run in results] == ["done", "failed", "done"]
    failed = results["utopia"]
    assert "the design reserves contiguous memory at boot" in failed.outcome
    assert failed.speedup is None and failed.differs is None and failed.interval is None
    assert repr(failed) == f"<Run utopia on gups: failed, {failed.outcome}>"
    assert f"<b>utopia</b>: {failed.outcome}" in results._repr_html_()
    assert results["thp"].speedup > 1 and polars.DataFrame(results)["status"].to_list() == ["done", "failed", "done"]
    assert "thp" in str(results.plot.speedup().rows) and "utopia" not in str(results.plot.speedup().rows)
    with pytest.raises(ambulator.RunError, match="utopia on gups: the design reserves"):
        results.check()
    over_seeds = ambulator.compare("gups", ["radix", "utopia"], seeds=2, settings=tight, **SMALL)
    assert [run.status for run in over_seeds] == ["done", "failed"] and over_seeds["radix"].seeds == 2
    with pytest.raises(ambulator.RunError, match="utopia on gups: the design reserves"):
        ambulator.run("gups", "utopia", settings=tight, **SMALL)


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
    of = {(run.program, run.design, run["set.mmu.l2_tlb.entries"]): run for run in results}
    small, large = of["gups", "radix", 768], of["gups", "radix", 1536]
    assert small["mmu.walks"] > large["mmu.walks"] > 0, "fewer entries, more walks"
    failed = of["gups", "thp", 1537]
    assert failed.status == "failed" and "do not divide into sets" in failed.outcome
    assert small.speedup == 1.0 and of["gups", "thp", 768].speedup != 1.0
    assert "<th>set.mmu.l2_tlb.entries</th>" in results._repr_html_()
    assert swept().stored == 8, "what has failed is tried again"


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


def test_seeds_give_means_with_intervals() -> None:
    results = ambulator.compare("gups", ["radix", "thp"], seeds=3, **SMALL)
    assert [run.design for run in results] == ["radix", "thp"] and results[0].seeds == 3
    singles = [ambulator.compare("gups", ["radix", "thp"], seed=seed, bounds=False, **SMALL) for seed in (1, 2, 3)]
    assert [row["seed"] for row in results.by_seed.rows] == [1, 2, 3, 1, 2, 3]
    of_seeds = {(row["design"], row["seed"]): row for row in results.by_seed.rows}
    for seed, single in enumerate(singles, start=1):
        for run in single:
            of_seed = timeless(of_seeds[run.design, seed])
            assert {name: of_seed[name] for name in timeless(run.row)} == timeless(run.row)
    # Student's t with two degrees of freedom.
    for column in ("ipc", "measures.l2_tlb_mpki", "walk_latency.mean"):
        values = np.array([single["radix"][column] for single in singles])
        low, high = results["radix"].interval_of(column)
        assert results["radix"][column] == pytest.approx(values.mean())
        assert (high - low) / 2 == pytest.approx(4.303 * values.std(ddof=1) / np.sqrt(3)) and high > low, column
    ratios = np.array([single["thp"].speedup for single in singles])
    assert results["thp"].speedup == pytest.approx(ratios.mean())
    assert results["thp"]["speedup ±"] == pytest.approx(4.303 * ratios.std(ddof=1) / np.sqrt(3))
    assert results["radix"]["speedup ±"] == 0 and results["radix"].differs is False
    assert isinstance(results["thp"]["mmu.walks"], int), "counts stay whole"
    assert "ipc ±" not in singles[0].columns and singles[0][0].interval_of("ipc") is None


def test_a_sampled_run_has_intervals_over_its_windows() -> None:
    windows = {"run.sampling": "windows", "run.sample_period": 30_000, "run.sample_window": 5000, "run.sample_timing": 5000}
    results = ambulator.compare("gups", ["radix", "thp"], settings=windows, **SMALL | {"instructions": "600K"})
    for run in results:
        low, high = run.interval_of("ipc")
        assert low < run.ipc < high
        assert f"ipc {run.ipc:.3f} ± {(high - low) / 2:.3f}" in repr(run)
        assert run.interval_of("measures.l2_tlb_mpki") is not None
    assert " ± " in results._repr_html_()
    assert ambulator.run("gups", **SMALL).interval_of("ipc") is None


def test_intervals_are_shown_wherever_the_number_is() -> None:
    results = ambulator.compare("gups", ["radix", "thp"], seeds=3, **SMALL)
    radix, thp = results
    shown = f"ipc {thp.ipc:.3f} ± {thp['ipc ±']:.3f}, speed-up {thp.speedup:.3f} ± {thp['speedup ±']:.3f}, 3 seeds>"
    assert repr(thp).endswith(shown)
    assert "speed-up 1.000, 3 seeds>" in repr(radix)
    page = results._repr_html_()
    assert f"<td>{thp.ipc:.4g} ± {thp['ipc ±']:.2g}</td>" in page and "<th>ipc ±</th>" not in page
    text = str(results)
    assert "Means over 3 seeds, ± half of the 95% interval (Student's t):" in text
    assert f"{thp.ipc:.3f} ± {thp['ipc ±']:.3f}" in text and "over 3 seeds" in results.verdict[-2] + results.verdict[1]
    assert results.columns["ipc ±"].unit == results.columns["ipc"].unit
    assert all(column.unit and column.meaning for column in results.columns.values())
    [drawn] = [row for row in results.plot.speedup().rows if "thp" in row]
    assert f"{thp['speedup.low']:.3f} to {thp['speedup.high']:.3f}" in drawn


def test_differences_within_their_intervals_are_none() -> None:
    longer = {**SMALL, "instructions": "200K"}
    results = ambulator.compare("gups", ["radix", "thp", "rmm"], seeds=3, settings={"mmu.l2_tlb.latency": 8}, **longer)
    thp, rmm = results["thp"], results["rmm"]
    assert thp.interval.low > 1 and thp.differs is True
    assert rmm.speedup > 1.05 and rmm.interval.low < 1 and rmm.differs is False, "more by the mean, within the interval"
    assert any(said.startswith("thp is ") for said in results.reasons)
    assert f"No difference from radix beyond the 95% interval: rmm ({rmm.speedup:.3f};" in results.reasons[-1]
    assert not any(said.startswith("rmm is ") for said in results.reasons)
    readings = {row[1]: row[-1] for row in results.plot.speedup().rows}
    assert "faster" in readings["thp"] and "no difference" in readings["rmm"], readings


def test_wrong_seeds_are_refused() -> None:
    for wrong in (0, -1, 2.5):
        with pytest.raises(ambulator.SpecError, match="`seeds` is"):
            ambulator.compare("gups", ["radix"], **SMALL, seeds=wrong)
    for arguments in [
        {"seeds": 0},
        {"seeds": 2, "vary": {"run.seed": [1, 2]}},
        {"vary": {"mmu.l2_tlb.entries": 5}},
        {"vary": {"mmu.l2_tlb.entries": []}},
        {"vary": {"mmu.l2_tlb.entires": [5]}},
        {"vary": {"lvm.gap_permille": [1500]}},
        {"vary": ["mmu.l2_tlb.entries=5"]},
    ]:
        with pytest.raises(ambulator.SpecError):
            ambulator.sweep("gups", ["radix"], **SMALL, **arguments)


def test_a_sweep_over_seeds_is_a_row_for_each_combination(tmp_path: Path) -> None:
    def swept(seeds: int) -> ambulator.Results:
        vary = {"mmu.l2_tlb.entries": [768, 1536, 1537]}
        return ambulator.sweep("gups", ["radix", "thp"], vary=vary, seeds=seeds, store=tmp_path / "results", **SMALL)

    results = swept(2)
    assert len(results) == 3 * 2 and len(results.by_seed.rows) == 2 * 2 * 2 + 2, "one row for what cannot be"
    for run in results:
        if run["set.mmu.l2_tlb.entries"] == 1537:
            assert run.status == "failed" and "do not divide into sets" in run.outcome and "seed" not in run.outcome
        else:
            assert run.status == "done" and run.seeds == 2 and run["ipc ±"] > 0
    assert swept(3).stored == 8, "a further seed is the only one that runs"
    bars = results.plot.speedup().rows
    assert len(bars) == 2 and all("to" in str(row) for row in bars), "seeds of a combination are one bar"


def test_a_sweep_without_programs_is_refused() -> None:
    with pytest.raises(ambulator.ProgramError, match="name at least one program"):
        ambulator.sweep([], ["radix"], **SMALL)


def test_one_run_has_seeds_too() -> None:
    run = ambulator.run("gups", "radix", seeds=2, **SMALL)
    assert run.seeds == 2 and run.interval_of("mmu.walks").low < run["mmu.walks"] < run.interval_of("mmu.walks").high


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


def test_an_array_is_kept_by_its_contents(tmp_path: Path) -> None:
    address = np.random.default_rng(5).integers(1 << 32, (1 << 32) + (4 << 20), 5_000)
    given = {"designs": ["radix", "thp"], "store": tmp_path / "results", "progress": False, "bounds": False}
    first = ambulator.compare(ambulator.Accesses(address, name="one"), **given)
    again = ambulator.compare(ambulator.Accesses(address.copy(), name="other"), **given)
    assert (first.stored, again.stored) == (0, 2) and [run.program for run in again] == ["other", "other"]
    assert timeless(first[0].row) | {"program": "other"} == timeless(again[0].row) | {
        name: first[0][name] for name in ("identity.name", "cores.program")
    }
    assert ambulator.compare(address, **given).stored == 2, "an array is accesses with what they have by default"
    changed = address.copy()
    changed[1] += 64
    for other in (changed, ambulator.Accesses(address, default_gap=4), ambulator.Accesses(address, touched=False)):
        assert ambulator.compare(other, **given).stored == 0
    assert ambulator.compare(address, **given, instructions="5K").stored == 0
    mix = {**given, "designs": ["radix"], "instructions": "10K"}
    assert ambulator.compare([address, "gups"], **mix).stored == 0
    assert ambulator.compare([address, "gups"], **mix).stored == 1
    assert ambulator.compare([changed, "gups"], **mix).stored == 0


def test_an_array_and_its_trace_are_the_same_program(tmp_path: Path) -> None:
    address = np.random.default_rng(3).integers(1 << 32, (1 << 32) + (64 << 20), 40_000)
    accesses = ambulator.Accesses(address, store=np.arange(40_000) % 3 == 0, name="mine")
    path = tmp_path / "mine.amb"
    accesses.save(path)
    given = {"warmup": 1000, "progress": False}
    of_array, of_trace = ambulator.run(accesses, **given).row, ambulator.run(path, **given).row
    same = [name for name in of_array if not name.startswith(("host.", "identity.")) and name not in ("cell", "footprint", "build")]
    assert {"mmu.walks", "ipc", "program", "windows.cycles"} <= set(same)
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
