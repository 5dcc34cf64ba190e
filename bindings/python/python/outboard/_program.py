"""The program ``outboard``, which the wheel contains."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def path() -> str | None:
    """Where the program is: as ``OUTBOARD_PROGRAM`` says, in this package, or where the shell would find it."""
    named = os.environ.get("OUTBOARD_PROGRAM")
    if named:
        return named
    packed = Path(__file__).with_name("bin") / "outboard"
    if packed.is_file():
        return str(packed)
    return shutil.which("outboard")


def main() -> None:
    """Becomes the program."""
    program = path()
    if program is None:
        sys.exit("outboard: this package was installed without the program; name it by OUTBOARD_PROGRAM")
    os.execv(program, ["outboard", *sys.argv[1:]])
