"""Machines and their settings."""

import inspect
from pathlib import Path

import pytest

import ambulator
from ambulator import settings
from ambulator._groups import Group, option_of


def test_settings_are_read_set_and_completed() -> None:
    machine = ambulator.Machine("utopia-table1")
    assert machine.mmu.l2_tlb.entries == 1536
    machine.mmu.l2_tlb.entries = 3072
    machine.memory.bytes = "4GiB"
    assert (machine.mmu.l2_tlb.entries, machine.memory.bytes) == (3072, 4 << 30)
    assert machine.changes == {"mmu.l2_tlb.entries": 3072, "memory.bytes": "4GiB"}
    assert "entries" in dir(machine.mmu.l2_tlb) and "l2_tlb" in dir(machine.mmu)
    assert ambulator.Machine("utopia-table1").mmu.l2_tlb.entries == 1536
    other = machine.copy()
    other.mmu.l2_tlb.entries = 1536
    assert machine.mmu.l2_tlb.entries == 3072


def test_every_setting_is_an_attribute_with_its_meaning() -> None:
    found = 0
    for name in settings.__all__:
        group = getattr(settings, name)
        assert issubclass(group, Group) and group.__doc__, name
        for field in group._names:
            documented = inspect.getattr_static(group, field)
            assert isinstance(documented, property) and documented.__doc__, f"{name}.{field}"
            found += 1
    assert found > 300
    # A group of settings hides no method of a machine.
    own = {name for name in vars(ambulator.Machine) if not name.startswith("_")}
    assert not own & settings.Spec._names


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("mmu.l2_tlb.entires", 1024, "there is no setting `mmu.l2_tlb.entires`: the nearest setting is `mmu.l2_tlb.entries`"),
        ("mmu.l2_tlb.entries", "many", "`mmu.l2_tlb.entries` takes an integer (entries), but \"many\" is not one"),
        ("mmu.l2_tlb.entries", -1, "`mmu.l2_tlb.entries` is -1; it must be"),
        ("run.oracle", "yes", '`run.oracle` takes true or false, not the text "yes"'),
        ("design.page_table", "radx", 'did you mean "radix"?'),
        ("mmu.l2_tlb.entries", 1000, "`mmu.l2_tlb.entries`: 1000 entries do not divide into sets of 12 ways"),
        ("mmu.l2_tlb.entries", None, "`mmu.l2_tlb.entries` takes a number, a text, a flag or a list of them, not None"),
    ],
)
def test_a_wrong_key_or_value_raises_at_once(key: str, value: object, sentence: str) -> None:
    machine = ambulator.Machine("utopia-table1")
    group = machine
    *groups, name = key.split(".")
    for part in groups:
        group = getattr(group, part)
    with pytest.raises(ambulator.SpecError) as raised:
        setattr(group, name, value)
    assert sentence in str(raised.value)
    assert machine.changes == {} and machine.mmu.l2_tlb.entries == 1536


def test_an_unknown_group_is_an_attribute_error_too() -> None:
    machine = ambulator.Machine()
    with pytest.raises(AttributeError, match="the nearest setting is `mmu.l2_tlb`"):
        _ = machine.mmu.l2_tbl
    assert not hasattr(machine, "nothing_like_this")
    with pytest.raises(ambulator.UnknownSetting, match="no setting `mmu.l2_tlb.entires`"):
        machine.get("mmu.l2_tlb.entires")
    with pytest.raises(ambulator.SpecError, match="did you mean `utopia-table1`"):
        ambulator.Machine("utopia-table")


def test_several_settings_that_must_agree_are_set_together() -> None:
    machine = ambulator.Machine("utopia-table1").set({"mmu.l2_tlb.entries": 2048, "mmu.l2_tlb.ways": 16})
    assert (machine.mmu.l2_tlb.entries, machine.mmu.l2_tlb.ways) == (2048, 16)
    machine.set(mmu__l2_tlb__entries=1024)
    assert machine.mmu.l2_tlb.entries == 1024


def test_a_spec_file_gives_the_same_machine(tmp_path: Path) -> None:
    machine = ambulator.Machine("utopia-table1", {"mmu.l2_tlb.entries": 3072})
    file = tmp_path / "mine.toml"
    file.write_text(machine.toml())
    assert ambulator.Machine(files=[file]).toml() == machine.toml()
    file.write_text("[mmu.l2_tlb]\nentires = 5\n")
    with pytest.raises(ambulator.SpecError) as raised:
        ambulator.Machine(files=[file])
    assert "mine.toml:2" in str(raised.value) and "the nearest setting is `mmu.l2_tlb.entries`" in str(raised.value)


def test_values_are_texts_of_the_command() -> None:
    import numpy

    assert option_of("a", numpy.int64(5)) == "a=5"
    assert option_of("a", True) == "a=true"
    assert option_of("a", [1, 2.5]) == "a=[1, 2.5]"
    assert option_of("a", 'x"y') == 'a="x\\"y"'


def test_what_there_is_is_listed_and_explained() -> None:
    assert any(preset.name == "utopia-table1" for preset in ambulator.machines())
    assert any(preset.name == "radix" for preset in ambulator.designs())
    assert any(program.name == "gups" and program.footprint > 0 for program in ambulator.programs())
    assert ambulator.workloads()
    assert ambulator.explain("mmu.l2_tlb.entries").startswith("mmu.l2_tlb.entries\n")
    assert "Utopia Sec. 5.1" in ambulator.explain("RestSeg")
    assert "99th percentile" in ambulator.explain("walk_latency.p99")
    with pytest.raises(ambulator.SpecError, match="entries"):
        ambulator.explain("mmu.l2_tlb.entires")
