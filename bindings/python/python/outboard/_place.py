"""Where an array lies: in which region, from which byte to which."""

from __future__ import annotations

import numpy as np

from outboard import _native


def bounds(array: np.ndarray) -> tuple[int, int]:
    """The addresses from the first byte of an array to behind its last."""
    first = last = array.__array_interface__["data"][0]
    if array.size == 0:
        return first, first
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            first += (length - 1) * stride
        else:
            last += (length - 1) * stride
    return first, last + array.itemsize


def region_of(array: object) -> _native.Region | None:
    """The region that an array lies in, unless it is not one of far memory."""
    seen: object = array
    while seen is not None:
        if isinstance(seen, _native.Region):
            return seen
        seen = seen.obj if isinstance(seen, memoryview) else getattr(seen, "base", None)
    return None


def place_of(array: np.ndarray) -> tuple[_native.Region | _native.Handler, int, int]:
    """Where an array lies, and the span of bytes there."""
    first, last = bounds(array)
    region = region_of(array)
    if region is not None:
        return region, first - region.address, last - region.address
    handler = _native.handler_at(first, last)
    if handler is not None:
        start, _ = handler.addresses
        return handler, first - start, last - start
    raise ValueError("this array does not lie in far memory: make it with far.zeros, or inside far.arrays()")


def named_region_of(array: np.ndarray, what: str) -> tuple[_native.Region, int, int]:
    """Where an array lies that has a region of its own."""
    place, start, end = place_of(array)
    if not isinstance(place, _native.Region):
        raise ValueError(f"{what} is for arrays of far.zeros and the like; this one was made inside far.arrays()")
    return place, start, end
