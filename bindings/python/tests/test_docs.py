"""What the documentation shows runs, and every name is documented and typed."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import outboard
from conftest import PATIENCE
from outboard import _native

MODULES = ["", "._arrow", "._context", "._far", "._functions", "._job", "._memory", "._npy", "._place", "._reference", "._sizes", "._tables"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(f"outboard{name}")
    failed, tried = doctest.testmod(module)
    assert failed == 0
    assert tried > 0 or name not in ("", "._far", "._tables")


def test_every_public_name_has_a_sentence():
    for name in outboard.__all__:
        found = getattr(outboard, name)
        assert inspect.getdoc(found), name
        for part, method in vars(found).items() if inspect.isclass(found) else ():
            if not part.startswith("_") and (callable(method) or isinstance(method, property)):
                assert inspect.getdoc(method), f"{name}.{part}"


def test_the_stub_has_what_the_library_has():
    stub = (resources.files("outboard") / "_native.pyi").read_text()
    assert (resources.files("outboard") / "py.typed").is_file()
    for name, found in vars(_native).items():
        if name.startswith("__"):
            continue
        assert re.search(rf"^(class|def) {name}\b", stub, re.MULTILINE), name
        if inspect.isclass(found):
            body = stub.split(f"class {name}:", 1)[1].split("\nclass ", 1)[0]
            for part in vars(found):
                if not part.startswith("__"):
                    assert re.search(rf"def {part}\(", body), f"{name}.{part}"


def test_the_programs_of_the_guide_run(tmp_path):
    guide = Path(__file__).resolve().parents[3] / "docs/python.md"
    programs = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert len(programs) >= 4
    for number, program in enumerate(programs):
        file = tmp_path / f"program_{number}.py"
        file.write_text(program)
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout, f"{program}\n{done.stderr}"
