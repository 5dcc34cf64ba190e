"""Tables that many processes share: a hash table and a B-tree."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from outboard import _native


def _rows(items: Any, what: str) -> tuple[Any, np.ndarray]:
    """Bytes one behind the other, and where each row ends: of an array, whose elements (or last axis of bytes) are rows, or of a
    sequence of bytes."""
    if isinstance(items, np.ndarray):
        if items.dtype.hasobject:
            raise TypeError(f"{what} are bytes: {items.dtype} holds pointers to objects")
        array = np.ascontiguousarray(items)
        rows = array.shape[0] if array.ndim else 1
        each = array.nbytes // rows if rows else 0
        return array.view(np.uint8) if array.ndim else array.tobytes(), np.arange(1, rows + 1, dtype=np.uint64) * each
    parts = [bytes(memoryview(item)) for item in items]
    ends = np.cumsum([len(part) for part in parts], dtype=np.uint64) if parts else np.zeros(0, np.uint64)
    return b"".join(parts), ends


class Kv(MutableMapping[bytes, bytes]):
    """A hash table in memory of a server, of keys and values of some bytes. Each operation is done as a whole or not at all,
    whatever other processes do. It is a mapping but for ``len`` and iteration, which the table has not.

    Batches are many times as fast as single operations. Keys and values of a batch are arrays, whose elements are taken as their
    bytes, or lists of bytes:

    >>> import numpy as np, outboard
    >>> table = outboard.kv(keys=10_000, key_max=8, value_max=8)
    >>> keys = np.arange(1000, dtype="u8")
    >>> table.put_many(keys, keys.astype("f8") / 2)
    >>> values, found = table.get_many(keys[:3], dtype="f8")
    >>> values.tolist(), bool(found.all())
    ([0.0, 0.5, 1.0], True)
    """

    def __init__(self, native: _native.Kv) -> None:
        self._native = native

    @property
    def key_max(self) -> int:
        """The longest key, in bytes."""
        return self._native.key_max

    @property
    def value_max(self) -> int:
        """The longest value, in bytes."""
        return self._native.value_max

    def get_many(self, keys: Any, *, dtype: Any = None) -> Any:
        """The values of keys: a list of bytes, or None where a key is not there; with a ``dtype`` an array, and another that says
        which were found."""
        data, ends = _rows(keys, "keys")
        if dtype is None:
            each = self._native.value_max
            values, lengths = self._native.get_many(data, ends, each)
            view = memoryview(values).cast("B")
            sizes = np.frombuffer(lengths, "i8").tolist()
            return [bytes(view[row * each : row * each + long]) if long >= 0 else None for row, long in enumerate(sizes)]
        wanted = np.dtype(dtype)
        values, lengths = self._native.get_many(data, ends, wanted.itemsize)
        sizes = np.frombuffer(lengths, "i8")
        found = sizes >= 0
        if (sizes[found] != wanted.itemsize).any():
            wrong = int(sizes[found][sizes[found] != wanted.itemsize][0])
            raise ValueError(f"a value has {wrong} bytes, and {wanted} has {wanted.itemsize}: read it as bytes")
        return np.frombuffer(values, wanted) if len(sizes) else np.zeros(0, wanted), found

    def put_many(self, keys: Any, values: Any) -> None:
        """Gives each key a value."""
        data, ends = _rows(keys, "keys")
        more, more_ends = _rows(values, "values")
        if len(ends) != len(more_ends):
            raise ValueError(f"there are {len(ends)} keys and {len(more_ends)} values")
        self._native.put_many(data, ends, more, more_ends)

    def delete_many(self, keys: Any) -> np.ndarray:
        """Removes keys, and says of each whether it was there."""
        data, ends = _rows(keys, "keys")
        return np.frombuffer(self._native.delete_many(data, ends), "?") if len(ends) else np.zeros(0, "?")

    def __getitem__(self, key: bytes) -> bytes:
        (value,) = self.get_many([key])
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.put_many([key], [value])

    def __delitem__(self, key: bytes) -> None:
        if not self.delete_many([key])[0]:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self.get_many([key])[0] is not None

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a hash table at a memory server does not list its keys")

    def __len__(self) -> int:
        raise TypeError("a hash table at a memory server does not count its keys")

    def __bool__(self) -> bool:
        return True

    def free(self) -> None:
        """Gives the memory of the table back. No process can use it any more."""
        self._native.free()


class BTree:
    """A B-tree in memory of a server, of keys and values of 64 bits, in the order of keys."""

    def __init__(self, native: _native.Tree) -> None:
        self._native = native

    def get_many(self, keys: Any) -> tuple[np.ndarray, np.ndarray]:
        """The values of keys, and of each whether it is there."""
        wanted = np.ascontiguousarray(keys, "u8").ravel()
        values, found = self._native.get_many(wanted)
        if not len(wanted):
            return np.zeros(0, "u8"), np.zeros(0, "?")
        return np.frombuffer(values, "u8"), np.frombuffer(found, "?")

    def put_many(self, keys: Any, values: Any) -> None:
        """Gives each key a value, whether it had one or not."""
        first, second = (np.ascontiguousarray(part, "u8").ravel() for part in (keys, values))
        if first.shape != second.shape:
            raise ValueError(f"there are {len(first)} keys and {len(second)} values")
        self._native.put_many(first, second)

    def scan(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """So many pairs from a key on, at most 1000: their keys in order, and their values."""
        keys, values = self._native.scan(start, count)
        if not len(keys):
            return np.zeros(0, "u8"), np.zeros(0, "u8")
        return np.frombuffer(keys, "u8"), np.frombuffer(values, "u8")

    def items(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """All pairs from a key on, in order."""
        while True:
            keys, values = self.scan(start, 1000)
            yield from zip(keys.tolist(), values.tolist())
            if len(keys) < 1000:
                return
            start = int(keys[-1]) + 1

    def __getitem__(self, key: int) -> int:
        values, found = self.get_many([key])
        if not found[0]:
            raise KeyError(key)
        return int(values[0])

    def __setitem__(self, key: int, value: int) -> None:
        self.put_many([key], [value])

    def __contains__(self, key: int) -> bool:
        return bool(self.get_many([key])[1][0])

    def get(self, key: int, default: Any = None) -> Any:
        """The value of a key, or ``default``."""
        values, found = self.get_many([key])
        return int(values[0]) if found[0] else default

    def free(self) -> None:
        """Gives the memory of the tree back. No process can use it any more."""
        self._native.free()
