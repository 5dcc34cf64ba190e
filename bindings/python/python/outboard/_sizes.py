"""Amounts of memory, as people write them."""

from __future__ import annotations

_UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}iB": 1 << 10 * (place + 1) for place, letter in enumerate("KMGTPE")},
    **{f"{letter}B": 1000 ** (place + 1) for place, letter in enumerate("kMGTPE")},
    "KB": 1000,
}


def size(amount: int | str) -> int:
    """The bytes of an amount.

    >>> size("64KiB"), size("1.5MiB"), size(4096)
    (65536, 1572864, 4096)
    """
    if isinstance(amount, str):
        text = amount.strip()
        digits = text.rstrip("BiKkMGTPE ")
        unit = text[len(digits):].strip()
        try:
            return int(float(digits) * _UNITS[unit])
        except (KeyError, ValueError):
            raise ValueError(f"{amount!r} is no amount of memory: write bytes, or a size such as '256MiB'") from None
    return int(amount)


def buffer_text(amount: int | str) -> str:
    """A buffer as the library reads it: bytes, a fraction such as ``1/3``, or ``auto``."""
    return amount if isinstance(amount, str) else f"{int(amount)}B"
