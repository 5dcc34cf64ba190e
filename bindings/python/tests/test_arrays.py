"""Far arrays are arrays."""

from __future__ import annotations

import gc
import io
import pickle
import random

import numpy as np
import pytest

import outboard
from conftest import run


def test_a_far_array_is_an_array_of_numpy(far):
    array = far.zeros((1000, 2000), "f4")  # twice the buffer
    assert type(array) is np.ndarray
    assert array.shape == (1000, 2000) and array.dtype == np.float32 and array.flags.c_contiguous
    assert not array.any()
    array += np.arange(2000, dtype="f4")
    assert array.sum(dtype="f8") == 1000 * np.arange(2000, dtype="f8").sum()
    assert outboard.is_far(array) and outboard.is_far(array[5:7, ::3].T) and not outboard.is_far(np.zeros(3))
    assert far.stats()["evictions"] > 0


def test_making_arrays(far):
    assert (far.full((3, 4), 7) == 7).all() and far.full(3, 2.5).dtype == float
    assert (far.ones(10, "i2") == 1).all()
    near = np.random.default_rng(1).normal(size=(50, 70))
    for order in ("C", "F"):
        copy = far.array(near, order=order)
        assert (copy == near).all() and copy.flags[f"{order}_CONTIGUOUS"]
    for arguments in [(10,), (3, 17), (5, -5, -2), (0.5, 9, 0.25), (1 << 40, (1 << 40) + 3), (5, 5), (3, 0)]:
        expected = np.arange(*arguments)
        found = far.arange(*arguments)
        assert found.dtype == expected.dtype and (found == expected).all(), arguments
    assert far.arange(3_000_000)[-1] == 2_999_999
    assert far.zeros(()).shape == () and far.zeros((0, 5)).size == 0 and far.zeros(np.int64(3)).shape == (3,)


def test_structures_times_and_texts_lie_there_and_objects_do_not(far):
    pairs = far.zeros(1000, [("key", "u8"), ("weight", "f4"), ("name", "S5")])
    pairs["key"] = np.arange(1000)
    pairs["name"][7] = b"seven"
    assert pairs[7].tolist() == (7, 0.0, b"seven")
    days = far.array(np.arange("2024-01", "2025-01", dtype="M8[D]"))
    assert days[59] == np.datetime64("2024-02-29")
    assert far.array(["x", "yz"]).tolist() == ["x", "yz"]
    for make in (lambda: far.zeros(3, object), lambda: far.zeros(3, [("x", "O")]), lambda: far.array([object()])):
        with pytest.raises(TypeError, match="pointers"):
            make()


def test_the_region_lives_as_long_as_any_view(far):
    array = far.arange(1_000_000)
    view = array[500_000::1000]
    del array
    gc.collect()
    far.zeros(1_000_000)[:] = 1
    assert view[3] == 503_000


def test_many_arrays_come_and_go(far):
    for number in range(300):
        far.full(1000, number).sum()
    gc.collect()
    assert far.zeros(10).sum() == 0


def test_random_slices_views_dtypes_and_orders_are_as_of_plain_arrays(far):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(30):
        dtype = draw.choice(["?", "i1", "u2", "i4", "f4", "f8", "c16", "M8[s]", "S3", ">i4", [("a", "u1"), ("b", "f8")]])
        shape = tuple(draw.randrange(1, 40) for _ in range(draw.randrange(1, 4)))
        near = np.zeros(shape, dtype, order=draw.choice("CF"))
        near.reshape(-1).view("u1") if near.flags.c_contiguous else None
        there = far.array(near, order=draw.choice("CF"))
        for _ in range(20):
            index = tuple(slice(*sorted((draw.randrange(length + 1), draw.randrange(length + 1))), draw.randrange(1, 4)) for length in shape)
            if draw.random() < 0.3:
                index = tuple(slice(None, None, -1) for _ in shape)
            value = np.array([draw.randrange(100)]).astype("i8").astype(near.dtype if near.dtype.names is None else "u1")[0]
            for array in (near, there):
                part = array[index]
                (part if near.dtype.names is None else part["a"])[...] = value
        assert there.tobytes() == near.tobytes()
        assert there.T[..., ::2].tolist() == near.T[..., ::2].tolist()


def test_algorithms_on_more_than_fits(far):
    rng = np.random.default_rng(5)
    numbers = far.empty(1_500_000)
    numbers[:] = rng.random(1_500_000)
    near = np.array(numbers)
    assert np.isclose(numbers.sum(), near.sum()) and numbers.argmax() == near.argmax()
    numbers.sort()
    near.sort()
    assert (numbers == near).all()
    picks = rng.integers(0, 1_500_000, 5000)
    assert (numbers[picks] == near[picks]).all()
    matrix = far.array(rng.random((700, 600)))
    assert np.allclose(matrix @ matrix.T, np.asarray(matrix.copy()) @ matrix.copy().T)


