"""Other processes: forked, spawned, interrupted, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import outboard
from conftest import PATIENCE, program, run, start

#: A name of an environment in which no server is named, and none of this user's would be found.
ALONE = {**os.environ, "OUTBOARD_JOB_AGENT": "none"}


def alone() -> dict[str, str]:
    """Without the server of these tests."""
    return {name: value for name, value in ALONE.items() if name != "OUTBOARD_JOB_MEMORY"}


def no_server_of_this_user() -> bool:
    return subprocess.run([program(), "memory", "list"], capture_output=True, env=alone()).returncode != 0


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(what, why: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.02)


def test_a_server_is_started_for_the_process_and_ends_with_it():
    if not no_server_of_this_user():
        pytest.skip("a memory server of this user runs")
    code = """
        import sys, numpy as np, outboard
        from outboard import _native
        x = outboard.far(buffer="4MiB").arange(1_000_000)
        y = outboard.far(buffer="2MiB").zeros(1000)
        print(x.sum(), _native.private_server(), flush=True)
        sys.stdin.read()
    """
    process = start(code, env=alone(), stdin=subprocess.PIPE)
    total, address = process.stdout.readline().split()
    assert int(total) == 499_999_500_000
    listing = [program(), "memory", "list", "--server", address]
    assert subprocess.run(listing, capture_output=True).returncode == 0
    children = run(f"""
        import pathlib
        print(*[stat.parent.name for stat in pathlib.Path("/proc").glob("[0-9]*/stat")
            if (text := stat.read_text()).rsplit(")", 1)[1].split()[1] == "{process.pid}"])
    """).split()
    assert len(children) == 1
    process.stdin.close()
    assert process.wait(PATIENCE) == 0 and process.stderr.read() == ""
    until(lambda: is_gone(int(children[0])), "the memory server of the process stays")
    assert subprocess.run(listing, capture_output=True).returncode != 0


def test_without_a_server_and_without_starting_one_the_error_says_what_to_do():
    if not no_server_of_this_user():
        pytest.skip("a memory server of this user runs")
    out = run("""
        import outboard
        try:
            outboard.far(buffer="4MiB", start=False)
        except outboard.OpenError as error:
            print(isinstance(error, ConnectionError), error)
    """, env=alone())
    assert "True" in out and "outboard up" in out


def test_the_program_is_in_the_package():
    said = subprocess.run([sys.executable, "-m", "outboard", "--version"], capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.startswith("outboard ")


def test_a_forked_child_has_nothing_of_it_and_harms_nothing(far):
    array, memory = far.arange(1_000_000), outboard.memory()
    with far.arrays():
        made = np.arange(500_000)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for use in (lambda: far.zeros(5), memory.list, lambda: far.flush(array)):
                try:
                    use()
                except outboard.OutboardError as error:
                    said.append("forked" in str(error))
            near = np.arange(500_000)  # the handler of the parent leaves it near
            said.append(not outboard.is_far(near))
            del made, near
            os.write(write, repr(said).encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        assert answers.read() == "[True, True, True, True]"
    assert os.waitpid(child, 0)[1] == 0
    toucher = os.fork()
    if toucher == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        array.sum()
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(toucher, 0)[1]) == signal.SIGSEGV, "a child that touches it ends"
    assert array.sum() == 499_999_500_000 and made.sum() == 500_000 * 499_999 // 2
    assert memory.list()


def test_spawned_processes_read_a_frozen_array(far, tmp_path):
    (tmp_path / "work.py").write_text("""
import multiprocessing
import numpy as np
import outboard

def total(array):
    return outboard.is_far(array), int(array.sum())

if __name__ == "__main__":
    far = outboard.far(buffer="4MiB")
    whole = far.freeze(far.array(np.arange(1_000_000), name="spawned"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        answers = pool.map(total, [whole[:500_000], whole[500_000:], whole[::-1], np.arange(10)])
    print(answers)
""")
    done = subprocess.run([sys.executable, "work.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    half = sum(range(500_000))
    assert done.stdout.strip() == str([(True, half), (True, 499_999_500_000 - half), (True, 499_999_500_000), (False, 45)])


def interrupted(code: str, *arguments: str, signals=(signal.SIGINT,)) -> str:
    """Has a program wait, which says so, and interrupts it."""
    process = start(code, *arguments)
    assert process.stdout.readline() == "waiting\n", process.stderr.read()
    until(lambda: os.path.exists(f"/proc/{process.pid}/task"), "it has ended")
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        assert time.monotonic() < deadline, "it does not hear Ctrl-C"
        process.send_signal(signals[0])
        time.sleep(0.1)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def test_ctrl_c_ends_a_wait_for_a_server_that_is_silent(own_server):
    server = own_server()
    code = """
        import os, signal, sys, outboard
        far = outboard.far(buffer="4MiB", server=sys.argv[1])
        x = far.arange(1_000_000)
        os.kill(int(sys.argv[2]), signal.SIGSTOP)
        try:
            print("waiting", flush=True)
            while True:
                far.discard(x)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            os._exit(0)
        except outboard.DeadlineError:
            os._exit(3)
    """
    try:
        assert interrupted(code, server.address, str(server.process.pid)) == "interrupted\n"
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_a_lost_server_raises_and_an_access_ends_as_documented(own_server):
    server = own_server()
    far = outboard.far(buffer="4MiB", server=server.address, grace=0.2)
    array = far.arange(2_000_000)
    memory = outboard.memory(server.address)
    table = outboard.kv(keys=100, server=server.address)
    child = start("""
        import sys, outboard
        x = outboard.far(buffer="4MiB", server=sys.argv[1], grace=0.2, on_loss="exit").arange(2_000_000)
        print("ready", flush=True)
        sys.stdin.readline()
        print(x.sum())
    """, server.address, stdin=subprocess.PIPE)
    assert child.stdout.readline() == "ready\n"
    server.kill()
    for use in (memory.list, lambda: far.read(array[:100_000], 1.0), lambda: table.get(b"x"), lambda: far.flush(array)):
        with pytest.raises(outboard.LostError):
            use()
    with pytest.raises(outboard.OutboardError):
        far.zeros(5)
    assert array[-1] == 1_999_999, "what is here can still be read"
    out, err = child.communicate("\n", timeout=PATIENCE)
    assert child.returncode == 1 and "memory server" in err
