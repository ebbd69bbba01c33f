"""Ctrl-C, and what is left after it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import ambulator

class Never(ambulator.PageTable):
    "Stays in its walk."
    def map(self, page, entry): ...
    def unmap(self, page): ...
    def walk(self, va, port):
        while True:
            pass

def told(runs):
    if any(phase in PHASES for _, phase, _, _ in runs):
        print("begun", flush=True)
"""


def interrupted(tmp_path: Path, phases: tuple[str, ...], body: str) -> tuple[str, float]:
    """What a process printed that was interrupted once it had begun, and the seconds that it went on."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + f"PHASES = {phases!r}\n" + body)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.strip() == "begun", first + process.stdout.read()
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, out
    return out, time.monotonic() - began


def test_an_interrupt_comes_soon_and_keeps_what_has_finished(tmp_path: Path) -> None:
    body = """
try:
    ambulator.compare("gups", ["perfect-tlb", "radix", "thp"], footprint="16MiB", instructions="100K", threads=1,
                      settings={}, progress=None)
    mine = ambulator.sweep("gups", ["radix"], vary={"run.instructions": ["50K", "2G"]}, warmup=0, footprint="16MiB",
                           threads=1, progress=lambda runs: told([r for r in runs if any(o[1] == "done" for o in runs)]))
except ambulator.Interrupted as interrupt:
    assert isinstance(interrupt, KeyboardInterrupt)
    statuses = sorted(run.status for run in interrupt.results)
    print(statuses, str(interrupt))
"""
    out, took = interrupted(tmp_path, ("run",), body)
    assert "['done', 'interrupted'] 1 of 2 runs had finished" in out
    assert took < 20


def test_an_interrupt_keeps_the_seeds_that_have_finished(tmp_path: Path) -> None:
    body = """
try:
    ambulator.compare("gups", ["radix"], seeds=200, bounds=False, footprint="16MiB", instructions="500K", warmup=0, threads=1,
                      progress=lambda runs: told([r for r in runs if any(o[1] == "done" for o in runs)]))
except ambulator.Interrupted as interrupt:
    [run] = interrupt.results
    print("kept:", run.status, 0 < run.seeds < 200, run.ipc > 0.1, str(interrupt))
"""
    out, _ = interrupted(tmp_path, ("run",), body)
    assert "kept: done True True" in out and " of 200 runs had finished" in out


def test_an_interrupt_ends_even_a_walk_that_does_not(tmp_path: Path) -> None:
    body = """
try:
    ambulator.compare("gups", [Never], footprint="16MiB", instructions="100K", warmup=0, progress=told)
except KeyboardInterrupt:
    print("ended")
"""
    out, took = interrupted(tmp_path, ("set-up", "run"), body)
    assert "ended" in out and took < 30


def test_an_interrupt_ends_the_conformance_suite(tmp_path: Path) -> None:
    body = """
def walk(self, va, port):
    print("begun", flush=True)
    while True:
        pass

Never.walk = walk
try:
    ambulator.conformance(Never)
except KeyboardInterrupt:
    print("ended")
"""
    out, took = interrupted(tmp_path, (), body)
    assert "ended" in out and took < 10


def test_the_interpreter_goes_on_after_failures() -> None:
    import ambulator

    with pytest.raises(ambulator.ProgramError):
        ambulator.run("nothing-like-it", progress=False)
    assert ambulator.run("gups", footprint="16MiB", instructions="20K", warmup=0, progress=False).status == "done"
