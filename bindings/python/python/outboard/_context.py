"""NumPy's own arrays in far memory, by a handler of NEP 49."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from outboard import _native
from outboard._errors import NoRoomError

_patch = threading.RLock()


class FarArrays:
    """The context that :meth:`outboard.FarMemory.arrays` makes. It may be entered again and again, also in other threads."""

    def __init__(self, far: _native.Far, least: int, room: int, chunk: int, process: bool) -> None:
        self._handler = far.handler(room, least, chunk)
        self._process = process
        self._before: list[Any] = []
        self._start: Any = None

    def __enter__(self) -> FarArrays:
        self._before.append(self._handler.set())
        if self._process and len(self._before) == 1:
            self._inherit()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._process and len(self._before) == 1:
            self._disinherit()
        self._handler.restore(self._before.pop())
        why = self._handler.take_refusal()
        if isinstance(error, MemoryError) and why is not None and not isinstance(error, NoRoomError):
            raise NoRoomError(f"an array could not be made in far memory: {why}") from error

    def _inherit(self) -> None:
        """Has threads of :mod:`threading` begin with the handler, those of pools among them."""
        with _patch:
            start = threading.Thread.start
            handler = self._handler

            def start_far(thread: threading.Thread, *arguments: Any, **more: Any) -> None:
                run = thread.run

                def run_far() -> None:
                    handler.set()
                    run()

                thread.run = run_far  # type: ignore[method-assign]
                start(thread, *arguments, **more)

            self._start = (start, start_far)
            threading.Thread.start = start_far  # type: ignore[method-assign]

    def _disinherit(self) -> None:
        with _patch:
            start, start_far = self._start
            # Another context may have been entered inside and not left yet; it goes on with what it found.
            if threading.Thread.start is start_far:
                threading.Thread.start = start  # type: ignore[method-assign]

    def stats(self) -> dict[str, int]:
        """How many arrays live in far memory, how many were made, and how many bytes they have."""
        return self._handler.stats()

    def trim(self) -> None:
        """Gives back the memory of arrays that are gone, here and at the memory server, which happens by itself in time."""
        self._handler.trim()
