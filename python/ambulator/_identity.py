"""What identifies a design in Python: its code, and every function, class and constant that it reaches by name.

Stores know the runs of a design by it. What may change behind a name, or says something else each time, has no
identity, and neither has a design that reaches it.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import inspect
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from ambulator import _ambulator

PURE = frozenset(
    "__future__ abc ambulator bisect collections collections.abc dataclasses enum functools heapq itertools math operator "
    "struct typing zlib".split()
)
"""Modules whose functions give the same for the same."""
IMPURE = frozenset("__import__ breakpoint compile eval exec globals hash id input locals open vars".split())
"""Built-in functions that do not, or whose arguments hide names."""
_OWN = frozenset("__dict__ __weakref__ __doc__ __module__ __annotations__ __abstractmethods__ _abc_impl".split())
# What pickling keeps in a class.
_OWN |= frozenset(["__slotnames__"])
_OWN |= frozenset("__firstlineno__ __static_attributes__ __annotate__ __annotate_func__ __annotations_cache__".split())


class Unknown(Exception):
    """Something that has no identity."""


def identity_of(table: type) -> str:
    """What identifies the code of a class. Raises `Unknown` with the reason if nothing can."""
    reached = _Reached()
    try:
        reached.add(table, f"`{table.__name__}`")
    except RecursionError:
        raise Unknown(f"`{table.__name__}` reaches too much") from None
    return f"{_ambulator.VERSION} {sys.implementation.cache_tag} {reached.digest.hexdigest()}"


class _Reached:
    """Everything that has been reached so far."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        # Objects are kept, so that no other gets the number of one.
        self._seen: dict[int, tuple[int, Any]] = {}

    def _say(self, *parts: object) -> None:
        for part in parts:
            text = repr(part).encode()
            self.digest.update(b"%d:%s" % (len(text), text))

    def add(self, value: Any, name: str) -> None:
        """Adds a value and what it reaches; `name` is how sentences call it."""
        if value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes, range):
            self._say(type(value).__name__, value)
        elif id(value) in self._seen:
            self._say("seen", self._seen[id(value)][0])
        else:
            self._seen[id(value)] = (len(self._seen), value)
            self._add_once(value, name)

    def _add_once(self, value: Any, name: str) -> None:
        if type(value) is tuple:
            self._say("tuple", len(value))
            for part in value:
                self.add(part, name)
        elif type(value) is frozenset:
            self._say("frozenset")
            for part in sorted(value, key=repr):
                self.add(part, name)
        elif isinstance(value, CodeType):
            self._code(value, name)
        elif isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, (staticmethod, classmethod)):
            self._say(type(value).__name__)
            self.add(value.__func__, name)
        elif isinstance(value, property):
            for part in (value.fget, value.fset, value.fdel):
                self.add(part, name)
        elif isinstance(value, MemberDescriptorType):
            self._say("slot", value.__name__)
        elif isinstance(value, type):
            self._class(value, name)
        elif isinstance(value, ModuleType) and value.__name__ in PURE:
            self._say("module", value.__name__)
        elif isinstance(value, BuiltinFunctionType) and self._is_pure(value):
            self._say("built in", value.__module__, value.__qualname__)
        else:
            raise Unknown(f"{name} is {_described(value)}")

    def _is_pure(self, value: Any) -> bool:
        if value.__module__ == "builtins":
            return value.__name__ not in IMPURE
        return (value.__module__ or "").removeprefix("_") in PURE

    def _code(self, code: CodeType, name: str) -> None:
        self._say(code.co_code, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._say(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._say(getattr(code, "co_exceptiontable", b""))
        for constant in code.co_consts:
            self.add(constant, name)

    def _function(self, function: FunctionType, name: str) -> None:
        if vars(function).keys() - {"__wrapped__", "__isabstractmethod__"}:
            raise Unknown(f"{name} has attributes, which may change")
        self.add(function.__code__, name)
        self.add(function.__defaults__, f"a default of {name}")
        for key, value in sorted((function.__kwdefaults__ or {}).items()):
            self._say(key)
            self.add(value, f"a default of {name}")
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                self.add(cell.cell_contents, f"`{variable}`, which {name} uses,")
            except ValueError:
                raise Unknown(f"`{variable}`, which {name} uses, has no value yet") from None
        for variable in sorted(_globals(function.__code__, name)):
            self._say(variable)
            if variable in function.__globals__:
                self.add(function.__globals__[variable], f"`{variable}`, which {name} uses,")
            elif variable in IMPURE:
                raise Unknown(f"{name} uses `{variable}`")
            elif not hasattr(builtins, variable):
                raise Unknown(f"`{variable}`, which {name} uses, has no value yet")

    def _class(self, value: type, name: str) -> None:
        self._say(value.__module__, value.__qualname__)
        module = value.__module__.partition(".")[0]
        if module in ("builtins", "ambulator") or value.__module__ in PURE:
            return
        if value.__flags__ & (1 << 9) == 0:
            raise Unknown(f"{name} is {_described(value)}")
        for base in (type(value), *value.__bases__):
            self.add(base, f"`{base.__name__}`")
        for field, of in sorted(vars(value).items()):
            if field not in _OWN:
                self._say(field)
                self.add(of, f"`{value.__name__}.{field}`")


def _globals(code: CodeType, name: str) -> set[str]:
    """The names that code looks up outside of itself."""
    found: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            raise Unknown(f"{name} changes the global `{step.argval}`")
        if step.opname == "IMPORT_NAME" and step.argval not in PURE:
            raise Unknown(f"{name} imports `{step.argval}`")
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            found.add(step.argval)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            found |= _globals(constant, name)
    return found


def _described(value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"the module `{value.__name__}`"
    if isinstance(value, type):
        return f"the class `{value.__module__}.{value.__qualname__}`"
    if isinstance(value, (list, dict, set, bytearray)):
        return f"a {type(value).__name__}, which may change"
    return f"of the type `{type(value).__name__}`"
