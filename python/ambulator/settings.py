"""The settings of machines, as classes: one for each group, made from the types of the spec.

`ambulator explain` shows the same: unit, default, range, meaning and source of each.
"""

from __future__ import annotations

import keyword
from typing import Any

from ambulator import _ambulator
from ambulator._groups import Group


def _class_name(key: str) -> str:
    words = key.replace(".", "_").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words) or "Spec"


def _doc(setting: dict[str, Any]) -> str:
    unit = setting["unit"]
    lines = [setting["meaning"]]
    facts = [f"Unit: {unit}."] if unit not in ("", "flag", "choice", "text", "group") else []
    least, greatest = setting.get("least"), setting.get("greatest")
    if least is not None and greatest is not None and greatest < 2**63:
        facts.append(f"From {least} to {greatest}.")
    elif least:
        facts.append(f"At least {least}.")
    if setting["kind"] == "choice":
        facts.append("One of " + ", ".join(choice["name"] for choice in setting["choices"]) + ".")
    if setting["kind"] != "group" and setting["default"] is not None:
        facts.append(f"Default: {setting['default']}.")
    if facts:
        lines.append(" ".join(facts))
    if setting["source"]:
        lines.append(f"Source: {setting['source']}.")
    return "\n\n".join(line for line in lines if line)


def _value(key: str, doc: str) -> property:
    def read(self: Group) -> Any:
        return self._owner._value(key)

    def write(self: Group, value: Any) -> None:
        self._owner._set(key, value)

    return property(read, write, doc=doc)


def _group(below: type[Group], doc: str) -> property:
    def read(self: Group) -> Group:
        return below(self._owner)

    return property(read, doc=doc)


def _make(setting: dict[str, Any]) -> type[Group]:
    fields: dict[str, Any] = {"__doc__": _doc(setting), "__module__": __name__, "_key": setting["key"]}
    names = []
    for child in setting["children"]:
        name = child["key"].rsplit(".", 1)[-1]
        if keyword.iskeyword(name):
            name += "_"
        names.append(name)
        if child["kind"] == "group":
            fields[name] = _group(_make(child), _doc(child))
        else:
            fields[name] = _value(child["key"], _doc(child))
    fields["_names"] = frozenset(names)
    name = _class_name(setting["key"])
    made = type(name, (Group,), fields)
    globals()[name] = made
    __all__.append(name)
    return made


__all__: list[str] = []
_make(_ambulator.settings_tree())
