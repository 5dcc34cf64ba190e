"""Memory of other machines as arrays of NumPy; messages between ranks, tables, functions and remote writes.

>>> import outboard
>>> far = outboard.far(buffer="16MiB")  # finds `outboard up`, or starts a memory server for this process
>>> x = far.zeros((1000, 1000))  # an array of NumPy; as much of it is here as the buffer has room for
>>> x[3] = 1
>>> float(x.sum())
1000.0

===================================  =========================================
:func:`far`                          arrays behind plain pointers
:func:`memory`                       regions, read and written by calls
:func:`writer`                       remote writes that choose their path
:func:`functions`                    functions that run beside the data
:func:`kv`, :func:`btree`            tables that many processes share
:class:`Job`                         ranks, and messages between them
===================================  =========================================
"""

from __future__ import annotations

import atexit as _atexit
import sys as _sys
from typing import Any

if _sys.version_info < (3, 11):
    raise ImportError(f"outboard needs Python 3.11 or newer; this is {_sys.version.split()[0]}")

import numpy as _np

from outboard import _native
from outboard._context import FarArrays
from outboard._errors import (
    BoundsError,
    DeadlineError,
    LostError,
    NoRoomError,
    NotThereError,
    OpenError,
    OutboardError,
)
from outboard._arrow import Column, column
from outboard._far import FarMemory, is_far
from outboard._functions import Caller, Function
from outboard._job import Job, Messenger
from outboard._memory import Memory, Region, Writer
from outboard._program import path as _program
from outboard._reference import Reference
from outboard._sizes import buffer_text as _buffer_text
from outboard._sizes import size as _size
from outboard._tables import BTree, Kv

__all__ = [
    "BTree",
    "BoundsError",
    "Caller",
    "Column",
    "DeadlineError",
    "FarArrays",
    "FarMemory",
    "Function",
    "Job",
    "Kv",
    "LostError",
    "Memory",
    "Messenger",
    "NoRoomError",
    "NotThereError",
    "OpenError",
    "Outboard",
    "OutboardError",
    "Reference",
    "Region",
    "Writer",
    "btree",
    "column",
    "connect",
    "far",
    "functions",
    "is_far",
    "kv",
    "memory",
    "writer",
]

_atexit.register(_native._leave)


class Outboard:
    """A memory server, and perhaps an agent, to work with. :func:`connect` makes one."""

    def __init__(self, native: _native.Outboard) -> None:
        self._native = native

    @property
    def server(self) -> str | None:
        """Where the memory server is."""
        return self._native.server

    @property
    def agent(self) -> str | None:
        """Where the agent is, if there is one."""
        return self._native.agent

    def explain(self) -> str:
        """Which memory server and which agent were chosen."""
        return "\n".join(self._native.explain())

    def far(
        self,
        buffer: int | str | None = None,
        *,
        servers: list[str] | None = None,
        buffer_max: int | str | None = None,
        footprint: int | str | None = None,
        chunk: int | str | None = None,
        ahead: int | str | None = None,
        threads: int | None = None,
        faults: str | None = None,
        grace: float | None = None,
        on_loss: str | None = None,
    ) -> FarMemory:
        """Far memory at this memory server, or striped over ``servers``. See :func:`outboard.far`."""
        arguments = {
            "buffer": None if buffer is None else _buffer_text(buffer),
            "buffer_max": None if buffer_max is None else _size(buffer_max),
            "footprint": None if footprint is None else _size(footprint),
            "servers": servers,
            "chunk": None if chunk is None else _size(chunk),
            "ahead": None if ahead is None else _size(ahead),
            "threads": threads,
            "faults": faults,
            "grace": grace,
            "on_loss": on_loss,
        }
        native = self._native.far(arguments)
        return FarMemory(native, servers or [self._native.server or ""], arguments["chunk"])

    def memory(self) -> Memory:
        """Regions of the memory server, read, written and updated by calls."""
        return Memory(self._native.memory())

    def writer(self, path: str | None = None, *, by_agent: bool = False) -> Writer:
        """Remote writes, each by the path that is faster, or all by ``path`` (``offload`` or ``unload``)."""
        return Writer(self._native.writer(path, by_agent))

    def functions(self, place: str = "auto", *, under_way: int = 256) -> Caller:
        """Calls of functions that run beside the data: ``auto``, or at the ``application``, ``agent`` or ``server``."""
        return Caller(self._native.caller(place, under_way))

    def kv(
        self,
        name: str | None = None,
        *,
        keys: int | None = None,
        key_max: int = 32,
        value_max: int = 200,
        under_way: int = 256,
    ) -> Kv:
        """The hash table of a name; with ``keys`` a new one, for so many. Without a name it goes with this object.

        >>> import outboard
        >>> table = outboard.kv(keys=1000)
        >>> table[b"ada"] = b"lovelace"
        >>> table[b"ada"]
        b'lovelace'
        """
        if name is None and keys is None:
            raise ValueError("say the name of a table to open it, or keys=… to make one")
        create = None if keys is None else (keys, key_max, value_max)
        return Kv(self._native.kv(name, create, under_way))

    def btree(
        self,
        name: str | None = None,
        *,
        keys: int | None = None,
        pairs: tuple[Any, Any] | None = None,
        under_way: int = 256,
    ) -> BTree:
        """The B-tree of a name; with ``keys`` a new one, for so many, made of ``pairs``: sorted keys, and their values."""
        if name is None and keys is None:
            raise ValueError("say the name of a tree to open it, or keys=… to make one")
        if pairs is not None:
            if keys is None:
                raise ValueError("pairs are for a tree that is made: say keys=…")
            first, second = (_np.ascontiguousarray(part, "u8") for part in pairs)
            if first.shape != second.shape or first.ndim != 1:
                raise ValueError("there is a value for each key")
            pairs = (first, second)
        return BTree(self._native.tree(name, keys, pairs, under_way))


