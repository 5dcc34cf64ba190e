"""Far memory: arrays of NumPy that are larger than this machine's memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np

from outboard import _native
from outboard._context import FarArrays
from outboard._errors import NotThereError
from outboard._npy import LONGEST, head, parse
from outboard._place import named_region_of, place_of, region_of
from outboard._reference import Reference, remember
from outboard._sizes import buffer_text, size

Advice = Literal["normal", "sequential", "random", "whole", "will_need", "dont_need"]
_BLOCK = 1 << 20


class FarMemory:
    """Arrays whose bytes are at a memory server, of which a buffer's worth is here at a time.

    :func:`outboard.far` opens it. What it makes are ordinary arrays of NumPy:

    >>> import outboard
    >>> far = outboard.far(buffer="16MiB")
    >>> counts = far.zeros(8_000_000, dtype="u8")  # 64 MB, of which 16 MiB are here
    >>> counts[::1000] += 1
    >>> int(counts.sum())
    8000
    """

    def __init__(self, native: _native.Far, servers: list[str], chunk: int | None) -> None:
        self._native = native
        self._servers = servers
        self._chunk = chunk

    # --- arrays

    def empty(
        self,
        shape: int | tuple[int, ...],
        dtype: Any = float,
        order: Literal["C", "F"] = "C",
        *,
        name: str | None = None,
        chunk: int | str | None = None,
        path: Literal["auto", "direct", "agent"] | None = None,
        cache: Literal["auto", "off", "static", "dynamic"] | None = None,
        guarantee: bool = False,
    ) -> np.ndarray:
        """An array of zeros: memory that was never written is zero, and takes none anywhere.

        With a ``name`` it outlives this process, and :meth:`open` finds it again. ``guarantee`` has the memory server
        set room aside for all of it.
        """
        wanted = np.dtype(dtype)
        if wanted.hasobject:
            raise TypeError(f"{wanted} holds pointers to objects of this process, which cannot lie in far memory")
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))
        if any(length < 0 for length in shape):
            raise ValueError("negative dimensions are not allowed")
        before = head(wanted, shape, order) if name is not None else b""
        arguments = self._arguments(name, chunk, path, cache, guarantee)
        region = self._native.reserve(len(before) + math.prod(shape) * wanted.itemsize, arguments)
        if before:
            region.try_write(0, before, 60.0)
        return np.ndarray(shape, wanted, buffer=region, offset=len(before), order=order)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = float, order: Literal["C", "F"] = "C", **how: Any) -> np.ndarray:
        """An array of zeros, of which nothing takes memory until it is written. See :meth:`empty` for ``how``."""
        return self.empty(shape, dtype, order, **how)

    def full(
        self, shape: int | tuple[int, ...], fill_value: Any, dtype: Any = None, order: Literal["C", "F"] = "C", **how: Any
    ) -> np.ndarray:
        """An array that is full of one value."""
        array = self.empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, order, **how)
        array[...] = fill_value
        return array

    def ones(self, shape: int | tuple[int, ...], dtype: Any = float, order: Literal["C", "F"] = "C", **how: Any) -> np.ndarray:
        """An array of ones."""
        return self.full(shape, 1, dtype, order, **how)

    def array(self, source: Any, dtype: Any = None, order: Literal["C", "F"] = "C", **how: Any) -> np.ndarray:
        """A far copy of an array, or of what NumPy makes one of."""
        near = np.asarray(source, dtype)
        array = self.empty(near.shape, near.dtype, order, **how)
        np.copyto(array, near)
        return array

    def arange(self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **how: Any) -> np.ndarray:
        """The numbers from ``start`` to ``stop``, as :func:`numpy.arange` has them, never all of them here.

        >>> import outboard
        >>> outboard.far(buffer="4MiB").arange(10)[-3:].tolist()
        [7, 8, 9]
        """
        if stop is None:
            start, stop = 0, start
        if dtype is None:
            dtype = np.result_type(np.asarray(start), np.asarray(stop), np.asarray(step))
        length = max(0, math.ceil((stop - start) / step))
        array = self.empty(length, dtype, **how)
        distance = (start + step) - start
        for at in range(0, length, _BLOCK):
            numbers = np.arange(at, min(at + _BLOCK, length))
            array[at : at + _BLOCK] = start + numbers * distance
        return array

    def open(self, name: str, *, writable: bool = False, dtype: Any = None, shape: Any = None, **how: Any) -> np.ndarray:
        """The array of a name, or a file below the data directory of the memory server (``x.npy``).

        Many processes may read it at once, or one may write it. With a ``dtype`` the bytes are taken as they are, without
        a head.
        """
        arguments = self._arguments(None, **how)
        try:
            region = self._native.open_named(name, writable, arguments)
        except NotThereError:
            region = self._native.open_file(name, writable, arguments)
        else:
            remember(region, self._servers)
        if dtype is not None:
            array = np.frombuffer(region, dtype) if shape is None else np.ndarray(shape, dtype, buffer=region)
            return array
        start = bytearray(min(len(region), 4096))
        region.try_read(0, start, 60.0)
        if len(start) >= 12 and (length := int.from_bytes(start[8:12], "little") + 12) > len(start) and start[6] > 1:
            start = bytearray(min(len(region), length, LONGEST))
            region.try_read(0, start, 60.0)
        found, found_shape, order, offset = parse(bytes(start), name)
        return np.ndarray(found_shape, found, buffer=region, offset=offset, order=order)

    def arrays(
        self,
        *,
        least: int | str = "1MiB",
        room: int | str = "1TiB",
        chunk: int | str | None = None,
        process: bool = False,
    ) -> FarArrays:
        """Has NumPy make its large arrays in far memory, inside a ``with`` (NEP 49).

        Every array of ``least`` bytes and more that NumPy makes inside, whoever asks for it, lies in far memory, and
        stays there after the end. A handler belongs to a context: new threads do not inherit it, but with ``process=True``
        those that :mod:`threading` starts meanwhile do. Threads that are started in C do not, and arrays that are not
        NumPy's own (pyarrow's, torch's) lie where their makers put them.

        >>> import numpy as np, outboard
        >>> with outboard.far(buffer="16MiB").arrays():
        ...     numbers = np.arange(4_000_000)[::-1].copy()  # 32 MB
        ...     numbers.sort()
        >>> outboard.is_far(numbers), int(numbers[1234])
        (True, 1234)
        """
        wanted = size(chunk) if chunk is not None else self._chunk or 64 << 10
        return FarArrays(self._native, size(least), size(room), wanted, process)

    # --- what a program can say

    def advise(self, array: np.ndarray, advice: Advice) -> None:
        """Says how an array will be used: ``sequential``, ``random``, ``whole``, ``normal``, ``will_need``, ``dont_need``."""
        place, start, end = place_of(array)
        place.advise(start, end, advice)

    def prefetch(self, arrays: np.ndarray | Iterable[np.ndarray]) -> None:
        """Fetches arrays in the background, in any order, as far as the buffer has room."""
        spans: dict[int, tuple[Any, list[tuple[int, int]]]] = {}
        for array in [arrays] if isinstance(arrays, np.ndarray) else arrays:
            place, start, end = place_of(array)
            spans.setdefault(id(place), (place, []))[1].append((start, end))
        for place, wanted in spans.values():
            place.prefetch(wanted)

    def prefault(self, array: np.ndarray) -> None:
        """Waits until an array is here. It may leave again when others come."""
        place, start, end = place_of(array)
        place.prefault(start, end)

    @contextlib.contextmanager
    def pinned(self, array: np.ndarray) -> Iterator[np.ndarray]:
        """Keeps an array here inside a ``with``, for system calls and devices; of its region nothing else is pinned then."""
        region, start, end = named_region_of(array, "pinned")
        region.pin(start, end)
        try:
            yield array
        finally:
            region.unpin()

    def flush(self, array: np.ndarray) -> None:
        """Waits until the memory server has all that was written to the region of an array."""
        named_region_of(array, "flush")[0].flush()

    def sync(self, array: np.ndarray, deadline: float = 60.0) -> int:
        """Flushes, and has the memory server write the file that the array was opened from. Returns its bytes."""
        return named_region_of(array, "sync")[0].sync(deadline)

    def freeze(self, array: np.ndarray) -> np.ndarray:
        """Ends writing an array that has a name, so that every process may read it from now on, and returns it.

        It stays where it is, with all its views: a store through one that still says it is writable ends the process by SIGSEGV, as
        in any memory that may only be read. Processes of :mod:`multiprocessing` that are given a frozen array get a reference to it
        and not its bytes. For many passes in this process drop it and open it anew, which makes page faults cheaper.

        >>> import numpy as np, outboard
        >>> far = outboard.far(buffer="4MiB")
        >>> squares = far.freeze(far.array(np.arange(1000) ** 2, name="squares"))
        >>> int(squares[30]), squares.flags.writeable
        (900, False)
        >>> del squares
        >>> far.free("squares")  # it would outlive this process
        """
        region = named_region_of(array, "freeze")[0]
        if not region.kept:
            raise ValueError("only an array with a name can be found by others: make it with name=…")
        if region.writable:
            region.share()
        remember(region, self._servers)
        array.flags.writeable = False
        return array

    def reference(self, array: np.ndarray) -> Reference:
        """A frozen array as something small that can be pickled, and opened in another process."""
        return Reference.of(array)

    def free(self, name: str) -> None:
        """Gives back the array of a name, with all that is in it, once no process has it open."""
        self._native.free_named(name, self._arguments())

    def discard(self, array: np.ndarray) -> None:
        """Makes an array zero, and gives up its memory here and at the memory server.

        >>> import outboard
        >>> far = outboard.far(buffer="4MiB")
        >>> ones = far.ones(1000)
        >>> far.discard(ones[:500])
        >>> float(ones.sum())
        500.0
        """
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise ValueError("only bytes in one piece can be discarded: this view has gaps")
        region, start, end = named_region_of(array, "discard")
        region.discard(start, end)

    def read(self, array: np.ndarray, deadline: float = 5.0) -> np.ndarray:
        """A near copy of a far array, which raises :class:`outboard.LostError` where plain access would end the process
        because its memory server is gone."""
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise ValueError("only bytes in one piece can be read like this: this view has gaps")
        region, start, end = named_region_of(array, "read")
        bytes_ = np.empty(end - start, "u1")
        region.try_read(start, bytes_, deadline)
        order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
        return np.ndarray(array.shape, array.dtype, buffer=bytes_, order=order)

    # --- what it is and does

    @property
    def buffer(self) -> int:
        """How many bytes of far memory may be here at once. May be set, also to ``"auto"`` or a size such as ``"1GiB"``."""
        return self._native.buffer

    @buffer.setter
    def buffer(self, amount: int | str) -> None:
        self._native.set_buffer(buffer_text(amount))

    @property
    def servers(self) -> list[str]:
        """The memory servers, by address."""
        return list(self._servers)

    def stats(self) -> dict[str, int]:
        """What was counted so far: page faults, chunks that were read ahead, evicted and written back."""
        return self._native.stats()

    def traffic(self, array: np.ndarray) -> dict[str, int]:
        """How many bytes of the region of an array have crossed links."""
        return named_region_of(array, "traffic")[0].traffic()

    def explain(self, array: np.ndarray | None = None) -> str:
        """What was chosen and why, for people: of all far memory, or of the region of an array."""
        lines = self._native.explain() if array is None else named_region_of(array, "explain")[0].explain()
        return "\n".join(lines)

    def wait_for_agent(self, deadline: float = 10.0) -> bool:
        """Waits until the agent has said what it will do with every region; returns whether there is one."""
        return self._native.wait_for_agent(deadline)

    def _arguments(
        self,
        name: str | None = None,
        chunk: int | str | None = None,
        path: str | None = None,
        cache: str | None = None,
        guarantee: bool = False,
        deadline: float | None = None,
    ) -> dict[str, Any]:
        chunk = size(chunk) if chunk is not None else self._chunk
        return {
            "name": name,
            "chunk": chunk,
            "path": path,
            "cache": cache,
            "guarantee": guarantee,
            "deadline": deadline,
        }


def is_far(array: object) -> bool:
    """Whether an array lies in far memory."""
    if region_of(array) is not None:
        return True
    try:
        place_of(array)  # type: ignore[arg-type]
    except (ValueError, AttributeError, TypeError):
        return False
    return True
