"""Runs the recorder until it ends or is asked to."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.model.errors import PenstockError
from penstock.model.events import Event, Placement, RecorderSeriesEnd
from penstock.model.plans import RecorderPlan
from penstock.programs.process import LogLine, Program, forwarding_signals
from penstock.programs.ranks import Ranks


@dataclass
class Recording:
    """The series that were recorded."""

    ended: list[RecorderSeriesEnd] = field(default_factory=list)

    @property
    def problems(self) -> list[RecorderSeriesEnd]:
        return [series for series in self.ended if series.problem is not None]


def record(
    plan: RecorderPlan,
    on_event: Callable[[Event], None],
    on_log: LogLine | None = None,
    ranks: Ranks | None = None,
) -> Recording:
    """Blocks until the recorder ends; SIGINT and SIGTERM make it complete its files first."""
    recording = Recording()
    with (
        Program("penstock-recorder", plan, on_log=on_log, ranks=ranks, patience_s=None) as recorder,
        forwarding_signals(recorder),
    ):
        for event in recorder.events():
            if isinstance(event, RecorderSeriesEnd):
                recording.ended.append(event)
            on_event(event)
        recorder.require_success(recorder.wait())
    return recording


def placement_of(plan: RecorderPlan) -> Placement:
    """Where a recorder's threads and memory would be on this machine, within what this process may use."""
    with Program("penstock-recorder", plan, options=("--show-placement",)) as recorder:
        found = [event for event in recorder.events() if isinstance(event, Placement)]
        recorder.require_success(recorder.wait())
    if not found:
        raise PenstockError("penstock-recorder has shown no placement", "build the programs again")
    return found[0]
