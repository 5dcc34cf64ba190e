"""NumPy's own arrays in far memory."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import outboard

LARGE = 500_000  # of eight bytes, four times what is far


def test_large_arrays_are_far_and_small_ones_near(far):
    with far.arrays() as context:
        large, small = np.arange(LARGE), np.arange(100)
        assert outboard.is_far(large) and not outboard.is_far(small)
        product = large * 3.5
        assert outboard.is_far(product) and product[-1] == (LARGE - 1) * 3.5
        assert context.stats()["arrays"] == 2
    assert not outboard.is_far(np.arange(LARGE))
    assert outboard.is_far(large) and large.sum() == LARGE * (LARGE - 1) // 2
    del large, product
    gc.collect()
    assert context.stats() == {**context.stats(), "arrays": 0, "allocated": 0}
    context.trim()


def test_programs_that_know_nothing_of_it():
    rng = np.random.default_rng(3)
    with outboard.far(buffer="16MiB").arrays(least="256KiB"):
        numbers = rng.random(LARGE)
        order = np.argsort(numbers)
        assert (np.diff(numbers[order]) >= 0).all()
        values, counts = np.unique((numbers * 1000).astype(int), return_counts=True)
        assert counts.sum() == LARGE and len(values) == 1000
        joined = np.concatenate([numbers, numbers[::-1]])
        assert outboard.is_far(joined) and joined[0] == joined[-1]
        zeros = np.zeros((700, 1000))
        zeros[3] += 1
        assert zeros.sum() == 1000
        assert np.allclose(np.fft.ifft(np.fft.fft(numbers)).real, numbers)


def test_arrays_grow_and_shrink_between_near_and_far(far):
    with far.arrays(least="64KiB"):
        array = np.arange(100)
        for length in (50_000, 9000, 200_000, 3, 10_000):
            old = array[: min(length, len(array))].copy()
            array.resize(length, refcheck=False)
            assert (array[: len(old)] == old).all() and not array[len(old) :].any()
            assert outboard.is_far(array) == (length * 8 >= 65536)


def test_what_is_said_of_arrays(far):
    with far.arrays():
        array = np.arange(LARGE)
    far.advise(array, "random")
    far.prefetch([array[:1000], far.zeros(10)])
    far.prefault(array[:10_000])
    with pytest.raises(ValueError, match="inside far.arrays"):
        far.flush(array)


def test_contexts_nest_and_end_with_errors(far):
    name = np._core.multiarray.get_handler_name if hasattr(np, "_core") else np.core.multiarray.get_handler_name
    assert name() == "default_allocator"
    context = far.arrays()
    with pytest.raises(KeyError), context:
        with context, outboard.far(buffer="2MiB").arrays():
            assert name() == "outboard"
        raise KeyError
    assert name() == "default_allocator"


def test_threads_begin_without_it_unless_asked(far):
    def make():
        return outboard.is_far(np.arange(LARGE))

    with far.arrays(), ThreadPoolExecutor(2) as pool:
        assert not any(pool.map(lambda _: make(), range(4)))
    with far.arrays(process=True), ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda _: make(), range(4)))
        found = []
        thread = threading.Thread(target=lambda: found.append(make()))
        thread.start()
        thread.join()
        assert found == [True]
    start = threading.Thread.start
    with far.arrays(process=True):
        assert threading.Thread.start is not start
    assert threading.Thread.start is start


def test_all_threads_at_once(far):
    def work(seed):
        with far.arrays(least="128KiB"):
            rng = np.random.default_rng(seed)
            numbers = rng.random(100_000)
            for _ in range(5):
                numbers = np.sort(numbers[::-1] * 1.0)
            return bool((np.diff(numbers) >= 0).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_an_arena_that_is_full_says_so(far):
    with pytest.raises(outboard.NoRoomError, match="far memory"), far.arrays(room="4MiB"):
        kept = [np.zeros(LARGE) for _ in range(3)]
        del kept
    assert np.zeros(LARGE).sum() == 0


def test_arrays_outlive_everything_that_made_them():
    with outboard.far(buffer="2MiB").arrays():
        array = np.arange(LARGE)
    gc.collect()
    assert outboard.is_far(array) and array[::-1][0] == LARGE - 1
