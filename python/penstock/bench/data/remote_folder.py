"""The directory of a run on a server, and how it is removed: by a second job of the load generator."""

import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from penstock.bench.data.folder import NAME, BenchFolder, FileSet
from penstock.bench.data.trees import TreeSet
from penstock.lab.storage import start_at
from penstock.model.bench.load import LoadPlan, RemoteBackend, RemoveWorkload, TreesToRemove
from penstock.model.bench.made import Made
from penstock.model.errors import PenstockError
from penstock.model.storage_url import Place, StorageUrl
from penstock.programs.load import load

# Without an answer of the server, which may be gone after a run that failed, while a user waits for the end.
_PATIENCE_S, _PATIENCE_AFTER_FAILURE_S = 60.0, 5.0
_OBJECTS = ("s3", "s3s")


class RemoteFolder:
    """Its name is unique. Leaving it as a context manager removes the files of the run and the directory."""

    def __init__(self, target: StorageUrl, keep: bool = False) -> None:
        self.path = target / f"{NAME}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
        self._keep = keep
        self._sets: list[FileSet] = []
        self._trees: list[TreeSet] = []

    def announce(self, files: FileSet | TreeSet) -> None:
        """Remembers what the run may create."""
        if isinstance(files, FileSet):
            self._sets.append(files)
        else:
            self._trees.append(files)

    def note_made(self, prefix: str, made: Made | None) -> None:
        """Nothing: a directory on a server that has this run's name is all its own."""

    def remove(self) -> None:
        """Removes what was announced and the directory. Raises PenstockError with what is left."""
        problem = self._removed(with_trees=True, patience_s=_PATIENCE_S)
        if problem:
            raise PenstockError(f"{self.path} was not removed: {problem}", removal_of(self.path))

    def _removed(self, with_trees: bool, patience_s: float) -> str:
        """Why something is left; "" for nothing. `patience_s`: without an answer of the server."""
        jobs = list(self._jobs(with_trees))
        for number, (prefix, job) in enumerate(jobs):
            workload = job.model_copy(update={"folder": number == len(jobs) - 1})
            plan = LoadPlan(
                backend=RemoteBackend(url=str(self.path)),
                workload=workload,
                prefix=prefix,
                drain_timeout_s=patience_s,
            )
            if problem := _problem_of(plan, self.path):
                return problem
        return ""

    def _jobs(self, with_trees: bool) -> Iterator[tuple[str, RemoveWorkload]]:
        """Prefixes of names, and what has them."""
        for files in self._sets:
            yield files.prefix, RemoveWorkload(files=files.count, suffix=files.suffix)
        for trees in self._trees:
            pattern = TreesToRemove(
                folders=self.path.scheme not in _OBJECTS, **trees.model_dump(exclude={"prefix"})
            )
            yield trees.prefix, RemoveWorkload(files=0, trees=pattern if with_trees else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keep or not (self._sets or self._trees):
            return
        # A run that comes to its end has removed its trees.
        is_complete = kind is None
        problem = self._removed(
            with_trees=not is_complete,
            patience_s=_PATIENCE_S if is_complete else _PATIENCE_AFTER_FAILURE_S,
        )
        if not problem:
            return
        # A run that failed may have made nothing.
        left = f"{self.path} {'was not removed' if is_complete else 'may be left'}: {problem}"
        if isinstance(value, PenstockError):
            raise PenstockError(f"{value.message}; {left}", removal_of(self.path), value.code) from value
        raise PenstockError(left, removal_of(self.path))


def _problem_of(plan: LoadPlan, place: StorageUrl) -> str:
    """Why something is left; "" for nothing."""
    try:
        document = load(plan, lambda _: None, start=start_at(place))
    except PenstockError as error:
        return error.message
    return document.problem or ("it was interrupted" if document.interrupted else "")


def removal_of(url: StorageUrl) -> str:
    """How a user removes a directory that a run left."""
    if url.scheme in _OBJECTS:
        host, _, path = url.text.partition("://")[2].partition("/")
        at = f" --endpoint-url http{'s' * (url.scheme == 's3s')}://{host}"
        where, options = (path, at) if ":" in host or url.scheme == "s3s" else (f"{host}/{path}", "")
        return f"look into it, then remove it: aws s3 rm --recursive s3://{where}{options}"
    commands = {
        "nfs": "mount the export, look into the directory, and remove it",
        "http": f"look into it, then remove it: curl --request DELETE {url}/",
        "https": f"look into it, then remove it: curl --request DELETE {url}/",
        "hdfs": f"look into it, then remove it: hdfs dfs -rm -r {url}",
        "webhdfs": f"look into it, then remove it: hdfs dfs -rm -r {url}",
    }
    return commands.get(url.scheme, f"look into it, then remove it: gfal-rm -r {url}")


RunFolder = BenchFolder | RemoteFolder


def make_folder(place: Place, keep: bool = False, needed_bytes: int = 0) -> RunFolder:
    """As `BenchFolder.make`. On a server nothing is made before the run does it."""
    if isinstance(place, StorageUrl):
        return RemoteFolder(place, keep)
    return BenchFolder.make(place, keep, needed_bytes)
