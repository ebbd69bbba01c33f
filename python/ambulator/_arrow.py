"""Columns as Arrow: buffers that other libraries take as they are."""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from typing import Any

import nanoarrow as na
from nanoarrow.c_array import c_array_from_buffers
from nanoarrow.c_array_stream import CArrayStream


def stream(columns: Mapping[str, Sequence[Any]], rows: int) -> Any:
    """One batch of these columns, as nanoarrow's stream."""
    fields, children = [], []
    for name, values in columns.items():
        kind, child = _column(values)
        fields.append(na.Schema(kind, name=name))
        children.append(child)
    batch = c_array_from_buffers(na.struct(fields), rows, [None], children=children)
    return CArrayStream.from_c_arrays([batch], batch.schema)


def _column(values: Sequence[Any]) -> tuple[Any, Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {list}:
        return _lists(values)
    if kinds == {bool}:
        bits = _bits([bool(value) for value in values])
        return _filled(na.bool_(), values, [bits])
    if kinds and kinds <= {int, bool}:
        wide = any(value is not None and value > 2**63 - 1 for value in values)
        kind, code = (na.uint64(), "Q") if wide else (na.int64(), "q")
        return _filled(kind, values, [array.array(code, [int(value or 0) for value in values])])
    if kinds and kinds <= {int, float, bool}:
        numbers = array.array("d", [float("nan") if value is None else float(value) for value in values])
        return _filled(na.float64(), values, [numbers])
    encoded = [b"" if value is None else str(value).encode() for value in values]
    return _filled(na.string(), values, [_offsets(len(text) for text in encoded), b"".join(encoded)])


def _lists(values: Sequence[Any]) -> tuple[Any, Any]:
    lists = [value or [] for value in values]
    kind, child = _column([one for value in lists for one in value])
    return _filled(na.list_(kind), values, [_offsets(len(value) for value in lists)], [child])


def _filled(kind: Any, values: Sequence[Any], buffers: list[Any], children: list[Any] | None = None) -> tuple[Any, Any]:
    missing = sum(value is None for value in values)
    validity = _bits([value is not None for value in values]) if missing else None
    made = c_array_from_buffers(
        kind, len(values), [validity, *buffers], null_count=missing, children=children or ()
    )
    return kind, made


def _bits(flags: list[bool]) -> bytes:
    bits = bytearray((len(flags) + 7) // 8)
    for at, flag in enumerate(flags):
        bits[at >> 3] |= flag << (at & 7)
    return bytes(bits)


def _offsets(lengths: Any) -> array.array[int]:
    offsets = array.array("i", [0])
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return offsets
