"""Functions that run beside the data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from outboard import _native
from outboard._errors import OutboardError
from outboard._memory import Region, bytes_of


class Function:
    """A function that a :class:`Caller` has registered."""

    def __init__(self, caller: Caller, native: _native.Function) -> None:
        self._caller = caller
        self._native = native

    def __call__(self, arguments: Any = b"", *, key: bytes | None = None) -> tuple[int, bytes]:
        """Runs it once: what it returns, and the bytes that it replies."""
        return self._caller._native.call(self._native, bytes_of(arguments), key)

    def many(self, arguments: np.ndarray, *, keys: np.ndarray | None = None, reply: Any = None) -> Any:
        """Runs it for each row of an array, many at a time: what each run returns; with a ``reply`` dtype also what each
        replies."""
        rows = np.ascontiguousarray(arguments)
        if rows.ndim == 0:
            raise ValueError("there is a row of arguments for each call: give an array of one dimension at least")
        count = rows.shape[0]
        each = rows.nbytes // count if count else 0
        wanted = None if reply is None else np.dtype(reply)
        key_rows = None if keys is None else np.ascontiguousarray(keys)
        if key_rows is not None and (key_rows.ndim == 0 or key_rows.shape[0] != count):
            raise ValueError(f"there are {count} calls; give as many keys")
        values, replies, lengths = self._caller._native.call_many(
            self._native,
            rows.view(np.uint8) if count else b"",
            each,
            count,
            0 if wanted is None else wanted.itemsize,
            None if key_rows is None or not count else key_rows.view(np.uint8),
            0 if key_rows is None or not count else key_rows.nbytes // count,
        )
        returned = np.frombuffer(values, "u8") if count else np.zeros(0, "u8")
        if wanted is None:
            return returned
        if not count:
            return returned, np.zeros(0, wanted)
        sizes = np.frombuffer(lengths, "i8")
        if (sizes != wanted.itemsize).any():
            wrong = int(sizes[sizes != wanted.itemsize][0])
            raise ValueError(f"a call replied {wrong} bytes, and {wanted} has {wanted.itemsize}")
        return returned, np.frombuffer(replies, wanted)


class Caller:
    """Functions in eBPF that run at a memory server, at an agent or here, each call at most once.

    >>> import numpy as np, outboard
    >>> memory, functions = outboard.memory(), outboard.functions()
    >>> counters = memory.reserve(4096)
    >>> count = functions.register('''
    ...     ldxdw r3, [r1+0]        ; what to add, from the arguments
    ...     mov r1, 0               ; the first region
    ...     mov r2, 0               ; its first word
    ...     call region_fetch_add
    ...     exit''', regions=[counters])
    >>> count(np.uint64(5).tobytes())
    (0, b'')
    >>> int(count.many(np.ones(100, "u8")).max())
    104
    """

    def __init__(self, native: _native.Caller) -> None:
        self._native = native

    @property
    def server(self) -> str:
        """The memory server, for people."""
        return self._native.server

    def register(
        self,
        code: str | bytes,
        entry: str = "main",
        *,
        regions: Sequence[Region | tuple[Region, str]] = (),
        fuel: int | None = None,
        reply_max: int = 4096,
    ) -> Function:
        """Registers the function ``entry`` of an object that clang has made (bytes), or of a program in the text form of the engine.

        A function knows its ``regions`` by their places in the list. It may write them, unless one is ``(region, "r")``.
        """
        known = []
        for given in regions:
            region, rights = given if isinstance(given, tuple) else (given, "rw")
            if rights not in ("r", "rw"):
                raise ValueError(f"{rights!r} are no rights: 'r' or 'rw'")
            known.append((region._native, rights == "rw"))
        return Function(self, self._native.register(code, entry, known, fuel, reply_max))

    def compile(self, source: str, entry: str, *, include: Sequence[str | os.PathLike[str]] = (), **how: Any) -> Function:
        """Compiles a function from C by the clang that is at hand, and registers it. Its source includes ``calling.h`` of
        this project, which lies beside it or in a folder of ``include``."""
        # Few programs need them, and they take long to import.
        import subprocess
        import tempfile

        clang = next((found for name in ("clang", "clang-19") if (found := shutil.which(name))), None)
        if clang is None:
            raise OutboardError("there is no clang to compile functions with: install one, or register an object")
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "function.o")
            flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-fno-ident", "-Wall", "-c", "-x", "c"]
            folders = [flag for one in include for flag in ("-I", os.fspath(one))]
            done = subprocess.run(
                [clang, *flags, *folders, "-", "-o", made], input=source, text=True, capture_output=True, check=False
            )
            if done.returncode != 0:
                raise OutboardError(f"clang cannot compile the function: {done.stderr.strip()}")
            with open(made, "rb") as file:
                return self.register(file.read(), entry, **how)
