"""Where the native programs, the catalogue of detectors and the campaigns are."""

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.model.errors import PenstockError

BIN_VARIABLE = "PENSTOCK_BIN"
_PACKAGE = Path(__file__).resolve().parent.parent


def checkout() -> Path | None:
    """The root of the development checkout that this package is part of, if it is."""
    root = _PACKAGE.parent.parent
    return root if (root / "CMakeLists.txt").is_file() and (root / "detectors").is_dir() else None


def program_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where programs are looked for, in order."""
    if environment.get(BIN_VARIABLE):
        return [Path(environment[BIN_VARIABLE])]
    root = checkout()
    built = [root / "build" / "release" / "native" / "programs"] if root else []
    return [_PACKAGE / "bin", *built]


def find_program(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the path of a native program. Raises PenstockError with the searched folders and the remedy."""
    folders = program_folders(environment)
    for folder in folders:
        if (folder / name).is_file() and os.access(folder / name, os.X_OK):
            return (folder / name).absolute()
    looked = ", ".join(str(folder) for folder in folders)
    make = "PENSTOCK_MPI=both make build" if name.endswith("-mpich") else "make build"
    if name.endswith("-remote"):
        make = "apt-get install libcurl4-openssl-dev libnfs-dev libxrootd-client-dev && make build"
    raise PenstockError(
        f"the program {name} does not exist (looked in {looked})",
        f"in a checkout build it with `{make}`; elsewhere set {BIN_VARIABLE} to the folder with the programs",
    )


def find_library(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the path of a shared library that is built with the programs; None if there is none."""
    found = (folder / name for folder in program_folders(environment))
    return next((path.absolute() for path in found if path.is_file()), None)


def detectors_folder() -> Path:
    """The folder of the catalogue of detectors."""
    return _shipped_folder("detectors", "the detectors are")


def blocks_folder() -> Path:
    """The folder of the building blocks."""
    return _shipped_folder("blocks", "the building blocks are")


def layouts_folder() -> Path:
    """The folder of the layouts that come with the package."""
    return _shipped_folder("layouts", "the layouts are")


def campaigns_folder() -> Path:
    """The folder of the campaigns that come with the package."""
    return _shipped_folder("campaigns", "the campaigns are")


def _shipped_folder(name: str, what: str) -> Path:
    """A folder of an installed package, or of the checkout."""
    root = checkout()
    for folder in [_PACKAGE / name, *([root / name] if root else [])]:
        if folder.is_dir():
            return folder
    raise PenstockError(f"{what} missing", "install the package again, or work in a checkout")
