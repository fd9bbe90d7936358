"""Versions, native programs and HDF5 plug-ins."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from penstock import __version__
from penstock.model.errors import PenstockError
from penstock.model.plan.checkup import Finding, ok, problem
from penstock.programs.filters import find_filters
from penstock.programs.locate import find_program

_PROGRAMS = ("penstock-recorder", "penstock-detector", "penstock-check", "penstock-load")
_VARIABLE = "HDF5_PLUGIN_PATH"
_PATIENCE_S = 20


def software_findings(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    return [*_programs(), *_plugins(environment), ok("versions", _versions())]


def _programs() -> Iterator[Finding]:
    """Each must be there and of this version: jobs and events change with it."""
    wrong = []
    for name in _PROGRAMS:
        try:
            version = _version_of(find_program(name))
        except PenstockError as error:
            yield problem(
                "native programs", error.message, "nothing can be recorded without it", error.remedy
            )
            return
        if version != __version__:
            wrong.append(f"{name} {version}")
    if wrong:
        yield problem(
            "native programs",
            f"{', '.join(wrong)}, but the package is {__version__}",
            "a program of another version may reject jobs",
            "install the package again; in a checkout: make build",
        )
    else:
        yield ok("native programs", f"{len(_PROGRAMS)} of version {__version__}")


def _version_of(program: Path) -> str:
    """Raises PenstockError if it does not start."""
    try:
        run = subprocess.run(
            [str(program), "--version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PenstockError(
            f"{program} does not start: {error}", "install the libraries of packages-apt.txt"
        ) from error
    return run.stdout.split()[-1] if run.stdout.split() else "without a version"


def _plugins(environment: Mapping[str, str]) -> Iterator[Finding]:
    folders = [Path(each) for each in environment.get(_VARIABLE, "").split(os.pathsep) if each]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        yield problem(
            "plug-in path",
            f"{_VARIABLE} names {', '.join(missing)}, which does not exist",
            "readers and recorders on this machine find no plug-ins there",
            f"unset {_VARIABLE}, or set it to the folder of your plug-ins",
        )
    else:
        yield ok("plug-in path", ", ".join(map(str, folders)) or f"{_VARIABLE} is not set: HDF5's default")
    try:
        found = find_filters([])
    except PenstockError as error:
        yield problem("filter plug-ins", error.message, "codecs by plug-in cannot be used", error.remedy)
    else:
        yield ok("filter plug-ins", f"{len(found)} found; `penstock filters` lists them")


def _versions() -> str:
    import h5py  # noqa: PLC0415  (it loads HDF5)

    packages = ("hdf5plugin", "pyzmq", "numpy")
    named = [f"{name} {metadata.version(name)}" for name in packages if _is_installed(name)]
    return ", ".join([f"penstock {__version__}", f"HDF5 {h5py.version.hdf5_version}", *named])


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
