"""The Python side of `outboard bench python`: does one piece of work, and prints its seconds or its rate as JSON."""

import json
import os
import sys
import time

import numpy as np


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def fill(array):
    """The words that the other side has too."""
    block = 1 << 16
    for at in range(0, len(array), block):
        numbers = np.arange(at, min(at + block, len(array)), dtype="u8")
        array[at : at + block] = (numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(1)


def passes(array, picks):
    scan = seconds(lambda: array.sum(dtype="u8"))
    gather = seconds(lambda: array[picks].sum(dtype="u8"))
    sort = seconds(array.sort)
    assert array[0] <= array[len(array) // 2] <= array[-1]
    return {"scan": scan, "gather": gather, "sort": sort}


def beside(words, count):
    """Passes over an array that is near, and over one of which a third is here."""
    import outboard

    picks = np.random.default_rng(7).integers(0, words, count)
    found = {}
    for place in ("near", "far"):
        array = np.empty(words, "u8") if place == "near" else outboard.far(8 * words // 3).empty(words, "u8")
        fill(array)
        found[place] = passes(array, picks)
    return found


def over_memmap(words, place, file):
    """Fills, adds up and sorts more than the control group has room for."""
    import outboard

    def work():
        if place == "far":
            array = outboard.far(int(os.environ["BUFFER"])).empty(words, "u8")
        else:
            array = np.memmap(file, "u8", "w+", shape=(words,))
        fill(array)
        array.sum()
        array.sort()

    return seconds(work)


def kv(keys, gets):
    """Gets in batches of 256."""
    import outboard

    table = outboard.kv(keys=keys, key_max=8, value_max=64)
    names = np.arange(keys, dtype="u8")
    table.put_many(names, np.zeros((keys, 64), "u1"))
    picks = np.random.default_rng(7).integers(0, keys, gets).astype("u8")

    def work():
        for at in range(0, gets, 256):
            _, found = table.get_many(picks[at : at + 256], dtype="V64")
            assert found.all()

    return gets / seconds(work)


def histogram(updates, entries):
    """A rank of the histogram: its rate over all ranks."""
    import outboard

    job = outboard.Job()
    rng = np.random.default_rng(job.rank)
    table = np.zeros(entries, "u8")
    with job.messenger() as messenger:
        places = rng.integers(0, entries * job.size, updates)
        messenger.barrier()
        began = time.perf_counter()
        block = 1 << 16
        for at in range(0, updates, block):
            part = places[at : at + block]
            messenger.send_array(part % job.size, part // job.size)
            _, values = messenger.receive("i8")
            table += np.bincount(values, minlength=entries).astype("u8") if len(values) > entries else 0
            if 0 < len(values) <= entries:
                np.add.at(table, values, 1)
        for _, values in messenger.drain("i8"):
            np.add.at(table, values, 1)
        messenger.barrier()
        took = time.perf_counter() - began
    return job.size * updates / took if job.rank == 0 else None


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "beside":
        said = beside(int(arguments[0]), int(arguments[1]))
    elif what == "over_memmap":
        said = over_memmap(int(arguments[0]), arguments[1], arguments[2])
    elif what == "kv":
        said = kv(int(arguments[0]), int(arguments[1]))
    elif what == "histogram":
        said = histogram(int(arguments[0]), int(arguments[1]))
        if said is None:
            return
    else:
        raise SystemExit(f"there is no work {what}")
    print(json.dumps(said))


if __name__ == "__main__":
    main()
