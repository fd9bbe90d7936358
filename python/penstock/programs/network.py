"""Runs the end of a network measurement that others come to."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.model.bench.load import LoadDocument, LoadPlan, NullBackend
from penstock.model.bench.network import NetworkServerWorkload
from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import Event, Listening, LoadResult, NetworkSession
from penstock.model.units import split_address
from penstock.programs.process import LogLine, Program, forwarding_signals, wait_for

_STARTS_WITHIN_S = 30.0


def _plan(workload: NetworkServerWorkload) -> LoadPlan:
    return LoadPlan(backend=NullBackend(), workload=workload)


def serve(
    workload: NetworkServerWorkload,
    on_event: Callable[[Listening | NetworkSession], None],
    on_log: LogLine | None = None,
) -> LoadDocument:
    """Blocks until it ends, by itself or by SIGINT or SIGTERM. A PenstockError says why it cannot listen."""
    result: LoadResult | None = None
    with (
        Program("penstock-load", _plan(workload), on_log=on_log) as program,
        forwarding_signals(program),
    ):
        for event in program.events():
            if isinstance(event, LoadResult):
                result = event
            elif isinstance(event, Listening | NetworkSession):
                on_event(event)
        program.require_success(program.wait())
    if result is None:
        raise PenstockError("penstock-load ended without a result", "see its log above")
    return LoadDocument.model_validate(result.document)


class OtherEnd:
    """A server of its own on this machine. Use as a context manager: leaving it ends the server."""

    def __init__(self, workload: NetworkServerWorkload) -> None:
        self._workload = workload
        self.port = 0

    def __enter__(self) -> Self:
        self._program = Program("penstock-load", _plan(self._workload))
        try:
            event: Event | None = wait_for(self._program.inbox, Listening, _STARTS_WITHIN_S)
            if not isinstance(event, Listening):
                self._program.require_success(self._program.wait())
                raise PenstockError("penstock-load exited before it listened", code=ExitCode.FAILED)
            self.port = split_address(event.sources[0].removeprefix("tcp://"), 0)[1]
        except BaseException:
            self._program.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.stop()
