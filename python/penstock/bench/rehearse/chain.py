"""The chain itself: a recorder that runs for the whole rehearsal, and a sender for each series."""

import contextlib
import queue
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.bench.rehearse.processors import Processors, processors
from penstock.bench.rehearse.request import Images, RehearsalRequest
from penstock.bench.rehearse.stages import Window, is_working, window_of
from penstock.model.errors import InterruptedRunError, PenstockError
from penstock.model.events import (
    DetectorProgress,
    DetectorSeriesEnd,
    Event,
    Listening,
    RecorderProgress,
    RecorderSeriesEnd,
    SeriesRefused,
    SeriesStart,
    StageTimes,
)
from penstock.model.plans import (
    RecorderPlan,
    Target,
    TcpPeer,
    TcpSourcePlan,
    TcpTarget,
    ZmqSourcePlan,
    ZmqTarget,
)
from penstock.model.units import human_seconds, split_address
from penstock.programs.logs import LOGS
from penstock.programs.process import LogLine, Message, Program
from penstock.programs.record import recorder_options
from penstock.programs.remote import RemoteDetector
from penstock.programs.simulate import Simulation, detector_plan

_START_S, _STALL_S, _LOOK_S = 30.0, 60.0, 0.25
# A program that is left early may lose what it has: all of it is removed anyway.
_PATIENCE_S = 1.0
# Beyond the detector's buffer, before sending is given up.
_BEHIND_SPARE_S = 2.0
# Events of one rank in one series.
_STAGES_KEPT = 1000
# In lines of the recorder's log.
_WARNING, _NO_DIRECT = "[warning]", "no direct I/O for "


class ChainFailedError(PenstockError):
    """The recorder crashed, or stored nothing for so long that it has stalled: the rate is not sustained."""


@dataclass(frozen=True)
class SeriesRequest:
    """One series of the chain. `seconds_max`: sending is ended after that; an unpaced one has no rate."""

    name: str
    number: int
    frames: int
    rate_hz: float
    seconds_max: float


@dataclass
class SeriesResult:
    """What the sender and the recorder reported."""

    request: SeriesRequest
    sent: DetectorSeriesEnd
    recorded: RecorderSeriesEnd
    window: Window | None = None
    """what the recorder's threads did while frames were sent; None: it reported too little"""
    sending: tuple[float, float] | None = None
    """when it began and ended, by the monotonic clock; None: it never began"""
    stopped: bool = False
    stopped_after_s: float = 0.0
    """from the start of sending until it was stopped; 0: it was not"""
    problems: list[str] = field(default_factory=list)
    others_share: float | None = None
    """of this machine's processors, that other programs used while frames were sent; None: not known"""

    @property
    def file(self) -> Path:
        return Path(self.recorded.file)


class Sender(Protocol):
    """A simulated detector that sends one series, here or elsewhere."""

    def end(self) -> None: ...

    def failure(self) -> PenstockError: ...


class Show(Protocol):
    """Shows progress."""

    def __call__(self, event: Event) -> None: ...


class _LocalSender:
    def __init__(self, program: Program) -> None:
        self.program = program

    def end(self) -> None:
        self.program.signal(signal.SIGTERM)

    def failure(self) -> PenstockError:
        words = self.program.last_words(self.program.wait(_START_S))
        return PenstockError(f"the simulated detector ended early: {words}", "see the log above")


