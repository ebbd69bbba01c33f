"""Exceptions. Their sentences are those of the command."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ambulator.results import Results


class Error(Exception):
    """What cannot be done, and why."""


class SpecError(Error, ValueError):
    """A machine, a design or a setting is wrong: an unknown name with the nearest one, a value of the wrong
    type or out of range, settings that exclude each other."""


class UnknownSetting(SpecError, AttributeError):
    """There is no setting of this name; the sentence names the nearest."""


class ProgramError(Error, ValueError):
    """A program, a trace or an array of accesses cannot be run."""


class RunError(Error, RuntimeError):
    """A run cannot start or go on."""


class DesignError(Error):
    """A design in Python has done what it must not."""


class NoMemory(Error, MemoryError):
    """The simulated memory has no such contiguous frames. `map` may let this pass if it has changed nothing."""


class InternalError(Error, RuntimeError):
    """A mistake in Ambulator: please report it."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during runs. `results` has those that had finished, and the others as far as they were."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


def interrupt_threads(threads: list[int]) -> None:
    """Raises `KeyboardInterrupt` in other threads, at their next step in Python."""
    import ctypes

    for thread in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))


def describe(error: BaseException) -> str:
    """The last line of an exception's traceback, and where that is.

    >>> try:
    ...     1 // 0
    ... except ZeroDivisionError as error:
    ...     describe(error).split(" (")[0]
    'ZeroDivisionError: integer division or modulo by zero'
    """
    last = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, Error):
        last = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return last
    frame = frames[-1]
    return f"{last} ({frame.filename}, line {frame.lineno}, in {frame.name})"
