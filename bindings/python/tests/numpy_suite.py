"""NumPy's own tests of its core and its library, inside the context at a small buffer: every array of a page and more lies in far
memory. It takes long, so it is no part of the ordinary tests:

    pip install outboard-*.whl pytest hypothesis
    python bindings/python/tests/numpy_suite.py [ARGUMENTS OF PYTEST]

Left out by name are the tests of memory policies, which set handlers of their own; those that ask for as much memory as there
is; and those that look at the refusal of an array that no memory could hold.
"""

from __future__ import annotations

import sys

import pytest

import outboard

LEFT_OUT = ["mem_policy", "test_mem_", "huge", "large_zip", "4GB", "memory_error", "nbytes_overflow", "tracemalloc"]
SUITES = ["numpy._core", "numpy.lib"]


class InContext:
    """Enters the context for each test: pytest may run them in contexts of its own."""

    def __init__(self) -> None:
        # Some tests go over arrays of 8 MB across their rows, which in less than that is a page fault for each element.
        self.context = outboard.far(buffer="32MiB").arrays(least="4KiB")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):  # noqa: ANN001, ANN201
        with self.context:
            return (yield)


def main() -> int:
    plugin = InContext()
    suites = [] if any(argument.startswith("numpy.") for argument in sys.argv[1:]) else SUITES
    words = " and ".join(f"not {word}" for word in LEFT_OUT)
    code = pytest.main(["--pyargs", *suites, "-q", "-k", words, "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[plugin])
    counts = plugin.context.stats()
    print(f"{counts['arrays_made']} arrays were made in far memory")
    return int(code) if counts["arrays_made"] else 1


if __name__ == "__main__":
    sys.exit(main())
