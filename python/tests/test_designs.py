"""Page tables in Python: checked like all others."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest
from conftest import SMALL

import ambulator

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/python/linear_probing.py"
TINY = SMALL | {"footprint": "2MiB", "instructions": "20K"}


def example() -> type[ambulator.PageTable]:
    spec = importlib.util.spec_from_file_location("linear_probing", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["linear_probing"] = module
    spec.loader.exec_module(module)
    return module.LinearProbing


LinearProbing = example()


class List(ambulator.PageTable):
    """One frame of tags and entries, searched from its beginning."""

    max_loads = 512

    def __init__(self) -> None:
        self.base, self.count = self.frames.allocate(64), 0

    def slots(self) -> range:
        return range(self.base, self.base + self.count * 16, 16)

    def map(self, page: ambulator.Page, entry: int) -> None:
        free = [at for at in self.slots() if self.memory.read(at + 8) == 0]
        at = free[0] if free else self.base + self.count * 16
        self.count += not free
        self.memory.write(at, page.number)
        self.memory.write(at + 8, entry)

    def unmap(self, page: ambulator.Page) -> None:
        at = next(at for at in self.slots() if self.memory.read(at) == page.number and self.memory.read(at + 8))
        self.memory.write(at + 8, 0)

    def walk(self, va: int, port: ambulator.Port) -> int | None:
        for at in self.slots():
            if port.read(at) == va >> 12 and port.read(at + 8):
                return at + 8
        return None


def failure(table: type[ambulator.PageTable], **arguments: object) -> str:
    results = ambulator.compare("gups", [table], **(TINY | arguments))
    assert results[0].status == "failed"
    with pytest.raises(ambulator.RunError):
        results.check()
    return results[0].outcome


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 60


def test_a_table_in_python_conforms_and_runs_under_the_oracle() -> None:
    done = ambulator.conformance(LinearProbing, operations=300)
    assert done.mapped > 500 and done.walks > 2000
    results = ambulator.compare("gups", ["radix", LinearProbing, "ideal"], **SMALL)
    mine, radix = results["linear-probing"].check(), results["radix"]
    assert mine["checked_translations"] > 10_000
    assert mine["mmu.walks"] == radix["mmu.walks"] and mine["walk_loads.count"] > 0
    assert mine.row["walk_loads.mean"] >= 2.0, "a tag and an entry"
    assert mine["measures.table_bytes"] > 4096 * 4, "it has grown"
    assert mine.spec["design"]["page_table"] == "linear-probing"


def test_it_runs_below_a_guest_and_on_two_cores() -> None:
    nested = {"virtualization.mode": "nested"}
    results = ambulator.compare("gups", ["radix", LinearProbing], settings=nested, **TINY)
    assert results.check()["linear-probing"]["mmu.walks"] > 0
    mix = ambulator.compare(["gups", "pointer-chase"], [LinearProbing], **TINY)
    assert len(mix.check()[0]["cores.ipc"]) == 2


def test_reads_in_a_row_take_longer_than_reads_at_once() -> None:
    class AtOnce(LinearProbing):
        """The example."""

    class InARow(LinearProbing):
        """The same, one word after the other."""

        def walk(self, va: int, port: ambulator.Port) -> int | None:
            before = port.now
            for at in self.places((va >> 12) + 1):
                tag, entry = port.read(at), port.read(at + 8)
                assert port.now > before or port.now == 0, "0 is the look-up of the kernel"
                if tag == 0 or tag == (va >> 12) + 1:
                    return at + 8 if entry else None
            return None

    results = ambulator.compare("gups", [AtOnce, InARow], **SMALL).check()
    # The second word is in the line that the first has brought.
    assert results["in-a-row"]["measures.walk_latency_mean"] > results["at-once"]["measures.walk_latency_mean"] + 10
    assert results["in-a-row"]["mmu.walks"] == results["at-once"]["mmu.walks"]


def test_a_wrong_translation_is_found_by_the_oracle_and_the_suite() -> None:
    class Neighbour(LinearProbing):
        """Keeps the entry of the next frame."""

        def map(self, page: ambulator.Page, entry: int) -> None:
            super().map(page, entry ^ 4096)

    said = failure(Neighbour)
    assert "translat" in said and "0x" in said, said
    assert "in Python failed" not in said, "it is no exception, but wrong"
    with pytest.raises(ambulator.RunError, match="neighbour: "):
        ambulator.conformance(Neighbour)


def test_a_walk_that_takes_any_entry_is_found() -> None:
    class Trusting(LinearProbing):
        """Takes the first entry, whoever's it is."""

        def walk(self, va: int, port: ambulator.Port) -> int | None:
            for at in self.places((va >> 12) + 1):
                tag, entry = port.read_all([at, at + 8])
                if tag == 0 or entry:
                    return at + 8 if entry else None
            return None

    assert "mapped already, but it is not" in failure(Trusting, footprint="16MiB")
    with pytest.raises(ambulator.RunError, match="trusting: "):
        ambulator.conformance(Trusting)


