"""What runs beside a run: a workload that is repeated, or a reader of somebody's files."""

import contextlib
import itertools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.bench.data.folder import NAME as OF_RUNS
from penstock.bench.run.interference import load_beside, run_beside
from penstock.bench.run.jobs import Job, NetworkJob
from penstock.model.bench.campaigns import Parameter
from penstock.model.errors import UsageError
from penstock.model.problems import place_of, words_of
from penstock.model.storage_url import mounted
from penstock.model.text import counted
from penstock.model.units import Size, human_size
from penstock.programs.beside import Repeated, RepeatedReads

NONE = "none"
READER = "read"
# Of a campaign's parameter `beside`; a command of one's own is for the option alone.
_WORKLOADS = ("frames", "stream", "metadata")
_FILES_MAX = 100_000


@dataclass(frozen=True)
class Second:
    """What runs beside a workload. `target` is None, and nothing is written, for a reader and a command."""

    text: str
    target: Path | None
    bytes: int
    files: int
    start: Callable[[], AbstractContextManager[Repeated]]
    about: str = ""


class Parameters(Protocol):
    """Of a workload, as a campaign has them."""

    def job(self) -> Job | NetworkJob: ...


ParametersOf = Callable[[str, Mapping[str, Parameter]], Parameters]


class _Reader(BaseModel):
    """Options of `read`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: int = Field(1, ge=1, le=256)
    transfer: Size = Field(1 << 20, ge=512, le=1 << 30)


def words_in(text: str) -> list[str]:
    """As a shell has them. A UsageError where a quote is not closed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--background '{text}': {error}", "close the quotes") from error


def reader_of(text: str, words: Sequence[str], folder: Path) -> Second:
    """Of `read [PATH…] [--threads N] [--transfer SIZE]`; without a path it reads what is in `folder`.

    A UsageError names what is wrong, a path without a file among it. Files of runs are left out.
    """
    paths, reader = _reader_asked(text, words)
    found = (file for path in paths or [str(folder)] for file in _files_in(text, Path(path)))
    files = list(itertools.islice(found, _FILES_MAX + 1))
    if not files:
        raise UsageError(
            f"--background '{text}': there is no non-empty file in {', '.join(paths) or folder}",
            "name existing files, or folders with files",
        )
    if len(files) > _FILES_MAX:
        raise UsageError(
            f"--background '{text}': the files exceed the maximum of {_FILES_MAX}", "name fewer files"
        )
    size = sum(each for _, each in files)
    return Second(
        text,
        None,
        0,
        0,
        lambda: RepeatedReads(files, reader.threads, reader.transfer),
        f"{counted(len(files), 'file')} of {human_size(size)}, read repeatedly; nothing is written",
    )


def _reader_asked(text: str, words: Sequence[str]) -> tuple[list[str], _Reader]:
    paths, options = _options_of(words)
    usage = f"{READER} [PATH…] [--threads N] [--transfer SIZE]"
    try:
        reader = _Reader.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        name = place_of(first).replace("_", "-")
        raise UsageError(f"--background '{text}': --{name}: {words_of(first)}", usage) from error
    for name, value in options.items():
        if isinstance(value, bool):
            raise UsageError(f"--background '{text}': --{name} requires a value", usage)
    return paths, reader


def _files_in(text: str, path: Path) -> Iterator[tuple[Path, int]]:
    """Plain files with their sizes; links in a folder are not followed."""
    if not path.exists():
        raise UsageError(f"--background '{text}': {path} does not exist", "name files, or folders of files")
    path = path.resolve()
    for file in [path] if path.is_file() else _plain_files(path):
        with contextlib.suppress(OSError):  # it is gone already
            if size := file.stat().st_size:
                yield file, size


def _plain_files(folder: Path) -> Iterator[Path]:
    """Of a folder and those in it; folders that cannot be listed are passed over."""
    folders = [folder]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith(OF_RUNS):
                    folders.append(Path(entry.path))


def with_second(job: Job, text: str, parameters_of: ParametersOf) -> Job:
    """`job`, beside what `text` says, on the same target; NONE: alone. A UsageError names what is wrong."""
    if text == NONE:
        return job
    words = words_in(text)
    if words[:1] == [READER]:
        _reader_asked(text, words[1:])

        def reader(target: Path) -> AbstractContextManager[Repeated]:
            return reader_of(text, words[1:], target).start()

        return _beside(job, 0, 0, reader)
    if not words or words[0] not in _WORKLOADS:
        known = ", ".join((NONE, READER, *_WORKLOADS))
        raise UsageError(f"`beside`: '{text}' is not a workload", f"start it with one of: {known}")
    alone, options = _options_of(words[1:])
    if alone or "beside" in options:
        what = alone[0] if alone else "--background"
        raise UsageError(f"`beside` is '{text}': {what} is not allowed in a background load", "leave it out")
    second = parameters_of(words[0], options).job()
    plan = second.plan if isinstance(second, Job) else None
    if plan is None:
        raise UsageError(
            f"`beside`: '{text}' cannot be repeated", "use one process, and plain frames or a plain stream"
        )
    return _beside(job, second.bytes, second.files, lambda target: load_beside(target, plan))


def _beside(
    job: Job, size: int, files: int, start: Callable[[Path], AbstractContextManager[Repeated]]
) -> Job:
    return replace(
        job,
        bytes=job.bytes + size,
        files=job.files + files,
        run=lambda folder, telling: run_beside(
            lambda: job.run(folder, telling), lambda: start(mounted(folder.path, "`beside`").parent)
        ),
        plan=None,
    )


def _options_of(words: Sequence[str]) -> tuple[list[str], dict[str, Parameter]]:
    """What stands alone, and `--name value`, `--name=value`, `--name` and `--no-name` by their names."""
    alone: list[str] = []
    options: dict[str, Parameter] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            alone.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if equals:
            options[key] = value
        elif left and not left[0].startswith("--"):
            options[key] = left.pop(0)
        elif key.startswith("no_"):
            options[key.removeprefix("no_")] = False
        else:
            options[key] = True
    return alone, options
