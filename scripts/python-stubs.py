#!/usr/bin/env python3
"""Writes python/ambulator/settings.pyi, the types of all settings, from the installed package `ambulator`.

With --check, says whether the file is as it should be and changes nothing.
"""

import keyword
import sys
import textwrap
from pathlib import Path

from ambulator import _ambulator, settings

FILE = Path(__file__).resolve().parent.parent / "python/ambulator/settings.pyi"
HEAD = '''"""The settings of machines, as classes. Written by scripts/python-stubs.py."""

from typing import Literal

from ambulator._groups import Group
'''


def read_type(setting: dict) -> str:
    match setting["kind"]:
        case "integer":
            return "int"
        case "number":
            return "float"
        case "flag":
            return "bool"
        case "choice":
            return "Literal[" + ", ".join(f'"{choice["name"]}"' for choice in setting["choices"]) + "]"
        case "list":
            return f"list[{read_type(setting['of'])}]"
    return "str"


def write_type(setting: dict) -> str:
    return {"integer": "int | str"}.get(setting["kind"], read_type(setting))


def documented(doc: str, indent: str) -> list[str]:
    """A docstring, with lines of at most 110 columns."""
    paragraphs = doc.replace("\\", "\\\\").replace('"""', "'''").split("\n\n")
    lines = []
    for paragraph in paragraphs:
        lines += ["", *textwrap.wrap(paragraph, 110 - len(indent), break_long_words=False, break_on_hyphens=False)]
    lines = lines[1:]
    if len(lines) == 1 and not lines[0].endswith('"'):
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}" if line else "" for line in lines[1:]), f'{indent}"""']


def classes(group: dict) -> list[str]:
    found = []
    name = settings._class_name(group["key"])
    lines = ["", f"class {name}(Group):", *documented(settings._doc(group), "    ")]
    for child in group["children"]:
        field = child["key"].rsplit(".", 1)[-1]
        field += "_" if keyword.iskeyword(field) else ""
        doc = documented(settings._doc(child), "        ")
        if child["kind"] == "group":
            found += classes(child)
            below = settings._class_name(child["key"])
            lines += ["    @property", f"    def {field}(self) -> {below}:", *doc]
            continue
        unset = " | None" if child["optional"] else ""
        lines += ["    @property", f"    def {field}(self) -> {read_type(child)}{unset}:", *doc]
        lines += [f"    @{field}.setter", f"    def {field}(self, value: {write_type(child)}) -> None: ..."]
    return found + lines


def main() -> int:
    exported = "".join(f'    "{name}",\n' for name in settings.__all__)
    text = HEAD + f"\n__all__ = [\n{exported}]\n" + "\n".join(classes(_ambulator.settings_tree())) + "\n"
    if "--check" not in sys.argv:
        FILE.write_text(text)
        return 0
    if FILE.exists() and FILE.read_text() == text:
        return 0
    print(f"{FILE.name} is not that of the settings: run scripts/python-stubs.py with the package installed")
    return 1


if __name__ == "__main__":
    sys.exit(main())