def connect(
    server: str | None = None, *, agent: str | None = None, start: bool = True, deadline: float | None = None
) -> Outboard:
    """The memory server at an address, or the one of `outboard up` or of the settings. Where there is none, and ``start`` is not
    false, one is started for this process, and ends with it. ``agent`` is an address, or ``"none"``."""
    return Outboard(_native.Outboard(server, agent, _program() if start else None, deadline))


def far(
    buffer: int | str | None = None,
    *,
    server: str | list[str] | None = None,
    agent: str | None = None,
    start: bool = True,
    **how: Any,
) -> FarMemory:
    """Opens far memory: arrays of NumPy that may be larger than this machine's memory.

    ``buffer`` is how much of it is here at a time: a size (``"2GiB"``), a fraction of a ``footprint`` that is said too
    (``"1/3"``), or ``"auto"``, which follows what memory is left. ``server`` is the address of a memory server, or a list over
    which arrays are striped; by default that of `outboard up`, or else one that is started for this process.

    ``chunk`` is the unit in which bytes move (64 KiB; up to 2 MiB for scans), ``faults`` which thread answers a page fault
    (``auto``, ``threads`` or ``signal``), ``grace`` how many seconds a lost server may stay away, and ``on_loss`` how an access ends
    that cannot be served (``signal`` or ``exit``).

    >>> import outboard
    >>> far = outboard.far(buffer="8MiB")
    >>> far.buffer
    8388608
    """
    several = None if isinstance(server, str) or server is None else list(server)
    first = several[0] if several else server
    return connect(first, agent=agent, start=start).far(buffer, servers=several, **how)  # type: ignore[arg-type]


def memory(server: str | None = None) -> Memory:
    """Regions of a memory server, read, written and updated by calls.

    >>> import outboard
    >>> memory = outboard.memory()
    >>> counters = memory.reserve(4096)
    >>> memory.fetch_add(counters, 0, 5), memory.fetch_add(counters, 0, 1)
    (0, 5)
    """
    return connect(server).memory()


def writer(server: str | None = None) -> Writer:
    """Remote writes that choose their path.

    >>> import outboard
    >>> memory, writer = outboard.memory(), outboard.writer()
    >>> region = memory.reserve(4096)
    >>> writer.write(region, 8, b"far away")
    >>> writer.flush()
    >>> memory.read(region, 8, 8)
    b'far away'
    """
    return connect(server).writer()


def functions(server: str | None = None) -> Caller:
    """Calls of functions that run beside the data. See :class:`Caller`."""
    return connect(server).functions()


def kv(name: str | None = None, *, server: str | None = None, **how: Any) -> Kv:
    """A hash table that many processes share. See :meth:`Outboard.kv`."""
    return connect(server).kv(name, **how)


def btree(name: str | None = None, *, server: str | None = None, **how: Any) -> BTree:
    """A B-tree that many processes share. See :meth:`Outboard.btree`.

    >>> import numpy as np, outboard
    >>> tree = outboard.btree(keys=10_000, pairs=(np.arange(100), np.arange(100) ** 2))
    >>> tree[9]
    81
    >>> tree.scan(97, 2)[1].tolist()
    [9409, 9604]
    """
    return connect(server).btree(name, **how)