class Chain:
    """Records series that it sends itself. Use as a context manager."""

    def __init__(self, request: RehearsalRequest, plan: RecorderPlan, show: Show, on_log: LogLine) -> None:
        self._request, self._plan, self._show, self._on_log = request, plan, show, on_log
        self._inbox: queue.Queue[Message] = queue.Queue()
        self._stack = contextlib.ExitStack()
        self._recorder: Program | None = None
        self._target: Target | None = None
        self.direct_refused = False
        """whether the file system rejected direct I/O"""

    def _take_log(self, line: str) -> None:
        """Passes a line of the recorder's log on, but no warning of slow storage: that is looked for."""
        refused = _NO_DIRECT in line
        self.direct_refused |= refused
        if refused or LOGS.verbose or _WARNING not in line:
            self._on_log(line)

    def __enter__(self) -> "Chain":
        recorder = Program(
            "penstock-recorder",
            self._plan,
            on_log=self._take_log,
            inbox=self._inbox,
            ranks=self._request.ranks,
            options=recorder_options(self._plan),
            patience_s=_PATIENCE_S,
        )
        self._stack.enter_context(recorder)
        self._recorder = recorder
        try:
            self._target = self._find_target(recorder)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def recorder(self) -> Program:
        assert self._recorder is not None
        return self._recorder

    def _find_target(self, recorder: Program) -> Target:
        """Returns where to send. Waits until all ranks listen."""
        count = 1 if self._request.ranks is None else self._request.ranks.count
        listening: dict[int, Listening] = {}
        deadline = time.monotonic() + _START_S
        while len(listening) < count:
            message = self._next()
            if message is None and time.monotonic() > deadline:
                raise PenstockError(
                    f"the recorder did not listen within {human_seconds(_START_S)}", "see its log above"
                )
            if message is None:
                continue
            if message.event is None:
                recorder.require_success(recorder.wait(_START_S))
                raise PenstockError("the recorder exited before it listened", "see its log above")
            if isinstance(message.event, Listening):
                listening[message.event.rank] = message.event
        source = self._plan.sources[0]
        if not isinstance(source, TcpSourcePlan):
            endpoints = [each.endpoint for each in self._plan.sources if isinstance(each, ZmqSourcePlan)]
            return ZmqTarget(endpoint=endpoints[0], more=endpoints[1:])
        host = self._request.listen.rpartition(":")[0] if self._request.sender else ""
        addresses = [
            split_address(listening[rank].sources[0].removeprefix("tcp://"), 0) for rank in sorted(listening)
        ]
        (first, port), *more = [(host or its_host, port) for its_host, port in addresses]
        return TcpTarget(
            host=first,
            port=port,
            token=source.token,
            more=[TcpPeer(host=other, port=its) for other, its in more],
        )

    def _next(self) -> Message | None:
        with contextlib.suppress(queue.Empty):
            return self._inbox.get(timeout=_LOOK_S)
        return None

    def run(self, series: SeriesRequest) -> SeriesResult:
        """Sends and records one series.

        Raises ChainFailedError if the recorder fails or stalls, and PenstockError if the sender fails.
        """
        with self._sending(series) as sender:
            return _Course(self, series, sender).take()

    @contextlib.contextmanager
    def _sending(self, series: SeriesRequest) -> Iterator[Sender]:
        assert self._target is not None
        images, request = self._request.images, self._request
        simulation = Simulation(
            frames=series.frames,
            rate_hz=series.rate_hz,
            series_id=series.number,
            series_unique_id=series.name,
            encoding=images.encoding,
            ratio=images.ratio,
            elements=_elements(self._plan),
            elements_told=_elements(self._plan) is None,
        )
        if request.sender:
            token = self._target.token if isinstance(self._target, TcpTarget) else None
            arguments = remote_arguments(images, simulation, self._target)
            with RemoteDetector(
                request.sender, images.detector, arguments, token, inbox=self._inbox, on_log=self._on_log
            ) as remote:
                yield remote
            return
        job = detector_plan(images.detector, simulation, self._target)
        if images.replay is not None:
            job = job.model_copy(update={"replay": str(images.replay), "stamp": False})
        with Program(
            "penstock-detector", job, on_log=self._on_log, inbox=self._inbox, patience_s=_PATIENCE_S
        ) as program:
            yield _LocalSender(program)


@dataclass
class _Events:
    """Events of one rank, with the time at which each came: of a long series every second, fourth, ..."""

    kept: list[tuple[float, StageTimes]] = field(default_factory=list)
    _every: int = 1
    _came: int = 0

    def add(self, now: float, stages: StageTimes) -> None:
        if self._came % self._every == 0:
            self.kept.append((now, stages))
        self._came += 1
        if len(self.kept) > _STAGES_KEPT:
            del self.kept[1::2]
            self._every *= 2


