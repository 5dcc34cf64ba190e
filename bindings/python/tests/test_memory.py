"""Regions, writes and functions."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest

import outboard


def test_regions_are_read_written_and_updated():
    memory = outboard.memory()
    region = memory.reserve(1 << 20)
    memory.write(region, 100, b"far away")
    assert memory.read(region, 100, 8) == b"far away" and len(memory.read(region)) == 1 << 20
    memory.write(region, 4096, np.arange(100, dtype="f4").reshape(10, 10))
    assert memory.read(region, 4096, dtype="f4", count=100)[55] == 55
    into = np.zeros(10, "f4")
    memory.read_into(region, 4096 + 40, into)
    assert into.tolist() == list(range(10, 20))
    assert memory.fetch_add(region, 0, 5) == 0 and memory.fetch_add(region, 0, -2) == 5
    assert memory.compare_and_swap(region, 0, 3, 9) == 3 and memory.compare_and_swap(region, 0, 3, 1) == 9
    with pytest.raises(outboard.BoundsError):
        memory.read(region, 1 << 20, 1)
    memory.free(region)
    with pytest.raises(outboard.OutboardError, match="freed"):
        memory.read(region, 0, 1)


def test_names_and_sharing(server):
    memory, other = outboard.memory(), outboard.memory()
    region = memory.reserve(8192, "counters", shared=True)
    seen = other.open("counters", shared=True, writable=True)
    other.fetch_add(seen, 8, 3)
    assert memory.fetch_add(region, 8, 1) == 3
    row = next(row for row in memory.list() if row.name == "counters")
    assert row.size == 8192 and row.id == region.id
    with pytest.raises(outboard.NotThereError):
        memory.open("nothing")
    with pytest.raises(ValueError):
        memory.reserve(10, shared=True)
    other.release(seen)
    memory.free(region)
    sparse = memory.reserve(1 << 40, sparse=True)
    assert sparse.size == 1 << 40
    (server.data / "file").write_bytes(b"x" * 5000)
    loaded = memory.load("file")
    assert memory.read(loaded, 4990, 10) == b"x" * 10


def test_threads_add_to_one_counter():
    memory = outboard.memory()
    region = memory.reserve(4096)
    threads = [threading.Thread(target=lambda: [memory.fetch_add(region, 0, 1) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.fetch_add(region, 0, 0) == 800


@pytest.mark.parametrize("path", [None, "offload", "unload"])
def test_writes(path):
    memory, writer = outboard.memory(), outboard.connect().writer(path)
    region = memory.reserve(1 << 20)
    for number in range(3000):
        writer.write(region, 8 * number, number.to_bytes(8, "little"), hint=["hot", "cold", "streaming", None][number % 4])
    writer.fence()
    writer.write(region, 1 << 19, np.arange(40_000, dtype="u8"))  # longer than one write
    writer.flush()
    assert writer.under_way == 0
    assert (memory.read(region, 0, dtype="u8", count=3000) == np.arange(3000)).all()
    assert (memory.read(region, 1 << 19, dtype="u8", count=40_000) == np.arange(40_000)).all()
    with pytest.raises(outboard.BoundsError):
        writer.write(region, 1 << 20, b"x")
        writer.flush()
    assert writer.explain()


COUNT = """
    ldxdw r3, [r1+0]
    mov r1, 0
    mov r2, 0
    call region_fetch_add
    exit"""


def test_functions_are_called_in_batches():
    memory, functions = outboard.memory(), outboard.functions()
    region = memory.reserve(4096)
    count = functions.register(COUNT, regions=[region])
    assert count(np.uint64(7).tobytes()) == (0, b"")
    values = count.many(np.full(1000, 2, "u8"), keys=np.arange(1000, dtype="u4"))
    assert sorted(values.tolist()) == list(range(7, 2007, 2))
    assert memory.fetch_add(region, 0, 0) == 2007
    assert len(count.many(np.zeros(0, "u8"))) == 0
    with pytest.raises(outboard.OutboardError):
        functions.register("nonsense")
    read_only = functions.register(COUNT, regions=[(region, "r")])
    with pytest.raises(outboard.OutboardError):
        read_only(np.uint64(1).tobytes())


@pytest.mark.skipif(not (shutil.which("clang") or shutil.which("clang-19")), reason="there is no clang")
def test_a_function_is_compiled_from_c():
    source = """
        typedef unsigned long long u64;
        u64 twice(const u64 *argument, u64 length) { return 2 * *argument; }
    """
    twice = outboard.functions().compile(source, "twice")
    assert twice.many(np.arange(5, dtype="u8")).tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(outboard.OutboardError, match="clang"):
        outboard.functions().compile("this is no C", "main")


def test_hash_tables():
    table = outboard.kv("users", keys=5000, key_max=16, value_max=64)
    table[b"ada"] = b"lovelace"
    assert table[b"ada"] == b"lovelace" and b"ada" in table and b"bob" not in table
    assert table.get(b"bob") is None and table.get(b"bob", b"?") == b"?"
    with pytest.raises(KeyError):
        table[b"bob"]
    other = outboard.kv("users")
    keys = np.arange(3000, dtype="u8")
    other.put_many(keys, np.sqrt(keys))
    values, found = table.get_many(np.arange(2990, 3010, dtype="u8"), dtype="f8")
    assert found.tolist() == [True] * 10 + [False] * 10 and values[0] == np.sqrt(2990)
    assert table.get_many([b"ada", b"x"]) == [b"lovelace", None]
    assert table.delete_many([b"ada", b"x"]).tolist() == [True, False]
    del table[np.uint64(5).tobytes()]
    with pytest.raises(KeyError):
        del table[b"ada"]
    rows = np.zeros(3, [("city", "S12"), ("people", "u4")])
    rows["people"] = [1, 2, 3]
    table.put_many([b"a", b"b", b"c"], rows)
    assert table.get_many([b"c"], dtype=rows.dtype)[0]["people"][0] == 3
    with pytest.raises(ValueError, match="bytes"):
        table.get_many([b"a"], dtype="u1")
    with pytest.raises(outboard.OutboardError, match="at most 16"):
        table[b"k" * 17] = b""
    with pytest.raises(TypeError):
        len(table)
    with pytest.raises(ValueError, match="keys"):
        table.put_many([b"a"], [])
    table.free()
    with pytest.raises(outboard.NotThereError):
        outboard.kv("users")


def test_trees():
    keys = np.arange(0, 20_000, 2)
    tree = outboard.btree("index", keys=50_000, pairs=(keys, keys * 10))
    values, found = tree.get_many([0, 1, 4, 19_998, 20_000])
    assert values[found].tolist() == [0, 40, 199_980] and found.tolist() == [True, False, True, True, False]
    tree.put_many(np.arange(1, 2000, 2), np.full(1000, 7))
    assert tree[3] == 7 and 5 in tree and 2001 not in tree and tree.get(2001) is None
    assert outboard.btree("index").scan(3, 3)[0].tolist() == [3, 4, 5]
    pairs = list(tree.items(19_000))
    assert pairs[0] == (19_000, 190_000) and len(pairs) == 500
    tree[3] = 8
    assert tree[3] == 8
    with pytest.raises(KeyError):
        tree[2001]
    tree.free()
