"""Frozen arrays in other processes: a name and a shape instead of the bytes."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from outboard import _native
from outboard._place import region_of

_servers: weakref.WeakKeyDictionary[_native.Region, tuple[str, ...]] = weakref.WeakKeyDictionary()


def remember(region: _native.Region, servers: list[str]) -> None:
    """Keeps where a named region is, and has processes of multiprocessing be given references to it."""
    # Few programs need it, and it takes long to import.
    from multiprocessing.reduction import ForkingPickler

    _servers[region] = tuple(servers)
    ForkingPickler.register(np.ndarray, _reduce)


@dataclass(frozen=True)
class Reference:
    """A frozen array: where it is, and not its bytes. It can be pickled."""

    servers: tuple[str, ...]
    name: str
    chunk: int
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    buffer: int = 64 << 20

    @classmethod
    def of(cls, array: np.ndarray) -> Reference:
        """The reference to an array that others may read."""
        region = region_of(array)
        if region is None or not region.kept or region.writable or region not in _servers:
            raise ValueError("only a frozen array can be referred to: give it a name, and far.freeze it")
        offset = array.__array_interface__["data"][0] - region.address
        return cls(_servers[region], region.name, region.chunk, offset, array.dtype, array.shape, array.strides)

    def open(self, far: Any = None) -> np.ndarray:
        """The array in this process, in ``far`` or in far memory that all references of a server share."""
        whole: Any = next((here for here, at in _servers.items() if (here.name, at) == (self.name, self.servers)), None)
        if whole is None:
            where = far if far is not None else _far(self.servers, self.buffer)
            whole = where.open(self.name, dtype="u1", chunk=self.chunk)
        return np.ndarray(self.shape, self.dtype, buffer=whole, offset=self.offset, strides=self.strides)


@functools.cache
def _far(servers: tuple[str, ...], buffer: int) -> Any:
    import outboard

    return outboard.far(buffer, server=list(servers) if len(servers) > 1 else servers[0])


def _reopen(reference: Reference) -> np.ndarray:
    return reference.open()


def _reduce(array: np.ndarray) -> Any:
    region = region_of(array)
    if region is not None and region in _servers and not region.writable:
        return _reopen, (Reference.of(array),)
    return array.__reduce_ex__(2)