def test_an_exception_in_a_walk_is_the_failure_of_its_run_alone() -> None:
    class Raising(List):
        """Fails at an address."""

        def walk(self, va: int, port: ambulator.Port) -> int | None:
            if self.count > 3:
                return va // 0
            return super().walk(va, port)

    results = ambulator.compare("gups", ["radix", Raising], **TINY)
    assert results["radix"].status == "done" and results["raising"].status == "failed"
    said = results["raising"].outcome
    assert "the design `raising` in Python failed in walk(0x" in said
    assert "ZeroDivisionError: integer division or modulo by zero" in said
    assert "test_designs.py, line" in said and "in walk" in said
    with pytest.raises(ambulator.Error, match="ZeroDivisionError"):
        ambulator.conformance(Raising)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_even_an_exit_in_a_walk_ends_its_run_alone(error: type[BaseException]) -> None:
    class Exiting(List):
        """Leaves."""

        def walk(self, va: int, port: ambulator.Port) -> int | None:
            raise error("out")

    assert error.__name__ in failure(Exiting)


class Unaligned(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return port.read(self.base + 4)


class Beyond(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return port.read(1 << 60)


class Endless(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        while True:
            port.read(self.base)


class Text(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return "here"


class WritesElsewhere(List):
    def map(self, page: ambulator.Page, entry: int) -> None:
        self.memory.write(0, entry)


class ReadsUntimed(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return self.memory.read(self.base)


class ReleasesTwice(List):
    def map(self, page: ambulator.Page, entry: int) -> None:
        self.frames.release(self.base)
        self.frames.release(self.base)


class TooMany(List):
    def __init__(self) -> None:
        self.frames.allocate(1 << 40)


class Bytes(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return port.read(self.base, 4)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (Unaligned, "is not a multiple of 8"),
        (Beyond, "is beyond the end of memory"),
        (Endless, "does it end? (`max_loads`)"),
        (Text, "it returned 'here': a walk returns the address of the entry, or None"),
        (WritesElsewhere, "is not in frames of this table"),
        (ReadsUntimed, "`walk` reads through its port"),
        (ReleasesTwice, "no frames that this table holds begin there"),
        (TooMany, "`allocate(1099511627776)`: a number of frames is from 1"),
        (Bytes, "a walk reads words of 8 bytes, not 4"),
    ],
)
def test_what_a_design_must_not_do_is_said(table: type[ambulator.PageTable], sentence: str) -> None:
    assert sentence in failure(table)


def test_a_port_cannot_be_kept() -> None:
    kept: list[ambulator.Port] = []

    class Keeping(List):
        """Keeps its port."""

        def walk(self, va: int, port: ambulator.Port) -> int | None:
            kept.append(port)
            return super().walk(va, port)

    ambulator.compare("gups", [Keeping], **TINY).check()
    with pytest.raises(ambulator.DesignError, match="a port reads memory during `walk` only"):
        kept[0].read(4096)
    with pytest.raises(ambulator.DesignError, match="belong to the operating system"):
        List.memory.read(4096)


def test_memory_that_runs_out_is_an_outcome_of_the_machine() -> None:
    class Greedy(List):
        """Wants more than there is."""

        def __init__(self) -> None:
            super().__init__()
            self.more = self.frames.allocate(64 << 8)

    run = ambulator.compare("gups", [Greedy], settings={"memory.bytes": "64MiB"}, **TINY)[0]
    assert run.status in ("outcome", "failed") and "memory" in run.outcome


def test_a_class_that_is_defined_again_replaces_the_first() -> None:
    def make(tag: int) -> type[ambulator.PageTable]:
        class Again(List):
            """Defined twice."""

            def walk(self, va: int, port: ambulator.Port) -> int | None:
                seen.add(tag)
                return super().walk(va, port)

        return Again

    seen: set[int] = set()
    for tag in (1, 2):
        ambulator.compare("gups", [make(tag)], **TINY).check()
        assert seen == {tag}
        seen.clear()


def test_a_class_must_be_a_page_table_with_a_name_of_its_own() -> None:
    class Radix(List):
        """Takes a name that is taken."""

    with pytest.raises(ambulator.SpecError, match="`radix` exists already"):
        ambulator.compare("gups", [Radix], **TINY)

    class Half(ambulator.PageTable):
        """Lacks methods."""

        def map(self, page: ambulator.Page, entry: int) -> None: ...

    with pytest.raises(ambulator.DesignError, match="`Half` lacks `unmap`, `walk`"):
        ambulator.compare("gups", [Half], **TINY)
    with pytest.raises(ambulator.DesignError, match="derives from `ambulator.PageTable`"):
        ambulator.compare("gups", [int], **TINY)

    class Odd(List):
        """Has a page size that is none."""

        sizes = (4096, 5000)

    with pytest.raises(ambulator.SpecError, match="`sizes` has 5000"):
        ambulator.compare("gups", [Odd], **TINY)


PROBE = 3


class Constant(List):
    """Reaches a constant of its module."""

    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return super().walk(va, port) if PROBE else None


def test_a_design_is_kept_by_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(table: type[ambulator.PageTable], **more: object) -> int:
        results = ambulator.compare("gups", [table], bounds=False, store=tmp_path / "results", **TINY, **more)
        assert results.check().notes == []
        return results.stored

    assert [again(Constant), again(Constant), again(List)] == [0, 1, 0]
    assert again(Constant, settings={"mmu.l2_tlb.entries": 768}) == 0
    monkeypatch.setattr(sys.modules[__name__], "PROBE", 4)
    assert [again(Constant), again(Constant)] == [0, 1], "a constant of the module is part of it"
    monkeypatch.setattr(List, "slots", lambda self: range(self.base, self.base + self.count * 16, 16))
    assert again(Constant) == 0, "so is a method of a base class"
    monkeypatch.undo()
    assert again(Constant) == 1
    monkeypatch.setattr(Constant, "max_loads", 500)
    assert again(Constant) == 0
    monkeypatch.undo()
    mixed = ambulator.compare("gups", ["radix", Constant], store=tmp_path / "results", **TINY)
    assert mixed.stored == 1 and mixed.check()[1]["cell"] and mixed[1]["build"] != mixed[0]["build"]
    again(Constant, settings={"virtualization.mode": "nested"})
    assert again(Constant, settings={"virtualization.mode": "nested"}) == 1


COUNTS: list[int] = []


class Counts(List):
    """Its results depend on what went before."""

    def walk(self, va: int, port: ambulator.Port) -> int | None:
        COUNTS.append(va)
        return super().walk(va, port)


class Random(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return super().walk(va + random.randrange(1), port)


class Imports(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        import time

        return super().walk(va + int(time.time() < 0), port)


class Hashes(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        return super().walk(va + 0 * hash("a"), port)


class Declares(List):
    def walk(self, va: int, port: ambulator.Port) -> int | None:
        global PROBE
        PROBE = 3
        return super().walk(va, port)


class Holds(List):
    seen: dict[int, int] = {}  # noqa: RUF012


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (Counts, "`COUNTS`, which `Counts.walk` uses, is a list, which may change"),
        (Random, "`random`, which `Random.walk` uses, is the module `random`"),
        (Imports, "`Imports.walk` imports `time`"),
        (Hashes, "`Hashes.walk` uses `hash`"),
        (Declares, "`Declares.walk` changes the global `PROBE`"),
        (Holds, "`Holds.seen` is a dict, which may change"),
    ],
)
def test_a_design_that_cannot_be_known_is_not_kept(table: type[ambulator.PageTable], why: str, tmp_path: Path) -> None:
    for _ in range(2):
        given = TINY | {"bounds": False, "store": tmp_path / "results"}
        results = ambulator.compare("gups", ["radix", table], **given).check()
        assert results[1]["cell"] == "" and results[0]["cell"] != ""
        assert f"runs of `{results[1].design}` are not kept in the store: {why}" in results.notes
    assert results.stored == 1, "radix alone"
    assert ambulator.compare("gups", [table], **TINY).notes == [note for note in results.notes if why not in note]


def test_large_pages_are_the_classes_choice() -> None:
    class Large(LinearProbing):
        """Two sizes in one table: a tag has the size's bit."""

        sizes = (4096, 1 << 21)
        preset = "thp"

        def key(self, page: ambulator.Page) -> ambulator.Page:
            # Large pages lie above all small ones.
            return page if page.size == 4096 else ambulator.Page((1 << 57) + (page.start >> 21 << 12), 4096)

        def map(self, page: ambulator.Page, entry: int) -> None:
            super().map(self.key(page), entry)

        def unmap(self, page: ambulator.Page) -> None:
            super().unmap(self.key(page))

        def walk(self, va: int, port: ambulator.Port) -> int | None:
            small = super().walk(va, port)
            return small if small is not None else super().walk((1 << 57) + (va >> 21 << 12), port)

    results = ambulator.compare("gups", ["thp", Large], **SMALL).check()
    assert results["large"]["mmu.walks"] == results["thp"]["mmu.walks"] > 0
    assert ambulator.conformance(Large, operations=200).walks > 500


class Remembers(List):
    """Has fields of several kinds, on which its results depend."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, list[int]] = {}

    def map(self, page: ambulator.Page, entry: int) -> None:
        super().map(page, entry)
        self.seen.setdefault(page.number % 3, []).append(page.number)

    def walk(self, va: int, port: ambulator.Port) -> int | None:
        for _ in range(len(self.seen) + self.count % 2):
            port.read(self.base)
        return super().walk(va, port)


class Slots(List):
    __slots__ = ("extra",)

    def __init__(self) -> None:
        super().__init__()
        self.extra = (1, "text")


@pytest.mark.parametrize("table", [Remembers, Slots, LinearProbing])
@pytest.mark.parametrize("nested", [False, True])
def test_a_table_in_python_starts_from_a_checkpoint(
    table: type[ambulator.PageTable], nested: bool, tmp_path: Path
) -> None:
    settings = {"virtualization.mode": "nested"} if nested else {}
    given = TINY | {"warmup": "20K", "bounds": False, "settings": settings}
    runs = [ambulator.compare("gups", [table], **given).check()]
    runs += [ambulator.compare("gups", [table], **given, checkpoint=tmp_path / "kept").check() for _ in range(2)]
    assert [bool(results[0].row.get("host.checkpoint")) for results in runs] == [False, False, True]
    numbers = [{k: v for k, v in results[0].row.items() if not k.startswith("host.")} for results in runs]
    assert numbers[0] == numbers[1] == numbers[2]


class Unpickled(List):
    def __init__(self) -> None:
        super().__init__()
        self.key = lambda va: va >> 12


def test_fields_that_cannot_be_pickled_are_named(tmp_path: Path) -> None:
    given = TINY | {"warmup": "20K", "bounds": False, "checkpoint": tmp_path / "kept"}
    results = ambulator.compare("gups", [Unpickled], **given).check()
    (note,) = [note for note in results.notes if "cannot be written" in note]
    assert "the design `unpickled` in Python failed in a checkpoint" in note and "its fields cannot be pickled" in note
    assert list((tmp_path / "kept").iterdir()) == []
    unknown = ambulator.compare("gups", [Holds], **given)
    assert unknown[0].status == "failed" and "a checkpoint cannot be found again" in unknown[0].outcome
