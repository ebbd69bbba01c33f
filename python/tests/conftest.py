"""What tests share: a comparison that takes a tenth of a second."""

import pytest

import ambulator

SMALL = {"footprint": "16MiB", "instructions": "100K", "warmup": 0, "progress": False}


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMBULATOR_STORE", raising=False)


@pytest.fixture(scope="session")
def compared() -> ambulator.Results:
    return ambulator.compare("gups", ["radix", "thp", "perfect-tlb"], **SMALL)
