"""What the documentation shows runs, and every name is documented and typed."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from importlib import resources

import pytest

import outboard
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
