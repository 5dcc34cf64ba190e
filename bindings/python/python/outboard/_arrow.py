"""Far arrays as columns of Arrow, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from outboard import _native

_FORMATS = {
    "i1": "c", "u1": "C", "i2": "s", "u2": "S", "i4": "i", "u4": "I", "i8": "l", "u8": "L",
    "f2": "e", "f4": "f", "f8": "g",
    "M8[s]": "tss:", "M8[ms]": "tsm:", "M8[us]": "tsu:", "M8[ns]": "tsn:",
    "m8[s]": "tDs", "m8[ms]": "tDm", "m8[us]": "tDu", "m8[ns]": "tDn",
}


class Column:
    """An array for programs that read Arrow's interface for C: ``pyarrow.array(column)``, ``polars.Series(column)``. They use its
    bytes where they are, and keep it alive."""

    def __init__(self, array: np.ndarray) -> None:
        if array.ndim != 1 or not array.flags.c_contiguous:
            raise ValueError("a column has one dimension, and its values one behind the other")
        form = _FORMATS.get(array.dtype.str[1:])
        if form is None or not array.dtype.isnative:
            raise TypeError(f"there is no column of {array.dtype}: whole and floating numbers, times and differences of times")
        self._array, self._format = array, form

    def __len__(self) -> int:
        return len(self._array)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        address = self._array.__array_interface__["data"][0]
        schema, column = _native.arrow_column(self._array, address, len(self._array), self._format)
        return schema, column


def column(array: np.ndarray) -> Column:
    """An array of one dimension, far or near, as a column of Arrow."""
    return Column(array)