class _Course:
    """One series, from its start to both ends."""

    def __init__(self, chain: Chain, series: SeriesRequest, sender: Sender) -> None:
        self._chain, self._series, self._sender = chain, series, sender
        self._sent: DetectorSeriesEnd | None = None
        self._recorded: RecorderSeriesEnd | None = None
        self._stages: dict[int, _Events] = {}  # by rank
        self._problems: list[str] = []
        self._ended = self._stopped = False
        self._began_at: float | None = None
        self._stopped_after_s = 0.0
        self._last: dict[int, StageTimes] = {}  # by rank
        self._frames_sent = self._frames_received = 0
        self._moved_at = time.monotonic()
        self._processors: Processors | None = None  # when sending began
        self._others_share: float | None = None

    def take(self) -> SeriesResult:
        while self._recorded is None or not self._ended:
            message = self._chain._next()
            if message is not None:
                self._take(message)
            self._look()
        assert self._sent is not None
        sending = self._sending()
        return SeriesResult(
            self._series,
            self._sent,
            self._recorded,
            window_of(self._stages_while(sending)),
            sending,
            self._stopped,
            self._stopped_after_s,
            self._problems,
            self._others_share,
        )

    def _sending(self) -> tuple[float, float] | None:
        """By the time that the sender itself took: no clock of another machine is needed.

        One that was stopped was held back until then.
        """
        if self._began_at is None or self._sent is None:
            return None
        return self._began_at, self._began_at + max(self._sent.sending_seconds, self._stopped_after_s)

    def _stages_while(self, sending: tuple[float, float] | None) -> list[StageTimes]:
        if sending is None:
            return []
        begin, end = sending
        return [
            stages
            for of_rank in self._stages.values()
            for came_at, stages in of_rank.kept
            if begin <= came_at <= end
        ]

    def _take(self, message: Message) -> None:
        recorder = self._chain.recorder
        if message.event is None:
            if message.program is recorder:
                raise _end_of(recorder)
            self._note_end()
            return
        of_recorder = message.program is recorder
        self._chain._show(message.event)
        match message.event:
            case SeriesStart() if not of_recorder:
                self._began_at = time.monotonic()
                self._processors = processors()
            case DetectorProgress() as progress:
                self._frames_sent = progress.frames_sent
            case DetectorSeriesEnd() as end:
                self._sent = end
            case RecorderProgress() as progress:
                if progress.frames_written or progress.frames_received != self._frames_received:
                    self._moved_at = time.monotonic()
                self._frames_received = progress.frames_received
            case RecorderSeriesEnd() as end if end.series_unique_id == self._series.name:
                self._recorded = end
            case StageTimes() as stages:
                self._note_stages(stages)
            case SeriesRefused() as refused:
                raise PenstockError(
                    f"the recorder rejects the series: {refused.message}",
                    "correct the configuration, or choose the detector that it is for",
                )

    def _note_stages(self, stages: StageTimes) -> None:
        """Small compressed frames reach the file together; until then, the work on them is what advances."""
        now = time.monotonic()
        self._stages.setdefault(stages.rank, _Events()).add(now, stages)
        before = self._last.get(stages.rank)
        if before is not None and is_working(before, stages):
            self._moved_at = now
        self._last[stages.rank] = stages

    def _note_end(self) -> None:
        """The sender has ended."""
        self._ended = True
        self._moved_at = time.monotonic()
        now = processors()
        if self._processors is not None and now is not None:
            self._others_share = self._processors.others_share(now)
        if self._sent is None:
            raise self._sender.failure()
        if self._sent.problem and not self._stopped:
            self._problems.append(f"sender: {self._sent.problem}")
        # Of a sender that was stopped not everything that the recorder waits for comes.
        if self._stopped or self._sent.problem:
            self._chain.recorder.signal(signal.SIGUSR2)

    def _look(self) -> None:
        now = time.monotonic()
        if not self._ended and not self._stopped and self._is_too_late(now):
            self._stopped = True
            self._stopped_after_s = now - (self._began_at or now)
            self._sender.end()
        if now - self._moved_at > _STALL_S:
            raise ChainFailedError(
                f"no frame was compressed or reached the file for {human_seconds(_STALL_S)}"
                f" ({self._frames_received} arrived)",
                "check the storage with `df` and the system's log",
            )

    def _is_too_late(self, now: float) -> bool:
        # A sender that waits for acknowledgements only has sent in time.
        if self._began_at is None or self._frames_sent >= self._series.frames:
            return False
        passed = now - self._began_at
        if passed > self._series.seconds_max:
            return True
        if not self._series.rate_hz:
            return False
        due = min(self._series.frames, passed * self._series.rate_hz)
        limit_s = self._chain._request.buffer_s + _BEHIND_SPARE_S
        return due - self._frames_sent > limit_s * self._series.rate_hz


def _end_of(recorder: Program) -> PenstockError:
    """Why a recorder ended that was to record."""
    try:
        recorder.require_success(recorder.wait(_START_S))
    except InterruptedRunError as error:
        return error
    except PenstockError as error:
        return ChainFailedError(error.message, error.remedy)
    return PenstockError("the recorder was stopped during the rehearsal", "run it again")


def _elements(plan: RecorderPlan) -> tuple[int, int] | None:
    """Returns the grid of elements that the sources expect; None for one stream."""
    for source in plan.sources:
        element = getattr(source, "element", None)
        if element is not None and element.grid != [1, 1]:
            return element.grid[0], element.grid[1]
    return None


def remote_arguments(images: Images, simulation: Simulation, target: Target) -> list[str]:
    """Returns the arguments of `penstock simulate` on another machine that send the same series."""
    arguments = ["--frames", str(simulation.frames)]
    arguments += ["--rate", repr(simulation.rate_hz) if simulation.rate_hz else "max"]
    arguments += ["--series-name", simulation.series_unique_id, "--series-id", str(simulation.series_id)]
    arguments += ["--encoding", simulation.encoding]
    if images.ratio is not None:
        arguments += ["--ratio", repr(images.ratio)]
    for path in images.replayed:
        arguments += ["--replay", str(path)]
    if simulation.elements is not None:
        arguments += ["--elements", "x".join(map(str, simulation.elements)), "--no-announce-elements"]
    if isinstance(target, TcpTarget):
        return [*arguments, "--to", f"tcp://{','.join(target.addresses)}"]
    assert isinstance(target, ZmqTarget)
    # It binds there, on the ports to which the recorder connects.
    ports = [endpoint.rpartition(":")[2] for endpoint in target.endpoints]
    return [*arguments, "--to", "zmq://" + ",".join(f"0.0.0.0:{port}" for port in ports)]
