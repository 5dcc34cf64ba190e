"""How an array that has a name lies in its region: as in a file of NumPy, with a head of whole pages."""

from __future__ import annotations

import ast
import struct

import numpy as np

_MAGIC = b"\x93NUMPY"
#: A head takes whole pages, so that the elements begin at one.
PAGE = 4096
#: No head is longer.
LONGEST = 1 << 20


def head(dtype: np.dtype, shape: tuple[int, ...], order: str) -> bytes:
    """The head of an array, version 2 of the format."""
    description = np.lib.format.dtype_to_descr(dtype)
    text = repr({"descr": description, "fortran_order": order == "F", "shape": shape}).encode("latin1")
    fixed = len(_MAGIC) + 2 + 4
    length = -(-(fixed + len(text) + 1) // PAGE) * PAGE
    padded = text + b" " * (length - fixed - len(text) - 1) + b"\n"
    return _MAGIC + b"\x02\x00" + struct.pack("<I", len(padded)) + padded


def parse(start: bytes, name: str) -> tuple[np.dtype, tuple[int, ...], str, int]:
    """The dtype, shape and order of an array, and where its elements begin."""
    if start[:6] != _MAGIC or start[6] not in (1, 2, 3):
        raise ValueError(f"{name!r} is no array of NumPy: say its dtype, and perhaps its shape, to read it as it is")
    form, at = ("<H", 10) if start[6] == 1 else ("<I", 12)
    (length,) = struct.unpack_from(form, start, 8)
    if at + length > len(start):
        raise ValueError(f"the head of {name!r} has {length} bytes, which is more than it can have")
    try:
        said = ast.literal_eval(start[at : at + length].decode("latin1" if start[6] < 3 else "utf8"))
        dtype = np.lib.format.descr_to_dtype(said["descr"])
        shape, order = tuple(map(int, said["shape"])), "F" if said["fortran_order"] else "C"
    except (SyntaxError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the head of {name!r} cannot be read: {error}") from error
    return dtype, shape, order, at + length
