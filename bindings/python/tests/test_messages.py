"""Messages between ranks, each a process of Python."""

from __future__ import annotations

import subprocess
import sys

from conftest import PATIENCE, program


def ranks(tmp_path, count: int, code: str) -> list[str]:
    """Runs a program as ranks, and returns what they printed, in order."""
    (tmp_path / "prog.py").write_text(code)
    command = [program(), "run", "-n", str(count), "--", sys.executable, "prog.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr + done.stdout
    return sorted(done.stdout.splitlines())


def test_a_histogram_of_all_ranks(tmp_path):
    out = ranks(tmp_path, 3, """
import numpy as np, outboard
job = outboard.Job()
rng = np.random.default_rng(job.rank)
table = np.zeros(1000, "u8")  # its part of 3000 counters
with job.messenger() as messenger:
    for _ in range(4):
        picks = rng.integers(0, 3000, 50_000)
        messenger.send_array(picks % job.size, picks // job.size)
    for sources, values in messenger.drain("i8"):
        assert sources.dtype == np.uint32 and (sources < job.size).all()
        np.add.at(table, values, 1)
    expected = sum((np.bincount(np.random.default_rng(rank).integers(0, 3000, 200_000), minlength=3000) for rank in range(0)), np.zeros(3000))
    for rank in range(job.size):
        again = np.random.default_rng(rank)
        for _ in range(4):
            expected += np.bincount(again.integers(0, 3000, 50_000), minlength=3000)
    assert (table == expected[job.rank :: job.size]).all()
    messenger.barrier()
    print("rank", job.rank, "of", job.size, int(table.sum()) > 0)
""")
    assert [line.split("] ", 1)[1] for line in out] == [f"rank {rank} of 3 True" for rank in range(3)]


def test_answers_texts_structures_and_spaces(tmp_path):
    out = ranks(tmp_path, 2, """
import numpy as np, outboard
job = outboard.Job()
other = 1 - job.rank
edge = np.dtype([("from", "u4"), ("to", "u4"), ("weight", "f4")])
with job.messenger(spaces=3) as messenger:
    # Questions are answered while the others are still asking.
    messenger.send_array(other, np.arange(10_000, dtype="f8"))
    answers, asked = [], 0
    for sources, values in messenger.drain("f8"):
        questions = values[values >= 0]
        asked += len(questions)
        answers.append(values[values < 0])
        messenger.send_array(sources[values >= 0], -1 - questions)
    found = np.sort(np.concatenate(answers))
    assert asked == 10_000 and (found == -np.arange(10_000, 0, -1.0)).all()
    messenger.barrier()
    # Structures, in a space of their own, and rows.
    edges = np.zeros(500, edge)
    edges["to"] = np.arange(500)
    messenger.send_array(np.full(500, other), edges, space=1)
    got = np.concatenate([values for _, values in messenger.drain(edge, space=1)])
    assert np.sort(got["to"]).tolist() == list(range(500))
    # Bytes of any length, the longest in parts.
    messenger.send(other, b"short", space=2)
    messenger.send(other, b"long" * 500_000, space=2)
    messenger.send(other, b"", space=2)
    texts = [text for batch in messenger.drain(space=2) for _, text in batch]
    assert sorted(map(len, texts)) == [0, 5, 2_000_000]
    for wrong in (lambda: messenger.send(2, b"x"), lambda: messenger.send_array([0, 1, 0], [1, 2])):
        try:
            wrong()
        except ValueError:
            pass
        else:
            raise AssertionError("taken")
    assert messenger.stats()["bundles_sent"] > 0 and messenger.explain() is not None
    messenger.barrier()
    print("done")
""")
    assert [line.split("] ", 1)[1] for line in out] == ["done", "done"]


def test_a_rank_that_dies_is_told(tmp_path):
    (tmp_path / "prog.py").write_text("""
import os, outboard
job = outboard.Job()
messenger = job.messenger()
if job.rank == 1:
    os._exit(7)
try:
    messenger.barrier()
except outboard.LostError as error:
    print(error, flush=True)
""")
    command = [program(), "run", "-n", "2", "--", sys.executable, "prog.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "rank 1 exited with code 7" in done.stderr
