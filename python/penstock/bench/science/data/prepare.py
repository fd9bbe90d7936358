"""Makes a data set, or finds it again."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.bench.data.folder import BenchFolder
from penstock.bench.science.data.manifest import CONTENTS_SET, Contents, DataFile, DataSpec
from penstock.bench.science.data.tasks import TASKS
from penstock.bench.science.jobs.team import JobRequest, run_jobs
from penstock.model.bench.made import Made
from penstock.model.errors import PenstockError, UsageError
from penstock.model.storage_url import Place, StorageUrl
from penstock.model.text import counted
from penstock.model.units import human_bytes

Log = Callable[[str], None]

_CHECK = "check the storage"


@dataclass(frozen=True)
class DataSet:
    """Files that are complete. Nothing removes them as long as `prepared` is open."""

    place: Place
    parameters: dict[str, Any]
    files: list[DataFile]


@contextlib.contextmanager
def prepared(target: Place, spec: DataSpec, log: Log, checksums: bool = False) -> Iterator[DataSet]:
    """The data set of `spec` in `target`: it is made if it is not there.

    Found files are compared with the manifest by size, and with `checksums` by content. Raises PenstockError
    for a file that is not as it was made, UsageError while another run makes the data set.
    """
    with all_prepared(target, [spec], log, checksums) as (data,):
        yield data


@contextlib.contextmanager
def all_prepared(
    target: Place, specs: Sequence[DataSpec], log: Log, checksums: bool = False
) -> Iterator[list[DataSet]]:
    """As `prepared`, for several data sets."""
    places: list[Place] = [target / spec.folder for spec in specs]
    with contextlib.ExitStack() as stack:
        sets = []
        for place, spec, found in zip(places, specs, _found(places, checksums), strict=True):
            contents = found
            if contents is None:
                contents = _made(target, place, spec, log)
            else:
                _require_planned(place, spec, contents)
            stack.enter_context(_in_use(place))
            sets.append(DataSet(place, contents.parameters, contents.files))
        yield sets


def task(place: Place, what: str, /, **parameters: Any) -> dict[str, Any]:
    """What a function of `tasks` returns. Raises PenstockError with its problem."""
    (result,) = _tasks([place], what, parameters)
    return result


def _tasks(places: Sequence[Place], what: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """At several places at once."""
    outcome = run_jobs([JobRequest(f"{TASKS}:{what}", place, parameters) for place in places])
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.problem:
        of_job = next((job.problem for job in outcome.jobs if job.problem), None)  # the place is in it
        raise PenstockError(of_job or f"{places[0]}: {outcome.problem}", outcome.remedy(_CHECK))
    return [job.ended.result for job in outcome.jobs if job.ended is not None]


def _found(places: Sequence[Place], checksums: bool) -> list[Contents | None]:
    """What is there and complete."""
    there = [place for place in places if isinstance(place, StorageUrl) or place.exists()]
    results = _tasks(there, "look", {"checksums": checksums}) if there else []
    found = {
        place: Contents.model_validate(result["contents"])
        for place, result in zip(there, results, strict=True)
        if result["contents"] is not None
    }
    return [found.get(place) for place in places]


def _require_planned(place: Place, spec: DataSpec, contents: Contents) -> None:
    """Raises PenstockError unless it is what `spec` makes: a copy or a hand may have changed it."""
    names = [spec.file(number) for number in range(spec.files.count)]
    if [each.name for each in contents.files] != names or contents.parameters != spec.parameters:
        raise PenstockError(
            f"{place} is not the data set that its name stands for: {len(contents.files)} of {len(names)}"
            f" files, {contents.parameters}",
            "`penstock bench clean` removes it; then run this again",
        )


def _made(target: Place, place: Place, spec: DataSpec, log: Log) -> Contents:
    if isinstance(target, StorageUrl):
        _begin_on_server(place, spec)
        try:
            return _filled(place, spec, log)
        except BaseException:
            task(place, "remove", name=spec.folder)
            raise
    with _begin_on_file_system(target, spec) as folder:
        try:
            contents = _filled(place, spec, log)
            for files in (spec.files, CONTENTS_SET):
                folder.note_made(files.prefix, Made(files=[(0, files.count - 1)]))
            folder.keep()
        except BaseException:
            folder.remove()
            raise
        return contents


def _begin_on_server(place: Place, spec: DataSpec) -> None:
    if task(place, "look", checksums=False)["is_there"]:  # of a run that was killed
        task(place, "remove", name=spec.folder)
    sets = [each.model_dump() for each in (spec.files, CONTENTS_SET)]
    task(place, "mark", name=spec.folder, bytes=spec.bytes, sets=sets)


@contextlib.contextmanager
def _begin_on_file_system(target: Path, spec: DataSpec) -> Iterator[BenchFolder]:
    path = target / spec.folder
    if path.exists():
        left = BenchFolder.left_at(path)
        try:
            left.remove()
        finally:
            left.close()
    folder = BenchFolder.make(target, needed_bytes=spec.bytes, name=spec.folder)
    try:
        folder.announce(spec.files)
        folder.announce(CONTENTS_SET)
        yield folder
    finally:
        folder.close()


def _filled(place: Place, spec: DataSpec, log: Log) -> Contents:
    """Jobs make the files in parallel."""
    log(f"making {counted(spec.files.count, 'file')}, {human_bytes(spec.bytes)}, in {place}")
    count = max(1, min(spec.files.count, os.cpu_count() or 1))
    numbers = [list(range(first, spec.files.count, count)) for first in range(count)]
    requests = [JobRequest(spec.make, place, spec.parameters | {"numbers": each}) for each in numbers]
    # Half a data set is removed; but a server may keep the parts of an upload that was cut off.
    outcome = run_jobs(requests, keeps=isinstance(place, StorageUrl))
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.problem:
        message = f"cannot make the data set {place}: {outcome.problem}"
        raise PenstockError(message, outcome.remedy(_CHECK))
    made = [each for job in outcome.jobs if job.ended is not None for each in job.ended.result["files"]]
    files = sorted((DataFile.model_validate(each) for each in made), key=lambda each: each.name)
    if [each.name for each in files] != [spec.file(number) for number in range(spec.files.count)]:
        raise PenstockError(
            f"cannot make the data set {place}: {len(files)} of {spec.files.count} files were made",
            "run this again",
        )
    contents = Contents(name=spec.name, parameters=spec.parameters, files=files)
    task(place, "complete", contents=contents.model_dump(mode="json"))
    return contents


@contextlib.contextmanager
def _in_use(place: Place) -> Iterator[None]:
    """Who removes data sets sees a shared lock; on another machine, that it was used lately."""
    if isinstance(place, StorageUrl):
        yield
        return
    try:
        claim = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise UsageError(f"another command has removed {place}", "run this again") from error
    try:
        with contextlib.suppress(OSError):
            os.utime(claim)
        try:
            fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another command is about to remove {place}", "run this again when it has ended"
            ) from error
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(claim)
