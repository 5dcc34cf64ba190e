"""The exceptions of this package. Each has the words of the library, which name the peer and say what to do."""


class OutboardError(Exception):
    """Something that outboard was asked for cannot be done."""


class OpenError(OutboardError, ConnectionError):
    """A service cannot be opened: no memory server runs, or it refuses this process."""


class LostError(OutboardError, ConnectionError):
    """A memory server, an agent or a rank is gone."""


class DeadlineError(OutboardError, TimeoutError):
    """What was asked for did not come in time."""


class NoRoomError(OutboardError, MemoryError):
    """A memory server, a table or an arena is full."""


class NotThereError(OutboardError, LookupError):
    """There is nothing of the name that was asked for."""


class BoundsError(OutboardError, IndexError):
    """Bytes outside of a region were asked for."""
