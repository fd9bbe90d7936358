"""Runs the recorder until it ends or is asked to."""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.model.errors import ExitCode, PenstockError
from penstock.model.events import (
    Event,
    Listening,
    Placement,
    RecorderSeriesEnd,
    SeriesRefused,
    SeriesStart,
    Stopped,
)
from penstock.model.plans import RecorderPlan, TcpSourcePlan
from penstock.model.pva import PvaPlan, PvaSettings
from penstock.programs.process import LogLine, Program
from penstock.programs.pva import Beside
from penstock.programs.ranks import Ranks

_REFUSALS_KEPT = 20
_FILES_NAMED = 5
_RECONNECT_S = 5.0


@dataclass
class Recording:
    """The series that were recorded, and those that were not."""

    ended: list[RecorderSeriesEnd] = field(default_factory=list)
    refused: int = 0
    refusals: list[SeriesRefused] = field(default_factory=list)  # the first of them
    logged: frozenset[str] = frozenset()  # those of them whose reason is in the log
    all_refused: bool = False  # messages came, and every one of them was refused
    source_problems: list[str] = field(default_factory=list)  # of the pvAccess sources

    @property
    def problems(self) -> list[str]:
        """What happened to the series that are not as they should be; empty where all are."""
        found = [
            f"{series.series_unique_id}: {series.problem}"
            for series in self.ended
            if series.problem is not None
        ]
        found += [_refusal(series, series.series_unique_id in self.logged) for series in self.refusals]
        more = self.refused - len(self.refusals)
        found += [f"{more} more were rejected"] if more > 0 else []
        return found + self.source_problems

    @property
    def damaged_files(self) -> list[str]:
        """Files of series with a problem that can be checked."""
        return [series.file for series in self.ended if series.problem is not None and not series.removed]

    @property
    def incomplete(self) -> list[RecorderSeriesEnd]:
        """Series that lack frames: those never came, or are damaged, dropped or lost."""
        return [series for series in self.ended if series.missing]

    @property
    def failed(self) -> int:
        return sum(series.problem is not None for series in self.ended) + self.refused


def record(
    plan: RecorderPlan,
    on_event: Callable[[Event], None],
    on_log: LogLine | None = None,
    ranks: Ranks | None = None,
    channels: Sequence[PvaSettings] = (),
) -> Recording:
    """Blocks until the recorder ends; SIGINT and SIGTERM make it complete its files first, SIGUSR2 ends the
    series that are open.

    `channels` of pvAccess are watched by processes beside it, which send to the last of its TCP sources.
    """
    recording = Recording()
    refusals: dict[str, SeriesRefused] = {}
    open_files: dict[str, None] = {}  # in their order; two of one series' name may overlap for a moment
    listened = False
    stopped: Stopped | None = None
    with (
        Program(
            "penstock-recorder",
            plan,
            on_log=on_log,
            ranks=ranks,
            options=recorder_options(plan),
            patience_s=None,
        ) as recorder,
        Beside(recorder, on_log) as beside,
    ):
        for event in beside.events():
            match event:
                case Listening():
                    listened = True
                    beside.start([_pva_plan(plan, channel, event.sources[-1]) for channel in channels])
                case SeriesStart():
                    open_files[event.file] = None
                    refusals.pop(event.series_unique_id, None)
                case RecorderSeriesEnd():
                    open_files.pop(event.file, None)
                    recording.ended.append(event)
                case SeriesRefused() if len(refusals) < _REFUSALS_KEPT:
                    refusals[event.series_unique_id] = event
                case Stopped():
                    stopped = event
            on_event(event)
        code = recorder.wait()
        recording.refusals = list(refusals.values())
        recording.logged = frozenset(name for name, each in refusals.items() if _is_in(recorder.log, each))
        recording.refused = 0 if stopped is None else stopped.refused_series
        died = listened and stopped is None
        recorder.require_success(
            code,
            # The series describe it better than an exit code.
            allowed=(ExitCode.FINE, ExitCode.FAILED)
            if stopped and (recording.failed or stopped.all_messages_refused)
            else (ExitCode.FINE,),
            remedy_of_death=how_to_recover(plan, list(open_files)) if died else None,
        )
        recording.all_refused = stopped is not None and stopped.all_messages_refused
        recording.source_problems = beside.problems()
    return recording


def _is_in(log: Iterable[str], series: SeriesRefused) -> bool:
    reason = series.message.removeprefix(f'series "{series.series_unique_id}": ')
    return any(reason in line for line in log)


def _refusal(series: SeriesRefused, is_logged: bool) -> str:
    """Returns what happened; a reason that is in the log was printed before."""
    if is_logged:
        return f"{series.series_unique_id} was rejected"
    if series.message.startswith(f"series {series.series_unique_id} "):
        return series.message
    return f"{series.series_unique_id} was rejected: {series.message}"


def recorder_options(plan: RecorderPlan) -> tuple[str, ...]:
    """Returns what the job has as options of the program."""
    return () if plan.file_mode is None else ("--file-mode", plan.file_mode)


def _pva_plan(plan: RecorderPlan, channel: PvaSettings, address: str) -> PvaPlan:
    own = plan.sources[-1]
    assert isinstance(own, TcpSourcePlan)
    settings = channel.model_dump(exclude={"kind"})
    return PvaPlan(
        **settings,
        to=address,
        token=own.token,
        series_limit=plan.series_limit,
        frame_bytes_max=plan.frame_bytes_max,
        # It lives and dies with this recorder.
        reconnect_recorder_s=_RECONNECT_S,
    )


def how_to_recover(plan: RecorderPlan, files: list[str]) -> str:
    """What to do after a recorder died that wrote `files`."""
    if plan.resume:
        return "Start the same command again: with resume it continues each series in its file"
    written = bool(files)
    files = [file for file in files if Path(file).exists()]
    if written and not files:
        return "It left no file: start the command again"
    if files:
        commands = ", ".join(f"`penstock recover {shlex.quote(file)}`" for file in files[:_FILES_NAMED])
        commands += ", …" if len(files) > _FILES_NAMED else ""
        return f"Complete its files with {commands}"
    pattern = re.sub(r"\{[a-z_]+\}", "*", plan.file_name)
    return f"If it left files ({plan.folder}/{pattern}), complete each with `penstock recover FILE`"


def try_out(plan: RecorderPlan, on_log: LogLine | None = None, ranks: Ranks | None = None) -> None:
    """Refuses, as a PenstockError, what the recorder would refuse before it listens."""
    count = 1 if ranks is None else ranks.count
    with Program("penstock-recorder", plan, on_log=on_log, options=("--try", str(count))) as recorder:
        recorder.require_success(recorder.wait())


def placement_of(plan: RecorderPlan) -> Placement:
    """Where a recorder's threads and memory would be on this machine, within what this process may use."""
    with Program("penstock-recorder", plan, options=("--show-placement",)) as recorder:
        found = [event for event in recorder.events() if isinstance(event, Placement)]
        recorder.require_success(recorder.wait())
    if not found:
        raise PenstockError("penstock-recorder reported no placement", "build the programs again")
    return found[0]
