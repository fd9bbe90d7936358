"""Jobs that run beside something else, in a thread of this process."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from penstock.bench.science.jobs.team import JobRequest, TeamOutcome, run_jobs
from penstock.model.errors import PenstockError


class JobsBeside:
    """Use as a context manager: all jobs are at work inside, and have ended behind it; then see `outcome`."""

    def __init__(self, requests: Sequence[JobRequest], patience_s: float) -> None:
        self.outcome: TeamOutcome | None = None
        self._requests, self._patience_s = requests, patience_s
        self._stop, self._begun, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._error: Exception | None = None
        self._starting = threading.Lock()
        self._started = False

    def __enter__(self) -> Self:
        """Raises PenstockError if a job does not start."""
        if not self._requests:
            return self
        try:
            threading.Thread(target=self._run, daemon=True).start()
            self._begun.wait()  # the jobs have a limit of their own
        except BaseException:  # Ctrl-C
            self.end()
            raise
        if self._error is not None:
            remedy = self._error.remedy if isinstance(self._error, PenstockError) else "check the storage"
            raise PenstockError(f"the jobs did not start: {self._error}", remedy) from self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._requests:
            self.end()

    def end(self) -> None:
        self._stop.set()
        with self._starting:
            started = self._started
        if started:  # Ctrl-C may come before
            self._ended.wait()

    def _run(self) -> None:
        with self._starting:
            if self._stop.is_set():
                return
            self._started = True
        try:
            self.outcome = run_jobs(
                self._requests, patience_s=self._patience_s, stop=self._stop, on_go=self._begun.set
            )
        except Exception as error:
            self._error = error
        finally:
            self._begun.set()
            self._ended.set()
