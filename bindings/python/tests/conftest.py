"""A memory server for all tests, and programs that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outboard._program import path as program_path

#: How long anything may take before it counts as hanging.
PATIENCE = 120


def program() -> str:
    """The program that is in the wheel."""
    found = program_path()
    assert found is not None
    return found


class Server:
    """A memory server of its own."""

    def __init__(self, address: str, data: Path) -> None:
        self.address = address
        self.data = data
        command = [program(), "memory", "--listen", address, "--capacity", "2GiB", "--data-dir", str(data)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        listing = [program(), "memory", "list", "--server", address]
        while subprocess.run(listing, capture_output=True).returncode != 0:
            assert self.process.poll() is None, "the memory server has ended"
            assert time.monotonic() < deadline, "the memory server does not listen"
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The one that everything finds."""
    server = Server(f"unix:@outboard-pytest-{os.getpid()}", tmp_path_factory.mktemp("data"))
    os.environ["OUTBOARD_JOB_MEMORY"] = server.address
    os.environ["OUTBOARD_JOB_AGENT"] = "none"
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def _found(server: Server) -> None:
    """Every test works at it."""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Makes servers that a test may kill."""
    servers: list[Server] = []

    def make() -> Server:
        servers.append(Server(f"unix:@outboard-pytest-{os.getpid()}-{len(servers)}-{time.monotonic_ns()}", tmp_path))
        return servers[-1]

    yield make
    for server in servers:
        server.kill()


@pytest.fixture
def far():
    """Far memory with room for little."""
    import outboard

    return outboard.far(buffer="4MiB")


def start(code: str, *arguments: str, **how: object) -> subprocess.Popen[str]:
    """Starts a program of Python."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
    return subprocess.Popen(command, **pipes)  # type: ignore[call-overload,no-any-return]


def run(code: str, *arguments: str, **how: object) -> str:
    """Runs a program of Python that has to succeed, and returns what it printed."""
    process = start(code, *arguments, **how)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, f"{process.returncode}: {err}\n{out}"
    return out