def test_what_a_program_says(far):
    array = far.arange(2_000_000)
    for advice in ("sequential", "random", "whole", "dont_need", "normal", "will_need"):
        far.advise(array[1000:50_000], advice)
    with pytest.raises(ValueError, match="there is no advice .fast."):
        far.advise(array, "fast")
    far.prefetch(array[:1000])
    far.prefetch([array[5000:6000], array[::100_000]])
    far.prefault(array[:20_000])
    far.flush(array)
    with far.pinned(array[:1000]):
        assert array[999] == 999
    assert far.traffic(array)["saved"] > 0
    far.discard(array[:1_000_000])
    assert not array[:1_000_000].any() and array[1_000_000] == 1_000_000
    with pytest.raises(ValueError, match="gaps"):
        far.discard(array[::2])
    with pytest.raises(ValueError, match="does not lie in far memory"):
        far.flush(np.zeros(5))
    assert "region" in far.explain(array) and "buffer" in far.explain()
    assert (far.read(array[1_500_000:1_500_003]) == [1_500_000, 1_500_001, 1_500_002]).all()


def test_the_buffer_is_said_in_many_ways():
    far = outboard.far(buffer="1/4", footprint="64MiB", buffer_max="32MiB", chunk="256KiB")
    assert far.buffer == 16 << 20
    far.buffer = 8 << 20
    assert far.buffer == 8 << 20
    far.buffer = "20MiB"
    assert far.buffer == 20 << 20
    assert "256 KiB" in far.explain(far.zeros(1_000_000))
    for wrong in ({"buffer": "x"}, {"buffer": "1/3"}, {"faults": "both"}, {"on_loss": "cry"}, {"chunk": "12 parsecs"}):
        with pytest.raises((ValueError, outboard.OutboardError)):
            outboard.far(**wrong)
    with pytest.raises(ValueError, match="grace|seconds"):
        outboard.far(buffer="4MiB", grace=-1.0)


def test_arrays_are_saved_and_loaded(far, tmp_path):
    array = far.arange(800_000)
    if "EFAULT" in far.explain():
        pytest.skip("system calls cannot wait for far memory here")
    np.save(tmp_path / "x.npy", array)
    assert (np.load(tmp_path / "x.npy") == array).all()
    there = far.empty(800_000, "i8")
    with open(tmp_path / "x.npy", "rb") as file:
        file.seek(128)
        file.readinto(memoryview(there).cast("B"))
    assert (there == array).all()
    text = io.BytesIO()
    np.savez(text, array[:10])
    assert array.tobytes() == there.tobytes()


def test_a_region_is_also_a_buffer(far):
    region = far.arange(10).base
    assert len(memoryview(region)) == 80 and np.asarray(region).view("i8")[9] == 9
    assert region.__array_interface__["data"][0] == region.address


def test_names(far, server):
    matrix = far.zeros((300, 400), "f4", "F", name="matrix")
    matrix[7] = np.arange(400)
    with pytest.raises(outboard.OutboardError, match="exists|taken|matrix"):
        far.zeros(3, name="matrix")
    far.flush(matrix)
    del matrix
    gc.collect()
    again = outboard.far(buffer="2MiB").open("matrix")
    assert again.shape == (300, 400) and again.flags.f_contiguous and not again.flags.writeable
    assert again[7, 399] == 399
    del again
    gc.collect()
    writer = far.open("matrix", writable=True)
    writer[0, 0] = 5
    del writer
    gc.collect()
    assert far.open("matrix")[0, 0] == 5
    gc.collect()
    far.free("matrix")
    with pytest.raises(outboard.NotThereError):
        far.open("matrix")


def test_files_at_the_server(far, server):
    np.save(server.data / "x.npy", np.arange(600_000).reshape(600, 1000))
    (server.data / "raw").write_bytes(np.arange(1000, dtype="f4").tobytes())
    found = far.open("x.npy")
    assert found.shape == (600, 1000) and found[599, 999] == 599_999
    assert (far.open("raw", dtype="f4") == np.arange(1000)).all()
    with pytest.raises(ValueError, match="no array of NumPy"):
        far.open("raw")
    del found
    gc.collect()
    mine = far.open("x.npy", writable=True)
    mine[0, 0] = 42
    assert far.sync(mine) > 0
    assert np.load(server.data / "x.npy")[0, 0] == 42


def test_frozen_arrays_are_read_by_all(far, server):
    array = far.array(np.arange(500_000), name="shared")
    read = """
        import sys, numpy as np, outboard
        try:
            print(outboard.far(buffer="2MiB").open("shared")[::1000].sum())
        except outboard.OutboardError as error:
            print(type(error).__name__, error)
    """
    assert "OutboardError" in run(read), "one that is written is its writer's alone"
    assert far.freeze(array) is array and not array.flags.writeable
    assert run(read).strip() == str(np.arange(500_000)[::1000].sum())
    assert (array == np.arange(500_000)).all(), "it is still here"
    reference = pickle.loads(pickle.dumps(far.reference(array[::2])))
    assert (reference.open() == array[::2]).all()
    with pytest.raises(ValueError, match="name"):
        far.freeze(far.zeros(5))
    with pytest.raises(ValueError, match="frozen"):
        far.reference(far.zeros(5))


def test_dlpack_and_arrow(far):
    array = far.arange(300_000)
    assert np.from_dlpack(array)[299_999] == 299_999
    column = outboard.column(array[:1000])
    assert len(column) == 1000 and len(column.__arrow_c_array__()) == 2
    with pytest.raises(ValueError):
        outboard.column(array[::2])
    with pytest.raises(TypeError):
        outboard.column(far.zeros(3, "c8"))
