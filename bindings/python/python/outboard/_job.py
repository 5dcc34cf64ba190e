"""Ranks of a job, and messages between them."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from outboard import _native


class Job:
    """This process as a rank among others. ``outboard run -n 4 -- python prog.py`` starts them, and so do ``mpirun``, ``srun`` and
    ``torchrun``; a program that none of them has started is a job of one rank.

    >>> import numpy as np, outboard
    >>> job = outboard.Job()
    >>> with job.messenger() as messenger:
    ...     messenger.send_array(np.zeros(3, int), np.arange(3))  # to rank 0, which is this one
    ...     for sources, values in messenger.drain("i8"):
    ...         print(sources.tolist(), values.tolist())
    [0, 0, 0] [0, 1, 2]
    """

    def __init__(self) -> None:
        self._native = _native.Job()

    @property
    def rank(self) -> int:
        """The number of this process in the job."""
        return self._native.rank

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return self._native.size

    @property
    def id(self) -> int:
        """The number of the job."""
        return self._native.id

    def outboard(self) -> Any:
        """The daemons of this job, which open far memory, memory, writers, functions and tables."""
        from outboard import Outboard

        return Outboard(self._native.outboard())

    def far(self, buffer: int | str | None = None, **how: Any) -> Any:
        """Far memory at the memory server of this job."""
        return self.outboard().far(buffer, **how)

    def messenger(
        self,
        *,
        spaces: int = 1,
        placement: str | None = None,
        bundle: int | None = None,
        longest: int | None = None,
        deadline: float | None = None,
    ) -> Messenger:
        """Connects this rank with all others, which have to do so too. A job has one messenger; its message ``spaces`` are independent."""
        return Messenger(self._native.messenger(spaces, placement, bundle, longest, deadline))

    def explain(self) -> str:
        """What was chosen and why."""
        return "\n".join(self._native.explain())

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}>"


class Messenger:
    """Messages between ranks, gathered in bundles. Each is handled once; they arrive in no particular order.

    A rank that sends while all bundles are under way takes in what others have sent, and keeps it until it is received.
    """

    def __init__(self, native: _native.Messenger) -> None:
        self._native = native

    @property
    def rank(self) -> int:
        """The number of this process in the job."""
        return self._native.rank

    @property
    def ranks(self) -> int:
        """How many ranks the job has."""
        return self._native.ranks

    def send(self, rank: int, data: Any, *, space: int = 0) -> None:
        """Sends bytes to a rank."""
        view = memoryview(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data)
        self._native.send(self._ranks(rank), view, 1, view.nbytes, space)

    def send_array(self, ranks: Any, values: Any, *, space: int = 0) -> None:
        """Sends each row of an array as a message: to one rank, or to the rank of its place in ``ranks``."""
        rows = np.ascontiguousarray(values)
        if rows.dtype.hasobject:
            raise TypeError(f"{rows.dtype} holds pointers to objects of this process, which cannot be sent")
        if rows.ndim == 0:
            rows = rows.reshape(1)
        count = rows.shape[0]
        wanted = self._ranks(ranks)
        if wanted.size not in (1, count):
            raise ValueError(f"there are {wanted.size} ranks and {count} messages")
        if count:
            self._native.send(wanted, rows.view(np.uint8), count, rows.nbytes // count, space)

    def _ranks(self, ranks: Any) -> np.ndarray:
        numbers = np.atleast_1d(np.asarray(ranks))
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"ranks are whole numbers, not {numbers.dtype}")
        if numbers.size and (numbers.min() < 0 or numbers.max() >= self.ranks):
            wrong = int(numbers[(numbers < 0) | (numbers >= self.ranks)][0])
            raise ValueError(f"there is no rank {wrong} in a job of {self.ranks}: ranks count from 0")
        return np.ascontiguousarray(numbers, "u4")

    def flush(self, *, space: int = 0) -> None:
        """Sends what is in open bundles."""
        self._native.flush(space)

    def receive(self, dtype: Any, *, space: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The messages that have arrived, perhaps none: from which ranks, and their values. Does not wait."""
        self._native.poll(space)
        return self._take(dtype, space)

    def receive_bytes(self, *, space: int = 0) -> list[tuple[int, bytes]]:
        """The messages of any size that have arrived, each with its rank. Does not wait."""
        self._native.poll(space)
        return self._native.take_bytes(space)

    def drain(self, dtype: Any = None, *, space: int = 0) -> Iterator[Any]:
        """Receives until everything that was sent anywhere in this space has been handled everywhere, which all ranks take part in.

        Yields arrays (ranks, values), or with no ``dtype`` lists of ``(rank, bytes)``. The loop may send, also in answer to what it
        got.
        """
        self._native.begin_quiesce(space)
        while not self._native.quiesce(space):
            yield self._native.take_bytes(space) if dtype is None else self._take(dtype, space)

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        self._native.barrier()

    def _take(self, dtype: Any, space: int) -> tuple[np.ndarray, np.ndarray]:
        wanted = np.dtype(dtype)
        sources, values = self._native.take(space, wanted.itemsize)
        if not len(sources):
            return np.zeros(0, "u4"), np.zeros((0, *wanted.shape), wanted.base)
        array = np.frombuffer(values, wanted)
        return np.frombuffer(sources, "u4"), array

    def stats(self) -> dict[str, int]:
        """The traffic so far."""
        return self._native.stats()

    def explain(self) -> str:
        """What was chosen and why."""
        return "\n".join(self._native.explain())

    def close(self) -> None:
        """Says goodbye, once others have what was sent."""
        self._native.close()

    def __enter__(self) -> Messenger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
