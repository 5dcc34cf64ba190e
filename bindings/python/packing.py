"""Packs the wheel: the package's Python code, the native library and the program, as cargo has built them.

It is the build backend of `pip install ./bindings/python`, which builds them for a release, and is called by tests with those that
they have built already:

    python packing.py --library target/debug/deps/liboutboard_python.so --program target/debug/outboard --into FOLDER

A wheel names the oldest C library that it runs with, which is read from what library and program ask of theirs.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TAG = "cp311-abi3"
MIB = 1 << 20
#: No release is larger.
LARGEST = 20 * MIB
#: The oldest C library that wheels of a release may ask for.
OLDEST = (2, 36)
MODULE = "outboard/_native.abi3.so"
PROGRAM = "outboard/bin/outboard"


def version() -> str:
    """The version of the workspace, which is that of all its parts."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def c_library(*programs: Path) -> tuple[int, int]:
    """The newest version of the C library that programs ask for, as their tables of symbols say."""
    asked = {(2, 17)}
    for program in programs:
        found = re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())
        asked |= {(int(major), int(minor)) for major, minor in found}
    return max(asked)


def metadata() -> str:
    """What pip reads of the package."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    lines = [
        "Metadata-Version: 2.1",
        "Name: outboard",
        f"Version: {version()}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in project["dependencies"]),
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3 :: Only",
        "Description-Content-Type: text/markdown",
        "",
        (HERE / project["readme"]).read_text(),
    ]
    return "\n".join(lines)


def entry_points() -> str:
    """The commands that an installed package has."""
    scripts = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["scripts"]
    return "\n".join(["[console_scripts]", *(f"{name} = {target}" for name, target in scripts.items()), ""])


def stripped(file: Path, folder: Path) -> Path:
    """A program or library without what only debuggers read, where there is something to strip it with."""
    made = folder / f"stripped-{file.name}"
    try:
        subprocess.run(["strip", "--strip-debug", "-o", made, file], check=True)
    except (OSError, subprocess.CalledProcessError):
        return file
    return made


def pack(library: Path, program: Path, into: Path, is_release: bool) -> Path:
    """Makes the wheel, and returns where it is."""
    into.mkdir(parents=True, exist_ok=True)
    oldest = c_library(library, program)
    if is_release and oldest > OLDEST:
        raise SystemExit(f"the wheel would need glibc {oldest}, and promises {OLDEST}: build it on an older system")
    tag = f"{TAG}-manylinux_{oldest[0]}_{oldest[1]}_{platform.machine()}"
    about = f"outboard-{version()}.dist-info"
    native = [(stripped(library, into), MODULE, 0o755), (stripped(program, into), PROGRAM, 0o755)]
    code = [
        (file, f"outboard/{file.name}", 0o644)
        for file in sorted((HERE / "python/outboard").iterdir())
        if file.suffix in (".py", ".pyi") or file.name == "py.typed"
    ]
    licenses = [(ROOT / name, f"{about}/licenses/{name}", 0o644) for name in ("LICENSE-MIT", "LICENSE-APACHE")]
    files = [(file.read_bytes(), name, mode) for file, name, mode in [*code, *native, *licenses]]
    files += [
        (metadata().encode(), f"{about}/METADATA", 0o644),
        (entry_points().encode(), f"{about}/entry_points.txt", 0o644),
        (f"Wheel-Version: 1.0\nGenerator: outboard\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), f"{about}/WHEEL", 0o644),
    ]
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for data, name, _ in files)
    files.append((f"{record}{about}/RECORD,,\n".encode(), f"{about}/RECORD", 0o644))
    wheel = into / f"outboard-{version()}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for data, name, mode in files:
            # The oldest time that a wheel knows, so that equal contents make equal wheels.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED if is_release else zipfile.ZIP_STORED
            archive.writestr(info, data)
    for made in into.glob("stripped-*"):
        made.unlink()
    if is_release and wheel.stat().st_size > LARGEST:
        raise SystemExit(f"{wheel} has {wheel.stat().st_size} bytes, and {LARGEST} are the most")
    return wheel


def digest(data: bytes) -> str:
    """A hash as a wheel's record has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build() -> tuple[Path, Path]:
    """Builds library and program for a release, and returns where they are."""
    command = ["cargo", "build", "--release", "-p", "outboard-python", "-p", "outboard-cli", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    library = program = None
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact":
            continue
        if message["target"]["name"] == "outboard_python":
            library = next((Path(name) for name in message["filenames"] if name.endswith(".so")), library)
        if message.get("executable") and message["target"]["name"] == "outboard":
            program = Path(message["executable"])
    if library is None or program is None:
        raise SystemExit("cargo has built no library or no program")
    return library, program


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """As PEP 517 asks for it."""
    return pack(*build(), Path(wheel_directory), is_release=True).name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """There is none: the sources are the whole repository."""
    raise NotImplementedError("outboard is built from its repository: pip install ./bindings/python")


def main() -> None:
    """As tests call it, and `cargo xtask wheel`."""
    parser = argparse.ArgumentParser(description="Pack the Python wheel.")
    parser.add_argument("--library", type=Path, help="the native library; built for a release by default")
    parser.add_argument("--program", type=Path, help="the program outboard")
    parser.add_argument("--into", type=Path, default=ROOT / "target/wheel", help="the folder for the wheel")
    arguments = parser.parse_args()
    if (arguments.library is None) != (arguments.program is None):
        parser.error("name both, --library and --program, or none")
    is_release = arguments.library is None
    library, program = build() if is_release else (arguments.library, arguments.program)
    print(pack(library, program, arguments.into, is_release))


if __name__ == "__main__":
    sys.exit(main())
