"""Groups of settings: what the generated classes of `ambulator.settings` are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ambulator import _ambulator
from ambulator.errors import SpecError, UnknownSetting

Value: TypeAlias = bool | int | float | str | list[Any]
"""What a setting takes. Numbers may be texts with a unit, such as ``"8GiB"`` or ``"20M"``."""


def option_of(key: str, value: object) -> str:
    """The `key=value` text of a setting, as the command's `--set` takes it.

    >>> option_of("memory.bytes", "8GiB")
    'memory.bytes="8GiB"'
    """
    return f"{key}={_toml(key, value)}"


def _toml(key: str, value: object) -> str:
    # numpy's scalars are numbers too.
    item = getattr(value, "item", None)
    if item is not None and not isinstance(value, (bool, int, float, str)):
        value = item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return "[" + ", ".join(_toml(key, one) for one in value) + "]"
    raise SpecError(f"`{key}` takes a number, a text, a flag or a list of them, not {value!r}")


class Group:
    """Settings with one prefix. Reading one gives its value in the whole spec; setting one checks its key and
    its value at once."""

    _key: str = ""
    _names: frozenset[str] = frozenset()

    def __init__(self, owner: Any) -> None:
        object.__setattr__(self, "_owner", owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise unknown(self._key, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._names or name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            raise unknown(self._key, name)

    def __repr__(self) -> str:
        values = self._owner._values(self._key)
        own = ", ".join(f"{name}={value!r}" for name, value in values.items() if not isinstance(value, dict))
        below = ", ".join(f"{name}=..." for name, value in values.items() if isinstance(value, dict))
        return f"{self._key or 'spec'}({', '.join(part for part in (own, below) if part)})"


def unknown(group: str, name: str) -> UnknownSetting:
    """The exception for a setting that does not exist, with the nearest one."""
    key = f"{group}.{name}" if group else name
    try:
        _ambulator.check_option(f"{key}=0")
    except SpecError as error:
        return UnknownSetting(str(error))
    return UnknownSetting(f"`{key}` is a setting of this version that this class does not know")
