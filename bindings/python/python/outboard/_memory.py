"""Regions of a memory server, by calls, and remote writes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outboard import _native


def bytes_of(data: Any) -> Any:
    """What has the bytes of `data` in one piece."""
    return np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data


class Listed(NamedTuple):
    """A region as :meth:`Memory.list` tells of it."""

    id: int
    name: str | None
    size: int
    #: The process that reserved it, unless that has gone.
    owner: int | None


class Region:
    """A region of a memory server that this process has opened."""

    def __init__(self, native: _native.MemoryRegion) -> None:
        self._native = native

    @property
    def id(self) -> int:
        """Its number, by which `outboard memory list` shows it."""
        return self._native.id

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._native.size

    def __repr__(self) -> str:
        return repr(self._native)


class Memory:
    """A memory server: regions that are read, written and updated by calls, each of which ends within its deadline (5 s).

    A region belongs to one process that writes it or to many that read it; those that ask for it with ``shared=True`` have
    it together, and atomics keep them apart.

    >>> import numpy as np, outboard
    >>> memory = outboard.memory()
    >>> table = memory.reserve(1 << 20)
    >>> memory.write(table, 64, np.arange(4, dtype="u8"))
    >>> memory.read(table, 64, dtype="u8", count=4).tolist()
    [0, 1, 2, 3]
    >>> memory.compare_and_swap(table, 64, 0, 7)  # what it held before
    0
    """

    def __init__(self, native: _native.Memory) -> None:
        self._native = native

    @property
    def server(self) -> str:
        """The memory server, for people."""
        return self._native.server

    def reserve(self, size: int, name: str | None = None, *, shared: bool = False, sparse: bool = False) -> Region:
        """A new region of zeros. With a name it outlives this process; a sparse one takes memory as it is written."""
        return Region(self._native.reserve(size, name, shared, sparse))

    def open(self, name: str, *, writable: bool = False, shared: bool = False) -> Region:
        """The region of a name."""
        return Region(self._native.open(name, writable, shared))

    def load(self, path: str, *, writable: bool = False, deadline: float = 60.0) -> Region:
        """A file below the data directory of the memory server, which loads it."""
        return Region(self._native.load(path, writable, deadline))

    def read(self, region: Region, offset: int = 0, size: int | None = None, *, dtype: Any = None, count: int | None = None) -> Any:
        """Bytes of a region; with a ``dtype`` an array of ``count`` elements, or of all that follow."""
        if dtype is not None:
            wanted = np.dtype(dtype)
            whole = (region.size - offset) // wanted.itemsize if count is None else count
            array = np.empty(whole, wanted)
            self._native.read_into(region._native, offset, array.view("u1"))
            return array
        into = bytearray(region.size - offset if size is None else size)
        self._native.read_into(region._native, offset, into)
        return bytes(into)

    def read_into(self, region: Region, offset: int, array: Any) -> None:
        """Reads as many bytes as an array has, into it."""
        self._native.read_into(region._native, offset, array)

    def write(self, region: Region, offset: int, data: Any) -> None:
        """Writes bytes or an array; the server has them when this returns."""
        self._native.write(region._native, offset, bytes_of(data))

    def fetch_add(self, region: Region, offset: int, addend: int) -> int:
        """Adds to a word of 64 bits, and returns what it held before."""
        return self._native.fetch_add(region._native, offset, addend % (1 << 64))

    def compare_and_swap(self, region: Region, offset: int, expected: int, new: int) -> int:
        """Replaces a word of 64 bits if it holds ``expected``, and returns what it held before."""
        return self._native.compare_and_swap(region._native, offset, expected, new)

    def populate(self, region: Region) -> int:
        """Has the server take memory for all of a region now; returns how much of it lies in large pages."""
        return self._native.populate(region._native)

    def sync(self, region: Region, deadline: float = 60.0) -> int:
        """Has the server write a loaded region to its file; returns the bytes of that."""
        return self._native.sync(region._native, deadline)

    def release(self, region: Region) -> None:
        """Gives up a region that others may want. One without a name is freed."""
        self._native.release(region._native)

    def free(self, region: Region) -> None:
        """Gives a region back with all that is in it."""
        self._native.free(region._native)

    def list(self) -> list[Listed]:
        """All regions of the server."""
        return [Listed(*row) for row in self._native.list()]


class Writer:
    """Remote writes, each of which goes straight into the memory of the server, or by its processor, whichever is faster."""

    def __init__(self, native: _native.Writer) -> None:
        self._native = native

    def write(self, region: Region, offset: int, data: Any, *, path: str | None = None, hint: str | None = None) -> None:
        """Begins to write bytes or an array. ``hint`` may be ``hot``, ``cold`` or ``streaming``. :meth:`flush` tells how it ended."""
        self._native.write(region._native, offset, bytes_of(data), path, hint)

    def flush(self, deadline: float = 5.0) -> None:
        """Waits until the server has everything, and raises if a write has failed."""
        self._native.flush(deadline)

    def fence(self) -> None:
        """Has later writes begin when all before have ended."""
        self._native.fence()

    @property
    def under_way(self) -> int:
        """How many writes have not been told to have ended."""
        return self._native.under_way

    def explain(self) -> str:
        """What was chosen and why."""
        return "\n".join(self._native.explain())
